"""The other ways in which tensors travel: as JSON, and through shared memory. Each must give the very same answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from aitune.errors import UsageError
from aitune.numerics import Array, to_wire
from aitune.triton.checks_live.context import Context, disagreement, failed, passed, skipped
from aitune.triton.client import Client, Tensor
from aitune.triton.client_errors import InferenceRefused, SharedMemoryRefused, WrongProtocol
from aitune.triton.client_json import WITHOUT_JSON
from aitune.triton.client_shared import infer_shared
from aitune.triton.validation_records import CheckResult

__all__ = ["check_json", "check_shared_memory"]

_MOST_VALUES = 1 << 18
_HERE = ("127.0.0.1", "localhost", "::1")


def check_json(context: Context) -> CheckResult:
    """A request with its tensors as JSON gets the answer that the same request gets in binary form."""
    client = context.clients.get("http")
    if client is None:
        return skipped("json", "JSON tensors travel over HTTP only")
    specs = (*context.subject.inputs, *context.subject.outputs)
    half = [spec for spec in specs if spec.dtype in WITHOUT_JSON]
    if half:
        return skipped("json", f"{half[0].name!r} is {half[0].dtype.value}, which cannot travel as JSON")
    inputs, answer = context.answered()
    count = sum(array.size for array in inputs.values()) + sum(array.size for array, _ in answer.values())
    if count > _MOST_VALUES:
        return skipped("json", f"{count} values are too many for JSON")
    try:
        found = context.ask(inputs, client, send=Client.infer_json)
    except (InferenceRefused, WrongProtocol) as error:
        return failed("json", f"a request as JSON is not answered as in binary form: {error}")
    except UsageError as error:
        return skipped("json", str(error))
    problem, difference = disagreement(context, found, _arrays(answer), again=context.own)
    if problem:
        return failed("json", f"a request as JSON is not answered as in binary form: {problem}")
    return passed("json", f"a request as JSON is answered as in binary form, largest difference {difference:.2g}")


def check_shared_memory(context: Context) -> CheckResult:
    """A request through system shared memory gets the same answer, over every protocol."""
    if not context.own:
        return skipped("shared_memory", "memory is only shared with a server of our own")
    if any(client.endpoint.host not in _HERE for client in context.clients.values()):
        return skipped("shared_memory", "the server runs on another machine")
    inputs, answer = context.answered()
    sizes = {name: len(to_wire(array, dtype)) for name, (array, dtype) in answer.items()}
    for protocol, client in context.clients.items():
        try:
            found = context.ask(inputs, client, send=partial(_shared, sizes))
        except SharedMemoryRefused as error:
            return skipped("shared_memory", str(error))
        except (InferenceRefused, WrongProtocol, UsageError) as error:
            return failed("shared_memory", f"over {protocol}: {error}")
        problem, _ = disagreement(context, found, _arrays(answer))
        if problem:
            return failed("shared_memory", f"over {protocol}, through shared memory: {problem}")
    return passed("shared_memory", f"the same answer through shared memory ({' and '.join(context.clients)})")


def _shared(
    sizes: Mapping[str, int], client: Client, name: str, version: str, inputs: Mapping[str, Tensor]
) -> Mapping[str, Tensor]:
    return infer_shared(client, name, version, inputs, sizes)


def _arrays(answer: Mapping[str, Tensor]) -> dict[str, Array]:
    return {name: array for name, (array, _) in answer.items()}
