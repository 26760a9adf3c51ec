"""The checks of a model on a running server, in the order in which they are made.

Each is a function of a :class:`~aitune.triton.checks_live.context.Context` that returns a
:class:`~aitune.triton.validation_records.CheckResult`. Adding one is one function and one row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from aitune.triton.checks_live.bounds import check_bounds, check_refusals
from aitune.triton.checks_live.context import Context
from aitune.triton.checks_live.fingerprint import check_fingerprint
from aitune.triton.checks_live.life import check_life, check_reload
from aitune.triton.checks_live.numbers import check_numbers
from aitune.triton.checks_live.rows import check_concurrency, check_rows
from aitune.triton.checks_live.served import check_config, check_metadata, check_ready, check_record
from aitune.triton.checks_live.thorough import check_batches, check_endurance, check_mixed
from aitune.triton.checks_live.transfers import check_json, check_shared_memory
from aitune.triton.validation_records import CheckResult

__all__ = ["CHECKS", "THOROUGH", "checks_of"]

Check = Callable[[Context], CheckResult]

CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "ready": check_ready,
        "config": check_config,
        "record": check_record,
        "metadata": check_metadata,
        "fingerprint": check_fingerprint,
        "numbers": check_numbers,
        "json": check_json,
        "shared_memory": check_shared_memory,
        "rows": check_rows,
        "concurrency": check_concurrency,
        "bounds": check_bounds,
        "refusals": check_refusals,
    }
)
"""The checks of every level."""

THOROUGH: Mapping[str, Check] = MappingProxyType(
    {
        "batches": check_batches,
        "mixed": check_mixed,
        "endurance": check_endurance,
        "life": check_life,
        "reload": check_reload,
    }
)
"""What ``--level full`` asks on top."""


def checks_of(level: str) -> Mapping[str, Check]:
    """The checks of ``"quick"`` or ``"full"``, in order."""
    return CHECKS if level == "quick" else {**CHECKS, **THOROUGH}
