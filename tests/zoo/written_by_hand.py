"""Models as people write them: images, tables, recurrent ones, and ones that cannot or must not be batched."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from zoo.entry import Animal, ids, pixels, values

__all__ = ["WRITTEN_BY_HAND"]


def _block(taken: int, given: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(taken, given, 3, padding=1), nn.BatchNorm2d(given), nn.ReLU())


class UNet(nn.Module):
    """Down, up, and across."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep, self.up = _block(3, 8), _block(8, 16), _block(24, 8)
        self.last = nn.Conv2d(8, 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Labels of every pixel."""
        first = self.down(image)
        deep = self.deep(nn.functional.max_pool2d(first, 2))
        wide = nn.functional.interpolate(deep, size=first.shape[-2:], mode="bilinear", align_corners=False)
        return self.last(self.up(torch.cat([first, wide], dim=1)))


class DetectionHead(nn.Module):
    """Boxes and scores for every cell of a grid, in the manner of YOLO without suppression."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.backbone = nn.Sequential(_block(3, 8), nn.MaxPool2d(2), _block(8, 16), nn.MaxPool2d(2))
        self.boxes, self.scores = nn.Conv2d(16, 4, 1), nn.Conv2d(16, classes, 1)

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        """``boxes`` ``(batch, cells, 4)`` in pixels and ``scores`` ``(batch, cells, classes)``."""
        seen = self.backbone(images)
        rows, columns = seen.shape[-2:]
        y = torch.arange(rows, device=images.device).view(1, 1, rows, 1)
        x = torch.arange(columns, device=images.device).view(1, 1, 1, columns)
        offsets = self.boxes(seen).sigmoid()
        left = torch.cat([offsets[:, :1] + x, offsets[:, 1:2] + y, offsets[:, 2:].exp()], dim=1) * 4
        return {
            "boxes": left.flatten(2).transpose(1, 2),
            "scores": self.scores(seen).flatten(2).transpose(1, 2).sigmoid(),
        }


class SuppressedDetections(nn.Module):
    """The best boxes over a threshold, of all images together: their number depends on the values."""

    def __init__(self) -> None:
        super().__init__()
        self.head = DetectionHead()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """One row ``(image, left, top, width, height, score)`` per detection."""
        found = self.head(images)
        score = found["scores"].amax(-1)
        peak = score >= nn.functional.max_pool1d(score.unsqueeze(1), 3, 1, 1).squeeze(1)
        image, cell = torch.nonzero(peak & (score > 0.5), as_tuple=True)
        return torch.cat(
            [image.unsqueeze(1).float(), found["boxes"][image, cell], score[image, cell].unsqueeze(1)], dim=1
        )


class Autoencoder(nn.Module):
    """Through a narrow place and back."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 8, 3, 2, 1))
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(8, 4, 3, 2, 1, 1), nn.ReLU(), nn.ConvTranspose2d(4, 1, 3, 2, 1, 1)
        )

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The image as it comes back, and its code."""
        code = self.encoder(image)
        return self.decoder(code), code.flatten(1)


class Mixer(nn.Module):
    """An MLP-Mixer: one layer across patches, one across channels."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, 8)
        self.norms = nn.ModuleList([nn.LayerNorm(16), nn.LayerNorm(16)])
        self.across = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.along = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Scores of ten classes."""
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = x + self.across(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        x = x + self.along(self.norms[1](x))
        return self.head(x.mean(1))


class Tagger(nn.Module):
    """An LSTM in both directions over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 12)
        self.memory = nn.LSTM(12, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(16, 5)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Scores of five tags per word."""
        return self.tags(self.memory(self.words(words))[0])


class SequenceFirst(nn.Module):
    """A recurrent layer in the layout ``(time, batch, features)``."""

    def __init__(self, kind: type[nn.GRU | nn.LSTM] = nn.GRU) -> None:
        super().__init__()
        self.memory = kind(6, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        """``(time, batch, 3)``."""
        return self.last(self.memory(steps)[0])


class LastState(nn.Module):
    """A GRU whose state comes out as it is kept: ``(layers, batch, features)``."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.GRU(6, 8, batch_first=True)

    def forward(self, steps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Every step, and the last state."""
        every, last = self.memory(steps)
        return every, last


class Recommender(nn.Module):
    """A user, a bag of items and numbers, in the manner of DLRM."""

    def __init__(self) -> None:
        super().__init__()
        self.users = nn.Embedding(40, 8)
        self.items = nn.EmbeddingBag(90, 8, mode="mean")
        self.dense = nn.Linear(5, 8)
        self.top = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, user: torch.Tensor, items: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """The chance of a click, one number per row."""
        seen = torch.cat([self.users(user), self.items(items), self.dense(numbers)], dim=1)
        return self.top(seen).sigmoid().squeeze(1)


class Normalised(nn.Module):
    """Rows divided by their sum over the batch: one request changes the answer to another."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        return x / x.abs().sum(0, keepdim=True)


class Pairs(nn.Module):
    """Every row comes out as two."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``(2 * batch, 2)``."""
        return x.reshape(-1, 2)


class Anchored(nn.Module):
    """One input with a batch, and one without."""

    def forward(self, x: torch.Tensor, anchors: torch.Tensor) -> torch.Tensor:
        """Distances to the anchors."""
        return x @ anchors


class WithMean(nn.Module):
    """A scalar in, a scalar out."""

    def forward(self, x: torch.Tensor, temperature: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scaled values, and their mean."""
        return x * temperature, x.mean()


class Flattened(nn.Module):
    """The number of rows written into the code."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Always two rows."""
        return x.reshape(2, -1)


class Noisy(nn.Module):
    """Dropout that nobody can switch off."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        return nn.functional.dropout(x, 0.5, training=True)


class Branching(nn.Module):
    """Another formula for dark images: a trace would keep only one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        if bool(x.mean() > 0):
            return x * 2
        return x - 1


class Router(nn.Module):
    """A mixture of two experts, weighed by a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 2)
        self.experts = nn.ModuleList([nn.Linear(8, 4), nn.Linear(8, 4)])

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        """The answer, and which expert gave most of it: whole numbers of shape ``(batch,)``."""
        weights = self.gate(x).softmax(-1)
        answers = torch.stack([expert(x) for expert in self.experts], dim=1)
        return {"answer": (weights.unsqueeze(-1) * answers).sum(1), "expert": weights.argmax(-1)}


class Graph(nn.Module):
    """Two rounds of messages along the edges of one graph."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """New features of every node; ``edges`` is ``(2, edges)``."""
        for layer in self.layers:
            messages = layer(nodes)[edges[0]]
            nodes = nodes + torch.zeros_like(nodes).index_add(0, edges[1], messages)
        return nodes


class Half(nn.Module):
    """Weights and numbers of 16 bits."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Four numbers per row."""
        return self.layer(x).relu()


class Quantised(nn.Module):
    """A linear layer on eight bits, its inputs rounded on a scale that is found when it runs."""

    def __init__(self, axis: int | None) -> None:
        super().__init__()
        weight = values(4, 16)
        self.axis, self.scale = axis, float(weight.abs().max() / 127)
        self.register_buffer("weight", (weight / self.scale).round().to(torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Four numbers per row, on a scale of each row, or of the whole batch where there is no axis."""
        largest = x.abs().amax() if self.axis is None else x.abs().amax(self.axis, keepdim=True)
        scale = largest / 127
        rounded = (x / scale).round().to(torch.int8)
        return nn.functional.linear(rounded.float(), self.weight.float()) * (scale * self.scale)


def quantised() -> tuple[nn.Module, Any]:
    """Linear layers quantised when they run."""
    plain = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    return torch.ao.quantization.quantize_dynamic(plain, {nn.Linear}, dtype=torch.qint8), values(2, 16)


def _images(*sizes: tuple[int, int, int]) -> list[torch.Tensor]:
    return [pixels(rows, 3, height, width) for rows, height, width in sizes]


def _click() -> dict[str, torch.Tensor]:
    return {"user": ids(40, 3), "items": ids(90, 3, 6), "numbers": values(3, 5)}


def _graph() -> list[dict[str, torch.Tensor]]:
    return [{"nodes": values(n, 6), "edges": ids(n, 2, m)} for n, m in ((5, 9), (8, 14))]


WRITTEN_BY_HAND = (
    Animal(
        name="mlp", make=lambda: (nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), values(1, 4)), quick=True
    ),
    Animal(name="unet", make=lambda: (UNet(), _images((1, 32, 32), (2, 48, 64)))),
    Animal(name="yolo_head", make=lambda: (DetectionHead(), _images((1, 32, 32), (2, 64, 96)))),
    Animal(
        name="yolo_nms",
        make=lambda: (SuppressedDetections(), _images((1, 32, 32), (2, 32, 32))),
        verdict="unbatched",
        because="rows for batch",
        quick=True,
    ),
    Animal(name="autoencoder", make=lambda: (Autoencoder(), pixels(2, 1, 16, 16))),
    Animal(name="mixer", make=lambda: (Mixer(), pixels(1, 3, 32, 32))),
    Animal(name="lstm", make=lambda: (Tagger(), [ids(50, 1, 5), ids(50, 3, 9)])),
    Animal(
        name="gru_sequence_first",
        make=lambda: (SequenceFirst(), [values(7, 2, 6), values(9, 3, 6)]),
        verdict="unbatched",
        because="the batch lies on axis 1 of input 'steps'",
        quick=True,
    ),
    Animal(
        name="lstm_sequence_first",
        make=lambda: (SequenceFirst(nn.LSTM), values(7, 2, 6)),
        verdict="unbatched",
        because="the batch lies on axis 1 of input 'steps'",
    ),
    Animal(
        name="gru_last_state",
        make=lambda: (LastState(), [values(1, 5, 6), values(3, 7, 6)]),
        verdict="unbatched",
        because="the batch lies on axis 1 of output 'output_1'",
    ),
    Animal(
        name="gru_moved",
        make=lambda: (SequenceFirst(), [values(7, 2, 6), values(9, 3, 6)]),
        options={"move_batch_axis": True},
        quick=True,
    ),
    Animal(
        name="gru_last_state_moved",
        make=lambda: (LastState(), [values(1, 5, 6), values(3, 7, 6)]),
        options={"move_batch_axis": True},
    ),
    Animal(name="recommender", make=lambda: (Recommender(), _click()), quick=True),
    Animal(name="router", make=lambda: (Router(), values(2, 8))),
    Animal(
        name="quantised",
        make=quantised,
        verdict="refused",
        because="layers quantised by torch.ao, which have no form in ONNX",
    ),
    Animal(name="quantised_by_row", make=lambda: (Quantised(-1), values(2, 16))),
    Animal(
        name="quantised_by_batch",
        make=lambda: (Quantised(None), values(2, 16)),
        verdict="unbatched",
        because="depends on the other rows",
    ),
    Animal(name="half", make=lambda: (Half(torch.float16), values(2, 8).half())),
    Animal(
        name="bfloat",
        make=lambda: (Half(torch.bfloat16), values(2, 8).bfloat16()),
        verdict="refused",
        because="types ONNX Runtime",
    ),
    Animal(
        name="graph_network",
        make=lambda: (Graph(), _graph()),
        verdict="unbatched",
        because="'edges'",
    ),
    Animal(
        name="batch_normalised",
        make=lambda: (Normalised(), values(3, 4) + 3),
        verdict="unbatched",
        because="depends on the other rows",
        quick=True,
    ),
    Animal(name="pairs", make=lambda: (Pairs(), values(3, 4)), verdict="unbatched", because="'output'"),
    Animal(
        name="anchored",
        make=lambda: (Anchored(), {"x": values(3, 4), "anchors": values(4, 6)}),
        verdict="unbatched",
        because="'anchors'",
    ),
    Animal(
        name="scalars",
        make=lambda: (WithMean(), {"x": values(3, 4), "temperature": torch.tensor(0.5)}),
        verdict="unbatched",
        because="'temperature'",
        quick=True,
    ),
    Animal(name="two_rows", make=lambda: (Flattened(), values(2, 4, 6)), verdict="unbatched", because="'output'"),
    Animal(
        name="always_dropout",
        make=lambda: (Noisy(), values(4, 16)),
        verdict="refused",
        because="it draws random numbers in eval mode",
    ),
    Animal(
        name="branching",
        make=lambda: (Branching(), [values(2, 4), values(3, 4) - 5]),
        verdict="refused",
        because="branches on the values of its inputs",
    ),
)
