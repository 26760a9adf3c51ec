"""Models of sound: two of transformers, a hand-written one with a CTC head, and one with a transform inside."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn
from zoo.entry import Animal, values

__all__ = ["SPEECH_MODELS"]


def whisper_encoder() -> tuple[nn.Module, Any]:
    """The encoder of Whisper, for windows of one length."""
    config = transformers.WhisperConfig(
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=37,
        decoder_layers=1,
        decoder_attention_heads=4,
        num_mel_bins=16,
        max_source_positions=30,
    )
    model = transformers.WhisperModel(config).encoder
    return model, [{"input_features": values(rows, 16, 60)} for rows in (1, 2)]


def wav2vec2() -> tuple[nn.Module, Any]:
    """Wav2Vec2 with a CTC head, for waves of any length."""
    config = transformers.Wav2Vec2Config(
        vocab_size=32,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=37,
        conv_dim=(16, 16),
        conv_stride=(5, 2),
        conv_kernel=(10, 3),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
        num_feat_extract_layers=2,
    )
    return transformers.Wav2Vec2ForCTC(config), [{"input_values": values(r, n)} for r, n in ((1, 800), (2, 1300))]


class CtcHead(nn.Module):
    """Convolutions over a spectrogram, a GRU in both directions, and log-probabilities of letters."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(20, 24, 5, stride=2, padding=2)
        self.memory = nn.GRU(24, 16, bidirectional=True, batch_first=True)
        self.letters = nn.Linear(32, 29)

    def forward(self, spectrogram: torch.Tensor) -> torch.Tensor:
        """``(batch, bands, frames)`` to ``(batch, frames / 2, letters)``."""
        seen = torch.relu(self.convolution(spectrogram)).transpose(1, 2)
        return self.letters(self.memory(seen)[0]).log_softmax(-1)


class Spectrum(nn.Module):
    """A filter in the frequency domain: complex numbers inside, real ones outside."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(values(33))

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        """``(batch, 64)`` to ``(batch, 64)``."""
        frequencies = torch.fft.rfft(wave, dim=-1)
        return torch.fft.irfft(frequencies * self.weight, n=64, dim=-1)


class Complex(nn.Module):
    """One whose answer is complex, which no tensor of Triton holds."""

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        """``(batch, 64)`` to ``(batch, 33)``, complex."""
        return torch.fft.rfft(wave, dim=-1)


SPEECH_MODELS = (
    Animal(name="whisper_encoder", make=whisper_encoder),
    Animal(name="wav2vec2", make=wav2vec2),
    Animal(
        name="ctc_head",
        make=lambda: (CtcHead(), [{"spectrogram": values(r, 20, n)} for r, n in ((1, 40), (2, 64))]),
        quick=True,
    ),
    Animal(name="spectrum", make=lambda: (Spectrum(), values(2, 64))),
    Animal(
        name="complex_output",
        make=lambda: (Complex(), values(2, 64)),
        verdict="refused",
        because="output 'output' is complex64, which cannot be served",
    ),
)
