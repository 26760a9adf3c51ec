"""Anything a disk can hold gets an answer."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import random
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

CASES = Path(__file__).parents[3] / "cases"


@pytest.fixture(scope="module")
def fuzzer() -> ModuleType:
    """scripts/fuzz_check as a module."""
    loader = importlib.machinery.SourceFileLoader("fuzz_check", str(CASES.parents[1] / "scripts" / "fuzz_check"))
    spec = importlib.util.spec_from_loader("fuzz_check", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_check"] = module
    sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = kept
    return module


def test_mutated_texts_get_a_verdict(fuzzer: ModuleType) -> None:
    """A small part of what the script does: no exception, positions inside, nothing slow."""
    assert list(fuzzer.texts(random.Random(7), 1500, fuzzer.seeds())) == []


def test_whole_folders_get_a_verdict(fuzzer: ModuleType) -> None:
    """Links in circles, pipes, names that are not UTF-8, random bytes in place of everything."""
    failures = list(fuzzer.folders(random.Random(7), 150, fuzzer.seeds()))
    for _, root in failures:
        shutil.rmtree(root)
    assert [told for told, _ in failures] == []


@pytest.mark.parametrize("path", sorted((CASES / "fuzz").glob("*")), ids=lambda path: path.name)
def test_what_once_broke_it_does_no_more(fuzzer: ModuleType, path: Path) -> None:
    """The kept corpus is replayed."""
    fuzzer.look(path.read_bytes())
