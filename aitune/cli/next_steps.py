"""What to do after ``build``: serve with Docker, ask with curl, ask from Python, for this very model."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aitune.numerics import Array
    from aitune.records import Artifact, TunedTensorSpec

__all__ = ["next_steps"]

_MOST_ELEMENTS = 64  # a curl line longer than that helps nobody
_NOT_IN_JSON = ("FP16", "BF16")  # Triton takes these in binary form only


def next_steps(artifact: Artifact, repository: Path, model: str, *, release: str) -> str:
    """The exact commands that come next.

    Args:
        artifact: What was published.
        repository: Where.
        model: Its name there.
        release: Triton release whose container is named, as ``"24.10"`` or ``"2.51.0"``.
    """
    from aitune.triton.releases import release as find_release
    from aitune.triton.templates import render_template

    request = _request(artifact)
    return render_template(
        "next_steps.txt.j2",
        image=f"nvcr.io/nvidia/tritonserver:{find_release(release).name}-py3",
        plan=artifact.format == "tensorrt_plan",
        volume=shlex.quote(f"{repository.absolute()}:/models:ro"),
        repository=shlex.quote(str(repository)),
        model=shlex.quote(model),
        model_literal=json.dumps(model),
        curl_body=shlex.quote(json.dumps(request)) if request else None,
        curl_url=shlex.quote(f"localhost:8000/v2/models/{model}/infer"),
        inputs=[_python_input(artifact, spec) for spec in artifact.inputs],
        output=json.dumps(artifact.output_names[0]) if artifact.outputs else None,
        batched=artifact.max_batch_size is not None,
    )


def _request(artifact: Artifact) -> dict[str, Any] | None:
    """A JSON request with valid values; None when JSON cannot carry it or it would be too long."""
    from aitune.triton.datatypes import wire_type

    tensors = []
    for spec in artifact.inputs:
        values, datatype = _values(artifact, spec), wire_type(spec.dtype)
        if datatype in _NOT_IN_JSON or values.size > _MOST_ELEMENTS:
            return None
        shape = list(_shape(artifact, spec))
        data = [_readable(item) for item in values.ravel().tolist()]
        tensors.append({"name": spec.name, "datatype": datatype, "shape": shape, "data": data})
    return {"inputs": tensors}


def _readable(item: Any) -> Any:
    """One element as short as JSON allows; any value near it is as valid."""
    if isinstance(item, bytes):
        return item.decode()
    return round(item, 3) if isinstance(item, float) else item


def _values(artifact: Artifact, spec: TunedTensorSpec) -> Array:
    """One small valid request: smallest shape, values from the learned range."""
    from aitune.numerics.synthetic import synthetic
    from aitune.records.evidence import InputDomain

    known = {domain.name: domain for domain in (artifact.evidence.inputs if artifact.evidence else ())}
    domain = known.get(spec.name) or InputDomain(name=spec.name, typical_shape=spec.min_shape)
    return synthetic(spec, spec.min_shape, domain, 1)


def _python_input(artifact: Artifact, spec: TunedTensorSpec) -> dict[str, str]:
    """What the Python client of the text needs to make this input."""
    from aitune.triton.datatypes import wire_type

    shape = _shape(artifact, spec)
    datatype = wire_type(spec.dtype)
    known = {domain.name: domain for domain in (artifact.evidence.inputs if artifact.evidence else ())}
    low, high = (known[spec.name].low, known[spec.name].high) if spec.name in known else (0.0, 1.0)
    numpy = {"bool": "bool", "string": "object", "bfloat16": "float32"}.get(spec.dtype.value, spec.dtype.value)
    if datatype == "BYTES":
        array = f"np.full({shape}, b'text', dtype=object)"
    else:
        value = min(max(low, 1.0), high)  # ones where they are valid: zeros often mean "nothing there"
        array = f"np.full({shape}, {value if spec.dtype.is_floating else int(value)}, dtype=np.{numpy})"
    return {"name": json.dumps(spec.name), "datatype": datatype, "array": array, "variable": f"input_{spec.name}"}


def _shape(artifact: Artifact, spec: TunedTensorSpec) -> tuple[int, ...]:
    """Smallest shape as a client sends it: Triton has no rank 0, and one value a row has an axis of its own."""
    if artifact.max_batch_size is not None and len(spec.min_shape) == 1:
        return (*spec.min_shape, 1)
    return spec.min_shape or (1,)
