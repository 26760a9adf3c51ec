"""Which settings of the ONNX Runtime backend a person may ask for, read as the backend reads them (rules §5.4).

What it cannot read keeps the model from loading, so it is refused when it is asked for; a key that it does not know it
ignores in silence, so one that looks like a known one is taken for a misspelling.
"""

from __future__ import annotations

import difflib
import re

from aitune.errors import UsageError
from aitune.records.accelerators import GPU_ACCELERATOR

__all__ = ["check_setting"]

_WHOLE = re.compile(r"[+-]?\d{1,9}")
_INTEGERS = ("intra_op_thread_count", "inter_op_thread_count")
_CHOICES = {
    "execution_mode": ("0", "1"),
    "cudnn_conv_algo_search": ("0", "1", "2"),
    "arena_extend_strategy": ("0", "1"),
    "do_copy_in_default_stream": ("0", "1"),
}
_BOOLEANS = ("enable_mem_arena", "enable_mem_pattern")
_OTHERS = (
    "gpu_mem_limit",
    "memory.enable_memory_arena_shrinkage",
    "session.use_device_allocator_for_initializers",
    "optimization.graph.level",
)
_KNOWN = (*_INTEGERS, *_CHOICES, *_BOOLEANS, *_OTHERS)


def check_setting(key: str, value: str) -> None:
    """Refuse a setting with which the model would not load, and one that would be ignored.

    Raises:
        UsageError: If the backend cannot read the value, or the key is a known one misspelt or an option of its own.
    """
    if key == GPU_ACCELERATOR:
        raise UsageError(f"setting {key!r} is not given as a parameter", hint="use --accelerator tensorrt")
    if key in _INTEGERS and not _WHOLE.fullmatch(value):
        raise UsageError(f"setting {key!r} must be a whole number, got {value!r}", hint="0 leaves it to the runtime")
    if key in _CHOICES and value not in _CHOICES[key]:
        raise UsageError(f"setting {key!r} must be one of {', '.join(_CHOICES[key])}, got {value!r}")
    if key in _BOOLEANS and value.lower() not in ("true", "on", "1", "false", "off", "0"):
        raise UsageError(f"setting {key!r} must be true or false, got {value!r}")
    close = [] if key in _KNOWN else difflib.get_close_matches(key, _KNOWN, n=1, cutoff=0.85)
    if close:
        raise UsageError(f"setting {key!r} is none that the backend knows", hint=f"did you mean {close[0]!r}?")
