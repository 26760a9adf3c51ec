"""A classifier of handwritten digits, trained in seconds on the set that comes with scikit-learn.

    python -m aitune.triton build examples/digits.py:classifier -m digits

Training is deterministic, so two builds on one machine give the same weights.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn


class DigitClassifier(nn.Module):
    """Two convolutions and a linear layer over images of 8 x 8 grey values from 0 to 16."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 10),
        )

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """The digit of every image, and how sure the model is of each of the ten."""
        scores = self.layers(image.unsqueeze(1) / 16).softmax(dim=1)
        return {"digit": scores.argmax(dim=1), "scores": scores}


def train(model: DigitClassifier, images: Tensor, digits: Tensor) -> None:
    """A few passes over the images in a fixed order."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(8):
        for start in range(0, len(images), 64):
            logits = model.layers(images[start : start + 64].unsqueeze(1) / 16)
            loss = nn.functional.cross_entropy(logits, digits[start : start + 64])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def classifier() -> tuple[nn.Module, list[dict[str, Tensor]]]:
    """The trained module, and samples that show two batch sizes."""
    data = load_digits()
    images = torch.from_numpy(data.images).float()
    digits = torch.from_numpy(data.target)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = DigitClassifier()
        train(model, images[:1500], digits[:1500])
    return model, [{"image": images[1500:1501]}, {"image": images[1501:1509]}]
