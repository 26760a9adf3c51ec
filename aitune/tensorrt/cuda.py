"""The few calls of the CUDA runtime that running a plan takes, through ctypes: TensorRT brings that library along.

On a machine without a driver the library loads and says so; :func:`device_problem` passes that on in one line.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from aitune.errors import UnavailableError

__all__ = ["Stream", "compute_capability", "device_problem", "find_runtime"]

_PACKAGES = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12")
_SYSTEM = ("libcudart.so.13", "libcudart.so.12", "libcudart.so")
_MAJOR, _MINOR = 75, 76  # cudaDevAttrComputeCapabilityMajor and …Minor
_TO_DEVICE, _TO_HOST = 1, 2


def find_runtime() -> tuple[str, ...]:
    """Where the CUDA runtime may be: of the Python packages that bring it, then of the system."""
    found = []
    for package in _PACKAGES:
        try:
            listed = files(package) or []
        except PackageNotFoundError:
            continue
        found += [str(Path(str(item.locate()))) for item in listed if item.name.startswith("libcudart.so")]
    return (*found, *_SYSTEM)


@cache
def _runtime() -> ctypes.CDLL | str:
    """The runtime, or why there is none."""
    for name in find_runtime():
        try:
            return _typed(ctypes.CDLL(name))
        except OSError:
            continue
    return "the CUDA runtime is not installed"


def _typed(library: ctypes.CDLL) -> ctypes.CDLL:
    library.cudaGetErrorString.restype = ctypes.c_char_p
    library.cudaMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.cudaFree.argtypes = [ctypes.c_void_p]
    library.cudaMemcpyAsync.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_void_p,
    ]
    library.cudaStreamSynchronize.argtypes = [ctypes.c_void_p]
    library.cudaStreamDestroy.argtypes = [ctypes.c_void_p]
    return library


def device_problem() -> str:
    """Why no GPU can be used here, in one line; ``""`` when one can."""
    library = _runtime()
    if isinstance(library, str):
        return library
    count = ctypes.c_int()
    status = library.cudaGetDeviceCount(ctypes.byref(count))
    if status:
        return str(library.cudaGetErrorString(status).decode())
    return "" if count.value else "there is no GPU"


def compute_capability(device: int = 0) -> str:
    """Of a GPU, e.g. ``"8.9"``.

    Raises:
        UnavailableError: If there is none.
    """
    library = _library()
    parts = []
    for attribute in (_MAJOR, _MINOR):
        value = ctypes.c_int()
        _check(library, library.cudaDeviceGetAttribute(ctypes.byref(value), attribute, device))
        parts.append(str(value.value))
    return ".".join(parts)


class Stream:
    """A CUDA stream and the device memory that belongs to it.

    Raises:
        UnavailableError: If there is no GPU, or a call fails.
    """

    def __init__(self) -> None:
        self._library = _library()
        handle = ctypes.c_void_p()
        _check(self._library, self._library.cudaStreamCreate(ctypes.byref(handle)))
        self.handle = handle.value or 0
        self._blocks: dict[str, tuple[int, int]] = {}

    def memory(self, name: str, nbytes: int) -> int:
        """Address of at least ``nbytes`` bytes on the device under a name; a larger block replaces a smaller one."""
        address, size = self._blocks.get(name, (0, 0))
        if size >= max(nbytes, 1):
            return address
        if address:
            _check(self._library, self._library.cudaFree(address))
        block = ctypes.c_void_p()
        _check(self._library, self._library.cudaMalloc(ctypes.byref(block), max(nbytes, 1)))
        self._blocks[name] = (block.value or 0, max(nbytes, 1))
        return self._blocks[name][0]

    def send(self, address: int, source: int, nbytes: int) -> None:
        """Copy bytes of the host to the device; the host's memory must live until :meth:`wait`."""
        _check(self._library, self._library.cudaMemcpyAsync(address, source, nbytes, _TO_DEVICE, self.handle))

    def fetch(self, target: int, address: int, nbytes: int) -> None:
        """Copy bytes of the device to the host; they are there after :meth:`wait`."""
        _check(self._library, self._library.cudaMemcpyAsync(target, address, nbytes, _TO_HOST, self.handle))

    def wait(self) -> None:
        """Until everything that was asked for is done."""
        _check(self._library, self._library.cudaStreamSynchronize(self.handle))

    def close(self) -> None:
        """Free everything; a second call does nothing."""
        for address in self._addresses():
            self._library.cudaFree(address)
        if self.handle:
            self._library.cudaStreamDestroy(self.handle)
            self.handle = 0

    def _addresses(self) -> Iterator[int]:
        while self._blocks:
            yield self._blocks.popitem()[1][0]


def _library() -> ctypes.CDLL:
    library = _runtime()
    problem = device_problem()
    if problem or isinstance(library, str):
        raise UnavailableError(f"no GPU can be used here: {problem}", hint="run it on a machine with an NVIDIA GPU")
    return library


def _check(library: ctypes.CDLL, status: int) -> None:
    if status:
        raise UnavailableError(f"CUDA says: {library.cudaGetErrorString(status).decode()}")
