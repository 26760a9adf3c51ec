"""What `check` says, held against a live server."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

from aitune.onnx.served import read_served
from aitune.triton.check.fix import plan_fixes, write_fixes
from aitune.triton.check.textproto import parse
from aitune.triton.server import LocalServer
from aitune.triton.server_log import failures

pytestmark = pytest.mark.server
SCRIPT = Path(__file__).parents[2] / "scripts" / "compare_check_with_triton"
COUNT, SEED = 60, 2


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The comparison as a module."""
    loader = importlib.machinery.SourceFileLoader("compare_check", str(SCRIPT))
    spec = importlib.util.spec_from_loader("compare_check", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compare_check"] = module
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = kept
    return module


@pytest.mark.parametrize("strict", [False, True])
def test_mutated_configs_get_the_server_s_verdict(script: ModuleType, strict: bool) -> None:
    """The same models load, the same are refused; the script does the same with thousands."""
    rng = random.Random(SEED + strict)
    cases = [script.make(rng, f"c{index}") for index in range(COUNT // 2)]
    assert list(script.compare(cases, strict)) == []


TEXTS = [
    'backend: "zzz" metric_tags { key: "a\nb" }', 'backend: "zzz" max_batch_size: 8version_policy { }',
    '\ufeffbackend: "z"',
    'backend: "zzz" max_batch_size: 010', 'backend: "zzz" max_batch_size: 08', 'backend: "zzz" # \x00',
    'backend: "zzz" metric_tags { key: "" key: "b" }', 'backend: "zzz" name: "" name: "x"',
    'backend: "zzz" instance_group { kind: -1 }', 'backend: "zzz" input < name: "x" >;',
    'backend: "zzz" response_cache { enable: t }', 'backend: "zzz" response_cache { enable: TRUE }',
    'backend: "zzz" sequence_batching { direct { minimum_slot_utilization: 1.e } }', 'backend: "zzz" model_metrics { }',
    'backend: "zzz" metric_tags { key: "\\q" }', 'backend: "zzz" instance_group { gpus: [ 1, ] }', "// c", "",
]  # fmt: skip


def test_texts_are_read_as_the_server_reads_them(tmp_path: Path) -> None:
    """The corners of the text format in which protobuf's own implementations differ."""
    for index, text in enumerate(TEXTS):
        (tmp_path / f"m{index}" / "1").mkdir(parents=True)
        (tmp_path / f"m{index}" / "config.pbtxt").write_text(text, encoding="utf-8")
    with LocalServer(tmp_path) as server:
        server.models()
        reasons = failures(server.log_text())
    refused = [index for index in range(len(TEXTS)) if "failed to read text proto" in reasons.get(f"m{index}", "")]
    assert refused == [index for index, text in enumerate(TEXTS) if parse(text).problems]


BROKEN = """# a comment that stays
name: 'other'
backend: "onnxruntime"
max_batchsize: "8"
input [ { name: x data_type: FP16 dims: [ 5 5 ] } ]
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
instance_group { count: 1 kind: KIND_CPU }
"""


def test_a_fixed_config_loads(script: ModuleType, tmp_path: Path) -> None:
    """What --fix leaves behind is served."""
    script.Case("m", BROKEN, {"1/model.onnx": script.MODELS["linear"][0]}).write(tmp_path)
    planned = plan_fixes(tmp_path, read_interface=read_served)
    write_fixes(planned)
    assert not planned.report.errors
    with LocalServer(tmp_path) as server:
        assert [state.ready for state in server.models()] == [True]
