"""The tree of a parsed config: messages whose every field and value knows where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from aitune.triton.check.grammar import ENUMS, MESSAGES, Field, MessageType

__all__ = ["Item", "Node", "Occurrence", "Span", "Value", "entry_type"]

Span: TypeAlias = tuple[int, int]
Value: TypeAlias = "int | float | bool | str | Node"


@dataclass(slots=True)
class Item:
    """One value.

    Attributes:
        value: A number, a truth value, a text (for an enum its name, or its number where it has no name) or a message.
        span: Where it stands; None for what auto-complete added.
    """

    value: Value
    span: Span | None = None


@dataclass(slots=True)
class Occurrence:
    """One mention of a field: ``dims: [ 1, 2 ]`` has one, ``dims: 1 dims: 2`` two.

    Attributes:
        name: Span of the field name.
        whole: Span from the name to the end of the value.
        items: Its values: one, or those of a list.
    """

    name: Span | None
    whole: Span | None
    items: list[Item] = field(default_factory=list)


class Node:
    """A message.

    Reading a field that is not there gives the default of its type, as protobuf does.
    """

    __slots__ = ("fields", "label", "parent", "span", "type")

    def __init__(self, kind: str | MessageType, parent: Node | None = None, label: str = "") -> None:
        self.type = MESSAGES[kind] if isinstance(kind, str) else kind
        self.fields: dict[str, list[Occurrence]] = {}
        self.span: Span | None = None
        self.parent = parent
        self.label = label

    @property
    def path(self) -> str:
        """Where the message belongs, e.g. ``"input[0].reshape"``; ``""`` for the config itself."""
        above = self.parent.path if self.parent is not None else ""
        return f"{above}.{self.label}" if above and self.label else above or self.label

    @classmethod
    def made(cls, kind: str, **values: Value | Sequence[Value]) -> Node:
        """A message that stands in no file, from plain values; lists for repeated fields."""
        node = cls(kind)
        for name, value in values.items():
            node.set(name, value)
        return node

    def set(self, name: str, value: Value | Sequence[Value]) -> None:
        """Replace a field by a value (or list of values) that stands in no file."""
        values: Sequence[Value] = value if isinstance(value, list | tuple) else [value]  # type: ignore[list-item]
        repeated = self.type.fields[name].repeated
        for index, one in enumerate(values):
            if isinstance(one, Node):
                one.parent, one.label = self, f"{name}[{index}]" if repeated else name
        self.fields[name] = [Occurrence(None, None, [Item(one) for one in values])]

    def copy(self) -> Node:
        """The same message; its fields can be replaced without touching this one."""
        other = Node(self.type, self.parent, self.label)
        other.span = self.span
        other.fields = dict(self.fields)
        return other

    def items(self, name: str) -> list[Item]:
        """Every value of a field, in the order of the file."""
        return [item for occurrence in self.fields.get(name, ()) for item in occurrence.items]

    def given(self, name: str) -> bool:
        """Whether the field has at least one value."""
        return any(occurrence.items for occurrence in self.fields.get(name, ()))

    def number(self, name: str) -> int:
        """An integer field."""
        value = self._last(name, 0)
        return value if isinstance(value, int) else 0

    def real(self, name: str) -> float:
        """A floating-point field."""
        value = self._last(name, 0.0)
        return float(value) if isinstance(value, int | float) else 0.0

    def flag(self, name: str) -> bool:
        """A truth value."""
        return self._last(name, False) is True

    def text(self, name: str) -> str:
        """A string field."""
        value = self._last(name, "")
        return value if isinstance(value, str) else ""

    def choice(self, name: str) -> str:
        """The name in an enum field; the number, as text, where it has no name."""
        value = self._last(name, "")
        if isinstance(value, str) and value:
            return value
        return next(iter(ENUMS[self.type.fields[name].type]))

    def numbers(self, name: str) -> tuple[int, ...]:
        """A repeated integer field."""
        return tuple(item.value for item in self.items(name) if isinstance(item.value, int))

    def texts(self, name: str) -> tuple[str, ...]:
        """A repeated string field."""
        return tuple(item.value for item in self.items(name) if isinstance(item.value, str))

    def message(self, name: str) -> Node | None:
        """A message field; None when it is absent (an empty one is present)."""
        found = self.messages(name)
        return found[-1] if found else None

    def messages(self, name: str) -> list[Node]:
        """A repeated message field."""
        return [item.value for item in self.items(name) if isinstance(item.value, Node)]

    def map(self, name: str) -> dict[str | int, Node]:
        """Entries of a map by key; the last one of a key wins. An entry has the fields ``key`` and ``value``."""
        return {entry.key: entry for entry in self.messages(name)}

    @property
    def key(self) -> str | int:
        """Key of a map entry."""
        return self.text("key") if self.type.fields["key"].type == "string" else self.number("key")

    def where(self, *names: str) -> Span | None:
        """Where a person should look: the first of these fields that is written, else the message itself."""
        for name in names:
            for occurrence in self.fields.get(name, ()):
                for item in occurrence.items:
                    if item.span is not None and not isinstance(item.value, Node):
                        return item.span
                if occurrence.name is not None:
                    return occurrence.name
        return self.span

    def walk(self) -> Iterator[Node]:
        """This message and everything inside it."""
        yield self
        for occurrences in self.fields.values():
            for occurrence in occurrences:
                for item in occurrence.items:
                    if isinstance(item.value, Node):
                        yield from item.value.walk()

    def _last(self, name: str, default: Value) -> Value:
        for occurrence in reversed(self.fields.get(name, ())):
            if occurrence.items:
                return occurrence.items[-1].value
        return default


def entry_type(described: Field) -> MessageType:
    """The message that an entry of a map field is."""
    fields: Mapping[str, Field] = {"key": Field("key", described.key), "value": Field("value", described.type)}
    return MessageType(f"{described.name} entry", fields)
