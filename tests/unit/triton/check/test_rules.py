"""One small config for every rule that the table holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from aitune.records.dtypes import DType
from aitune.records.interface import Interface
from aitune.triton.check import table

from .conftest import LINEAR, Repository, interface, port

BASE = """backend: "onnxruntime"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
"""
ENSEMBLE = """platform: "ensemble"
max_batch_size: 8
input { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] }
"""


@dataclass(frozen=True)
class Case:
    """A config and the one rule it breaks."""

    rule: str
    config: str
    severity: str = "error"
    model: Interface = LINEAR
    files: dict[str, Any] | None = None
    name: str = "m"
    options: dict[str, Any] = field(default_factory=dict)


def more(rule: str, text: str, severity: str = "error", **other: Any) -> Case:
    """The base config with something added."""
    return Case(rule, BASE + text, severity, **other)


def without(rule: str, old: str, new: str, severity: str = "error", **other: Any) -> Case:
    """The base config with the first of something replaced."""
    assert old in BASE
    return Case(rule, BASE.replace(old, new, 1), severity, **other)


def sequence(rule: str, text: str, severity: str = "error", **other: Any) -> Case:
    """The base config with a sequence batcher."""
    return more(rule, f"sequence_batching {{ {text} }}", severity, **other)


def flow(rule: str, text: str, base: str = ENSEMBLE, severity: str = "error", **other: Any) -> Case:
    """An ensemble ``e`` over ``m``."""
    return Case(rule, base + text, severity, name="e", files={"1/": b""}, **other)


def step(inputs: str = "x:IN", outputs: str = "y:OUT", model: str = "m", version: str = "model_version: -1") -> str:
    """One step; maps as ``key:value`` words."""
    maps = "".join(
        f'{field} {{ key: "{word.partition(":")[0]}" value: "{word.partition(":")[2]}" }} '
        for field, words in (("input_map", inputs), ("output_map", outputs))
        for word in words.split()
    )
    return f'step {{ model_name: "{model}" {version} {maps} }}'


GPU = {"target": "gpu:2"}
PLAN = 'backend: "tensorrt"\nmax_batch_size: 8\n' + BASE.split("\n", 2)[2]
PLANS = {"1/model.plan": b"ftrt...."}
PY = {"1/model.py": "class TritonPythonModel:\n    pass\n"}
PYTHON = BASE.replace('"onnxruntime"', '"python"')
STATE = "state { input_name: 'x' output_name: 'y' data_type: TYPE_FP32 dims: [ 2 ] initial_state { %s } }"
GOOD_STATE = "data_type: TYPE_FP32 dims: [ 2 ] zero_data: true name: 'a'"
START = "control_input { name: 'S' control { kind: CONTROL_SEQUENCE_START %s } }"
CORRID = "control_input { name: 'I' control { kind: CONTROL_SEQUENCE_CORRID %s } }"
WARM = "model_warmup { name: 'w' batch_size: 1 inputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 4 ] %s } } }"
RAGGED = 'input { name: "r" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }'
GRAPH = "optimization { cuda { graphs: true graph_spec { %s } } }"
SHAPE = "input { key: 'x' value { dim: [ 4 ] } }"

CASES = [
    without("R29", 'backend: "onnxruntime"', 'name: "other"\nbackend: "onnxruntime"'),
    flow("R54", 'backend: "onnxruntime"\nensemble_scheduling { ' + step() + " }"),
    more("R55", 'platform: "onnx"'),
    Case("R56", 'platform: "libtorch"\nbackend: "pytorch"', files={"1/model.pt": b"PK\x03\x04"}),
    Case("R174", 'platform: "onnxruntime_onnx"\ndefault_model_filename: "model.plan"'),
    Case("R172", "max_batch_size: 0", files={"1/other": ""}),
    Case("R53", 'default_model_filename: "foo.onnx"'),
    without("R57", "max_batch_size: 8", "max_batch_size: -2"),
    more("R58", "dynamic_batching { preferred_batch_size: [ 0 ] }"),
    more("R59", "dynamic_batching { preferred_batch_size: [ 4, 9 ] }"),
    more("R61", "dynamic_batching { priority_levels: 2 default_priority_level: 3 }"),
    more("R62", "dynamic_batching { priority_levels: 2 default_priority_level: 1 "
         "priority_queue_policy { key: 3 value { } } }"),
    more("R62", "dynamic_batching { default_priority_level: 3 }", "warning"),
    more("R63", "dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }"),
    more("R64", "dynamic_batching { preserve_ordering: true "
         "default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5 } }"),
    sequence("R65", "} response_cache { enable: true"),
    more("R80", "model_transaction_policy { decoupled: true } response_cache { enable: true }"),
    more("R81", "model_metrics { metric_control { } }", options={"triton": "24.11"}),
    more("R81", "model_metrics { metric_control { metric_identifier { } histogram_options { } } }",
         options={"triton": "24.11"}),
    more("R7", "model_repository_agents { }"),
    more("R36", "model_repository_agents { agents { name: 'nobody' } }"),
    sequence("R66", "control_input { control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }"),
    sequence("R67", 2 * (START % "int32_false_true: [ 0, 1 ]")),
    sequence("R68", (START % "int32_false_true: [ 0, 1 ]")
             + (START % "int32_false_true: [ 0, 1 ]").replace("'S'", "'T'")),
    sequence("R69", START % ""),
    sequence("R70", START % "int32_false_true: [ 0, 1 ] bool_false_true: [ false, true ]"),
    sequence("R71", START % "int32_false_true: [ 0 ]"),
    sequence("R72", CORRID % "data_type: TYPE_FP32"),
    sequence("R73", CORRID % "data_type: TYPE_UINT64 int32_false_true: [ 0, 1 ]"),
    sequence("R74", "oldest { preferred_batch_size: [ 9 ] }"),
    sequence("R75", "direct { minimum_slot_utilization: 1.5 }"),
    sequence("R153", STATE.replace("initial_state", "initial_state { } initial_state") % GOOD_STATE),
    sequence("R154", STATE % GOOD_STATE.replace("FP32", "FP16")),
    sequence("R155", STATE % GOOD_STATE.replace("name: 'a'", "")),
    sequence("R156", 2 * (STATE % GOOD_STATE)),
    sequence("R157", STATE % GOOD_STATE.replace("[ 2 ]", "[ 2, 1 ]")),
    sequence("R158", STATE % GOOD_STATE.replace("[ 2 ]", "[ -1 ]")),
    sequence("R159", STATE % GOOD_STATE.replace("[ 2 ]", "[ 3 ]")),
    sequence("R160", STATE % GOOD_STATE.replace("zero_data: true", "")),
    sequence("R50", STATE % GOOD_STATE.replace("zero_data: true", "data_file: 'no'")),
    sequence("R161", STATE % GOOD_STATE.replace("zero_data: true", "data_file: 'f'"),
             files={"1/model.onnx": b"", "initial_state/f": b"1234"}),
    sequence("R162", "state { input_name: 'x' output_name: 'y' data_type: TYPE_FP32 dims: [ 4 ] "
             "use_growable_memory: true }", "warning"),
    more("R77", "ensemble_scheduling { " + step() + " }"),
    flow("R78", ""),
    flow("R122", "instance_group { } ensemble_scheduling { " + step() + " }"),
    flow("R123", "optimization { } ensemble_scheduling { " + step() + " }"),
    flow("R124", "model_warmup { } ensemble_scheduling { " + step() + " }"),
    flow("R125", "ensemble_scheduling { }"),
    flow("R126", "ensemble_scheduling { step { model_name: 'm' } }"),
    flow("R127", "ensemble_scheduling { " + 2 * step() + " }"),
    flow("R128", "input { name: 'Z' data_type: TYPE_FP32 dims: 4 } ensemble_scheduling { " + step() + " }"),
    flow("R129", "output { name: 'Z' data_type: TYPE_FP32 dims: 4 } ensemble_scheduling { " + step() + " }"),
    flow("R130", "ensemble_scheduling { " + step("x:LOOP", "y:OUT") + step("x:IN", "y:MID") + " }"),
    flow("R131", "ensemble_scheduling { " + step() + step("x:IN", "y:MID") + " }"),
    flow("R132", "ensemble_scheduling { " + step(model="mm") + " }"),
    flow("R133", "ensemble_scheduling { " + step("x:IN", "y:OUT", model="e") + " }"),
    flow("R135", "ensemble_scheduling { " + step(version="") + " }"),
    flow("R136", "ensemble_scheduling { " + step() + " }", ENSEMBLE.replace("8", "16")),
    flow("R137", "ensemble_scheduling { " + step("x:IN z:IN") + " }"),
    flow("R138", "ensemble_scheduling { " + step("z:IN") + " }"),
    flow("R139", "ensemble_scheduling { " + step("x:IN", "z:OUT") + " }"),
    flow("R140", "ensemble_scheduling { " + step() + " }", ENSEMBLE.replace("FP32", "FP16", 1)),
    flow("R141", "ensemble_scheduling { " + step() + " }", ENSEMBLE.replace("[ 4 ]", "[ 5 ]", 1)),
    without("R106", '"onnxruntime"', '"onnx"'),
    more("R106", 'runtime: "../x.so"'),
    more("R109", "instance_group { kind: KIND_CPU gpus: [ 0 ] }"),
    more("R110", "instance_group { kind: KIND_MODEL gpus: [ 0 ] }"),
    more("R111", "instance_group { kind: KIND_GPU }"),
    more("R112", "instance_group { kind: KIND_GPU gpus: [ 5 ] }", options=GPU),
    more("R114", "instance_group { kind: 7 }"),
    more("R115", "instance_group { profile: '0' }"),
    Case("R116", PLAN + "instance_group { kind: KIND_GPU profile: [ 'a' ] }", files=PLANS, options=GPU),
    Case("R116", PLAN + "instance_group { kind: KIND_GPU profile: [ '' ] }", files=PLANS, options=GPU),
    Case("R116", PLAN + "instance_group { kind: KIND_GPU profile: [ '-1' ] }", files=PLANS, options=GPU),
    more("R117", "instance_group { count: -3 }", "warning"),
    more("R118", "instance_group { passive: true }", "warning"),
    Case("R13", PYTHON, files=PY, name="a b"),
    Case("R30", PYTHON, "warning", files=PY, name="modèle"),
    Case("R210", PYTHON + "parameters { key: 'FORCE_CPU_ONLY_INPUT_TENSORS' value { string_value: 'maybe' } }",
         files=PY),
    without("R60", "max_batch_size: 8", "max_batch_size: 1\ndynamic_batching { max_queue_delay_microseconds: 5 }",
            "warning"),
    more("R178", "optimization { input_pinned_memory { } }", "warning"),
    more("R24", 2 * "parameters { key: 'k' value { string_value: 'v' } }", "warning"),
    more("R22", "parameters { key: 'k' value { string_value: '${HOME}' } }", "warning"),
    Case("R18", PYTHON.replace("TYPE_FP32", "99", 1), "warning", files=PY),
    more("R242", "parameters { key: 'intra_op_thread_counts' value { string_value: '1' } }", "warning"),
    more("R244", "optimization { execution_accelerators { gpu_execution_accelerator { name: 'z' } } }", "warning"),
    more("R144", "model_warmup { name: 'w' }", "warning"),
    Case("A7", BASE.replace(": 8", ": 2147483647") + "sequence_batching { }"),
    Case("A7", BASE.replace(": 8", ": 10000000") + "sequence_batching { direct { } }", "warning"),
    sequence("A7", "oldest { max_candidate_sequences: 2147483647 }"),
    sequence("A7", "oldest { max_candidate_sequences: 10000000 }", "warning"),
    more("A7", "instance_group { count: 2147483647 kind: KIND_CPU }"),
    more("A7", "instance_group { count: 5000 kind: KIND_CPU }", "warning"),
    Case("A7", BASE.replace(": 8", ": 2147483647") + WARM.replace(": 1", ": 2147483647") % "zero_data: true"),
    Case("A7", BASE.replace(": 8", ": 100000") + WARM.replace(": 1", ": 100000") % "zero_data: true", "warning"),
    Case("A7", BASE.replace("[ 4 ]", "[ -1 ]") + WARM.replace("[ 4 ]", "[ 1000000000000 ]") % "zero_data: true"),
    Case("A7", BASE.replace("[ 4 ]", "[ -1 ]") + WARM.replace("[ 4 ]", "[ 200000000 ]") % "random_data: true",
         "warning"),
    more("A7", WARM.replace(": 1", ": 1 count: 4294967295") % "zero_data: true"),
    more("A7", WARM.replace(": 1", ": 1 count: 1000000") % "zero_data: true", "warning"),
    sequence("A7", STATE % GOOD_STATE.replace("[ 2 ]", "[ 1000000000000 ]")),
    sequence("A7", STATE % GOOD_STATE.replace("[ 2 ]", "[ 500000000 ]"), "warning"),
    without("R82", 'name: "y" ', ""),
    without("R83", 'name: "y" data_type: TYPE_FP32', 'name: "y"'),
    without("R84", "dims: [ 4 ] }\noutput", "}\noutput"),
    without("R85", "max_batch_size: 8", "max_batch_size: 0\n" + RAGGED.replace("[ -1 ]", "[ 1 ] reshape { }"),
            options={"strict": True}),
    without("R86", "[ 4 ]", "[ 0 ]"),
    without("R87", "[ 4 ]", "[ 4 ] reshape { shape: [ -2 ] }"),
    without("R88", "[ 4 ]", "[ 9223372036854775807, 2 ] reshape { shape: [ 4 ] }", options={"triton": "26.03"}),
    without("R96", "[ 4 ]", "[ 9223372036854775807, 2 ]", options={"triton": "26.03"}),
    without("R89", "[ 4 ]", "[ 4 ] reshape { shape: [ 5 ] }"),
    without("R90", "[ 4 ]", "[ -1, -1 ] reshape { shape: [ -1 ] }"),
    without("R91", "[ 4 ]", "[ 2, -1 ] reshape { shape: [ -1, 2 ] }"),
    without("R92", "[ 4 ]", "[ 4 ] format: FORMAT_NCHW"),
    without("R93", "[ 4 ]", "[ 4 ] is_shape_tensor: true"),
    without("R94", "[ 4 ]", "[ 4 ] is_non_linear_format_io: true"),
    Case("R95", PLAN.replace("[ 4 ]", "[ 4 ] is_non_linear_format_io: true", 1), files=PLANS, options=GPU),
    Case("R97", PLAN.replace("[ 4 ]", "[ 4 ] optional: true", 1), files=PLANS, options=GPU),
    without("R98", "output", 'input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }\noutput', "warning"),
    more("R99", "batch_input { data_type: TYPE_FP32 target_name: 'n' }"),
    more("R100", "batch_input { data_type: TYPE_INT64 target_name: 'n' source_input: 'x' }"),
    more("R101", "batch_input { data_type: TYPE_FP32 target_name: 'n' source_input: 'q' }"),
    more("R102", "batch_input { kind: 77 data_type: TYPE_FP32 target_name: 'n' source_input: 'x' }"),
    more("R101", "batch_output { target_name: 'y' source_input: 'q' }"),
    more("R102", "batch_output { kind: 77 target_name: 'y' source_input: 'x' }"),
    more("R103", "batch_output { target_name: 'y' }"),
    more("R104", "batch_output { target_name: 'z' source_input: 'x' }"),
    more("R105", "batch_output { target_name: [ 'y', 'y' ] source_input: 'x' }"),
    Case("R48", BASE.rstrip().rstrip("}") + "label_filename: 'l.txt' }"),
    Case("R48", BASE.rstrip().rstrip("}") + "label_filename: '1' }"),
    Case("R48", BASE.rstrip().rstrip("}") + "label_filename: '../other/l.txt' }", options={"triton": "26.02"},
         files={"1/model.onnx": "", "../other/l.txt": "a"}),
    Case("R48", BASE.rstrip().rstrip("}") + "label_filename: '../../l.txt' }", "warning"),
    more("R51", "parameters { key: 'TRITON_BATCH_STRATEGY_PATH' value { string_value: 'b.so' } }"),
    more("R51", "parameters { key: 'TRITON_BATCH_STRATEGY_PATH' value { string_value: '/b.so' } }", "warning"),
    more("R51", "parameters { key: 'TRITON_BATCH_STRATEGY_PATH' value { string_value: '/b.so' } }",
         options={"triton": "26.06"}),
    sequence("R51", "} parameters { key: 'TRITON_BATCH_STRATEGY_PATH' value { string_value: '/b.so' }"),
    more("R150", WARM.replace("batch_size: 1", "batch_size: 9") % "zero_data: true"),
    more("R145", WARM.replace("[ 4 ]", "[ -1 ]") % "zero_data: true"),
    more("R146", WARM % ""),
    more("R49", WARM % "input_data_file: 'no'"),
    more("R147", WARM % "input_data_file: 'f'", files={"1/model.onnx": "", "warmup/f": b"123"}),
    more("R148", WARM.replace("FP32", "STRING").replace("[ 4 ]", "[ 1 ]") % "input_data_file: 'f'",
         files={"1/model.onnx": "", "warmup/f": b"\x01\x00\x00\x00a\x01"}),
    more("R148", WARM.replace("'x'", "'q'") % "zero_data: true"),
    more("R149", WARM.replace("} }", "} } inputs { key: 'q' value { zero_data: true } }") % "zero_data: true"),
    more("R148", WARM.replace("[ 4 ]", "[ 1, 4 ]") % "zero_data: true"),
    more("R148", WARM.replace("FP32", "INT32") % "zero_data: true"),
    sequence("R152", START % "int32_false_true: [ 0, 1 ]" + " } " + (WARM % "zero_data: true").rstrip("} ") + " } }",
             model=interface([port("x", ("n", 4)), port("S", ("n", 1), DType.INT32)], [port("y", ("n", 4))])),
    more("R231", "parameters { key: 'intra_op_thread_count' value { string_value: 'auto' } }"),
    more("R232", "parameters { key: 'inter_op_thread_count' value { string_value: '99999999999' } }"),
    more("R233", "parameters { key: 'execution_mode' value { string_value: '2' } }"),
    more("R234", "parameters { key: 'enable_mem_arena' value { string_value: 'yes' } }"),
    more("R235", "parameters { key: 'enable_mem_pattern' value { string_value: '2' } }"),
    more("R238", "parameters { key: 'cudnn_conv_algo_search' value { string_value: '3' } }", options=GPU),
    more("R239", "parameters { key: 'gpu_mem_limit' value { string_value: 'all' } }", options=GPU),
    more("R240", "parameters { key: 'arena_extend_strategy' value { string_value: '2' } }", options=GPU),
    more("R241", "parameters { key: 'do_copy_in_default_stream' value { string_value: 'x' } }", options=GPU),
    more("R245", "optimization { execution_accelerators { gpu_execution_accelerator { name: 'z' } } }", options=GPU),
    more("R246", "optimization { execution_accelerators { cpu_execution_accelerator { name: 'openvino' } } }"),
    more("R247", "optimization { execution_accelerators { gpu_execution_accelerator { name: 'tensorrt' "
         "parameters { key: 'z' value: '1' } } } }", options=GPU),
    more("R247", "optimization { execution_accelerators { gpu_execution_accelerator { name: 'tensorrt' "
         "parameters { key: 'precision_mode' value: 'BF16' } } } }", options=GPU),
    more("R247", "optimization { execution_accelerators { gpu_execution_accelerator { name: 'tensorrt' "
         "parameters { key: 'trt_dla_enable' value: 'x' } } } }", options=GPU),
    more("R247", "optimization { execution_accelerators { gpu_execution_accelerator { name: 'tensorrt' "
         "parameters { key: 'max_workspace_size_bytes' value: '-1' } } } }", options=GPU),
    more("R248", "optimization { execution_accelerators { gpu_execution_accelerator { name: 'cuda' "
         "parameters { key: 'do_copy_in_default_stream' value: 'x' } } } }", options=GPU),
    more("R249", "model_operations { op_library_filename: 'libx.so' }"),
    more("R249", "model_operations { op_library_filename: '/libx.so' }", "warning"),
    Case("R213", BASE, model=interface([port("x", ("n", 4))], [port("y", ("n", 4))], ir_version=11)),
    Case("R213", BASE, model=interface([port("x", ("n", 4))], [port("y", ("n", 4))], opset_imports=(("", 22),))),
    Case("R215", BASE, model=interface([port("x", ("n", 4))], [port("y", ("n", 4)),
                                                              port("s", None, None, kind="sequence")])),
    Case("R216", BASE, model=interface([port("x", ("n", 4)), port("z", ("n", 4))], [port("y", ("n", 4))])),
    without("R216", "[ 4 ]", "[ 4 ] optional: true"),
    more("R217", 'input { name: "w" data_type: TYPE_FP32 dims: [ 4 ] }',
         model=interface([port("x", ("n", 4))], [port("y", ("n", 4))], initializers=(port("w", ("n", 4)),))),
    without("R218", '"x"', '"X"'),
    without("R225", '"y"', '"Y"'),
    without("R221", "TYPE_FP32", "TYPE_FP16"),
    without("R226", 'name: "y" data_type: TYPE_FP32', 'name: "y" data_type: TYPE_FP16'),
    Case("R221", BASE.replace("FP32", "BF16", 1),
         model=interface([port("x", ("n", 4), DType.BFLOAT16)], [port("y", ("n", 4))])),
    more("R219", 'input { name: "w" data_type: TYPE_FP32 dims: [ 4 ] optional: true }',
         model=interface([port("x", ("n", 4))], [port("y", ("n", 4))], initializers=(port("w", ("n", 4)),))),
    without("R220", "[ 4 ]", "[ 4 ] optional: true allow_ragged_batch: true"),
    without("R222", "[ 4 ]", "[ 4 ] allow_ragged_batch: true"),
    Case("R224", BASE, model=interface([port("x", ("n", 4))], [port("y", ())])),
    Case("R224", BASE, model=interface([port("x", None)], [port("y", ("n", 4))])),
    without("R223", "[ 4 ]", "[ 5 ]"),
    without("R223", 'name: "y" data_type: TYPE_FP32 dims: [ 4 ]', 'name: "y" data_type: TYPE_FP32 dims: [ -1 ]'),
    Case("R223", BASE, model=interface([port("x", (1, 4))], [port("y", ("n", 4))])),
    sequence("R228", START % "int32_false_true: [ 0, 1 ]"),
    sequence("R229", START % "fp32_false_true: [ 0, 1 ]",
             model=interface([port("x", ("n", 4)), port("S", ("n", 1), DType.INT32)], [port("y", ("n", 4))])),
    sequence("R229", START % "int32_false_true: [ 0, 1 ]",
             model=interface([port("x", ("n", 4)), port("S", ("n", 2), DType.INT32)], [port("y", ("n", 4))])),
    sequence("R230", "state { input_name: 's' output_name: 'y' data_type: TYPE_FP32 dims: [ 4 ] }", "warning",
             model=interface([port("x", ("n", 4)), port("q", ("n", 4))], [port("y", ("n", 4))])),
    sequence("R230", "state { input_name: 's' output_name: 'y' data_type: TYPE_FP16 dims: [ 4 ] }", "warning",
             model=interface([port("x", ("n", 4)), port("s", ("n", 4))], [port("y", ("n", 4))])),
    more("R216", 'input { name: "w" data_type: TYPE_FP32 dims: [ 4 ] }', "warning",
         model=interface([port("x", ("n", 4)), port("z", ("n", 4))], [port("y", ("n", 4))],
                         initializers=(port("w", ("n", 4)),))),
    Case("R212", BASE, "warning",
         model=interface([port("x", ("n", 4))], [port("y", ("n", 4))], companions=("w.bin",))),
    Case("R212", BASE, files={"1/model.onnx": "", "w.bin": ""}, options={"triton": "26.02"},
         model=interface([port("x", ("n", 4))], [port("y", ("n", 4))], companions=("../w.bin",))),
    Case("R212", BASE, "warning", files={"1/model.onnx": "", "w.bin": ""},
         model=interface([port("x", ("n", 4))], [port("y", ("n", 4))], companions=("../w.bin",))),
    Case("R212", BASE, "warning",
         model=interface([port("x", ("n", 4))], [port("y", ("n", 4))], companions=("/w.bin",))),
    Case("R188", 'backend: "onnxruntime" max_batch_size: 8',
         model=interface([port("x", (1, 4))], [port("y", ("n", 4))])),
    Case("R186", 'backend: "onnxruntime"', "warning"),
    Case("R12", PYTHON, files={"1/x": ""}),
    Case("R203", PYTHON, files={"1/model.py": "def f(:\n"}),
    Case("R203", PYTHON, files={"1/model.py": "x = 1\n"}),
    Case("R45", 'backend: "pytorch"', files={"1/model.pt": "no"}),
    Case("R45", 'backend: "openvino"', files={"1/x": ""}),
    Case("R35", None, files={"1/model.pt": b"PK\x03\x04"}),  # type: ignore[arg-type]
    Case("R250", PLAN, files=PLANS),
    Case("R254", PLAN + "instance_group { kind: KIND_GPU " + 2 * "secondary_devices { } " + "}", files=PLANS,
         options=GPU),
    Case("R254", PLAN + "instance_group { kind: KIND_GPU secondary_devices { kind: 4 } }", files=PLANS, options=GPU),
    Case("R251", PLAN, files={"1/x": ""}, options=GPU),
    Case("R252", PLAN, files={"1/model.plan": b"vtrt...."}, options=GPU),
    Case("R252", PLAN, files={"1/model.plan": b""}, options=GPU),
    Case("R256", PLAN + "parameters { key: 'execution_context_allocation_strategy' value { string_value: 'X' } }",
         files=PLANS, options={**GPU, "triton": "25.05"}),
    Case("R257", PLAN + "parameters { key: 'enable_multi_device' value { string_value: 'true' } }", files=PLANS,
         options={**GPU, "triton": "26.06"}),
    Case("R283", PLAN.replace("max_batch_size: 8", "") + GRAPH % ("batch_size: 1 " + SHAPE), files=PLANS, options=GPU),
    Case("R284", PLAN + GRAPH % ("batch_size: 9 " + SHAPE), files=PLANS, options=GPU),
    Case("R285", PLAN + GRAPH % ("batch_size: 2 " + SHAPE + "graph_lower_bound { batch_size: 3 " + SHAPE + "}"),
         files=PLANS, options=GPU),
    Case("R286", PLAN + GRAPH % ("batch_size: 2 " + SHAPE + "graph_lower_bound { batch_size: 1 }"), files=PLANS,
         options=GPU),
    Case("R286", PLAN + GRAPH % ("batch_size: 2 " + SHAPE + "graph_lower_bound { batch_size: 1 "
                                 + SHAPE.replace("4", "4, 4") + "}"), files=PLANS, options=GPU),
    Case("R286", PLAN + GRAPH % ("batch_size: 2 " + SHAPE + "graph_lower_bound { batch_size: 1 "
                                 + SHAPE.replace("4", "5") + "}"), files=PLANS, options=GPU),
    Case("R287", PLAN + GRAPH % ("batch_size: 2 " + SHAPE.replace("4", "-1")), files=PLANS, options=GPU),
]  # fmt: skip


def tell(repository: Repository, case: Case) -> list[tuple[str, str]]:
    """Rule and severity of everything that is said about a case."""
    repository.interface = case.model
    if case.name == "e":
        repository.model(BASE)
    (repository.root / case.name / "1").mkdir(parents=True, exist_ok=True)
    files = {name: content for name, content in (case.files or {}).items() if not name.endswith("/")}
    repository.model(case.config, case.name, None if case.files is None else files)
    return [(finding.rule, finding.severity) for finding in repository.check(**case.options)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.severity}")
def test_the_rule_is_reported(repository: Repository, case: Case) -> None:
    """A config that breaks a rule gets a finding of exactly that id and severity."""
    assert (case.rule, case.severity) in tell(repository, case)


def test_the_base_config_breaks_no_rule(repository: Repository) -> None:
    """The cases differ from something about which there is nothing to say."""
    assert tell(repository, Case("", BASE)) == []
    assert tell(repository, Case("", "ensemble", name="m")) != []


def test_a_good_ensemble_breaks_no_rule(repository: Repository) -> None:
    """So do the ensembles."""
    assert tell(repository, flow("", "ensemble_scheduling { " + step() + " }")) == []


ELSEWHERE = {"R134", "R142", "A4", "A5", "R193", "R259", "R260", "R262", "R261", "R263", "R267", "R269", "R199", "R268",
             "R253", "R264", "R265", "R270", "R271", "R272", "R280", "R294"}  # fmt: skip
"""Rules with tests of their own below, in test_record.py or in test_tensorrt_plans.py."""


def test_every_row_of_the_table_has_a_case() -> None:
    """A rule that nothing triggers would be a rule that nobody knows to work."""
    rows = [
        *table.CONFIG, *table.VERSION, *table.ONNX, *table.INTERFACE, *table.OTHERS, *table.PYTHON,
        *table.TENSORRT_CONFIG, *table.TENSORRT, *table.ENSEMBLE,
    ]  # fmt: skip
    ids = {one for row in rows for one in row.ids}
    assert ids - {case.rule for case in CASES} - ELSEWHERE == set()


def test_a_member_that_fails_takes_its_ensemble_down(repository: Repository) -> None:
    """R134 follows from an error of the member."""
    repository.model(BASE.replace("max_batch_size: 8", "max_batch_size: -1"))
    repository.model(ENSEMBLE + "ensemble_scheduling { " + step() + " }", "e", {"1/x": ""})
    assert "R134" in {finding.rule for finding in repository.check().models[0].findings}


def test_answers_of_two_decoupled_members_do_not_meet(repository: Repository) -> None:
    """R142 looks at where the tensors of a step come from."""
    decoupled = BASE + "model_transaction_policy { decoupled: true }"
    repository.model(decoupled, "a")
    repository.model(decoupled, "b")
    config = BASE.replace("output", 'input { name: "z" data_type: TYPE_FP32 dims: [ 4 ] }\noutput')
    repository.model(config.replace("onnxruntime", "python"), "c", PY)
    steps = step("x:IN", "y:A", "a") + step("x:IN", "y:B", "b") + step("x:A z:B", "y:OUT", "c")
    repository.model(ENSEMBLE + "ensemble_scheduling { " + steps + " }", "e", {"1/x": ""})
    assert [finding.rule for finding in repository.check()] == ["R142"]


def test_a_batch_input_without_outputs_breaks_auto_complete(repository: Repository) -> None:
    """R184: observed; strict mode loads it."""
    repository.interface = interface([port("x", ("n",)), port("b", ("n",))], [port("y", ("n",))])
    config = BASE.split("output")[0].replace("[ 4 ]", "[ -1 ] allow_ragged_batch: true")
    repository.model(config + "batch_input { target_name: 'b' data_type: TYPE_FP32 source_input: 'x' }")
    assert [finding.rule for finding in repository.check()] == ["R184"]
    assert not repository.check(strict=True).fails()


@pytest.mark.parametrize(
    "text",
    [
        "raise ImportError('no')\nclass TritonPythonModel: pass\n",
        "class TritonPythonModel:\n    def initialize(self, args):\n        x = 1\n        raise ValueError(x)\n",
    ],
)
def test_a_python_model_that_always_raises_is_refused(repository: Repository, text: str) -> None:
    """R203: as far as the text tells; nothing is executed."""
    repository.model(PYTHON, files={"1/model.py": text})
    assert [finding.rule for finding in repository.check()] == ["R203"]


def test_a_python_model_that_completes_its_config_may_leave_things_out(repository: Repository) -> None:
    """R83 and R84 are only warnings then."""
    text = "class TritonPythonModel:\n    @staticmethod\n    def auto_complete_config(c): return c\n"
    repository.model(PYTHON.replace("data_type: TYPE_FP32", ""), files={"1/model.py": text})
    assert {(one.rule, one.severity) for one in repository.check()} == {("R83", "warning")}
    assert repository.check(strict=True).fails()


def test_a_member_that_completes_itself_is_not_guessed_at(repository: Repository) -> None:
    """What its inputs are shows only when it runs, so an ensemble over it is not refused for them."""
    text = "class TritonPythonModel:\n    @staticmethod\n    def auto_complete_config(c): return c\n"
    repository.model('backend: "python"', files={"1/model.py": text})
    repository.model(ENSEMBLE + "ensemble_scheduling { " + step() + " }", "e", {"1/x": ""})
    assert not repository.check().fails()
    assert repository.check(strict=True).fails()


def test_a_member_out_of_sight_is_not_guessed_at(repository: Repository) -> None:
    """A link out of the repository is a warning, for the ensemble too."""
    (repository.root / "m").symlink_to(repository.root.parent)
    repository.model(ENSEMBLE + "ensemble_scheduling { " + step() + " }", "e", {"1/x": ""})
    assert [(one.rule, one.severity) for one in repository.check()] == [("R27", "warning")]
