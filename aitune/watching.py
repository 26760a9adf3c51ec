"""What a piece of work reads: the files that Python opens, the modules that it loads, and what nobody can see.

Python tells of every file that it opens (PEP 578). Native code does not, so what was seen is only believed where no
native code ran that reads files by itself: safetensors, which does, is asked to say so, files of weights beside a file
that was opened count as read, and any other extension module makes the answer "nobody can tell".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["Watch", "watching"]

_OUTSIDE = ("socket.connect", "socket.getaddrinfo", "os.system", "os.exec", "os.posix_spawn", "os.fork")
_OWN_PROGRAMS = ("aitune.onnx.worker", "aitune.onnx.recipes")
_ABOUT_THE_MACHINE = ("lscpu", "uname", "ldconfig")
"""Programs that say what the machine is, which is known anyway; numpy and ctypes ask them."""
_VIRTUAL = ("/proc/", "/sys/", "/dev/")
_QUIET_EXTENSIONS = frozenset(
    [
        "torch",
        "brotli",
        "_brotli",
        "functorch",
        "numpy",
        "scipy",
        "sklearn",
        "pandas",
        "onnx",
        "onnxruntime",
        "onnxscript",
        "ml_dtypes",
        "google",
        "regex",
        "yaml",
        "tokenizers",
        "safetensors",
        "markupsafe",
        "charset_normalizer",
        "_cffi_backend",
        "psutil",
        "PIL",
        "hf_xet",
        "transformers",
        "torchgen",
        "rpds",
        "msgpack",
        "sympy",
        "gmpy2",
        "simplejson",
        "aiohttp",
        "multidict",
        "yarl",
        "frozenlist",
        "propcache",
        "grpc",
        "_yaml",
    ]
)
"""Packages whose native code reads no file that Python or this module does not see."""

_active: list[Watch] = []
_installed: list[bool] = []


class Watch:
    """What was seen.

    Attributes:
        opened: Files that were opened for reading.
        written: Files that were opened for writing.
        unseen: What happened that cannot be followed, e.g. a connection.
    """

    def __init__(self) -> None:
        self.opened: dict[str, None] = {}
        self.written: set[str] = set()
        self.unseen: dict[str, None] = {}

    def files(self) -> list[str]:
        """Files that were read and are no program text, as absolute paths."""
        return [path for path in self.opened if path not in self.written and not path.endswith((".py", ".pyc"))]

    def note(self, path: object) -> None:
        """Something else read this file."""
        if isinstance(path, str | bytes | os.PathLike):
            name = os.path.abspath(os.fsdecode(path))
            if not name.startswith(_VIRTUAL):
                self.opened[name] = None

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """One audit event."""
        if event == "open":
            path, mode, flags = arguments
            writes = bool(set(mode or "") & set("wax+")) or bool((flags or 0) & (os.O_WRONLY | os.O_RDWR))
            if writes and isinstance(path, str | bytes | os.PathLike):
                self.written.add(os.path.abspath(os.fsdecode(path)))
            else:
                self.note(path)
        elif event == "subprocess.Popen":
            program = os.path.basename(os.fsdecode(arguments[0]))
            ours = any(str(part) in _OWN_PROGRAMS for part in arguments[1] or ())
            if program not in _ABOUT_THE_MACHINE and not ours:
                self.unseen[f"the program {program!r} was started"] = None
        elif event in _OUTSIDE:
            self.unseen[event] = None

    def strangers(self) -> list[str]:
        """Packages with native code that may read files unseen."""
        native = [_package(module) for module in list(sys.modules.values()) if _is_native(module)]
        known = _QUIET_EXTENSIONS | set(sys.stdlib_module_names)
        return sorted(set(native) - known - {"aitune"})


def _package(module: ModuleType) -> str:
    """The package that a module was installed with, told from where it lies, for some go by short names."""
    parts = Path(str(module.__file__)).parts
    roots = [index for index, part in enumerate(parts) if part in ("site-packages", "dist-packages", "lib-dynload")]
    if not roots:
        return parts[-1]
    if parts[roots[-1]] == "lib-dynload":
        return "sys"
    return parts[roots[-1] + 1].partition(".")[0]


def _is_native(module: ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and file.endswith((".so", ".pyd"))


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    """Tell every watch; this hears everything that Python does from now on, so it is quick when nobody watches."""
    for watch in _active:
        watch.hear(event, arguments)


@contextmanager
def watching() -> Iterator[Watch]:
    """Watch what happens inside."""
    if not _installed:
        sys.addaudithook(_hear)
        _installed.append(True)
    watch = Watch()
    restore = _follow_safetensors(watch)
    _active.append(watch)
    try:
        yield watch
    finally:
        _active.remove(watch)
        restore()


def _follow_safetensors(watch: Watch) -> Callable[[], None]:
    """Let the reader of safetensors, which is native, say what it opens; how to undo that."""
    if find_spec("safetensors") is None:
        return lambda: None
    import safetensors

    original = safetensors.safe_open

    def told(filename: Any, *arguments: Any, **options: Any) -> Any:
        watch.note(filename)
        return original(filename, *arguments, **options)

    def replace(old: object, new: object) -> None:
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get("safe_open") is old:
                module.__dict__["safe_open"] = new

    replace(original, told)
    return lambda: replace(told, original)


def weights_beside(path: Path) -> list[Path]:
    """Files of weights in a folder, by their endings."""
    endings = [
        ".safetensors",
        ".bin",
        ".pt",
        ".pth",
        ".pt2",
        ".ckpt",
        ".h5",
        ".hdf5",
        ".npz",
        ".npy",
        ".onnx",
        ".data",
        ".model",
        ".gguf",
        ".pkl",
        ".msgpack",
        ".tflite",
        ".pb",
    ]
    try:
        return sorted(item for item in path.iterdir() if item.suffix in endings and item.is_file())
    except OSError:
        return []
