"""Two small models, really trained on scikit-learn's handwritten digits in a few seconds.

    python -m aitune.triton build examples/digits.py:classifier -m digits
    python -m aitune.triton build examples/digits.py:reader -m digits_reader

`classifier` takes whole images; `reader` takes the first rows of an image, as many as there are, so that a second axis
varies beside the batch.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn


class Classifier(nn.Module):
    """Probabilities of the ten digits, and the most likely one, for images of 8 by 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 16, 10),
        )

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """``image`` is (batch, 8, 8) with values from 0 to 1."""
        probability = self.layers(image.unsqueeze(1)).softmax(dim=1)
        return {"probability": probability, "digit": probability.argmax(dim=1)}


class Reader(nn.Module):
    """The same from the first rows of an image: a recurrent network that has seen some of it."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.GRU(input_size=8, hidden_size=48, batch_first=True)
        self.head = nn.Linear(48, 10)

    def forward(self, rows: Tensor) -> dict[str, Tensor]:
        """``rows`` is (batch, number of rows, 8) with values from 0 to 1."""
        seen, _ = self.memory(rows)
        return {"probability": self.head(seen.mean(dim=1)).softmax(dim=1)}


def digits() -> tuple[Tensor, Tensor]:
    """1,797 images with values from 0 to 1, and what they show."""
    found = load_digits()
    return torch.tensor(found.images / 16.0, dtype=torch.float32), torch.tensor(found.target)


def train(module: nn.Module, images: Tensor, labels: Tensor, epochs: int) -> None:
    """Fit the module; the same seed gives the same weights on the same machine."""
    optimizer = torch.optim.Adam(module.parameters(), lr=3e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(128):
            loss = nn.functional.nll_loss(module(images[batch])["probability"].clamp_min(1e-9).log(), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    module.eval()


def classifier() -> tuple[nn.Module, list[dict[str, Tensor]]]:
    """The trained classifier, and samples that show which axes vary: here only the batch."""
    torch.manual_seed(0)
    images, labels = digits()
    module = Classifier()
    train(module, images, labels, epochs=30)
    return module, [{"image": images[:size]} for size in (1, 4, 32)]


def reader() -> tuple[nn.Module, list[dict[str, Tensor]]]:
    """The trained reader, and samples in which the batch and the number of rows vary."""
    torch.manual_seed(0)
    images, labels = digits()
    module = Reader()
    train(module, images, labels, epochs=80)
    return module, [{"rows": images[:size, :rows]} for size, rows in ((1, 4), (4, 6), (16, 8))]
