"""The context below a call belongs to the thread or task that set it."""

from __future__ import annotations

import contextvars
import threading

import pytest

from aitune.global_context import GlobalContext


def test_a_scope_gives_back_what_was_there_before() -> None:
    """Values of a scope end with it, also when it ends with an error; those around it stay."""
    context = GlobalContext("test")
    context.set("a", 1)
    with context.scope({"a": 2, "b": 3}):
        assert dict(context) == {"a": 2, "b": 3}
    with pytest.raises(KeyError), context.scope({"a": 2}):
        context["c"]
    assert dict(context) == {"a": 1}


def test_it_reads_like_a_mapping() -> None:
    """Keys can be read, asked for, counted, removed and cleared; a missing one is a KeyError."""
    context = GlobalContext("test")
    context.set("a", 1)
    context.set("b", 2)
    assert (context["a"], context.get("c", 3), "b" in context, len(context)) == (1, 3, True, 2)
    context.remove("a")
    context.remove("a")
    with pytest.raises(KeyError):
        context["a"]
    context.clear()
    assert list(context) == []


def test_threads_and_tasks_do_not_see_each_other() -> None:
    """What a thread or a task sets stays with it."""
    context = GlobalContext("test")
    context.set("a", 1)
    seen: list[object] = []

    def thread_body() -> None:
        seen.append(context.get("a"))
        context.set("a", 2)

    thread = threading.Thread(target=thread_body)
    thread.start()
    thread.join()
    task = contextvars.copy_context()
    task.run(context.set, "a", 3)
    assert seen == [None]
    assert (context["a"], task.run(context.get, "a")) == (1, 3)
