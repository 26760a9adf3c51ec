"""Programs really started and really stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aitune.errors import ProgramError
from aitune.process import Background, run_program

pytestmark = pytest.mark.server

PYTHON = sys.executable


def gone(pid: int, *, within_s: float = 5.0) -> bool:
    """Whether a process ends in time; a zombie that nobody has waited for counts as ended."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


def wait_for(path: Path) -> str:
    """The text of a file once it has some."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.02)
    raise AssertionError(f"{path} stayed empty")


def test_a_finished_program_says_what_it_wrote() -> None:
    """Both streams, the status, and no shell: arguments arrive as they are."""
    code = "import sys; print(sys.argv[1]); print('oops', file=sys.stderr); sys.exit(3)"
    done = run_program([PYTHON, "-c", code, "$HOME; *"], timeout_s=30)
    assert (done.stdout, done.stderr, done.returncode) == ("$HOME; *\n", "oops\n", 3)


def test_environment_and_directory_are_those_that_were_given(tmp_path: Path) -> None:
    """The environment replaces ours."""
    code = "import os; print(os.getcwd(), os.environ.get('HOME'), os.environ['X'])"
    done = run_program([PYTHON, "-c", code], timeout_s=30, env={"X": "y"}, cwd=tmp_path)
    assert done.stdout.split() == [str(tmp_path), "None", "y"]


def test_a_program_that_takes_too_long_is_stopped_with_its_children(tmp_path: Path) -> None:
    """The whole group goes, also a child that ignores TERM."""
    note = tmp_path / "pid"
    child = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    code = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
    code += f"open({str(note)!r}, 'w').write(str(p.pid)); p.wait()"
    with pytest.raises(ProgramError, match=r"did not end within 1\.5 s"):
        run_program([PYTHON, "-c", code], timeout_s=1.5)
    assert gone(int(note.read_text()))


def test_a_program_that_cannot_be_executed_is_an_error(tmp_path: Path) -> None:
    """A file that is executable but no program."""
    path = tmp_path / "broken"
    path.write_bytes(b"\x00\x01")
    path.chmod(0o755)
    with pytest.raises(ProgramError, match="cannot be started"):
        run_program([str(path)], timeout_s=5)


def test_leaving_the_block_stops_the_program(tmp_path: Path) -> None:
    """Its output is in the log, which stays."""
    with Background([PYTHON, "-uc", "print('up'); import time; time.sleep(60)"], log=tmp_path / "log") as running:
        assert wait_for(running.log) == "up\n"
        assert running.poll() is None
        assert running.wait(0.05) is None
        pid = running.pid
    assert gone(pid)
    assert running.poll() == -signal.SIGTERM
    assert (tmp_path / "log").read_text() == "up\n"


def test_an_exception_stops_the_program(tmp_path: Path) -> None:
    """Ctrl-C included."""
    with (
        pytest.raises(KeyboardInterrupt),
        Background([PYTHON, "-c", "import time; time.sleep(60)"], log=tmp_path / "log") as running,
    ):
        raise KeyboardInterrupt
    assert gone(running.pid)


def test_a_program_that_ignores_term_is_killed(tmp_path: Path) -> None:
    """After the grace."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    with Background([PYTHON, "-c", code], log=tmp_path / "log", grace_s=0.3) as running:
        wait_for(running.log)
    assert running.poll() == -signal.SIGKILL


def test_a_program_does_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    """KILL leaves us no chance to stop it; the kernel does."""
    note, log = tmp_path / "pid", tmp_path / "log"
    code = (
        "import pathlib, sys, time\nfrom aitune.process import Background\n"
        "command = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        f"with Background(command, log=pathlib.Path({str(log)!r})) as b:\n"
        f"    time.sleep(0.5); pathlib.Path({str(note)!r}).write_text(str(b.pid)); time.sleep(60)\n"
    )
    parent = subprocess.Popen([PYTHON, "-c", code], cwd=Path(__file__).resolve().parents[2])
    pid = int(wait_for(note))
    assert Path(f"/proc/{pid}").exists()
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert gone(pid)


def test_ctrl_c_in_a_terminal_reaches_us_and_not_the_program(tmp_path: Path) -> None:
    """It has a session of its own, so that we stop it in our own way."""
    with Background([PYTHON, "-c", "import time; time.sleep(60)"], log=tmp_path / "log") as running:
        assert os.getsid(running.pid) == running.pid != os.getsid(0)
