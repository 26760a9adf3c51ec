"""Does the server hold what was published: readiness, config, contract and metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from aitune.errors import RecordError
from aitune.records import TensorSpec, TunedTensorSpec
from aitune.triton.checks_live.context import Context, failed, passed, skipped, warned
from aitune.triton.client_errors import EndpointRestricted
from aitune.triton.client_records import TensorMetadata
from aitune.triton.contract import contract_of
from aitune.triton.datatypes import dtype_of_wire
from aitune.triton.normalisation import differences
from aitune.triton.subjects import Subject
from aitune.triton.tensor_views import TensorView
from aitune.triton.validation_records import CheckResult

__all__ = ["check_config", "check_metadata", "check_ready", "check_record"]


def check_ready(context: Context) -> CheckResult:
    """The version answers as ready over every protocol."""
    subject = context.subject
    asked = ((name, client.model_ready(subject.model, subject.version)) for name, client in context.clients.items())
    silent = [name for name, ready in asked if not ready]
    dead = [name for name, client in context.clients.items() if not client.live()]
    if dead:
        return failed("ready", f"the server says over {', '.join(dead)} that it is not live")
    if silent:
        return failed("ready", f"version {subject.version} is not ready over {', '.join(silent)}")
    return passed("ready", f"version {subject.version} is ready over {_protocols(context)}")


def check_config(context: Context) -> CheckResult:
    """The served config is the published one, after what Triton fills in."""
    subject = context.subject
    if subject.published is None:
        return skipped("config", "no repository to compare with")
    result = _over_protocols(context, "config", _config_differences, "the served config is the published one")
    edits = subject.published.edits
    if result.status != "pass" or not edits:
        return result
    return warned("config", f"{result.detail}, but was edited after publication: {edits[0]}", *edits)


def check_record(context: Context) -> CheckResult:
    """The contract came through the server unchanged."""
    subject = context.subject
    if subject.claimed is None:
        why = "no aitune.record in the config" if subject.source == "config" else "the served config carries no record"
        return skipped("record", why) if subject.source == "config" else failed("record", why)
    if subject.artifact is None:
        trouble = "" if subject.published is None else subject.published.record_trouble
        if trouble:
            return warned("record", f"read from the server, for the repository has none: {trouble}")
        return passed("record", f"read from the server: {_short(subject.claimed.identity)}")
    expected = contract_of(subject.artifact)
    if subject.claimed == expected:
        return passed("record", "the contract read back from the server equals the published one")
    notes = [
        *_spec_differences("input", expected.inputs, subject.claimed.inputs),
        *_spec_differences("output", expected.outputs, subject.claimed.outputs),
    ]
    if subject.claimed.identity != expected.identity:
        notes.append(f"fingerprint: {_short(expected.identity)} published, {_short(subject.claimed.identity)} served")
    notes = notes or ["batching verdict or probe differ"]
    return failed("record", f"the contract on the server is not the published one: {notes[0]}", *notes)


def check_metadata(context: Context) -> CheckResult:
    """Metadata over every protocol, read back into records, equals the contract."""
    whose = {"record": "published contract", "server": "contract in the config", "config": "config"}
    text = f"names, types and sizes equal the {whose[context.subject.source]}"
    result = _over_protocols(context, "metadata", _metadata_differences, text)
    served, tuned = context.subject.max_batch_size, _tuned_batch(context.subject)
    if result.status != "pass" or served == tuned:
        return result
    batches = f"max_batch_size {served} is served, {tuned} was tuned"
    return failed("metadata", batches) if served > tuned else warned("metadata", f"{result.detail}; {batches}")


def _tuned_batch(subject: Subject) -> int:
    """The largest batch that every tensor of the contract takes part in, 0 for none."""
    sizes = [spec.max_batch_size for spec in (*subject.inputs, *subject.outputs) if spec.min_batch_size == 1]
    whole = len(sizes) == len(subject.inputs) + len(subject.outputs)
    return min((size for size in sizes if size is not None), default=0) if whole else 0


def _over_protocols(context: Context, name: str, differ: Callable[[Context, str], list[str]], good: str) -> CheckResult:
    """One answer from a comparison that is made over each protocol."""
    notes, closed = [], []
    for protocol in context.clients:
        try:
            notes += [f"{protocol}: {line}" for line in differ(context, protocol)]
        except EndpointRestricted as error:
            closed.append(f"{protocol}: {error}")
    if notes:
        return failed(name, notes[0] + (f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""), *notes)
    if len(closed) == len(context.clients):
        return skipped(name, "; ".join(closed))
    if closed:
        return warned(name, f"{good}, as far as it may be read", *closed)
    return passed(name, f"{good} ({_protocols(context)})")


def _config_differences(context: Context, protocol: str) -> list[str]:
    subject = context.subject
    served = context.clients[protocol].config(subject.model, subject.version)
    return [] if subject.published is None else list(differences(subject.published.config, served))


def _metadata_differences(context: Context, protocol: str) -> list[str]:
    subject = context.subject
    found = context.clients[protocol].metadata(subject.model, subject.version)
    lines = []
    if subject.version not in found.versions:
        lines.append(f"version {subject.version} is not among the served {', '.join(found.versions)}")
    for side, specs, rows, views in (
        ("input", subject.inputs, found.inputs, subject.input_views),
        ("output", subject.outputs, found.outputs, subject.output_views),
    ):
        read_back = _read_back(specs, rows, views)
        lines += [] if isinstance(read_back, tuple) and read_back == specs else _tell(side, specs, read_back)
    return lines


def _read_back(
    specs: Iterable[TunedTensorSpec], rows: Iterable[TensorMetadata], views: Mapping[str, TensorView]
) -> tuple[TunedTensorSpec, ...] | str:
    """The contracts again, names, types and fixed sizes as the server says them; a reason where that is impossible.

    The metadata has no order that can be relied on, no symbols and no bounds: those come from the contract.
    """
    by_name = {row.name: row for row in rows}
    specs = tuple(specs)
    strangers = [name for name in by_name if name not in {spec.name for spec in specs}]
    if strangers:
        return f"{strangers[0]!r} is served, but not in the contract"
    read = []
    for spec in specs:
        row, view = by_name.get(spec.name), views.get(spec.name)
        if row is None or view is None:
            return f"{spec.name!r} is in the contract, but not served"
        if row.shape != view.client_dims:
            return f"{spec.name!r} has sizes {list(row.shape)} in the metadata, {list(view.client_dims)} in the config"
        dims = () if spec.rank == 0 and set(view.artifact_dims) <= {1} else view.artifact_dims
        try:
            read.append(_with_dims(spec, TensorSpec(spec.name, dtype_of_wire(row.datatype), _symbols(spec, dims))))
        except RecordError as error:
            return str(error)
    return tuple(read)


def _symbols(spec: TunedTensorSpec, dims: tuple[int, ...]) -> tuple[int | str | None, ...]:
    """Served sizes with the contract's words for the free ones."""
    if len(dims) != spec.rank:
        return tuple(size if size > 0 else None for size in dims)
    free = (None if isinstance(dim, int) else dim for dim in spec.shape)
    return tuple(size if size > 0 else word for size, word in zip(dims, free, strict=True))


def _with_dims(spec: TunedTensorSpec, read: TensorSpec) -> TunedTensorSpec:
    if read.rank != spec.rank:
        raise RecordError(f"{spec.name!r} has {read.rank} axes on the server, {spec.rank} in the contract")
    return TunedTensorSpec.from_spec(read, spec.min_shape, spec.max_shape, spec.batch_axis)


def _tell(side: str, specs: tuple[TunedTensorSpec, ...], read: tuple[TunedTensorSpec, ...] | str) -> list[str]:
    if isinstance(read, str):
        return [f"{side} {read}"]
    return _spec_differences(side, specs, read)


def _spec_differences(side: str, published: Iterable[TunedTensorSpec], served: Iterable[TunedTensorSpec]) -> list[str]:
    """Differences of two lists of contracts, field by field."""
    old, new = ({spec.name: spec for spec in specs} for specs in (published, served))
    lines = [f"{side} {name!r}: published, not served" for name in old if name not in new]
    lines += [f"{side} {name!r}: served, not published" for name in new if name not in old]
    for name in (name for name in old if name in new):
        for field in ("dtype", "shape", "min_shape", "max_shape", "batch_axis"):
            mine, theirs = getattr(old[name], field), getattr(new[name], field)
            if mine != theirs:
                words = [getattr(value, "value", value) for value in (mine, theirs)]
                lines.append(f"{side} {name!r}: {field} {words[0]} published, {words[1]} served")
    return lines


def _protocols(context: Context) -> str:
    return " and ".join(context.clients)


def _short(fingerprint: str) -> str:
    return fingerprint[:12]
