"""The library as a module, and the GPU that may not be there."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from types import ModuleType

import pytest

from aitune.errors import MissingDependencyError, UnavailableError, UsageError
from aitune.tensorrt import cuda
from aitune.tensorrt.library import flag, has_flag, load_tensorrt, package_of


def test_there_are_two_packages() -> None:
    """Anything else is a typing error."""
    with pytest.raises(UsageError, match="must be one of tensorrt, tensorrt_rtx, got 'trt'"):
        load_tensorrt("trt")


def test_a_package_that_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 3 with advice."""
    for name in ("tensorrt_rtx", "tensorrt_rtx_bindings"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match="'tensorrt_rtx' is not installed") as caught:
        load_tensorrt("tensorrt_rtx")
    assert "aitune-triton[tensorrt-rtx]" in caught.value.hint


def test_a_library_that_lacks_something_says_so() -> None:
    """By capability: the module is asked, its version is only named."""
    library = ModuleType("tensorrt")
    library.__version__ = "9.9"  # type: ignore[attr-defined]
    assert package_of(library) == "tensorrt"
    assert not has_flag(library, "BuilderFlag", "FP16")
    with pytest.raises(UsageError, match=r"precision 'fp16' is not something that tensorrt 9\.9 can do"):
        flag(library, "BuilderFlag", "FP16", "precision 'fp16'")


def test_without_a_runtime_the_gpu_problem_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, no exception."""
    monkeypatch.setattr(cuda, "_runtime", lambda: "the CUDA runtime is not installed")
    assert cuda.device_problem() == "the CUDA runtime is not installed"
    with pytest.raises(UnavailableError, match="no GPU can be used here: the CUDA runtime is not installed"):
        cuda.Stream()


def test_places_of_the_runtime_end_with_the_system() -> None:
    """Packages first, then whatever the loader finds."""
    assert cuda.find_runtime()[-1] == "libcudart.so"


def test_a_runtime_that_cannot_be_loaded_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next place is tried; after the last one it is not installed."""
    cuda._runtime.cache_clear()
    monkeypatch.setattr(cuda, "find_runtime", lambda: ("/nonexistent/libcudart.so.13",))
    try:
        assert not isinstance(cuda._runtime(), ctypes.CDLL)
    finally:
        cuda._runtime.cache_clear()


def test_no_module_has_the_name_of_what_the_door_gives() -> None:
    """Importing such a module would put it in place of the function."""
    import pkgutil

    import aitune.tensorrt

    modules = {module.name for module in pkgutil.iter_modules(aitune.tensorrt.__path__)}
    assert not modules & set(aitune.tensorrt.__all__)
    assert dir(aitune.tensorrt) == sorted(aitune.tensorrt.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        aitune.tensorrt.nothing  # noqa: B018


def test_an_installed_package_without_its_libraries_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel is there, the shared library it needs is not."""
    (tmp_path / "tensorrt.py").write_text("raise OSError('libnvinfer.so.10: cannot open\\nshared object file')\n")
    monkeypatch.delitem(sys.modules, "tensorrt", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UnavailableError, match=r"cannot be loaded: libnvinfer\.so\.10: cannot open shared object"):
        load_tensorrt()


def test_a_package_that_lacks_another_one_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken installation is passed on as it is."""
    (tmp_path / "tensorrt.py").write_text("import a_package_that_nobody_has\n")
    monkeypatch.delitem(sys.modules, "tensorrt", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="a_package_that_nobody_has"):
        load_tensorrt()
