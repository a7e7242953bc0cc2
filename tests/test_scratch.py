"""Scratch folders: private, and gone however their process ends."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from surveysynth.engines import get_engine, scratch

CANARY = "31337.1234"
RUN = f"""
import signal, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from surveysynth.engines import cmdstan, get_engine, scratch

scratch.MEMORY = Path("nowhere")
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
WRITE = "import os, sys, time; open(sys.argv[1] + '/draws.csv', 'w').write('{CANARY}'); print(os.getpid(), flush=True)"

class Compiled:
    def sample(self, data, output_dir, **settings):  # a child process in a thread, as cmdstanpy has it
        with ThreadPoolExecutor() as pool:
            pool.submit(subprocess.run, [sys.executable, "-c", WRITE + "; time.sleep(100)", output_dir])

cmdstan.compiled, cmdstan.program_path = lambda *_: Compiled(), lambda name: None
get_engine("cmdstan").sample("toy", {{"y": {CANARY}}}, chains=1, warmup=1, draws=1, seed=1)
"""


@pytest.fixture(autouse=True)
def no_memory(monkeypatch):
    """A machine without a file system in memory, unless a test says otherwise."""
    monkeypatch.setattr(scratch, "MEMORY", Path("nowhere"))


def test_confidential_files_are_in_memory_where_there_is_room(tmp_path, monkeypatch):
    """And what a dead process left is swept there, too."""
    monkeypatch.setattr(scratch, "MEMORY", tmp_path)
    with scratch.scratch_folder() as folder:
        assert folder.parent == tmp_path and folder.stat().st_mode & 0o777 == 0o700
    left = tmp_path / "surveysynth-1-abcd_123"
    left.mkdir(mode=0o700)
    monkeypatch.setattr(scratch, "ENOUGH", 2**62)
    with scratch.scratch_folder() as folder:
        assert folder.parent == Path(tempfile.gettempdir())
    scratch.sweep()
    assert not any(tmp_path.iterdir())


def holding_the_canary(folder):
    return [path for path in folder.rglob("*") if path.is_file() and CANARY in path.read_text()]


def running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def run(tmp_path):
    """A process in the middle of a run of CmdStan (a stand-in for it): its Popen, and the child's process number."""
    (tmp_path / "cmdstan").mkdir()
    (tmp_path / "cmdstan" / "makefile").write_text("CMDSTAN_VERSION := 2.36.0\n")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    settings = {"CMDSTAN": str(tmp_path / "cmdstan"), "TMPDIR": str(temporary)}
    settings |= {"PYTHONPATH": str(Path(scratch.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", RUN], env=os.environ | settings, umask=0, stdout=subprocess.PIPE, text=True
    )
    child = int(process.stdout.readline())
    yield process, child, temporary
    for number in (process.pid, child):
        if running(number):
            os.kill(number, signal.SIGKILL)
    process.wait(10)
    process.stdout.close()


def test_only_this_user_can_read_what_cmdstan_reads_and_writes(run):
    """Under umask 000."""
    *_, temporary = run
    files = holding_the_canary(temporary)
    assert sorted(path.name for path in files) == ["data.json", "draws.csv"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {stat.S_IMODE(path.parent.stat().st_mode) for path in files} == {0o700}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_process_leaves_nothing(number, run):
    process, child, temporary = run
    process.send_signal(number)
    assert process.wait(10) == -number
    assert not running(child) and not holding_the_canary(temporary)
    assert list(temporary.glob("surveysynth*")) == []


def test_what_a_killed_process_left_is_swept_by_the_next(run, monkeypatch):
    process, child, temporary = run
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    get_engine("embedded")
    assert len(holding_the_canary(temporary)) == 2  # while it runs nobody sweeps it
    os.kill(process.pid, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
    process.wait(10)
    assert len(holding_the_canary(temporary)) == 2
    get_engine("embedded")
    assert holding_the_canary(temporary) == [] and list(temporary.glob("surveysynth*")) == []


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_sweep_takes_only_folders_of_the_dead(temporary):
    (temporary / "elsewhere").mkdir(mode=0o700)
    (temporary / "surveysynth-1-abcdefgh").symlink_to(temporary / "elsewhere")
    (temporary / "surveysynth-2-abcdefgh").write_text("a file")
    (temporary / "surveysynth-3-abcdefgh").mkdir(mode=0o755)
    (temporary / "surveysynth-results").mkdir(mode=0o700)
    (temporary / "surveysynth-4-abcdefgh").mkdir(mode=0o700)
    if os.getuid() == 0:
        os.chown(temporary / "surveysynth-4-abcdefgh", 65534, -1)
    else:
        (temporary / "surveysynth-4-abcdefgh").rmdir()
    before = set(os.listdir(temporary))
    dead = temporary / "surveysynth-5-abcdefgh"
    dead.mkdir(mode=0o700)
    (dead / "data.json").write_text(CANARY)
    with scratch.scratch_folder() as alive:
        (alive / "data.json").write_text(CANARY)
        scratch.sweep()
        assert set(os.listdir(temporary)) == before | {alive.name}
        assert (alive / "data.json").read_text() == CANARY
    assert set(os.listdir(temporary)) == before


def test_a_folder_is_gone_after_an_error_and_signals_are_as_they_were(temporary):
    def own(number, frame):
        raise AssertionError

    with pytest.raises(ZeroDivisionError), scratch.scratch_folder() as folder:
        assert signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, own)
        raise ZeroDivisionError
    assert not folder.exists() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    previous = signal.signal(signal.SIGTERM, own)
    try:
        with scratch.scratch_folder():
            assert signal.getsignal(signal.SIGTERM) is own  # who handles the signal decides what it does
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, previous)


def test_other_threads_have_folders_too(temporary):
    """Python lets only the main thread handle signals."""
    seen = []

    def work():
        with scratch.scratch_folder() as folder:
            seen.append(folder.is_dir() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert seen == [True] and os.listdir(temporary) == []


def test_a_forked_child_that_is_ended_leaves_its_parent_the_folder(temporary):
    with scratch.scratch_folder() as folder:
        ready, begun = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(begun, b"1")
            time.sleep(20)
            os._exit(0)
        assert os.read(ready, 1) == b"1"
        os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        assert folder.is_dir()
