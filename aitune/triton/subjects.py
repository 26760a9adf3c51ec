"""What is validated or measured: one served version of one model, and everything known about what it should be.

What is known comes from the best source there is: the record in the repository, the contract inside the served config,
or, for a model that aitune did not publish, the served config alone (then sizes are guessed and values kept small).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aitune.errors import RecordError, UsageError
from aitune.numerics import Array, observe_domains, read_samples, synthetic_inputs
from aitune.numerics.repeated import repeated
from aitune.numerics.samples import Request
from aitune.records import Artifact, TunedTensorSpec
from aitune.records.evidence import InputDomain
from aitune.triton.client import Client, Tensor
from aitune.triton.contract import Contract, contracts_in
from aitune.triton.tensor_views import TensorView, tensor_views

__all__ = ["Published", "Send", "Subject", "ask", "make_request", "recorded_requests", "subject_of", "with_free_size"]

_GUESSED_MAX = 16
_GUESSED_TYPICAL = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a repository says about one version.

    Attributes:
        config: Its config as a message.
        artifact: Its record; None when it was not published by aitune.
        edits: Where config.pbtxt is no longer what it was when this version was published.
        siblings: Records of all versions of the model, by version.
        served: The versions that the config asks the server to serve, as far as it names them.
        record_trouble: Why there is no record of this version, ``""`` when there is one.
    """

    config: Any
    artifact: Artifact | None = None
    edits: tuple[str, ...] = ()
    siblings: Mapping[str, Artifact] = field(default_factory=dict)
    served: tuple[str, ...] = ()
    record_trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One served version.

    Attributes:
        model: Name of the model.
        version: Its version.
        served: Its config as the server holds it, a message.
        source: Where the contracts come from: ``"record"``, ``"server"`` or ``"config"``.
        inputs: Contracts of the inputs.
        outputs: Contracts of the outputs.
        domains: What valid values look like, per input.
        input_views: How clients see the inputs.
        output_views: How clients see the outputs.
        claimed: Contract inside the served config; None when there is none.
        published: What the repository says; None when there is only a server.
    """

    model: str
    version: str
    served: Any
    source: str
    inputs: tuple[TunedTensorSpec, ...]
    outputs: tuple[TunedTensorSpec, ...]
    domains: tuple[InputDomain, ...]
    input_views: Mapping[str, TensorView]
    output_views: Mapping[str, TensorView]
    claimed: Contract | None = None
    published: Published | None = None

    @property
    def artifact(self) -> Artifact | None:
        """The published record, None when there is none at hand."""
        return None if self.published is None else self.published.artifact

    @property
    def guesses(self) -> bool:
        """Whether nobody saw the model answer a request that is made up: a refusal may be the fault of the request."""
        evidence = self.artifact.evidence if self.artifact is not None else None
        unseen = evidence is not None and evidence.probe is None and evidence.samples is None
        return self.source == "config" or unseen

    @property
    def precision(self) -> str:
        """What it computes in as far as anybody recorded that, else ``"fp32"``: its own numbers."""
        if self.artifact is not None:
            return self.artifact.precision
        return self.claimed.precision if self.claimed is not None else "fp32"

    @property
    def max_batch_size(self) -> int:
        """Largest batch the server accepts, 0 for a model that does not batch."""
        return int(self.served.max_batch_size)


def subject_of(model: str, version: str, served: Any, published: Published | None) -> Subject:
    """The subject for a version, from the best source there is.

    Args:
        model: Name of the model.
        version: Served version.
        served: Config as the server holds it.
        published: What the repository says, None without one.

    Raises:
        RecordError: If the served config carries a contract that cannot be read.
    """
    claimed = contracts_in(served).get(int(version)) if version.isdecimal() else None
    artifact = None if published is None else published.artifact
    if artifact is not None:
        source, inputs, outputs = "record", artifact.inputs, artifact.outputs
        domains = artifact.evidence.inputs if artifact.evidence is not None else ()
    elif claimed is not None:
        source, inputs, outputs = "server", claimed.inputs, claimed.outputs
        domains = claimed.probe.inputs if claimed.probe is not None else ()
    else:
        source, inputs, outputs = "config", _guessed(served, "input"), _guessed(served, "output")
        domains = ()
    return Subject(
        model=model,
        version=version,
        served=served,
        source=source,
        inputs=inputs,
        outputs=outputs,
        domains=_complete(inputs, domains),
        input_views=tensor_views(served, "input"),
        output_views=tensor_views(served, "output"),
        claimed=claimed,
        published=published,
    )


def with_free_size(subject: Subject, size: int) -> Subject:
    """The same subject, guessing ``size`` for every free size but the batch; only for contracts that were guessed."""
    domains = []
    for spec, domain in zip(subject.inputs, subject.domains, strict=True):
        shape = [
            old if isinstance(dim, int) or axis == spec.batch_axis else size
            for axis, (dim, old) in enumerate(zip(spec.shape, domain.typical_shape, strict=True))
        ]
        domains.append(dataclasses.replace(domain, typical_shape=tuple(shape)))
    return dataclasses.replace(subject, domains=tuple(domains))


def recorded_requests(subject: Subject) -> tuple[Request, ...]:
    """The samples of the record, with the answers of the artifact; none without a record or samples.

    Raises:
        ArtifactIntegrityError: If the sample file is missing or is not the recorded one.
    """
    artifact = subject.artifact
    if artifact is None or artifact.evidence is None or artifact.evidence.samples is None:
        return ()
    return read_samples(artifact.path.parent / artifact.evidence.samples.name, artifact)


def make_request(subject: Subject, label: str, *, seed: int, rows: int | None = None) -> dict[str, Array]:
    """A made-up request within the bounds, as the artifact sees it.

    A record with samples and without a probe is of a model that refuses what is made up: the values are the samples'.

    Args:
        subject: What to ask.
        label: ``"smallest"``, ``"typical"`` or ``"largest"``.
        seed: Equal seeds give equal requests.
        rows: Size of the batch axis; what the label says when None.

    Raises:
        ArtifactIntegrityError: If samples are needed, and their file is missing or is not the recorded one.
    """
    typical = {domain.name: domain.typical_shape for domain in subject.domains}
    shapes = {}
    for spec in subject.inputs:
        bounds = {"smallest": spec.min_shape, "typical": typical[spec.name], "largest": spec.max_shape}
        shape = list(bounds[label])
        if spec.batch_axis is not None:
            limit = subject.max_batch_size or spec.max_shape[spec.batch_axis]
            shape[spec.batch_axis] = rows if rows is not None else min(shape[spec.batch_axis], limit)
        shapes[spec.name] = tuple(shape)
    samples = _instead(subject)
    if samples:
        return repeated(subject.inputs, samples, shapes, seed)
    return synthetic_inputs(subject.inputs, subject.domains, shapes, seed)


def _instead(subject: Subject) -> tuple[Mapping[str, Array], ...]:
    """The recorded requests of a model that refuses what is made up."""
    evidence = subject.artifact.evidence if subject.artifact is not None else None
    if evidence is None or evidence.probe is not None:
        return ()
    return tuple(request.inputs for request in recorded_requests(subject) if request.origin == "recorded")


Send = Callable[[Client, str, str, Mapping[str, Tensor]], Mapping[str, Tensor]]
"""Sends a request to a version of a model, with the tensors as clients see them."""


def ask(
    client: Client, subject: Subject, inputs: Mapping[str, Array], *, send: Send = Client.infer_typed
) -> dict[str, Tensor]:
    """Send a request as the artifact sees it, and give the answer back as the artifact sees it.

    Args:
        client: Where to.
        subject: What to ask.
        inputs: Arrays by input, full shapes of the artifact.
        send: The form in which tensors travel, binary unless another is given.

    Returns:
        Arrays with the element type the server gave them. A shape that no such artifact can have stays as it came.

    Raises:
        UsageError: If a shape does not fit the served config.
        ServerError: One of :mod:`aitune.triton.client_errors`.
    """
    answer = send(client, subject.model, subject.version, to_client(subject, inputs))
    ranks = {spec.name: spec.rank for spec in subject.outputs}
    found = {}
    for name, (array, dtype) in answer.items():
        view = subject.output_views.get(name)
        if view is not None and name in ranks:
            array = array.reshape(_artifact_shape(view, array.shape, ranks[name]))
        found[name] = (array, dtype)
    return found


def to_client(subject: Subject, inputs: Mapping[str, Array]) -> dict[str, Tensor]:
    """The arrays of a request in the shapes that clients send, with their element types.

    Raises:
        UsageError: If the served config has no such input, or a shape does not fit it.
    """
    seen = subject.input_views
    dtypes = {spec.name: spec.dtype for spec in subject.inputs}
    unknown = [name for name in inputs if name not in seen]
    if unknown:
        raise UsageError(f"the served config has no input {unknown[0]!r}, only {', '.join(map(repr, seen))}")
    return {name: (array.reshape(seen[name].to_client(array.shape)), dtypes[name]) for name, array in inputs.items()}


def _artifact_shape(view: TensorView, shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    try:
        return view.to_artifact(shape, rank)
    except UsageError:
        return shape  # the comparison will say what is wrong with it


def _guessed(config: Any, side: str) -> tuple[TunedTensorSpec, ...]:
    """Contracts from a config alone."""
    specs = []
    for view in tensor_views(config, side).values():
        dims = view.artifact_dims
        axis = 0 if view.batched else None
        high = [size if size > 0 else _GUESSED_MAX for size in dims]
        if axis is not None:
            high[axis] = config.max_batch_size
        shape = tuple(size if size > 0 else None for size in dims)
        low = tuple(size if size > 0 else 1 for size in dims)
        try:
            specs.append(TunedTensorSpec(view.name, view.dtype, shape, low, tuple(high), axis))
        except RecordError as error:
            raise RecordError(f"{side} {view.name!r} of {config.name!r} cannot be made up: {error}") from error
    return tuple(specs)


def _complete(inputs: tuple[TunedTensorSpec, ...], known: tuple[InputDomain, ...]) -> tuple[InputDomain, ...]:
    """A domain for every input, in their order; what nobody recorded is kept small and simple."""
    by_name = {domain.name: domain for domain in known}
    typical = {spec.name: _typical(spec) for spec in inputs}
    made = {domain.name: domain for domain in observe_domains(inputs, typical)}
    return tuple(by_name.get(spec.name, made[spec.name]) for spec in inputs)


def _typical(spec: TunedTensorSpec) -> tuple[int, ...]:
    sizes = zip(spec.min_shape, spec.max_shape, strict=True)
    return tuple(
        1 if axis == spec.batch_axis else min(max(low, _GUESSED_TYPICAL), high)
        for axis, (low, high) in enumerate(sizes)
    )
