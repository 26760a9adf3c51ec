"""The shape of ``config.pbtxt`` as data: messages, fields, enums.

Reading the shape out of protobuf would cost a twentieth of a second per run and tie the checker to the fields of one
installed client; a test holds this table equal to the client's. ``*`` marks a repeated field, ``map<K,V>`` a map,
``name@group`` a member of a oneof.

>>> MESSAGES["ModelInput"].fields["dims"]
Field(name='dims', type='int64', repeated=True, oneof='', key='')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["ENUMS", "INTEGERS", "MESSAGES", "Field", "MessageType"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    Attributes:
        name: Its name in the text.
        type: Scalar type (``"int32"``, ``"string"`` …), or the name of a message or enum.
        repeated: Whether it may be given more than once (maps are).
        oneof: Group of which only one member may be given, ``""`` for none.
        key: Scalar type of the key when the field is a map, ``""`` otherwise.
    """

    name: str
    type: str
    repeated: bool = False
    oneof: str = ""
    key: str = ""

    @property
    def is_map(self) -> bool:
        """Whether entries are ``{ key: … value: … }``."""
        return bool(self.key)

    @property
    def is_message(self) -> bool:
        """Whether a value is written in braces."""
        return self.is_map or self.type in MESSAGES


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message and its fields by name."""

    name: str
    fields: Mapping[str, Field]


INTEGERS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "int32": (-(2**31), 2**31 - 1),
        "int64": (-(2**63), 2**63 - 1),
        "uint32": (0, 2**32 - 1),
        "uint64": (0, 2**64 - 1),
    }
)
"""Smallest and largest value of each integer type."""

_ENUMS = """
DataType: TYPE_INVALID=0 TYPE_BOOL=1 TYPE_UINT8=2 TYPE_UINT16=3 TYPE_UINT32=4 TYPE_UINT64=5 TYPE_INT8=6 TYPE_INT16=7
  TYPE_INT32=8 TYPE_INT64=9 TYPE_FP16=10 TYPE_FP32=11 TYPE_FP64=12 TYPE_STRING=13 TYPE_BF16=14
ModelInstanceGroup.Kind: KIND_AUTO=0 KIND_GPU=1 KIND_CPU=2 KIND_MODEL=3
ModelInstanceGroup.SecondaryDevice.SecondaryDeviceKind: KIND_NVDLA=0
ModelInput.Format: FORMAT_NONE=0 FORMAT_NHWC=1 FORMAT_NCHW=2
BatchInput.Kind: BATCH_ELEMENT_COUNT=0 BATCH_ACCUMULATED_ELEMENT_COUNT=1 BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO=2
  BATCH_MAX_ELEMENT_COUNT_AS_SHAPE=3 BATCH_ITEM_SHAPE=4 BATCH_ITEM_SHAPE_FLATTEN=5
BatchOutput.Kind: BATCH_SCATTER_WITH_INPUT_SHAPE=0
ModelOptimizationPolicy.ModelPriority: PRIORITY_DEFAULT=0 PRIORITY_MAX=1 PRIORITY_MIN=2
ModelQueuePolicy.TimeoutAction: REJECT=0 DELAY=1
ModelSequenceBatching.Control.Kind: CONTROL_SEQUENCE_START=0 CONTROL_SEQUENCE_READY=1 CONTROL_SEQUENCE_END=2
  CONTROL_SEQUENCE_CORRID=3
"""

_MESSAGES = """
ModelRateLimiter: resources ModelRateLimiter.Resource*; priority uint32
ModelRateLimiter.Resource: name string; global bool; count uint32
ModelInstanceGroup: name string; kind ModelInstanceGroup.Kind; count int32; rate_limiter ModelRateLimiter; gpus int32*;
  secondary_devices ModelInstanceGroup.SecondaryDevice*; profile string*; passive bool; host_policy string
ModelInstanceGroup.SecondaryDevice: kind ModelInstanceGroup.SecondaryDevice.SecondaryDeviceKind; device_id int64
ModelTensorReshape: shape int64*
ModelInput: name string; data_type DataType; format ModelInput.Format; dims int64*; reshape ModelTensorReshape;
  is_shape_tensor bool; allow_ragged_batch bool; optional bool; is_non_linear_format_io bool
ModelOutput: name string; data_type DataType; dims int64*; reshape ModelTensorReshape; label_filename string;
  is_shape_tensor bool; is_non_linear_format_io bool
BatchInput: kind BatchInput.Kind; target_name string*; data_type DataType; source_input string*
BatchOutput: target_name string*; kind BatchOutput.Kind; source_input string*
ModelVersionPolicy: latest@policy_choice ModelVersionPolicy.Latest; all@policy_choice ModelVersionPolicy.All;
  specific@policy_choice ModelVersionPolicy.Specific
ModelVersionPolicy.Latest: num_versions uint32
ModelVersionPolicy.All:
ModelVersionPolicy.Specific: versions int64*
ModelOptimizationPolicy: graph ModelOptimizationPolicy.Graph; priority ModelOptimizationPolicy.ModelPriority;
  cuda ModelOptimizationPolicy.Cuda; execution_accelerators ModelOptimizationPolicy.ExecutionAccelerators;
  input_pinned_memory ModelOptimizationPolicy.PinnedMemoryBuffer;
  output_pinned_memory ModelOptimizationPolicy.PinnedMemoryBuffer; gather_kernel_buffer_threshold uint32;
  eager_batching bool
ModelOptimizationPolicy.Graph: level int32
ModelOptimizationPolicy.Cuda: graphs bool; busy_wait_events bool;
  graph_spec ModelOptimizationPolicy.Cuda.GraphSpec*; output_copy_stream bool
ModelOptimizationPolicy.Cuda.GraphSpec: batch_size int32;
  input map<string,ModelOptimizationPolicy.Cuda.GraphSpec.Shape>;
  graph_lower_bound ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound
ModelOptimizationPolicy.Cuda.GraphSpec.Shape: dim int64*
ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound: batch_size int32;
  input map<string,ModelOptimizationPolicy.Cuda.GraphSpec.Shape>
ModelOptimizationPolicy.ExecutionAccelerators:
  gpu_execution_accelerator ModelOptimizationPolicy.ExecutionAccelerators.Accelerator*;
  cpu_execution_accelerator ModelOptimizationPolicy.ExecutionAccelerators.Accelerator*
ModelOptimizationPolicy.ExecutionAccelerators.Accelerator: name string; parameters map<string,string>
ModelOptimizationPolicy.PinnedMemoryBuffer: enable bool
ModelQueuePolicy: timeout_action ModelQueuePolicy.TimeoutAction; default_timeout_microseconds uint64;
  allow_timeout_override bool; max_queue_size uint32
ModelDynamicBatching: preferred_batch_size int32*; max_queue_delay_microseconds uint64; preserve_ordering bool;
  priority_levels uint64; default_priority_level uint64; default_queue_policy ModelQueuePolicy;
  priority_queue_policy map<uint64,ModelQueuePolicy>
ModelSequenceBatching: direct@strategy_choice ModelSequenceBatching.StrategyDirect;
  oldest@strategy_choice ModelSequenceBatching.StrategyOldest; max_sequence_idle_microseconds uint64;
  control_input ModelSequenceBatching.ControlInput*; state ModelSequenceBatching.State*; iterative_sequence bool
ModelSequenceBatching.Control: kind ModelSequenceBatching.Control.Kind; int32_false_true int32*;
  fp32_false_true float*; bool_false_true bool*; data_type DataType
ModelSequenceBatching.ControlInput: name string; control ModelSequenceBatching.Control*
ModelSequenceBatching.InitialState: data_type DataType; dims int64*; zero_data@state_data bool;
  data_file@state_data string; name string
ModelSequenceBatching.State: input_name string; output_name string; data_type DataType; dims int64*;
  initial_state ModelSequenceBatching.InitialState*; use_same_buffer_for_input_output bool; use_growable_memory bool
ModelSequenceBatching.StrategyDirect: max_queue_delay_microseconds uint64; minimum_slot_utilization float
ModelSequenceBatching.StrategyOldest: max_candidate_sequences int32; preferred_batch_size int32*;
  max_queue_delay_microseconds uint64; preserve_ordering bool
ModelEnsembling: step ModelEnsembling.Step*; max_inflight_requests uint32
ModelEnsembling.Step: model_name string; model_version int64; input_map map<string,string>;
  output_map map<string,string>; model_namespace string
ModelParameter: string_value string
ModelWarmup: name string; batch_size uint32; inputs map<string,ModelWarmup.Input>; count uint32
ModelWarmup.Input: data_type DataType; dims int64*; zero_data@input_data_type bool; random_data@input_data_type bool;
  input_data_file@input_data_type string
ModelOperations: op_library_filename string*
ModelTransactionPolicy: decoupled bool
ModelRepositoryAgents: agents ModelRepositoryAgents.Agent*
ModelRepositoryAgents.Agent: name string; parameters map<string,string>
ModelResponseCache: enable bool
ModelMetrics: metric_control ModelMetrics.MetricControl*
ModelMetrics.MetricControl: metric_identifier ModelMetrics.MetricControl.MetricIdentifier;
  histogram_options@metric_options ModelMetrics.MetricControl.HistogramOptions
ModelMetrics.MetricControl.MetricIdentifier: family string
ModelMetrics.MetricControl.HistogramOptions: buckets double*
ModelConfig: name string; platform string; backend string; runtime string; version_policy ModelVersionPolicy;
  max_batch_size int32; input ModelInput*; output ModelOutput*; batch_input BatchInput*; batch_output BatchOutput*;
  optimization ModelOptimizationPolicy; dynamic_batching@scheduling_choice ModelDynamicBatching;
  sequence_batching@scheduling_choice ModelSequenceBatching; ensemble_scheduling@scheduling_choice ModelEnsembling;
  instance_group ModelInstanceGroup*; default_model_filename string; cc_model_filenames map<string,string>;
  metric_tags map<string,string>; parameters map<string,ModelParameter>; model_warmup ModelWarmup*;
  model_operations ModelOperations; model_transaction_policy ModelTransactionPolicy;
  model_repository_agents ModelRepositoryAgents; response_cache ModelResponseCache; model_metrics ModelMetrics
"""


def _paragraphs(text: str) -> list[tuple[str, str]]:
    """(heading, body) pairs; a line that begins with a blank goes on with the one before."""
    joined = text.strip().replace("\n  ", " ")
    return [(head, body.strip()) for head, _, body in (line.partition(":") for line in joined.split("\n"))]


def _field(words: str) -> Field:
    name, kind = words.split()
    name, _, oneof = name.partition("@")
    if kind.startswith("map<"):
        key, _, value = kind[4:-1].partition(",")
        return Field(name, value, repeated=True, key=key)
    return Field(name, kind.removesuffix("*"), repeated=kind.endswith("*"), oneof=oneof)


def _message(name: str, body: str) -> MessageType:
    fields = [_field(words) for words in body.split(";")] if body else []
    return MessageType(name, MappingProxyType({field.name: field for field in fields}))


def _enum(body: str) -> Mapping[str, int]:
    return MappingProxyType({name: int(number) for name, _, number in (word.partition("=") for word in body.split())})


ENUMS: Mapping[str, Mapping[str, int]] = MappingProxyType({name: _enum(body) for name, body in _paragraphs(_ENUMS)})
"""Numbers of each enum's names."""

MESSAGES: Mapping[str, MessageType] = MappingProxyType(
    {name: _message(name, body) for name, body in _paragraphs(_MESSAGES)}
)
"""Every message by its name below ``inference``."""
