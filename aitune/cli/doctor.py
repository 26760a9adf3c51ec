"""``doctor``: what is installed, which server and perf_analyzer would be used, what is missing and how to get it."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

import click

from aitune.cli.console import Console, common_options, table
from aitune.cli.environment import foreign_aitune
from aitune.errors import AituneError, UnavailableError

__all__ = ["Finding", "doctor_command"]

# distribution → (the extra that brings it, what it is for)
PACKAGES = {
    "onnx": ("onnx", "reading and repairing ONNX files"),
    "onnxruntime": ("onnx", "running ONNX models, offline and in the local server"),
    "torch": ("torch", "PyTorch modules as SOURCE"),
    "onnxscript": ("torch", "exporting PyTorch modules"),
    "nvidia-pytriton": ("server", "a local tritonserver"),
    "tensorrt": ("tensorrt", "TensorRT plans on a machine with a GPU"),
}
OPTIONAL = ("tensorrt",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        name: What it is.
        status: ``"ok"``, ``"missing"``, ``"optional"`` (missing, and most people do not need it) or ``"conflict"``.
        detail: Version or place, or what it would be for.
        fix: How to get it; empty when it is there.
    """

    name: str
    status: str
    detail: str
    fix: str = ""


@click.command("doctor")
@click.option("--server", help="The server to look at instead of the one that would be found.")
@common_options()
def doctor_command(server: str | None, console: Console) -> int:
    """Show what is installed, which server and perf_analyzer would be used, and how to get what is missing.

    Exit code 3 when something that the main job needs is missing.
    """
    findings = [*_system(), *_packages(), _conflict(), _server(server), _perf_analyzer()]
    shown = [finding for finding in findings if finding is not None]
    bad = [finding for finding in shown if finding.status in ("missing", "conflict")]
    if console.json:
        document: dict[str, Any] = {"findings": [asdict(finding) for finding in shown], "missing": len(bad)}
        if bad:
            document["error"] = {"code": "E_MISSING", "message": _summary(bad), "hint": bad[0].fix}
        console.document(document)
    else:
        colors = {"ok": "green", "missing": "red", "conflict": "red", "optional": "yellow"}
        console.result(table(("what", "status", "detail"), [(f.name, f.status, f.detail) for f in shown]))
        for finding in shown:
            if finding.fix:
                console.result(f"\n{console.style(finding.name, fg=colors[finding.status])}: {finding.fix}")
    return 3 if bad else 0


def _summary(bad: list[Finding]) -> str:
    return "not ready: " + ", ".join(f"{finding.name} ({finding.status})" for finding in bad)


def _system() -> list[Finding]:
    return [
        Finding(name="python", status="ok", detail=platform.python_version()),
        Finding(name="platform", status="ok", detail=f"{platform.system()} {platform.machine()}, {_libc()}"),
    ]


def _libc() -> str:
    name, version = platform.libc_ver()
    return f"{name} {version}".strip() or "unknown C library"


def _packages() -> list[Finding]:
    """Versions from the installed metadata: nothing is imported."""
    found = []
    for name, (extra, purpose) in PACKAGES.items():
        try:
            found.append(Finding(name=name, status="ok", detail=metadata.version(name)))
        except metadata.PackageNotFoundError:
            status = "optional" if name in OPTIONAL else "missing"
            fix = f"pip install 'aitune-triton[{extra}]'"
            found.append(Finding(name=name, status=status, detail=f"for {purpose}", fix=fix))
    return found


def _conflict() -> Finding | None:
    """The other distribution that owns the import name (decision 13)."""
    version = foreign_aitune()
    if version is None:
        return None
    return Finding(
        name="aitune",
        status="conflict",
        detail=f"another distribution named 'aitune' {version} has the same import name",
        fix="pip uninstall aitune, then pip install --force-reinstall aitune-triton",
    )


def _server(explicit: str | None) -> Finding:
    from aitune.triton.discovery import find_server

    try:
        program = find_server(explicit)
    except UnavailableError as error:
        return Finding(name="tritonserver", status="missing", detail=error.message, fix=error.hint)
    return Finding(name="tritonserver", status="ok", detail=program.label)


def _perf_analyzer() -> Finding:
    try:
        from aitune.triton.perf_analyzer import find_perf_analyzer

        detail = str(find_perf_analyzer())
    except AituneError as error:
        return Finding(name="perf_analyzer", status="missing", detail=error.message, fix=error.hint)
    return Finding(name="perf_analyzer", status="ok", detail=detail)
