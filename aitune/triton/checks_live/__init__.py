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
from aitune.triton.checks_live.numbers import check_numbers
from aitune.triton.checks_live.rows import check_concurrency, check_rows
from aitune.triton.checks_live.served import check_config, check_metadata, check_ready, check_record
from aitune.triton.validation_records import CheckResult

__all__ = ["CHECKS"]

CHECKS: Mapping[str, Callable[[Context], CheckResult]] = MappingProxyType(
    {
        "ready": check_ready,
        "config": check_config,
        "record": check_record,
        "metadata": check_metadata,
        "fingerprint": check_fingerprint,
        "numbers": check_numbers,
        "rows": check_rows,
        "concurrency": check_concurrency,
        "bounds": check_bounds,
        "refusals": check_refusals,
    }
)
