"""Config against model: what is refused at load, and what a config is completed with."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from aitune.triton.backends.onnxruntime.checks import check, dims_of
from aitune.triton.backends.onnxruntime.completion import (
    can_batch,
    complete,
    default_max_batch_size,
    is_wanted,
    size_in_command,
)
from aitune.triton.backends.onnxruntime.failures import LoadError
from aitune.triton.backends.onnxruntime.signature import Signature, Tensor, read_signature

FP32 = "TYPE_FP32"


def tensor(*shape: int, data_type: str | None = FP32) -> Tensor:
    """A tensor of a model."""
    return Tensor(data_type, shape)


def signature(
    inputs: dict[str, Tensor] | None = None,
    outputs: dict[str, Tensor] | None = None,
    initializers: dict[str, Tensor] | None = None,
) -> Signature:
    """A model; x and y of shape [-1,4] unless said otherwise."""
    return Signature(
        inputs={"x": tensor(-1, 4)} if inputs is None else inputs,
        outputs={"y": tensor(-1, 4)} if outputs is None else outputs,
        initializers=initializers or {},
    )


def entry(name: str, *dims: int, data_type: str = FP32, **more: Any) -> dict[str, Any]:
    """An input or output of a config."""
    return {"name": name, "dims": list(dims), "data_type": data_type, **more}


def config(**more: Any) -> dict[str, Any]:
    """A config that fits the usual model."""
    return {"name": "m", "max_batch_size": 8, "input": [entry("x", 4)], "output": [entry("y", 4)], **more}


def refuse(made: dict[str, Any], model: Signature, message: str) -> None:
    """The config is refused with this text."""
    with pytest.raises(LoadError, match=re.escape(message)):
        check(made, model)


def test_a_config_that_fits_is_accepted() -> None:
    """Also with a subset of the outputs, in any order, and without batching."""
    check(config(), signature())
    check(config(output=[entry("y", 4)]), signature(outputs={"z": tensor(3), "y": tensor(-1, 4)}))
    check(config(max_batch_size=0, input=[entry("x", -1, 4)], output=[entry("y", -1, 4)]), signature())


@pytest.mark.parametrize(
    ("have", "want", "input_fits", "output_fits"),
    [(-1, -1, True, True), (-1, 4, True, False), (4, -1, False, False), (4, 4, True, True), (4, 5, False, False)],
)
def test_an_input_may_be_narrowed_and_an_output_may_not(
    have: int, want: int, input_fits: bool, output_fits: bool
) -> None:
    """The whole table of one size in the model against one in the config."""
    made = config(input=[entry("x", want)])
    model = signature(inputs={"x": tensor(-1, have)})
    text = f"model 'm', tensor '{{}}': the model expects 2 dimensions (shape [-1,{have}])"
    check(made, model) if input_fits else refuse(made, model, text.format("x"))
    made = config(output=[entry("y", want)])
    model = signature(outputs={"y": tensor(-1, have)})
    check(made, model) if output_fits else refuse(made, model, text.format("y"))


def test_the_rank_has_to_fit() -> None:
    """The message shows both shapes, and where the batch axis came from."""
    refuse(config(input=[entry("x", -1, 4)]), signature(), "making complete shape [-1,-1,4])")
    refuse(config(max_batch_size=0), signature(), "specifies 1 dimensions (shape [4])")


def test_batching_needs_a_dynamic_first_axis() -> None:
    """For inputs and outputs alike."""
    message = "the first dimension must be -1; but shape expected by the model is [1,4]"
    refuse(config(), signature(inputs={"x": tensor(1, 4)}), message)
    refuse(config(), signature(outputs={"y": tensor(1, 4)}), message)


def test_a_reshape_is_what_the_model_gets() -> None:
    """Dims are the client's business then; an empty reshape leaves the batch axis alone."""
    check(config(input=[entry("x", 2, 2, reshape={"shape": ["4"]})]), signature())
    check(config(input=[entry("x", 1, reshape={"shape": []})]), signature(inputs={"x": tensor(-1)}))
    refuse(config(input=[entry("x", 4, reshape={"shape": [2, 2]})]), signature(), "making complete shape [-1,2,2]")
    assert dims_of({"dims": ["3"]}) == (3,)


def test_a_scalar_takes_ones_alone() -> None:
    """Any number of them, batching or not."""
    model = signature(inputs={"x": tensor()})
    check(config(input=[entry("x", 1, 1)]), model)
    refuse(config(input=[entry("x", 4)]), model, "scalar tensor 'x', should only provide 1")
    refuse(config(output=[entry("y", -1)]), signature(outputs={"y": tensor()}), "provided: [-1].")


def test_types_have_to_be_equal() -> None:
    """Named as the config names them; BF16 cannot be carried at all."""
    refuse(
        config(input=[entry("x", 4, data_type="TYPE_FP16")]),
        signature(),
        "configuration expects datatype TYPE_FP16 for input 'x', model provides TYPE_FP32",
    )
    refuse(config(output=[entry("y", 4, data_type="TYPE_BF16")]), signature(), "unsupported datatype TYPE_BF16")
    refuse(config(), signature(inputs={"x": tensor(-1, 4, data_type=None)}), "model provides TYPE_<invalid>")


def test_unknown_names_are_listed_with_the_known_ones() -> None:
    """Inputs and outputs."""
    refuse(config(input=[entry("X", 4)]), signature(), "unexpected inference input 'X', allowed inputs are: x")
    refuse(config(output=[entry("p", 4)]), signature(), "unexpected inference output 'p', allowed outputs are: y")


def test_every_required_input_has_to_be_there() -> None:
    """Optional ones do not count; batch inputs, controls and states do."""
    message = "configuration expects {} inputs, model provides {}"
    two = signature(inputs={"x": tensor(-1, 4), "z": tensor(-1)})
    refuse(config(), two, message.format(1, 2))
    refuse(config(input=[entry("x", 4, optional=True)]), signature(), message.format(0, 1))
    check(config(batch_input=[{"target_name": ["z"]}]), two)
    state = {"state": [{"input_name": "z", "output_name": "y"}]}
    check(config(sequence_batching=state), two)
    refuse(config(batch_input=[{"target_name": ["z"]}], sequence_batching=state), two, message.format(3, 2))


def test_an_initializer_may_be_an_optional_input_without_batching() -> None:
    """With batching it may not, and ragged it may not either."""
    model = signature(initializers={"w": tensor(4)})
    full = {"max_batch_size": 0, "output": [entry("y", -1, 4)]}
    check(config(input=[entry("x", -1, 4), entry("w", 4, optional=True)], **full), model)
    refuse(
        config(input=[entry("x", 4), entry("w", 4, optional=True)]),
        model,
        "optional input 'w' is not supported for models that support batching",
    )
    ragged = entry("w", 4, optional=True, allow_ragged_batch=True)
    refuse(config(input=[entry("x", -1, 4), ragged], **full), model, "not supported for optional input 'w'")


def test_a_ragged_input_is_flat_in_the_model() -> None:
    """Its dims are not compared then."""
    made = config(input=[entry("x", 7, 7, allow_ragged_batch=True)])
    check(made, signature(inputs={"x": tensor(-1)}))
    refuse(made, signature(), "shape [-1] for ragged input 'x', model provides [-1,4]")


def test_a_scattered_output_is_not_compared() -> None:
    """A batch_output says how it is cut."""
    check(
        config(batch_output=[{"target_name": ["y"], "source_input": ["x"]}]),
        signature(outputs={"y": tensor(-1)}),
    )


def control(kind: str, **more: Any) -> dict[str, Any]:
    """A config with one sequence control named C."""
    entry = {"name": "C", "control": [{"kind": f"CONTROL_SEQUENCE_{kind}", **more}]}
    return config(sequence_batching={"control_input": [entry]})


def test_sequence_controls_are_inputs_of_the_model() -> None:
    """One value a row, of the type the control has."""
    model = signature(inputs={"x": tensor(-1, 4), "C": tensor(-1, 1, data_type="TYPE_INT32")})
    check(control("START", int32_false_true=[0, 1]), model)
    check(control("CORRID", data_type="TYPE_INT32"), model)
    expects = "the model expects data-type INT32 but the model configuration specifies data-type {}"
    refuse(control("END", fp32_false_true=[0, 1]), model, expects.format("TYPE_FP32"))
    refuse(control("READY", bool_false_true=[False, True]), model, expects.format("TYPE_BOOL"))
    refuse(control("START", int32_false_true=[0, 1]), signature(), "model does not provide that input")
    wide = signature(inputs={"x": tensor(-1, 4), "C": tensor(-1, 2, data_type="TYPE_INT32")})
    refuse(control("START", int32_false_true=[0, 1]), wide, "has dims [2] but dims [1] is expected")


def session(inputs: list[tuple[str, str, list[Any]]]) -> Any:
    """A session whose inputs are these."""
    made = [SimpleNamespace(name=name, type=kind, shape=shape) for name, kind, shape in inputs]
    return SimpleNamespace(get_inputs=lambda: made, get_outputs=list, get_overridable_initializers=list)


def test_symbols_and_unknown_sizes_are_dynamic() -> None:
    """A symbol spelled 1 too; an unmapped type is None."""
    found = read_signature(session([("x", "tensor(float)", ["1", None, 3]), ("b", "tensor(bfloat16)", [])]))
    assert found.inputs == {"x": tensor(-1, -1, 3), "b": Tensor(None, ())}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("seq(tensor(float))", "SEQUENCE"),
        ("map(int64,tensor(float))", "MAP"),
        ("optional(tensor(float))", "OPTIONAL"),
        ("sparse_tensor(float)", "SPARSETENSOR"),
    ],
)
def test_what_is_no_tensor_is_refused(kind: str, name: str) -> None:
    """Whether the config mentions it or not."""
    with pytest.raises(LoadError, match=f"Unsupported ONNX Type 'ONNX_TYPE_{name}' for I/O 'q'"):
        read_signature(session([("q", kind, [])]))


def test_completion_is_for_configs_without_inputs_or_without_outputs() -> None:
    """One missing list is enough; a batch input counts as an input."""
    assert is_wanted({})
    assert is_wanted(config(output=[]))
    assert not is_wanted(config())
    assert not is_wanted(config(input=[], batch_input=[{}]))


def test_only_a_model_with_dynamic_first_axes_throughout_can_batch() -> None:
    """A scalar cannot, nor a fixed axis on either side."""
    assert can_batch(signature())
    assert not can_batch(signature(outputs={"y": tensor()}))
    assert not can_batch(signature(inputs={"x": tensor(1, 4)}))


def test_a_batching_model_gets_the_default_size_and_a_batcher() -> None:
    """Unless something is set already."""
    made: dict[str, Any] = {"name": "m"}
    complete(made, signature(), default_size=4)
    assert made["max_batch_size"] == 4
    assert made["dynamic_batching"] == {}
    assert made["input"] == [entry("x", 4)]
    made = {"name": "m", "max_batch_size": 16, "sequence_batching": {}}
    complete(made, signature(), default_size=4)
    assert made["max_batch_size"] == 16
    assert "dynamic_batching" not in made


def test_a_size_of_one_needs_no_batcher() -> None:
    """And a negative default is none."""
    made: dict[str, Any] = {"name": "m"}
    complete(made, signature(), default_size=1)
    assert "dynamic_batching" not in made
    made = {"name": "m"}
    complete(made, signature(), default_size=-3)
    assert made["max_batch_size"] == 0
    assert made["input"] == [entry("x", -1, 4)]


def test_batches_of_a_model_that_cannot_are_refused() -> None:
    """The message names the model."""
    with pytest.raises(LoadError, match="autofill failed for model 'm': model does not support batching"):
        complete({"name": "m", "max_batch_size": 4}, signature(inputs={"x": tensor(1, 4)}), default_size=4)


def test_rows_of_one_number_and_scalars_become_dims_of_one() -> None:
    """With an empty reshape only where there is a batch axis to keep."""
    made: dict[str, Any] = {"name": "m"}
    complete(made, signature(outputs={"y": tensor(-1)}), default_size=4)
    assert made["output"] == [entry("y", 1, reshape={"shape": []})]
    made = {"name": "m"}
    complete(made, signature(outputs={"y": tensor()}), default_size=4)
    assert made["output"] == [entry("y", 1)]


def test_a_given_list_is_left_untouched() -> None:
    """Even when the other one is completed."""
    given = [entry("x", -1, 4)]
    made: dict[str, Any] = {"name": "m", "input": given}
    complete(made, signature(outputs={"y": tensor(-1, data_type=None)}), default_size=4)
    assert made["input"] is given
    assert made["output"][0]["data_type"] == "TYPE_INVALID"


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        ([], 4),
        (["--backend-config=default-max-batch-size=9"], 9),
        (
            ["--backend-config", "onnxruntime,default-max-batch-size=16", "--backend-config=default-max-batch-size=9"],
            16,
        ),
        (["--backend-config=tensorrt,default-max-batch-size=2"], 4),
    ],
)
def test_the_default_size_is_read_from_a_command_line(arguments: list[str], size: int) -> None:
    """For this backend before for all, never another's; four when nothing was said."""
    assert size_in_command(["tritonserver", *arguments]) == size


def test_a_parent_that_is_no_server_says_nothing() -> None:
    """The test's own parent."""
    assert default_max_batch_size() == 4
