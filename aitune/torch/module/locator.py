"""Where a leaf sits in nested Python data: its path, how to read it there, and how to put another in its place."""

from __future__ import annotations

from collections.abc import Iterator

from aitune.torch.module import containers
from aitune.torch.module.containers import AccessPath, ObjectType
from aitune.torch.module.leaves import walk
from aitune.torch.module.rebuild import replace_part

__all__ = ["AccessPath", "Locator", "ObjectType"]

_ATTRIBUTE = (ObjectType.DATACLASS, ObjectType.USER_TYPE)


class Locator:
    """The place of one leaf.

    Two locators are equal when their access paths are, container kinds included; where the data came from (inputs or
    outputs) does not count.

    Args:
        access_path: Steps from the root, each a key, index or attribute name with the kind of its container.
        is_output: Whether the data was returned by a module; it only changes how the place is displayed.

    >>> [str(place) for place, _ in Locator.find_leaves({"x": [1, {"k": 2}]})]
    ['x[0]', 'x[1]["k"]']
    """

    __slots__ = ("_display_path", "_hash", "access_path", "is_output")

    def __init__(self, access_path: AccessPath, is_output: bool = False) -> None:
        self.access_path = access_path
        self.is_output = is_output

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Locator):
            return NotImplemented
        return self.access_path == other.access_path

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash: int = hash(self.access_path)
            return self._hash

    def __str__(self) -> str:
        return self.display_path

    __repr__ = __str__

    @property
    def depth(self) -> int:
        """Number of steps from the root."""
        return len(self.access_path)

    @property
    def leaf_name(self) -> object:
        """The last key, index or attribute name; IndexError at the root."""
        return self.access_path[-1][0]

    @property
    def root_name(self) -> object:
        """The first key, index or attribute name; empty at the root."""
        return self.access_path[0][0] if self.access_path else ""

    @property
    def path(self) -> object:
        """The bare key for one step, a tuple of keys otherwise; see :attr:`accessors` for one form always."""
        return self.access_path[0][0] if len(self.access_path) == 1 else self.accessors

    @property
    def accessors(self) -> tuple[object, ...]:
        """Keys, indices and attribute names from the root: a tuple whatever the depth, so never ambiguous."""
        return tuple(accessor for accessor, _ in self.access_path)

    @property
    def display_path(self) -> str:
        """The path as Python would spell it, e.g. ``x[0]["key"].field``; outputs start with ``output``."""
        try:
            return self._display_path
        except AttributeError:
            self._display_path: str = _display(self.access_path, self.is_output)
            return self._display_path

    def accessor_at(self, index: int) -> object:
        """The key, index or attribute name of one step."""
        return self.access_path[index][0]

    def path_iter(self) -> Iterator[tuple[object, ObjectType]]:
        """The steps, each with the kind of its container."""
        return iter(self.access_path)

    def get_value(self, obj: object) -> object:
        """What sits at this place; KeyError, IndexError or AttributeError where the place is not there."""
        for accessor, kind in self.access_path:
            obj = _read(obj, accessor, kind)
        return obj

    def set_value(self, obj: object, value: object) -> object:
        """Puts a value at this place and returns the root to use from then on.

        Lists, dicts and attributes change in place. What cannot change (tuples, frozen dataclasses, read-only mappings)
        is made anew with its type kept and put into its own container, up to a new root if need be.
        """
        around = [obj]
        for accessor, kind in self.access_path[:-1]:
            around.append(_read(around[-1], accessor, kind))
        for container, (accessor, kind) in zip(reversed(around), reversed(self.access_path), strict=False):
            replaced = replace_part(container, accessor, value, attribute=kind in _ATTRIBUTE)
            if replaced is container:
                return obj
            value = replaced
        return value

    @staticmethod
    def find_leaves(
        obj: object, only_tensors: bool = False, is_output: bool = False
    ) -> Iterator[tuple[Locator, object]]:
        """Yields every leaf with its place, depth first.

        Args:
            obj: Nested lists, tuples, mappings, dataclasses and registered types.
            only_tensors: Leave out leaves that are no tensors.
            is_output: Whether a module returned the data.

        Raises:
            CycleError: If a container holds itself.
        """
        for path, value, _ in walk(obj, only_tensors):
            yield Locator(path, is_output), value

    @staticmethod
    def register_user_type(cls: type, only_tensors: bool = False) -> None:
        """Walks objects of a class by their public attributes; see :func:`.containers.register_user_type`."""
        containers.register_user_type(cls, only_tensors)

    @staticmethod
    def unregister_user_type(cls: type) -> None:
        """Takes :meth:`register_user_type` back."""
        containers.unregister_user_type(cls)

    @staticmethod
    def ignore_type(cls: type) -> None:
        """Leaves objects of a class out of every walk."""
        containers.ignore_type(cls)

    @staticmethod
    def unignore_type(cls: type) -> None:
        """Takes :meth:`ignore_type` back."""
        containers.unignore_type(cls)


def _read(obj: object, accessor: object, kind: ObjectType) -> object:
    if kind in _ATTRIBUTE:
        return getattr(obj, str(accessor))
    return obj[accessor]  # type: ignore[index]  # whatever can be indexed is welcome


def _display(path: AccessPath, is_output: bool) -> str:
    text = "output" if is_output else ""
    for position, (accessor, kind) in enumerate(path):
        if kind in _ATTRIBUTE:
            text += f".{accessor}"
        elif not (position or is_output) and isinstance(accessor, str) and accessor.isidentifier():
            text += accessor
        else:
            text += f"[{_quoted(accessor)}]"
    return text


def _quoted(accessor: object) -> str:
    """A key in brackets: plain text in double quotes, text that would break out of them as Python writes it."""
    if isinstance(accessor, str) and accessor.isprintable() and not {'"', "\\"} & set(accessor):
        return f'"{accessor}"'
    return repr(accessor) if isinstance(accessor, str) else str(accessor)
