"""Every error aitune raises on purpose, and the exit code each one means.

A message says *what was asked, what was found, what to do*: lower case, values with ``!r``, one line, no full stop.
``code`` is the stable word of the JSON documents; ``hint`` is the part that says what to do next.

.. code-block:: text

    AituneError                       70  E_BUG            (never raised itself)
    ├── UsageError                     2  E_USAGE          an argument or option makes no sense
    │   ├── RecordError                2  E_RECORD         a record cannot hold this value  (also ValueError)
    │   ├── SourceError                2  E_SOURCE         the model or its samples cannot be read or used
    │   └── RepositoryError            2  E_REPOSITORY     a model repository cannot be read or written
    ├── VerdictError                   1  E_VERDICT        everything ran, and the answer is no
    │   ├── ArtifactIntegrityError     1  E_INTEGRITY      bytes differ from the record  (also RuntimeError)
    │   ├── NumericsError              1  E_NUMERICS       two runs that must agree do not
    │   └── BatchingError              1  E_BATCHING       a demanded batch is not there
    ├── UnavailableError               3  E_UNAVAILABLE    something is not installed or not reachable
    │   ├── MissingDependencyError     3  E_MISSING        a Python package  (also ModuleNotFoundError)
    │   ├── ProgramError               3  E_PROGRAM        an outside program is missing or failed
    │   └── ServerError                3  E_SERVER         a Triton server cannot be started or reached
    └── InconclusiveError              4  E_INCONCLUSIVE   unstable measurement, or the budget is spent
"""

from __future__ import annotations

__all__ = [
    "AituneError",
    "ArtifactIntegrityError",
    "BatchingError",
    "InconclusiveError",
    "MissingDependencyError",
    "NumericsError",
    "ProgramError",
    "RecordError",
    "RepositoryError",
    "ServerError",
    "SourceError",
    "UnavailableError",
    "UsageError",
    "VerdictError",
]


class AituneError(Exception):
    """The root: catching it catches everything aitune raises on purpose.

    Args:
        message: What was asked and what was found, one line.
        hint: What to do about it, one line; empty when the message says it.

    Attributes:
        code: Stable word for JSON documents, e.g. ``"E_SOURCE"``.
        exit_code: Process exit code of the command line.
    """

    code = "E_BUG"
    exit_code = 70

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class UsageError(AituneError):
    """An argument, an option or a combination of them makes no sense."""

    code = "E_USAGE"
    exit_code = 2


class RecordError(UsageError, ValueError):
    """A record cannot hold this value."""

    code = "E_RECORD"


class SourceError(UsageError):
    """The model, or the samples that come with it, cannot be read or used."""

    code = "E_SOURCE"


class RepositoryError(UsageError):
    """A model repository cannot be read or written as asked."""

    code = "E_REPOSITORY"


class VerdictError(AituneError):
    """Everything ran, and the answer is no."""

    code = "E_VERDICT"
    exit_code = 1


class ArtifactIntegrityError(VerdictError, RuntimeError):
    """The bytes on disk are not the bytes of the record."""

    code = "E_INTEGRITY"


class NumericsError(VerdictError):
    """Two runs that must agree do not."""

    code = "E_NUMERICS"


class BatchingError(VerdictError):
    """A batch was demanded, and the model was proved not to batch."""

    code = "E_BATCHING"


class UnavailableError(AituneError):
    """Something is not installed or not reachable."""

    code = "E_UNAVAILABLE"
    exit_code = 3


class MissingDependencyError(UnavailableError, ModuleNotFoundError):
    """A Python package is not installed.

    Args:
        package: Import name of what is missing, e.g. ``"torch"``.
        extra: The extra of this distribution that brings it, e.g. ``"torch"``.
    """

    code = "E_MISSING"

    def __init__(self, package: str, *, extra: str) -> None:
        super().__init__(f"{package!r} is not installed", hint=f"install it with: pip install 'aitune-triton[{extra}]'")
        self.name = package


class ProgramError(UnavailableError):
    """An outside program is missing, or ended in a way nobody can use."""

    code = "E_PROGRAM"


class ServerError(UnavailableError):
    """A Triton server cannot be started, reached or understood."""

    code = "E_SERVER"


class InconclusiveError(AituneError):
    """The measurement was unstable, or the budget was spent before an answer was certain."""

    code = "E_INCONCLUSIVE"
    exit_code = 4
