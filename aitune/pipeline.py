"""The whole flow as one readable function: the only room, with the command line, that sees both sides.

A SOURCE is an ONNX file, a Python function that returns a module and its samples, a program of ``torch.export``, a
TensorRT plan, or the record of an artifact that was made before; whatever it is, an artifact comes out, and only from
the artifact is a repository made.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aitune.errors import AituneError, BatchingError, RepositoryError, SourceError, UsageError
from aitune.plan_source import PlanRequest, Race, with_plan
from aitune.records.codec import dump, dump_artifact

if TYPE_CHECKING:
    from aitune.build_cache import BuildCache
    from aitune.records import Artifact, TensorSpec
    from aitune.records.interface import Interface
    from aitune.triton.plan import PlanOptions
    from aitune.triton.publication import Publication
    from aitune.tuning.progress import Progress
    from aitune.tuning.runner import Runner

    Accept = Callable[[Sequence[TensorSpec]], None]

__all__ = ["Built", "Request", "SourceKind", "build", "default_model_name", "inspect", "kind_of", "read_interface"]

_MOST_SAMPLES = 64
_SAMPLES = "return a dict of arrays by input name, or several"
_FORMS = "model.onnx, model.plan, model.pt2, aitune.json, path/file.py:function or package.module:function"
_FUNCTION = re.compile(r"(?P<place>.+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<function>[A-Za-z_]\w*)")


class SourceKind(Enum):
    """What a SOURCE is."""

    ONNX = "onnx"
    PLAN = "plan"
    PYTHON = "python"
    PROGRAM = "program"
    RECORD = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user wants made of a SOURCE.

    Attributes:
        source: The SOURCE as it was given.
        max_batch_size: Demanded largest batch; None to find it, 0 for no batching.
        min_shapes: Smallest full shape per input; the same for the typical (``opt``) and the largest one.
        opt_shapes: See ``min_shapes``.
        max_shapes: See ``min_shapes``.
        samples: ``FILE.npz`` or ``file.py:function`` with samples; None for what the SOURCE brings.
        input_names: New names for inputs of a PyTorch module, by the default ones; empty to keep these.
        output_names: New names for its outputs, in its order or by the default ones; empty to keep these.
        opset: ONNX opset of an export; None for one that the target serves.
        move_batch_axis: Whether a module's batch is moved to axis 0 where it lies on another.
        tune: Whether candidates are measured.
        tune_seconds: Budget of measuring, in seconds.
        objective: ``"throughput"`` or ``"latency"``.
        p95_ms: Time within which 95 % of the runs must end, in milliseconds.
        precision: What candidates may compute in, ``"fp32"`` standing for the model's own numbers.
        accuracy: ``file.py:function`` that checks a candidate's answers; None for the thresholds.
        cache: Whether what was made before of the same may be used again.
        keep_samples: ``"none"``, ``"synthetic"`` or ``"recorded"``.
        plan: What is wanted of TensorRT.
    """

    source: str
    max_batch_size: int | None = None
    min_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    opt_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    max_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    samples: str | None = None
    input_names: Mapping[str, str] = field(default_factory=dict)
    output_names: tuple[str, ...] | Mapping[str, str] = ()
    opset: int | None = None
    move_batch_axis: bool = False
    tune: bool = True
    tune_seconds: float = 60.0
    objective: str = "throughput"
    p95_ms: float | None = None
    precision: tuple[str, ...] = ("fp32",)
    accuracy: str | None = None
    cache: bool = True
    keep_samples: str = "synthetic"
    plan: PlanRequest = field(default_factory=PlanRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What came out.

    Attributes:
        artifact: The record.
        publication: Where it was, or with a dry run would be, published.
        warnings: What the user should know about the rendered config.
    """

    artifact: Artifact
    publication: Publication
    warnings: tuple[str, ...] = ()


def kind_of(source: str) -> SourceKind:
    """What a SOURCE is, told from its text and, where that is not enough, from the file.

    Raises:
        SourceError: If it is none of the known forms.

    >>> kind_of("zoo/bert.py:encoder"), kind_of("model.onnx")
    (<SourceKind.PYTHON: 'python'>, <SourceKind.ONNX: 'onnx'>)
    """
    suffixes = {
        ".onnx": SourceKind.ONNX,
        ".plan": SourceKind.PLAN,
        ".engine": SourceKind.PLAN,
        ".pt2": SourceKind.PROGRAM,
        ".json": SourceKind.RECORD,
    }
    suffix = Path(source).suffix.lower()
    if suffix in suffixes:
        kind = suffixes[suffix]
        if kind is not SourceKind.RECORD and not _is_utf8(source):
            raise SourceError(
                f"SOURCE {source!r} has a name that is not UTF-8, which ONNX Runtime cannot open",
                hint="rename the file or its folder, or give the file's name from within its folder",
            )
        return kind
    if _FUNCTION.fullmatch(source):
        return SourceKind.PYTHON
    path = Path(source)
    if path.is_dir():
        raise SourceError(f"SOURCE {source!r} is a directory", hint=f"give one of: {_FORMS}")
    if suffix == ".py":
        raise SourceError(f"SOURCE {source!r} names no function", hint=f"give {source}:function")
    if suffix in (".pt", ".pth", ".safetensors", ".bin", ".h5"):
        raise SourceError(
            f"SOURCE {source!r} holds weights, not a way to make the module",
            hint="write a function that returns (module, samples) and give file.py:function",
        )
    raise SourceError(f"SOURCE {source!r} is not of a known form", hint=f"give one of: {_FORMS}")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of the command line that are no UTF-8 stand in the text as lone surrogates
        return False
    return True


def default_model_name(source: str) -> str:
    """The name a model gets when the user gives none: the function, the file, or the published model.

    >>> default_model_name("zoo/bert.py:encoder"), default_model_name("nets/resnet50.onnx")
    ('encoder', 'resnet50')
    """
    kind = kind_of(source)
    if kind is SourceKind.PYTHON:
        return source.rpartition(":")[2]
    path = Path(source)
    if kind is SourceKind.RECORD:
        folder = path.absolute().parent
        return folder.parent.name if folder.name.isdecimal() else folder.name
    return path.stem


def build(
    request: Request,
    repository: Path,
    *,
    model_name: str | None = None,
    options: PlanOptions | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Built:
    """Make an artifact of a SOURCE and publish it.

    Args:
        request: What to make.
        repository: The model repository; made when it is not there.
        model_name: Name in the repository; None for :func:`default_model_name`.
        options: How it shall be served; the defaults when None.
        dry_run: Change nothing, only find out what would change.
        progress: Where long work reports.

    Raises:
        AituneError: Whatever stopped it; nothing was published then.
    """
    from aitune.triton.plan import check_model_name
    from aitune.triton.publication import publish

    name = default_model_name(request.source) if model_name is None else model_name
    check_model_name(name)  # a bad name or place is found before minutes of work, not after them
    _check_place(repository, dry_run=dry_run)
    with made(request, accept=_acceptance(request, options), progress=progress) as artifact:
        publication = publish(
            artifact,
            repository,
            model_name=name,
            options=options,
            keep_samples=request.keep_samples,
            dry_run=dry_run,
        )
        return Built(artifact=artifact, publication=publication, warnings=publication.warnings)


def _acceptance(request: Request, options: PlanOptions | None) -> Accept | None:
    """What refuses tensors that the server can never take, before minutes are spent on them.

    None where a TensorRT plan may come out: that backend has rules of its own, which publishing knows.
    """
    from aitune.triton.plan import PlanOptions
    from aitune.triton.plan_tensors import check_dtypes
    from aitune.triton.releases import release

    wanted = release((options or PlanOptions()).triton)
    if _may_be_plan(request.plan):
        return None
    return lambda specs: check_dtypes(specs, backend="onnxruntime", release=wanted)


def _may_be_plan(wanted: PlanRequest) -> bool:
    if wanted.format == "onnx" or wanted.device == "cpu":
        return False
    if wanted.format == "plan":
        return True
    from aitune.tensorrt.cuda import device_problem

    return not device_problem()


def _check_place(repository: Path, *, dry_run: bool) -> None:
    """Refuse a repository that could not be published into."""
    from aitune.triton.layout import check_root

    try:
        check_root(repository)
        standing = next(folder for folder in (repository, *repository.absolute().parents) if folder.exists())
    except OSError as error:  # e.g. a name too long, or a folder that this user may not enter
        reason = (error.strerror or str(error)).lower()
        raise RepositoryError(f"cannot publish into {str(repository)!r}: {reason}") from error
    if not standing.is_dir():
        raise RepositoryError(
            f"cannot publish into {str(repository)!r}: {str(standing)!r} is a file", hint="give another repository"
        )
    if not dry_run and not os.access(standing, os.W_OK | os.X_OK):
        raise RepositoryError(
            f"cannot publish into {str(repository)!r}: permission denied: {str(standing)!r}",
            hint="allow this user to write there",
        )


def inspect(
    request: Request,
    *,
    model_name: str | None = None,
    options: PlanOptions | None = None,
    progress: Progress | None = None,
) -> tuple[Artifact, str, tuple[str, ...]]:
    """The record of a SOURCE, the config.pbtxt it would be served with, and the warnings about that.

    Nothing is measured and nothing is written.
    """
    from aitune.triton.plan import check_model_name, plan
    from aitune.triton.rendering import render

    name = default_model_name(request.source) if model_name is None else model_name
    check_model_name(name)
    with made(request, accept=_acceptance(request, options), progress=progress) as artifact:
        planned = plan(artifact, model_name=name, options=options)
        return artifact, render(planned), planned.warnings


@contextmanager
def made(request: Request, *, accept: Accept | None = None, progress: Progress | None = None) -> Iterator[Artifact]:
    """The artifact of a SOURCE, in a temporary folder that goes when the block ends, or in the cache of builds."""
    cache = _cache_of(request)
    known = cache.find() if cache is not None else None
    if known is not None:
        if progress is not None:
            progress.note("nothing changed since this was built and measured before; --no-cache does it again")
        yield known
        return
    with tempfile.TemporaryDirectory(prefix="aitune-") as folder:
        if cache is None:
            yield make_artifact(request, Path(folder), accept=accept, progress=progress)
            return
        from aitune.watching import watching

        with watching() as watch:
            artifact = make_artifact(request, Path(folder), accept=accept, progress=progress)
        problem = cache.keep(artifact, watch)
        if problem and progress is not None:
            progress.note(f"this build is not kept for the next time: {problem}")
        yield artifact


def _cache_of(request: Request) -> BuildCache | None:
    """The cache for a build that measures; None where it could not be told that nothing changed."""
    kind = kind_of(request.source)
    if not (request.cache and request.tune) or request.accuracy or kind in (SourceKind.PLAN, SourceKind.RECORD):
        return None
    from aitune.build_cache import BuildCache

    files = [Path(request.source)] if kind is not SourceKind.PYTHON else []
    if kind is SourceKind.ONNX and files[0].is_file():
        from aitune.onnx import companions

        files += [files[0].parent / name for name in companions(files[0])]
    for text in (request.source, request.samples or ""):
        place = text.rpartition(":")[0] if _FUNCTION.fullmatch(text) else text
        if place.endswith((".py", ".npz")):
            files.append(Path(place))
    return BuildCache(asdict(request), files)


def make_artifact(
    request: Request, workspace: Path, *, accept: Accept | None = None, progress: Progress | None = None
) -> Artifact:
    """Make the artifact of a SOURCE.

    Args:
        request: What to make.
        workspace: Folder for its files; they must outlive the use of the artifact.
        accept: Asked about inputs and outputs of a model that is proved and measured, before that is done.
        progress: Where long work reports.
    """
    makers = {
        SourceKind.ONNX: _from_onnx,
        SourceKind.PYTHON: _from_torch,
        SourceKind.PROGRAM: _from_torch,
        SourceKind.PLAN: _from_plan,
        SourceKind.RECORD: _from_record,
    }
    # what a user's module prints is talk
    with contextlib.redirect_stdout(sys.stderr), _named(request.source, workspace):
        artifact = makers[kind_of(request.source)](request, workspace, accept, progress)
    race = Race(tune=request.tune, seconds=request.tune_seconds, objective=request.objective, p95_ms=request.p95_ms)
    return with_plan(artifact, request.plan, race=race, workspace=workspace, progress=progress)


@contextmanager
def _named(source: str, workspace: Path) -> Iterator[None]:
    """Name what the user named in an error about a file that is gone when it is read."""
    try:
        yield
    except AituneError as error:
        exported = str(workspace / "model.onnx")
        error.message = error.message.replace(exported, source)
        error.hint = error.hint.replace(exported, source)
        raise


def _common(request: Request, workspace: Path, progress: Progress | None) -> dict[str, Any]:
    """The arguments that every frontend's ``tune`` takes."""
    from aitune.tuning.progress import SILENT

    return {
        "max_batch_size": request.max_batch_size,
        "min_shapes": request.min_shapes,
        "opt_shapes": request.opt_shapes,
        "max_shapes": request.max_shapes,
        "tune": request.tune,
        "tune_seconds": request.tune_seconds,
        "objective": request.objective,
        "keep_samples": request.keep_samples,
        "workspace": workspace,
        "progress": SILENT if progress is None else progress,
    }


def _measuring(request: Request) -> dict[str, Any]:
    """The further arguments of a frontend that measures ONNX files."""
    from aitune.functions import load_function

    return {
        "p95_ms": request.p95_ms,
        "precision": request.precision,
        "device": _device(request.plan),
        "accuracy": load_function(request.accuracy) if request.accuracy else None,
        "cache": request.cache,
    }


def _device(plan: PlanRequest) -> str:
    """Where an ONNX file is measured. Where only its plan will be served, the file is a step on the way to it.

    Raises:
        UnavailableError: If a GPU is demanded, and ONNX Runtime cannot use one.
    """
    if plan.device != "gpu":
        return "cpu"
    from aitune.onnx.providers import has_cuda, providers_for

    if plan.format == "plan" and not has_cuda():
        return "cpu"
    providers_for("cuda", {})  # before the work, not after it
    return "cuda"


def _from_onnx(request: Request, workspace: Path, accept: Accept | None, progress: Progress | None) -> Artifact:
    from aitune.onnx import tune

    if request.input_names or request.output_names:
        option = "--input-name" if request.input_names else "--output-name"
        raise UsageError(f"{option} is for PyTorch modules: an ONNX file has its own names")
    if request.move_batch_axis:
        raise UsageError("--move-batch-axis is for PyTorch modules: an ONNX file keeps its axes")
    return tune(
        Path(request.source),
        samples=_samples(request),
        accept=accept,
        **_common(request, workspace, progress),
        **_measuring(request),
    )


def _from_torch(request: Request, workspace: Path, accept: Accept | None, progress: Progress | None) -> Artifact:
    from aitune.torch import load_program, load_source, tune

    program = kind_of(request.source) is SourceKind.PROGRAM
    source = load_program(Path(request.source)) if program else load_source(request.source)
    samples = _samples(request)
    if isinstance(samples, Path):
        samples = _tensors(samples)
    return tune(
        source.module,
        source.samples if samples is None else samples,
        input_names=request.input_names or None,
        output_names=request.output_names or None,
        opset=request.opset,
        move_batch_axis=request.move_batch_axis,
        accept=accept,
        **_common(request, workspace, progress),
        **_measuring(request),
    )


def _from_plan(request: Request, workspace: Path, accept: Accept | None, progress: Progress | None) -> Artifact:
    from aitune.tensorrt import check_header, tune
    from aitune.tensorrt.reading import find_record

    path = Path(request.source)
    if request.output_names or request.opset is not None:
        raise UsageError("--output-name and --opset are for PyTorch modules: a plan has its own names")
    if path.exists() and find_record(path) is None:
        check_header(path)
    samples = _samples(request)
    if isinstance(samples, Path):
        from aitune.onnx.samples import read_npz

        samples = read_npz(samples)
    return tune(path, samples=samples or (), **_common(request, workspace, progress))


def _from_record(request: Request, workspace: Path, accept: Accept | None, progress: Progress | None) -> Artifact:
    from aitune.records.codec import read_document

    artifact = read_document(Path(request.source)).artifact
    artifact.verify()
    demanded = request.max_batch_size
    if demanded and (artifact.max_batch_size or 0) < demanded:
        raise BatchingError(
            f"a batch of {demanded} was demanded, the record proves {artifact.max_batch_size or 'none'}",
            hint="build from the model itself to prove more",
        )
    return artifact


def _samples(request: Request) -> Any:
    """Samples the user named: the path of an ``.npz`` file, or what a function returns; None for the SOURCE's own."""
    if request.samples is None:
        return None
    if _FUNCTION.fullmatch(request.samples):
        from aitune.functions import call_function

        return call_function(request.samples, _listed)
    path = Path(request.samples)
    if path.suffix.lower() != ".npz":
        raise UsageError(
            f"--samples {request.samples!r} is not of a known form", hint="give FILE.npz or file.py:function"
        )
    return path


def _listed(samples: Any) -> list[Any]:
    """Samples one by one, as many as are of use: a generator may be endless.

    Raises:
        SourceError: If there are none, or they are what a SOURCE returns, the module and its samples.
    """
    if isinstance(samples, tuple) and len(samples) == 2 and callable(samples[0]):
        raise SourceError(
            f"a function for --samples returns samples only, found ({type(samples[0]).__name__}, samples)",
            hint="write a function that returns the second part",
        )
    if not isinstance(samples, Iterable):
        raise SourceError(f"a function for --samples returned a {type(samples).__name__}", hint=_SAMPLES)
    found = [samples] if isinstance(samples, Mapping) else list(itertools.islice(samples, _MOST_SAMPLES))
    if not found:
        raise SourceError("a function for --samples returned no sample", hint=_SAMPLES)
    return found


def _tensors(path: Path) -> list[dict[str, Any]]:
    """The samples of an ``.npz`` file as tensors by parameter of ``forward``."""
    import torch

    from aitune.onnx.samples import read_npz

    return [{name: torch.from_numpy(array) for name, array in sample.items()} for sample in read_npz(path)]


def read_interface(path: Path) -> Interface:
    """What a model file declares, read by whichever frontend knows it; handed to the offline checker."""
    if _is_plan(path):
        from aitune.tensorrt import describe

        return describe(path)
    from aitune.onnx.served import read_served

    return read_served(path)


def open_artifact(path: Path) -> Runner:
    """Something that runs a model file; handed to the live validation for reference answers."""
    if _is_plan(path):
        from aitune.tensorrt import PlanRunner

        return PlanRunner(path)
    from aitune.onnx import OnnxRunner

    return OnnxRunner(path)


def _is_plan(path: Path) -> bool:
    """Whether the first bytes of a file are a plan's; what cannot be read is left to the frontend to say."""
    from aitune.records.plans import read_plan_header

    try:
        return bool(read_plan_header(path).builder)
    except OSError:
        return False


def document(artifact: Artifact, *, model: str, version: int | None = None) -> dict[str, Any]:
    """The part of the JSON documents of ``build`` and ``inspect`` that an artifact decides."""
    evidence = artifact.evidence
    batching = evidence.batching if evidence else None
    found: dict[str, Any] = {
        "model": model,
        "artifact": dump_artifact(artifact),
        "max_batch_size": artifact.max_batch_size or 0,
        "batching": dump(batching) if batching else {"verdict": "unproved", "reason": "no evidence", "evidence": []},
        "tuning": dump(artifact.tuning),
    }
    if version is not None:
        found["version"] = version
    return found
