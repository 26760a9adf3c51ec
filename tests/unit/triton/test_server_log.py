"""Reading a server's log."""

from __future__ import annotations

import pytest

from aitune.triton.server_log import busy_port, crash, entries, failures, plain_reason, still_loading, telling_lines

HEAD = "1130 17:22:18.603245 10990 model_lifecycle.cc:472] "


def log(*lines: str) -> str:
    """Lines in Triton's format; the first letter is the level."""
    return "\n".join(line[0] + HEAD + line[1:] if line[0] in "IWE" else line for line in lines)


def test_quotes_and_escapes_are_undone() -> None:
    """24.10 writes each message as one quoted line; older releases and other programs do not."""
    text = log(r'E"a \"b\"\nc"', "Eplain text", "+ table", 'E"half')
    assert [entry.message for entry in entries(text)] == ['a "b"\nc', "plain text", "+ table", "half"]
    assert [entry.level for entry in entries(text)] == ["E", "E", "", "E"]


@pytest.mark.parametrize(
    ("message", "name", "reason"),
    [
        ("failed to load 'm' version 1: Internal: LoadError: no\\n\\nAt:\\n  x.py(1): y\\n", "m", "no"),
        ("Poll failed for model directory 'a b': bad dims", "a b", "bad dims"),
        ("failed to load model 'v': at least one version must be available", "v", "at least one version must"),
        ("Invalid argument: in ensemble e, tensor MID differs", "e", "Invalid argument: in ensemble e"),
        ("Invalid argument: ensemble 'e' depends on 'f' whose", "e", "Invalid argument: ensemble 'e' depends"),
        ("Invalid argument: circular dependency between ensembles: e -> ... -> e", "e", "Invalid argument: circular"),
    ],
)
def test_each_way_to_fail_gives_a_name_and_a_reason(message: str, name: str, reason: str) -> None:
    """The reasons that no endpoint tells."""
    found = failures(log(f'E"{message}"'))
    assert list(found) == [name]
    assert found[name].startswith(reason)
    assert "\n" not in found[name]


def test_the_latest_reason_wins_and_other_lines_do_not_count() -> None:
    """A model that failed twice; an information line with the same words is no failure."""
    text = log(
        "E\"failed to load 'm' version 1: first\"",
        "E\"failed to load 'm' version 2: second\"",
        "I\"failed to load 'n' version 1: quoted by somebody\"",
    )
    assert failures(text) == {"m": "second"}


def test_models_that_never_finish_are_named() -> None:
    """Loaded and failed ones are not among them."""
    text = log(
        'I"loading: good:1"',
        'I"loading: bad:1"',
        'I"loading: se;mi colon:3"',
        "I\"successfully loaded 'good'\"",
        "E\"failed to load 'bad' version 1: why\"",
    )
    assert still_loading(text) == ("se;mi colon",)


@pytest.mark.parametrize(
    "line",
    [
        "failed to start HTTP service: Unavailable - Socket '127.0.0.1:8000' already in use ",
        "failed to start GRPC service: Unavailable - Socket '127.0.0.1:8000' already in use ",
    ],
)
def test_a_port_in_use_is_recognised(line: str) -> None:
    """With its address."""
    assert busy_port(log("E" + line)) == "127.0.0.1:8000"


def test_another_trouble_is_no_port_in_use() -> None:
    """Nothing is guessed."""
    assert busy_port(log('E"failed to load all models"')) is None


def test_a_crash_is_named_by_its_exception() -> None:
    """The C++ runtime's own line, which is not in Triton's format; no such line, no crash."""
    text = log('I"loading: m:1"', "terminate called after throwing an instance of 'boost::x'", "  what():  boost::x")
    assert crash(text) == "boost::x"
    assert crash(log('I"loading: m:1"')) is None


def test_telling_lines_leave_out_what_every_server_without_a_gpu_says() -> None:
    """And tables, and information; what a model's own code prints stays."""
    text = log(
        'W"Unable to allocate pinned system memory, pinned memory pool will not be available"',
        'E"CudaDriverHelper has not been initialized."',
        "Error: Failed to initialize NVML",
        'W"DCGM unable to start: DCGM initialization error"',
        "| Model | Version |",
        'I"Started HTTPService"',
        "ModuleNotFoundError: No module named 'foo'",
        "E\"failed to load 'm' version 1: why\"",
        'E"Internal: failed to load all models"',
    )
    assert telling_lines(text) == ("ModuleNotFoundError: No module named 'foo'", "failed to load 'm' version 1: why")


def test_telling_lines_are_the_last_ones() -> None:
    """Bounded, so that a message built from them is."""
    assert telling_lines("a\nb\nc", most=2) == ("b", "c")


def test_a_reason_without_a_stack_is_left_alone() -> None:
    """Triton's own reasons keep their status word."""
    assert plain_reason("Invalid argument: unexpected 'x'") == "Invalid argument: unexpected 'x'"
