"""The table of the zoo, as it is committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from zoo.keeping import Fate, faults

__all__ = ["table"]

_HEAD = """# The zoo

Real architectures with small random weights, each taken from its module to an artifact, a repository, a real Triton and
`validate`. Every model either serves with the right numbers or is refused for the right reason. The models are in
`tests/zoo`; `scripts/zoo` runs them and writes this table. A `warn` of `validate` is about sizes: a plain ONNX file
takes sizes beyond those that it was tried at as well, and the server does not stop them.

"""


def table(fates: Sequence[Fate]) -> str:
    """The table as Markdown."""
    rows = [("model", "verdict", "max batch", "exporter", "validate", "reason"), ("---",) * 6]
    rows += [_row(fate) for fate in fates]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return _HEAD + "\n".join(lines) + f"\n\n{_summary(fates)}\n"


def _row(fate: Fate) -> tuple[str, ...]:
    reason = fate.reason.replace("|", "\\|").strip()
    return (
        fate.animal.name,
        fate.verdict,
        str(fate.max_batch_size) if fate.status else "",
        fate.exporter,
        fate.status or "not served",
        reason if len(reason) <= 160 else f"{reason[:157]}…",
    )


def _summary(fates: Sequence[Fate]) -> str:
    counts = Counter(fate.verdict for fate in fates)
    wrong = sum(bool(faults(fate)) for fate in fates)
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("batched", "unbatched", "refused"))
    return f"{len(fates)} models: {parts}; {wrong} not as expected."
