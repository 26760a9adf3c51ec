"""Running a user's code without a trace: one line for what it raises, everything restored, doors that stay light."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import nn

import aitune.torch
from aitune.errors import MissingDependencyError, SourceError, UsageError
from aitune.records import DType, TensorSpec
from aitune.records.evidence import InputDomain
from aitune.torch.arrays import dtype_of, to_array, to_tensor
from aitune.torch.domains import accepted_domains, draw
from aitune.torch.execution import call, one_line, same, settled

CPU = torch.device("cpu")


def test_flags_and_buffers_come_back_when_a_module_raises() -> None:
    """Restoring does not depend on success."""
    model = nn.BatchNorm1d(2).train()

    def raises_inside() -> None:
        with settled(model):
            assert not model.training
            model.running_mean += 1
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        raises_inside()
    assert model.training
    assert model.running_mean.tolist() == [0, 0]


def test_our_own_errors_pass_through_a_call() -> None:
    """An error that is one line already is not wrapped again."""

    def refuse() -> None:
        raise UsageError("no such axis")

    with pytest.raises(UsageError, match="no such axis"):
        call(refuse, what="it")


def test_an_error_is_told_in_one_line() -> None:
    """Type, first line, and the line of the user's file; an error without text is its type."""
    with pytest.raises(SourceError, match=r"it raised ValueError: first \(test_torch_execution\.py:\d+\)"):
        call(lambda: (_ for _ in ()).throw(ValueError("first\nsecond")), what="it")
    assert one_line(ValueError()) == "ValueError"


def test_nan_equals_nan_when_nothing_changed() -> None:
    """A sample with NaN is not taken for one that was changed."""
    nan = torch.tensor([float("nan"), 1.0])
    assert same(nan, nan.clone())
    assert not same(nan, torch.zeros(2))
    assert not same(torch.zeros(2), torch.zeros(3))
    assert not same(torch.zeros(2), torch.zeros(2).long())


@pytest.mark.parametrize("dtype", [d for d in DType if d is not DType.STRING])
def test_every_element_type_goes_to_arrays_and_back(dtype: DType) -> None:
    """BFLOAT16 as raw bits, all others as they are."""
    tensor = torch.tensor([0, 1]).to(getattr(torch, dtype.value))
    assert dtype_of(tensor, "it") is dtype
    assert torch.equal(to_tensor(to_array(tensor), dtype, CPU), tensor)


def test_quantised_tensors_cannot_be_served() -> None:
    """They have no element type of a contract."""
    quantised = torch.quantize_per_tensor(torch.zeros(2), 1.0, 0, torch.quint8)
    with pytest.raises(SourceError, match="it is a quantised tensor"):
        dtype_of(quantised, "it")


def test_constant_floats_are_varied_and_constant_integers_are_not() -> None:
    """Zeros everywhere would show nothing; a token that is always 7 may be the only one."""
    specs = [TensorSpec("x", DType.FLOAT32, (3,)), TensorSpec("k", DType.INT64, (3,))]
    domains = [InputDomain(name=name, typical_shape=(3,), low=low, high=low) for name, low in (("x", 0.0), ("k", 7.0))]
    x, k = draw(specs, domains, {"x": (3,), "k": (3,)}, 1, CPU)
    assert len(set(x.tolist())) == 3
    assert k.tolist() == [7, 7, 7]


def test_domains_are_narrowed_together_when_one_is_not_enough() -> None:
    """Two inputs that are both refused at random are both narrowed; nothing at all is said as well."""
    specs = tuple(TensorSpec(name, DType.INT64, (4,)) for name in "ab")
    domains = tuple(InputDomain(name=name, typical_shape=(4,), low=2, high=900) for name in "ab")
    shapes = [{"a": (4,), "b": (4,)}]
    found, notes = accepted_domains(
        specs, domains, shapes, lambda t: True if all((x == 2).all() for x in t) else None, CPU
    )
    assert [(one.low, one.high) for one in found] == [(2, 2), (2, 2)]
    assert len(notes) == 2
    kept, notes = accepted_domains(specs, domains, shapes, lambda tensors: None, CPU)
    assert kept == domains
    assert notes == ("the module refuses random values within the range that the samples had",)


def test_the_door_knows_its_names() -> None:
    """The table, ``__all__`` and ``dir`` agree, and an unknown name is an AttributeError."""
    assert dir(aitune.torch) == sorted(aitune.torch.__all__)
    assert all(callable(getattr(aitune.torch, name)) for name in aitune.torch.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = aitune.torch.nothing


def test_a_missing_package_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torch the door says which extra brings it; another missing module is not hidden."""

    def missing(name: str) -> object:
        raise ModuleNotFoundError(name="torch" if "artifact" in name else "colours")

    monkeypatch.setattr(importlib, "import_module", missing)
    monkeypatch.setattr(aitune.torch, "import_module", missing)
    with pytest.raises(MissingDependencyError) as caught:
        aitune.torch.__getattr__("tune")
    assert "aitune-triton[torch]" in caught.value.hint
    with pytest.raises(ModuleNotFoundError) as other:
        aitune.torch.__getattr__("observe")
    assert not isinstance(other.value, MissingDependencyError)
