"""The command line: parse, call one library function, print, and turn errors into a line and an exit code.

Only this room prints. stdout is the result, stderr the talk.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``aitune-triton`` and return its exit code.

    Args:
        argv: Arguments after the program's name; None for those of this process.
    """
    try:
        from aitune.cli.app import run  # click is loaded when there is something to parse

        return run(argv)
    except KeyboardInterrupt:  # before the command had begun, or after it had ended
        return 130
