"""What `check` loads: nothing that a small repository does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAVY = (
    "grpc",
    "numpy",
    "rich",
    "jinja2",
    "onnx",
    "onnxruntime",
    "torch",
    "tensorrt",
    "google.protobuf",
    "tritonclient",
)
CODE = """
import sys
from pathlib import Path
from aitune.triton.check import check_repository
from aitune.triton.check.command import exit_code, format_report
report = check_repository(Path(sys.argv[1]))
assert "R57" in format_report(report)
print(exit_code(report), *[name for name in sys.argv[2:] if name in sys.modules])
"""


def test_checking_loads_no_client_and_no_framework(tmp_path: Path) -> None:
    """A verdict on a config takes the standard library and our records."""
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.onnx").write_bytes(b"x")
    (tmp_path / "m" / "config.pbtxt").write_text('backend: "onnxruntime" max_batch_size: -1\n')
    command = [sys.executable, "-c", CODE, str(tmp_path), *HEAVY]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]


def test_the_command_loads_no_client_either(tmp_path: Path) -> None:
    """From the shell, too."""
    code = "import sys; from aitune.cli import main; main(['check', sys.argv[1]]); print(*sys.argv[2:], sep='\\n')"
    code = code.replace("print(*sys.argv[2:], sep='\\n')", "print([n for n in sys.argv[2:] if n in sys.modules])")
    light = [name for name in HEAVY if name != "rich"]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), *light], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
