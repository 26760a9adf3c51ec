"""onnxruntime does not report the use of someone's model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import TensorProto, helper, save

_RUN = "import sys; from pathlib import Path; from aitune.onnx import OnnxRunner; OnnxRunner(Path(sys.argv[1])).close()"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The smallest model."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [x], [y])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_running_a_model_leaves_no_trace_of_telemetry(model: Path, tmp_path: Path) -> None:
    """No device id and no queue of events is written to the user's cache or the temporary folder."""
    cache = tmp_path / "cache"
    cache.mkdir()
    unset = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    places = dict.fromkeys(("XDG_CACHE_HOME", "TMPDIR", "HOME"), str(cache))
    subprocess.run([sys.executable, "-c", _RUN, str(model)], env={**unset, **places}, check=True)
    assert list(cache.rglob("*")) == []


@pytest.mark.parametrize(
    "code",
    [
        "import aitune.onnx",
        "import runpy; runpy.run_module('aitune.triton.backends.onnxruntime.model', alter_sys=True)",
    ],
)
def test_a_choice_of_the_user_is_kept(code: str) -> None:
    """Who sets the variable to something else has decided."""
    told = f"import os\ntry:\n    {code}\nexcept ImportError:\n    pass\nprint(os.environ['ORT_DISABLE_TELEMETRY'])"
    for given, wanted in (({}, "1"), ({"ORT_DISABLE_TELEMETRY": "0"}, "0")):
        env = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
        done = subprocess.run([sys.executable, "-c", told], env={**env, **given}, capture_output=True, text=True)
        assert done.stdout.strip() == wanted, done.stderr
