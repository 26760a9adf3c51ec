"""Configs that are not protobuf text: the JSON of Triton's endpoints, and YAML as `to_yaml` writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from aitune.errors import RepositoryError
from aitune.triton.check.grammar import ENUMS, INTEGERS, MESSAGES, Field, MessageType
from aitune.triton.check.tree import Item, Node, Occurrence, Value, entry_type

__all__ = ["from_json", "from_plain", "scalar"]


def from_json(text: str, name: str) -> Node:
    """A config from JSON.

    Raises:
        RepositoryError: If it is not JSON, or not a config.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RepositoryError(f"{name} is not JSON: {error}") from error
    return from_plain(data, name)


def from_plain(data: object, name: str) -> Node:
    """A config from plain values; ``max_batch_size`` and ``maxBatchSize`` are one name.

    Args:
        data: An object with the fields of a config.
        name: What errors call it.

    Raises:
        RepositoryError: If a field does not exist, or cannot hold its value.
    """
    node = Node("ModelConfig")
    _fill(node, data, name)
    return node


def _fill(node: Node, data: object, where: str) -> None:
    if not isinstance(data, Mapping):
        raise RepositoryError(f"{where} must be an object, got {data!r}")
    for given, value in data.items():
        described = node.type.fields.get(_snake(str(given)))
        if described is None:
            raise RepositoryError(f"{where} has the unknown field {given!r}")
        path = f"{where}.{described.name}"
        node.fields[described.name] = [
            Occurrence(None, None, [Item(one) for one in _values(node, described, value, path)])
        ]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: f"_{match.group().lower()}", name)


def _values(node: Node, described: Field, value: object, where: str) -> list[Value]:
    if described.is_map:
        if not isinstance(value, Mapping):
            raise RepositoryError(f"{where} must be an object, got {value!r}")
        kind = entry_type(described)
        return [_entry(node, kind, str(key), one, f"{where}[{key!r}]") for key, one in value.items()]
    if described.repeated:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise RepositoryError(f"{where} must be a list, got {value!r}")
        return [_value(node, described, one, f"{where}[{index}]") for index, one in enumerate(value)]
    return [_value(node, described, value, where)]


def _entry(node: Node, kind: MessageType, key: str, value: object, where: str) -> Node:
    entry = Node(kind, node, f"{kind.name.removesuffix(' entry')}[{json.dumps(key)}]")
    entry.set("key", scalar(kind.fields["key"].type, key, where))
    entry.set("value", _value(entry, kind.fields["value"], value, where))
    return entry


def _value(node: Node, described: Field, value: object, where: str) -> Value:
    if described.type in MESSAGES:
        child = Node(described.type, node, where.rpartition(".")[2])
        _fill(child, value, where)
        return child
    return scalar(described.type, value, where)


def scalar(kind: str, value: object, where: str) -> Value:
    """A plain value as one of the field's type.

    Raises:
        RepositoryError: If the type cannot hold it; the message begins with ``where``.
    """
    if kind in INTEGERS:
        return _integer(kind, value, where)
    if kind in ENUMS:
        return _choice(kind, value, where)
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "string" and isinstance(value, str):
        return value
    if kind in ("float", "double"):
        if isinstance(value, str) and value.lower() in ("nan", "inf", "-inf", "infinity", "-infinity"):
            return float(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(str(value))  # a whole number that no float holds is infinite, as in text
    raise RepositoryError(f"{where} must be of type {kind}, got {value!r}")


def _integer(kind: str, value: object, where: str) -> int:
    low, high = INTEGERS[kind]
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,20}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise RepositoryError(f"{where} must be a whole number from {low} to {high}, got {value!r}")
    return value


def _choice(kind: str, value: object, where: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return next((name for name, number in ENUMS[kind].items() if number == value), str(value))
    name = str(value).upper()
    if name not in ENUMS[kind]:
        raise RepositoryError(f"{where} must be one of {', '.join(ENUMS[kind])}, got {value!r}")
    return name
