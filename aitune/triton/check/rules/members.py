"""Ensembles and the models they are made of (dynamic part of section 3.5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aitune.triton.check.edits import dims_text, replace_value
from aitune.triton.check.finding import Finding
from aitune.triton.check.model import Model
from aitune.triton.check.rules.ensemble import mapped, steps
from aitune.triton.check.scalars import closest, quote
from aitune.triton.check.tree import Node

__all__ = ["Member", "batching", "circles", "decoupled", "loaded", "tensors", "wiring"]


@dataclass(frozen=True, slots=True)
class Member:
    """What an ensemble may know about another model.

    Attributes:
        model: The model.
        loads: Whether it loads.
        config: Its completed config.
        known: Whether that config is certain: not when a Python model completes its own, or nothing of it was read.
    """

    model: Model
    loads: bool
    config: Node
    known: bool = True

    @property
    def versions(self) -> tuple[int, ...]:
        """Numbers of the versions that get loaded."""
        return tuple(version.number for version in self.model.versions) if self.loads else ()


def _known_steps(model: Model, members: Mapping[str, Member]) -> Iterator[tuple[Node, Member]]:
    for step in steps(model):
        member = members.get(step.text("model_name"))
        if member is not None:
            yield step, member


def loaded(model: Model, members: Mapping[str, Member]) -> Iterator[Finding]:
    """R132, R134, R135: every member exists, loads, and has the version that is asked for."""
    for step in steps(model):
        name, wanted = step.text("model_name"), step.number("model_version")
        member = members.get(name)
        if name and member is None:
            better = closest(name, [other for other in members if other != model.name])
            edits = replace_value(model.source, step, "model_name", quote(better)) if better else ()
            message = f"ensemble {model.name!r} contains models that are not available or ambiguous: {name!r}"
            fix = f"model_name: {quote(better)}" if better else ""
            yield model.error("R132", step, "model_name", message, fix, edits)
        if member is None or name == model.name or not member.model.readable:
            continue
        if not member.loads:
            message = f"ensemble {model.name!r} depends on {name!r} which has no loaded version"
            yield model.error("R134", step, "model_name", message)
        elif wanted != -1 and wanted not in member.versions:
            written = "" if step.given("model_version") else "; a model_version that is left out means version 0"
            have = ", ".join(map(str, member.versions))
            message = (
                f"ensemble {model.name!r} depends on {name!r} whose required version {wanted} is not loaded "
                f"(loaded: {have}){written}"
            )
            edits = replace_value(model.source, step, "model_version", "-1")
            yield model.error("R135", step, "model_version model_name", message, "model_version: -1", edits)


def circles(model: Model, members: Mapping[str, Member]) -> Iterator[Finding]:
    """R133: no ensemble leads back to itself."""
    for step in steps(model):
        if _reaches(step.text("model_name"), model.name, members, set()):
            message = (
                f"circular dependency between ensembles: {model.name} -> {step.text('model_name')} -> {model.name}"
            )
            yield model.error("R133", step, "model_name", message)


def _reaches(start: str, goal: str, members: Mapping[str, Member], seen: set[str]) -> bool:
    pending = [start]
    while pending:
        name = pending.pop()
        if name == goal:
            return True
        if name in seen or name not in members:
            continue
        seen.add(name)
        pending += [step.text("model_name") for step in steps(members[name].model)]
    return False


def batching(model: Model, members: Mapping[str, Member]) -> Iterator[Finding]:
    """R136: a batching member takes the ensemble's batches."""
    size = model.config.number("max_batch_size")
    for _, member in _known_steps(model, members):
        limit = member.config.number("max_batch_size")
        if member.loads and member.known and limit != 0 and limit < size:
            message = (
                f"ensemble {model.name!r} allows maximum batch size {size}, but {member.model.name!r} only allows "
                f"maximum batch size {limit}"
            )
            edits = replace_value(model.source, model.config, "max_batch_size", str(limit))
            yield model.error("R136", model.config, "max_batch_size", message, f"max_batch_size: {limit}", edits)


def wiring(model: Model, members: Mapping[str, Member]) -> Iterator[Finding]:
    """R137 to R139: maps name the member's tensors, and all that are required."""
    for step, member in _known_steps(model, members):
        if not member.loads or not member.known:
            continue
        inputs = {node.text("name"): node for node in member.config.messages("input")}
        outputs = {node.text("name"): node for node in member.config.messages("output")}
        for field, known, rule, gist in (
            ("input_map", inputs, "R137", "mapping to non-existing input"),
            ("output_map", outputs, "R139", "mapped from non-existing output"),
        ):
            for key, (tensor, entry) in mapped(step, field).items():
                if key not in known:
                    message = f"ensemble tensor {tensor!r} is {gist} {key!r} in model {member.model.name!r}"
                    better = closest(key, known)
                    edits = replace_value(model.source, entry, "key", quote(better)) if better else ()
                    fix = f"key: {quote(better)}" if better else f"one of {', '.join(known) or 'none'}"
                    yield model.error(rule, entry, "key", message, fix, edits)
        for name, node in inputs.items():
            exempt = node.flag("optional") and model.has("ensemble_optional_unmapped")
            if name not in mapped(step, "input_map") and not exempt:
                message = f"input {name} in model {member.model.name} is not mapped to any ensemble tensors"
                fix = f'input_map {{ key: {quote(name)} value: "…" }}'
                yield model.error("R138", step, "model_name", message, fix)


@dataclass(frozen=True, slots=True)
class _Use:
    """One mention of an ensemble tensor: by the ensemble itself, or by a member's input or output."""

    owner: str
    data_type: str
    dims: tuple[int, ...]
    batches: bool
    node: Node

    @property
    def full(self) -> tuple[int, ...]:
        return (-1, *self.dims) if self.batches else self.dims


def tensors(model: Model, members: Mapping[str, Member]) -> Iterator[Finding]:
    """R140, R141: everybody means the same type and shape by an ensemble tensor."""
    uses = _uses(model, members)
    for name, mentions in uses.items():
        first = mentions[0]
        for other in mentions[1:]:
            if other.data_type != first.data_type:
                message = (
                    f"ensemble tensor {name}: inconsistent data type: {other.data_type} is inferred from model "
                    f"{other.owner} while {first.data_type} is inferred from model {first.owner}"
                )
                yield model.error("R140", other.node, "value name", message)
        yield from _shape_conflicts(model, name, mentions)


def _shape_conflicts(model: Model, name: str, mentions: list[_Use]) -> Iterator[Finding]:
    """Each mention is compared with those before it; one report a tensor."""
    for index, other in enumerate(mentions):
        for first in mentions[:index]:
            if not (_compatible(first.dims, other.dims) or _compatible(first.full, other.full)):
                message = (
                    f"ensemble tensor {name}: inconsistent shape: {dims_text(other.full)} is inferred from model "
                    f"{other.owner} while {dims_text(first.full)} is inferred from model {first.owner}"
                )
                yield model.error("R141", other.node, "value name", message)
                return


def _compatible(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    return len(one) == len(two) and all(a == b or -1 in (a, b) for a, b in zip(one, two, strict=True))


def _uses(model: Model, members: Mapping[str, Member]) -> dict[str, list[_Use]]:
    uses: dict[str, list[_Use]] = {}
    batches = model.config.number("max_batch_size") > 0
    for _, node in model.tensors(model.config):
        reshape = node.message("reshape")
        dims = reshape.numbers("shape") if reshape is not None else node.numbers("dims")
        use = _Use(model.name, node.choice("data_type"), dims, batches, node)
        uses.setdefault(node.text("name"), []).append(use)
    for step, member in _known_steps(model, members):
        if not member.loads or not member.known:
            continue
        for field, kind in (("input_map", "input"), ("output_map", "output")):
            known = {node.text("name"): node for node in member.config.messages(kind)}
            for key, (tensor, entry) in mapped(step, field).items():
                if key in known:
                    found, size = known[key], member.config.number("max_batch_size")
                    use = _Use(member.model.name, found.choice("data_type"), found.numbers("dims"), size > 0, entry)
                    uses.setdefault(tensor, []).append(use)
    return uses


def _origins(model: Model, members: Mapping[str, Member]) -> dict[str, str]:
    """The decoupled member from which the data of a tensor comes, for the tensors that have one."""
    wires: list[tuple[str, list[str], list[str]]] = []
    for step, member in _known_steps(model, members):
        policy = member.config.message("model_transaction_policy")
        read, written = ([tensor for tensor, _ in mapped(step, f"{kind}_map").values()] for kind in ("input", "output"))
        wires.append((member.model.name if policy is not None and policy.flag("decoupled") else "", read, written))
    origin: dict[str, str] = {}
    for _ in wires:  # as many rounds as the longest chain can need
        before = dict(origin)
        for name, read, written in wires:
            source = name or min((origin[tensor] for tensor in read if tensor in origin), default="")
            origin.update(dict.fromkeys(written, source) if source else {})
        if origin == before:
            break
    return origin


def decoupled(model: Model, members: Mapping[str, Member]) -> Iterator[Finding]:
    """R142: no step mixes answers of different decoupled members."""
    if not model.has("ensemble_decoupled_origin_check"):
        return
    origin = _origins(model, members)
    for step in steps(model) if origin else ():
        mixed = {origin[tensor] for tensor, _ in mapped(step, "input_map").values() if tensor in origin}
        if len(mixed) > 1:
            names = ", ".join(sorted(mixed))
            message = f"the step's tensors originated from different decoupled models: {names}"
            yield model.error("R142", step, "model_name", message)
