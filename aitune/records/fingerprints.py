"""SHA-256 of files, and copying a file while making sure it is the one that was recorded."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

__all__ = ["copy_hashed", "fingerprint_file", "stage_copy", "sync_folder", "write_atomically"]

_CHUNK_BYTES = 1 << 20


def fingerprint_file(path: Path, *, on_bytes: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file as 64 hexadecimal digits.

    Args:
        path: File to read, in pieces of 1 MiB.
        on_bytes: Called with the size of each piece, for a progress bar.

    Raises:
        OSError: If it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as source:
        while chunk := source.read(_CHUNK_BYTES):
            digest.update(chunk)
            if on_bytes is not None:
                on_bytes(len(chunk))
    return digest.hexdigest()


def stage_copy(source: Path, destination: Path, check: Callable[[str], None]) -> Path:
    """Copy a file to a hidden name beside its destination, if ``check`` accepts the SHA-256 of what was copied.

    The copy is flushed to the disk, has the source's mode less the umask (a server under another user must be able to
    read it) and a fresh modification time. Nothing is left behind on failure or interrupt.

    Args:
        source: File to copy.
        destination: Where it will go; its folder must exist.
        check: Called with the digest; raises to refuse it.

    Returns:
        The hidden file; rename it to ``destination``, or remove it.

    Raises:
        OSError: If reading or writing fails.
    """
    temporary = destination.with_name(f".{destination.name}.{secrets.token_hex(4)}.tmp")
    digest = hashlib.sha256()
    try:
        with source.open("rb", buffering=0) as reader:
            mode = os.fstat(reader.fileno()).st_mode & 0o777
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with open(descriptor, "wb", buffering=0) as writer:
                while chunk := reader.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    _write_all(writer.fileno(), chunk)
                os.fsync(writer.fileno())
        check(digest.hexdigest())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def copy_hashed(source: Path, destination: Path, check: Callable[[str], None]) -> None:
    """Copy a file atomically: at any moment the destination is the old file or the complete new one.

    Args:
        source: File to copy.
        destination: Where to; its folder must exist.
        check: Called with the SHA-256 of what was copied; raises to refuse it.

    Raises:
        OSError: If reading or writing fails.
    """
    temporary = stage_copy(source, destination, check)
    try:
        os.replace(temporary, destination)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(destination.parent)


def write_atomically(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Write a file: at any moment it is the old one or the complete new one, flushed to the disk.

    Args:
        path: Where to; its folder must exist.
        data: All of it.
        mode: Permissions; what the umask leaves of 0666 when None.

    Raises:
        OSError: If writing fails; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _write_all(descriptor: int, chunk: bytes) -> None:
    """Write all of it: a raw write may take only part."""
    view = memoryview(chunk)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
