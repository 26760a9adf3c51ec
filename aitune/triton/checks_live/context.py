"""What every check of a live model is given, and how it counts what it sends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from aitune.errors import AituneError
from aitune.numerics import Array, Tolerance, compare, regrouped, tolerance
from aitune.records import DType
from aitune.triton.client import Client, Tensor
from aitune.triton.subjects import Send, Subject, ask, make_request
from aitune.triton.validation_records import CheckResult

__all__ = [
    "BudgetSpent",
    "Context",
    "Reference",
    "StartServer",
    "disagreement",
    "failed",
    "passed",
    "skipped",
    "warned",
]

FOREIGN_REQUESTS = 20
"""Most inference requests that a server which is not ours is sent for one version of a model."""

_SEED = 3203

Reference = Mapping[str, Array]
"""What a request should be answered with, by output."""


StartServer = Callable[[Path, str], AbstractContextManager[Client]]
"""Starts a further server for a repository with ``"explicit"`` or ``"poll"`` model control, gone after the block."""


class BudgetSpent(AituneError):
    """No further request may be sent to a server that is not ours; ends a check, never a validation."""


@dataclass(slots=True, kw_only=True)
class Context:
    """One version of a model on a running server.

    Attributes:
        subject: What is asked about.
        clients: Connections by protocol, ``"grpc"`` first where there is one.
        own: Whether the server is ours (or may be treated so): bad requests are sent, batches are forced.
        server_pid: Process id (and group) of a server of our own on this machine.
        strict_bounds: Whether sizes beyond the tuned range that are accepted are a failure.
        slack: Widens the tolerance, for another processor than the one that made the record.
        certain: Whether a request that is sent again is computed as it was when it was recorded: on such a processor,
            and with nobody else's rows in its batch.
        thorough: Whether time matters less than completeness (``--level full``).
        repository: What a server of our own serves.
        start: Starts further servers for it; None where the server is not ours.
        sent: Inference requests sent so far.
        known: A request and its answer, once one was found to be right.
        proved: Fingerprint that the answers proved; set by the check that finds out.
    """

    subject: Subject
    clients: Mapping[str, Client]
    own: bool
    server_pid: int | None = None
    strict_bounds: bool = False
    slack: float = 1.0
    certain: bool = True
    thorough: bool = False
    repository: Path | None = None
    start: StartServer | None = None
    sent: int = 0
    known: tuple[Mapping[str, Array], Mapping[str, Tensor]] | None = None
    proved: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def client(self) -> Client:
        """The connection to use when the protocol does not matter."""
        return next(iter(self.clients.values()))

    @property
    def remaining(self) -> int | None:
        """Requests that may still be sent; None for as many as it takes."""
        return None if self.own else max(0, FOREIGN_REQUESTS - self.sent)

    def count(self, requests: int = 1) -> None:
        """Note requests that are about to be sent.

        Raises:
            BudgetSpent: If the server is not ours and was asked enough.
        """
        with self._lock:
            if not self.own and self.sent + requests > FOREIGN_REQUESTS:
                raise BudgetSpent(f"a server that is not ours is sent at most {FOREIGN_REQUESTS} requests")
            self.sent += requests

    def ask(
        self, inputs: Mapping[str, Array], client: Client | None = None, *, send: Send = Client.infer_typed
    ) -> dict[str, Tensor]:
        """One counted request as the artifact sees it; see :func:`aitune.triton.subjects.ask`."""
        self.count()
        return ask(client or self.client, self.subject, inputs, send=send)

    def answered(self) -> tuple[Mapping[str, Array], Mapping[str, Tensor]]:
        """A request whose answer is known, and that answer; asked for now if no check has found one yet."""
        if self.known is None:
            inputs = make_request(self.subject, "typical", seed=_SEED)
            self.known = inputs, self.ask(inputs)
        return self.known

    def tolerance(self, dtype: DType, *, again: bool = True) -> Tolerance:
        """What two answers of an element type may differ by here.

        Args:
            dtype: The element type.
            again: Whether it is the same request again; else the same rows in another batch, which may differ more in
                a model that computes in fewer bits.
        """
        if again:
            return tolerance(dtype).times(self.slack)
        return regrouped(dtype, self.subject.precision, slack=self.slack)


def passed(name: str, detail: str, *notes: str) -> CheckResult:
    """A check that found what it wanted."""
    return CheckResult(name=name, status="pass", detail=detail, notes=notes)


def warned(name: str, detail: str, *notes: str) -> CheckResult:
    """A check that found something a person should know."""
    return CheckResult(name=name, status="warn", detail=detail, notes=notes)


def failed(name: str, detail: str, *notes: str) -> CheckResult:
    """A check whose answer is no."""
    return CheckResult(name=name, status="fail", detail=detail, notes=notes)


def skipped(name: str, reason: str) -> CheckResult:
    """A check that could not be made, and why."""
    return CheckResult(name=name, status="skip", detail=reason)


def disagreement(
    context: Context, answer: Mapping[str, Tensor], expected: Reference, *, again: bool = True
) -> tuple[str, float]:
    """How an answer differs from what it should be.

    Args:
        context: Gives element types and tolerances.
        answer: What came back.
        expected: What should have.
        again: Whether it answers the same request again, see :meth:`Context.tolerance`.

    Returns:
        The first difference as one line, ``""`` for none, and the largest difference that was allowed.
    """
    largest = 0.0
    for spec in context.subject.outputs:
        if spec.name not in expected:
            continue
        if spec.name not in answer:
            return f"output {spec.name!r} is missing", largest
        array, dtype = answer[spec.name]
        if dtype is not spec.dtype:
            return f"output {spec.name!r} is {dtype.value}, recorded {spec.dtype.value}", largest
        found = compare(array, expected[spec.name], dtype, tolerance=context.tolerance(dtype, again=again))
        if not found.agrees:
            return f"output {spec.name!r}: {found.detail}", largest
        largest = max(largest, found.max_abs)
    return "", largest
