"""Why a record may be believed: the batching proof, the measurements, the samples and where they came from.

Everything here is a plain value that ``aitune.json`` can hold. Shapes are full shapes of the artifact, batch axis
included; a scalar has shape ``()``. Nothing here names a path, a user or a host.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from aitune.errors import RecordError

__all__ = [
    "Accuracy",
    "Batching",
    "Evidence",
    "InputDomain",
    "Measurement",
    "Probe",
    "ProbeOutput",
    "Sample",
    "SampleFile",
    "SampleTensor",
    "Trial",
    "Tried",
    "Tuning",
]

SAMPLE_LABELS = ("smallest", "typical", "largest")
ORIGINS = ("synthetic", "recorded")


def _demand(condition: bool, message: str) -> None:
    if not condition:
        raise RecordError(message)


def _demand_fingerprint(value: object, what: str) -> None:
    good = isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef")
    _demand(good, f"{what} must be 64 lower-case hexadecimal digits, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One thing that was tried to prove or refute that a model batches.

    Attributes:
        check: What was asked, e.g. ``"rows"``, ``"independence"``, ``"permutation"``.
        batch_sizes: The batch sizes that were run.
        tensor: The output it is about, ``""`` for all of them.
        passed: The answer.
        detail: Numbers, in one line.
    """

    check: str
    batch_sizes: tuple[int, ...]
    tensor: str = ""
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """The verdict: may a server put rows of different requests into one run?

    Attributes:
        verdict: ``"batched"`` or ``"unbatched"``.
        reason: One sentence; for ``"unbatched"`` it names the tensor that stops it.
        evidence: What was run to find out.
    """

    verdict: str
    reason: str
    evidence: tuple[Trial, ...] = ()

    def __post_init__(self) -> None:
        _demand(
            self.verdict in ("batched", "unbatched"), f"verdict must be 'batched' or 'unbatched', got {self.verdict!r}"
        )

    @property
    def proved(self) -> bool:
        """Whether rows were proved independent."""
        return self.verdict == "batched"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDomain:
    """Which values are known to be valid for one input: what made-up requests are drawn from.

    Attributes:
        name: Input it is about.
        typical_shape: A shape that users send, within the tuned bounds.
        low: Smallest value, as a number; 0 and 1 for BOOL, 0 for STRING (where values are not drawn from a range).
        high: Largest value, at least ``low``.
        zeros_valid: Whether a run with all zeros was seen to work (a warm-up may then use zeros).
    """

    name: str
    typical_shape: tuple[int, ...]
    low: float = 0.0
    high: float = 1.0
    zeros_valid: bool = False

    def __post_init__(self) -> None:
        ordered = math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high
        _demand(ordered, f"values of input {self.name!r} need finite low <= high, got {self.low!r} and {self.high!r}")
        _demand(all(size >= 1 for size in self.typical_shape), f"typical shape of {self.name!r} must be sizes >= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """How fast one candidate ran at one batch size.

    Attributes:
        candidate: Name of the candidate.
        batch_size: Rows per run.
        shape: Which shapes: ``"smallest"``, ``"typical"`` or ``"largest"``.
        throughput_per_s: Rows per second, from the median run.
        p50_us: Median time of one run, in microseconds.
        low_us: Lower end of the interval of the median (95 %), in microseconds.
        high_us: Upper end of it.
        p95_us: Time within which 95 % of the runs ended, in microseconds; None when too few were timed one by one.
        runs: Number of timed runs.
    """

    candidate: str
    batch_size: int
    shape: str = "typical"
    throughput_per_s: float
    p50_us: float
    low_us: float
    high_us: float
    p95_us: float | None = None
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One way of running the model that was looked at.

    Attributes:
        name: Its name, unique.
        precision: What it computes in, e.g. ``"fp32"`` (the model's own numbers) or ``"int8"``.
        settings: (key, value) pairs that Triton can carry in ``parameters``.
    """

    name: str
    precision: str = "fp32"
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How far one output of a candidate is from the source model's.

    Attributes:
        candidate: Name of the candidate.
        output: Name of the output.
        max_abs: Largest absolute difference; None where shapes or types differ, or one side is not finite.
        max_rel: Largest difference as a share of the expected element; None as for ``max_abs``.
        cosine: Cosine of the angle between the answers, 1 when they point the same way; None for what is not numbers.
        passed: Whether it is within the threshold.
        detail: The same in one line.
    """

    candidate: str
    output: str
    max_abs: float | None = None
    max_rel: float | None = None
    cosine: float | None = None
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What was measured, what won, and why.

    Attributes:
        objective: ``"throughput"`` or ``"latency"``.
        p95_ms: Time within which 95 % of the runs had to end, in milliseconds; None for no such limit.
        winner: Name of the candidate that won.
        reason: One sentence with the numbers that decided.
        settings: (key, value) pairs of the winner that Triton can carry in ``parameters``.
        candidates: All that were looked at, simplest first.
        measurements: Everything that was measured.
        accuracy: How every candidate's answers compare with the source model's.
        rejected: (candidate, reason) pairs of those that were not allowed to win.
    """

    objective: str
    p95_ms: float | None = None
    winner: str
    reason: str
    settings: tuple[tuple[str, str], ...] = ()
    candidates: tuple[Tried, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    accuracy: tuple[Accuracy, ...] = ()
    rejected: tuple[tuple[str, str], ...] = ()

    @property
    def precision(self) -> str:
        """What the winner computes in: ``"fp32"`` for the model's own numbers, and where that is not recorded."""
        return next((tried.precision for tried in self.candidates if tried.name == self.winner), "fp32")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTensor:
    """Where the bytes of one tensor lie in the sample file, in Triton's wire form (row-major, little-endian).

    Attributes:
        name: Tensor of the contract; its element type is the contract's.
        shape: Full shape.
        offset: First byte.
        nbytes: Number of bytes.
    """

    name: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One request with the answer the artifact gave to it when it was tuned.

    Attributes:
        label: ``"smallest"``, ``"typical"`` or ``"largest"`` (of every dynamic axis and the batch).
        origin: ``"synthetic"`` (seeded) or ``"recorded"`` (the user's own).
        inputs: What was sent.
        outputs: What came back.
    """

    label: str
    origin: str
    inputs: tuple[SampleTensor, ...]
    outputs: tuple[SampleTensor, ...]

    def __post_init__(self) -> None:
        _demand(self.label in SAMPLE_LABELS, f"label of a sample must be one of {SAMPLE_LABELS}, got {self.label!r}")
        _demand(self.origin in ORIGINS, f"origin of a sample must be one of {ORIGINS}, got {self.origin!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFile:
    """The file beside the artifact that holds the samples.

    Attributes:
        name: Its name, beside the artifact: ``"aitune_samples.bin"``.
        fingerprint: SHA-256 of it.
        samples: What lies where.
    """

    name: str
    fingerprint: str
    samples: tuple[Sample, ...]

    def __post_init__(self) -> None:
        plain = bool(self.name) and "/" not in self.name and self.name not in (".", "..")
        _demand(plain, f"name of a sample file must be a plain file name, got {self.name!r}")
        _demand_fingerprint(self.fingerprint, "fingerprint of a sample file")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOutput:
    """Some elements of one output of the golden probe.

    Attributes:
        name: Output it is about.
        shape: Its full shape.
        stride: Every stride-th element in row-major order is kept, from the first on.
        values: Those elements: numbers rounded to six significant digits; for STRING the first 16 digits of the
            SHA-256 of each.
    """

    name: str
    shape: tuple[int, ...]
    stride: int
    values: tuple[float | int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The golden probe: a seeded batch-1 request and what these weights answer to it.

    The request is not stored; ``aitune.numerics.synthetic`` makes it again from the seed, the contract and the domains.

    Attributes:
        seed: Seed of the request.
        inputs: Domains it was drawn from; ``typical_shape`` is the shape of the request.
        outputs: What came back, thinned out.
    """

    seed: int
    inputs: tuple[InputDomain, ...]
    outputs: tuple[ProbeOutput, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that was found out about an artifact while it was made.

    Attributes:
        batching: The verdict, None when nobody asked.
        inputs: What valid values look like, per input.
        probe: The golden probe, None when none could be made.
        samples: The sample file, None when none is kept.
        tuning: What was measured, None when nothing was.
        provenance: (key, value) pairs: source kind, versions, machine class; never a path, user or host.
        notes: Lines a person should read, e.g. what was repaired or baked in.
    """

    batching: Batching | None = None
    inputs: tuple[InputDomain, ...] = ()
    probe: Probe | None = None
    samples: SampleFile | None = None
    tuning: Tuning | None = None
    provenance: tuple[tuple[str, str], ...] = field(default=())
    notes: tuple[str, ...] = ()
