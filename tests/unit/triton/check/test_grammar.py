"""The shape of config.pbtxt."""

from __future__ import annotations

from typing import Any

import pytest

from aitune.triton.check.grammar import ENUMS, MESSAGES, Field
from aitune.triton.schema import model_config


def _messages(described: Any) -> Any:
    yield described
    for nested in described.nested_types:
        if not nested.GetOptions().map_entry:
            yield from _messages(nested)


def _enums() -> Any:
    module = model_config().DESCRIPTOR
    yield from module.enum_types_by_name.values()
    for top in module.message_types_by_name.values():
        for message in _messages(top):
            yield from message.enum_types


def _local(full_name: str) -> str:
    return full_name.removeprefix("inference.")


def _type(field: Any) -> str:
    if field.message_type is not None:
        return _local(field.message_type.full_name)
    if field.enum_type is not None:
        return _local(field.enum_type.full_name)
    names = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string", 13: "uint32"}
    return names[field.type]


def _expected(field: Any) -> Field:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name
        return Field(field.name, _type(entry["value"]), repeated=True, key=_type(entry["key"]))
    oneof = field.containing_oneof.name if field.containing_oneof is not None else ""
    return Field(field.name, _type(field), repeated=field.is_repeated, oneof=oneof)


ALL = [m for top in model_config().DESCRIPTOR.message_types_by_name.values() for m in _messages(top)]


@pytest.mark.parametrize("described", ALL, ids=lambda d: _local(d.full_name))
def test_every_message_is_what_the_client_says(described: Any) -> None:
    """Names, types, repetition, maps and oneofs of the table are those of the installed client."""
    ours = dict(MESSAGES[_local(described.full_name)].fields)
    assert ours == {field.name: _expected(field) for field in described.fields}


def test_the_table_has_no_message_and_no_enum_too_many() -> None:
    """Nothing in the table is made up."""
    assert set(MESSAGES) == {_local(d.full_name) for d in ALL}
    assert {name: dict(values) for name, values in ENUMS.items()} == {
        _local(enum.full_name): {value.name: value.number for value in enum.values} for enum in _enums()
    }
