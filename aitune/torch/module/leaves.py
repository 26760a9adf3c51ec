"""The walk that finds every leaf of nested Python data, depth first and without recursion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aitune.torch.module.containers import (
    IGNORED,
    LEAF,
    LIST,
    MAPPING,
    STEPS,
    TENSOR,
    TUPLE,
    USER,
    AccessPath,
    ObjectType,
    attributes,
    children,
    common_kinds,
    kind_of,
    narrows_to_tensors,
)
from aitune.torch.module.errors import CycleError

__all__ = ["FIRST_CYCLE_CHECK", "refuse_cycle", "walk"]

FIRST_CYCLE_CHECK = 64
"""Depth, in containers, at which a walk first asks whether it runs in a circle; then at every doubling."""

_Frame = tuple[Iterator[tuple[object, object]], ObjectType, AccessPath, bool, object]


def walk(root: object, only_tensors: bool = False) -> Iterator[tuple[AccessPath, object, bool]]:
    """Yields path, leaf, and whether the leaf is a tensor.

    Everything that is done once per leaf is spelled out in this one function: it runs for each call of a module.

    Args:
        root: Nested data; a leaf itself has the empty path.
        only_tensors: Leave out leaves that are no tensors.

    Raises:
        CycleError: If a container holds itself.
    """
    kind = kind_of(type(root))
    if kind < LIST:
        if kind is TENSOR or (kind is LEAF and not only_tensors):
            yield (), root, kind is TENSOR
        return
    common, tensor, leaf = common_kinds.get, TENSOR, LEAF
    only = narrows_to_tensors(type(root)) if kind is USER else only_tensors
    items, step, owner = children(root, kind), STEPS[kind], root
    path: AccessPath = ()
    stack: list[_Frame] = []
    next_check = FIRST_CYCLE_CHECK
    while True:
        for key, value in items:
            kind = common(type(value)) or kind_of(type(value))
            if kind is tensor:
                yield (*path, (key, step)), value, True
            elif kind is leaf:
                if not only:
                    yield (*path, (key, step)), value, False
            elif kind is not IGNORED:
                stack.append((items, step, path, only, owner))
                if len(stack) == next_check:
                    refuse_cycle([frame[4] for frame in stack])
                    next_check *= 2
                path = (*path, (key, step))
                step, owner = STEPS[kind], value
                if kind is LIST or kind is TUPLE:
                    items = enumerate(value)  # type: ignore[arg-type]  # the kind says it is a sequence
                elif kind is MAPPING:
                    items = iter(value.items())  # type: ignore[attr-defined]  # the kind says it is a mapping
                else:
                    items = iter(attributes(value, kind))
                    if kind is USER:
                        only = narrows_to_tensors(type(value))
                break
        else:
            if not stack:
                return
            items, step, path, only, owner = stack.pop()


def refuse_cycle(containers: Sequence[object]) -> None:
    """Looks at the containers around the place where a walk stands.

    Raises:
        CycleError: If one of them is met twice, which means that it holds itself.
    """
    if len({id(container) for container in containers}) < len(containers):
        seen: set[int] = set()
        twice = next(one for one in containers if id(one) in seen or seen.add(id(one)))  # type: ignore[func-returns-value]
        raise CycleError(
            f"the data to walk must end somewhere, found a {type(twice).__name__} that holds itself",
            hint="take the reference to the outer container out of the sample",
        )
