"""The group of commands, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import click

from aitune import __version__
from aitune.cli import console
from aitune.cli.environment import refuse_foreign_aitune
from aitune.cli.streams import guarded_streams
from aitune.errors import AituneError, UsageError

PROGRAM = "aitune-triton"

# name → (module, function, one line of help): a command is imported when it is called, not to list it.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "inspect": ("aitune.cli.building", "inspect_command", "Show tensors, batching verdict and config of a model."),
    "build": ("aitune.cli.building", "build_command", "Export, prove, tune and publish one model."),
    "render": ("aitune.cli.building", "render_command", "Print the config.pbtxt of a record."),
    "check": ("aitune.cli.checking", "check_command", "Would a Triton load this repository? Offline."),
    "show": ("aitune.cli.configs", "show_command", "Print one configuration, normalised."),
    "diff": ("aitune.cli.configs", "diff_command", "Compare two configurations."),
    "convert": ("aitune.cli.configs", "convert_command", "Print a configuration as JSON, YAML or pbtxt."),
    "serve": ("aitune.cli.serving", "serve_command", "Run a local Triton in the foreground."),
    "validate": ("aitune.cli.validating", "validate_command", "Prove that what is served is what was recorded."),
    "status": ("aitune.cli.status", "status_command", "List what a running server serves, and its drift."),
    "perf": ("aitune.cli.measuring", "perf_command", "Run perf_analyzer with valid data."),
    "versions": ("aitune.cli.versions", "versions_command", "List the versions of a published model."),
    "rollback": ("aitune.cli.versions", "rollback_command", "Serve an earlier version again."),
    "doctor": ("aitune.cli.doctor", "doctor_command", "Show what is installed and what is missing."),
}


class Terminated(BaseException):
    """SIGTERM arrived; unwinds like KeyboardInterrupt, so that everything is cleaned up."""


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the workflow."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module, function, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), function)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a suggestion for a misspelt name."""
        import difflib

        name = args[0] if args else ""
        if name and name not in COMMANDS and not name.startswith("-"):
            close = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(COMMANDS)}"
            raise UsageError(f"no command {name!r}", hint=hint)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 good, 1 the verdict is no, 2 bad input, 3 not installed or not reachable, 4 inconclusive, "
    "70 a bug. Every command takes --format json.",
)
@click.version_option(__version__, prog_name=PROGRAM)
def group() -> None:
    """Get a tuned model onto NVIDIA Triton Inference Server, with proof.

    The main job: aitune-triton build SOURCE -r model_repository
    """


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; never raises, never shows a traceback."""
    args = list(sys.argv[1:] if argv is None else argv)
    with guarded_streams():
        console.begin_document()
        try:
            code = _run(args, as_json=_wants_json(args))
            sys.stdout.flush()
        except BrokenPipeError:
            # the reader of our output is gone (`… | head`): nothing more can be said to it
            return 141
        except OSError as error:  # stdout itself is full
            return _fail(_from_os(error), as_json=False)
        return code


def _run(args: list[str], *, as_json: bool) -> int:
    """The same, except that a stdout which cannot be written to raises."""
    stopped = _Signals()
    try:
        with stopped.raising():
            if args[:1] != ["doctor"]:  # which reports it
                refuse_foreign_aitune()
            result = group.main(args or ["--help"], prog_name=PROGRAM, standalone_mode=False)
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.UsageError as error:
        return _fail(UsageError(_one_line(error.format_message()), hint=_help_of(error)), as_json)
    except click.ClickException as error:
        return _fail(UsageError(_one_line(error.format_message())), as_json)
    except AituneError as error:
        return _fail(error, as_json) if stopped.by is None else _stopped(stopped.by, as_json)
    except (KeyboardInterrupt, click.Abort):
        return _stopped(signal.SIGINT, as_json)
    except Terminated:
        return _stopped(signal.SIGTERM, as_json)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(_from_os(error), as_json)
    except MemoryError as error:
        return _fail(_from_memory(error), as_json)
    except BaseException:  # a bug: the user gets one line, the log the rest
        # a library may turn our exception into one of its own, e.g. an extension module that is being loaded
        return _bug(as_json) if stopped.by is None else _stopped(stopped.by, as_json)


def _wants_json(args: list[str]) -> bool:
    """Whether JSON was asked for, also when the rest of the line cannot be parsed."""
    return "--format=json" in args or any(pair == ("--format", "json") for pair in itertools.pairwise(args))


class _Signals:
    """SIGINT and SIGTERM as exceptions, and the memory of which one came.

    Attributes:
        by: The signal that arrived; None while none did.
    """

    def __init__(self) -> None:
        self.by: signal.Signals | None = None

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Turn both signals into exceptions for as long as a command runs."""
        wanted = [signal.SIGTERM]
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a shell's `&` has it ignored
            wanted.append(signal.SIGINT)
        try:
            before: dict[signal.Signals, Any] = {number: signal.signal(number, self._arrived) for number in wanted}
        except ValueError:  # not the main thread: the host program handles its own signals
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _arrived(self, number: int, frame: FrameType | None) -> NoReturn:
        self.by = signal.Signals(number)
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def _stopped(by: signal.Signals, as_json: bool) -> int:
    """One word, and the exit code that shells expect: 128 plus the number of the signal."""
    word = "interrupted" if by == signal.SIGINT else "terminated"
    if as_json and not console.document_begun():
        _print_error(f"E_{word.upper()}", word, "", {})
    print(word, file=sys.stderr)
    return 128 + by


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def _help_of(error: click.UsageError) -> str:
    return f"see {error.ctx.command_path} --help" if error.ctx else f"see {PROGRAM} --help"


def _from_os(error: OSError) -> AituneError:
    """A fault of the file system that no room foresaw: still one line about the file."""
    name = f" {os.fsdecode(error.filename)!r}" if isinstance(error.filename, str | bytes) else ""
    return UsageError(f"cannot use{name or ' a file'}: {(error.strerror or str(error)).lower()}")


def _from_memory(error: MemoryError) -> AituneError:
    return UsageError(
        _one_line(f"there is not enough memory: {error}").rstrip(": "),
        hint="ask for less: a smaller --max-batch-size or --max-shape",
    )


def _fail(error: AituneError, as_json: bool) -> int:
    if as_json and not console.document_begun():
        _print_error(error.code, error.message, error.hint, getattr(error, "document", None) or {})
    print(f"error: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"  hint: {error.hint}", file=sys.stderr)
    return error.exit_code


def _print_error(code: str, message: str, hint: str, document: Mapping[str, Any]) -> None:
    found = {**document, "error": {"code": code, "message": message, "hint": hint}}
    print(json.dumps(found, allow_nan=False))


def _bug(as_json: bool) -> int:
    """One line and the path of a log with the traceback."""
    kind, value, _ = sys.exc_info()
    with tempfile.NamedTemporaryFile("w", prefix="aitune-bug-", suffix=".log", delete=False, encoding="utf-8") as log:
        log.write(f"aitune {__version__}, Python {sys.version}\n{traceback.format_exc()}")
    name = kind.__name__ if kind else "unknown"
    error = AituneError(
        _one_line(f"this is a bug in aitune ({name}: {value})")[:300],
        hint=f"please report it with the log {log.name}",
    )
    return _fail(error, as_json)
