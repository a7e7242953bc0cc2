"""What happens around a run cannot spoil it: full and closed outputs, signals, little memory, other alphabets."""

import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss

PROGRAM = [sys.executable, "-m", "surveysynth"]
STRICT = [
    *PROGRAM, "synthesize", "f.csv", "--formula", "доход~größe", "--weights", "w", "--population-total", "4000",
    "--bounds", "0,1000000", "--epsilon", "9", "--out", "r",
]  # fmt: skip
RELEASE = [*STRICT[:-2], "--set", "privacy.mechanism=pseudo-posterior", *STRICT[-2:]]
STOPPED = "Stopped: what was finished is kept, and nothing is left half-written.\n"


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"größe": rng.choice(["Süd", "北"], 300), "доход": rng.lognormal(10, 0.5, 300).round(2)})
    frame.assign(w=rng.uniform(5, 20, 300).round(3)).to_csv(tmp_path / "f.csv", index=False)
    return tmp_path


def run(folder, stdout=subprocess.PIPE, program=RELEASE, **settings):
    environment = os.environ | settings.pop("env", {})
    return subprocess.run(
        program, cwd=folder, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment, check=False, **settings
    )


@pytest.mark.slow
def test_a_full_stdout_is_no_failure_of_what_is_published(folder):
    with open("/dev/full", "w") as full:
        done = run(folder, full)
    assert done.returncode == 0 and ss.read_release(folder / "r").m == 3
    assert " ".join(done.stderr.split()).endswith(
        "Warning: everything was written, but what is printed about it could not be: No space left on device"
    )
    with open("/dev/full", "w") as full:  # where what is printed is all there is
        done = run(folder, full, program=[*PROGRAM, "tables", "r"])
    assert done.returncode == 2 and "No space left on device" in done.stderr


@pytest.mark.slow
def test_a_closed_stdout_is_nobodys_concern(folder):
    read, write = os.pipe()
    os.close(read)
    done = run(folder, write)
    os.close(write)
    assert done.returncode == 0 and ss.read_release(folder / "r").m == 3
    assert "Error" not in done.stderr and "Warning" not in done.stderr and "pipe" not in done.stderr
    shell = ["sh", "-c", f"{sys.executable} -m surveysynth tables r >&-"]
    assert run(folder, program=shell).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("env", [{"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"PYTHONIOENCODING": "ascii"}])
def test_other_alphabets_than_the_terminals_are_read_printed_and_written(env, folder):
    done = run(folder, env=env)
    assert done.returncode == 0, done.stderr
    release = ss.read_release(folder / "r")
    assert release.outcomes == ("доход",) and set(release.datasets[0].frame["größe"]) == {"Süd", "北"}
    assert "gr" in done.stdout and "Written: r/public" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("seconds", [0.03, 0.1, 0.3, 0.8, 1.6])
def test_a_signal_leaves_nothing_and_says_so_in_one_line(number, seconds, folder):
    with subprocess.Popen(STRICT, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        time.sleep(seconds)
        child.send_signal(number)
        said = child.communicate(timeout=60)[1]
    codes = (130, -signal.SIGINT)  # the latter where Python was within exec()
    # before Python could say how it takes signals, or was there (it then ends with 1), or our main() was run
    ended = child.returncode == -number or "init_import_site" in said
    early = ended and ", in main\n" not in said
    assert early or (child.returncode in codes and said.endswith(STOPPED) and "Traceback" not in said)
    assert os.listdir(folder) == ["f.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle_of_a_run_ends_it_as_ctrl_c_does(number, folder):
    """In the middle: when its first line of progress is there."""
    with subprocess.Popen(STRICT, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        while " s  " not in child.stderr.readline():
            assert child.poll() is None
        child.send_signal(number)
        said = child.communicate(timeout=60)[1]
    assert child.returncode == 130 and said.endswith(STOPPED) and "Traceback" not in said
    assert os.listdir(folder) == ["f.csv"]


@pytest.mark.slow
def test_too_little_address_space_is_refused_at_once(folder):
    def little():
        resource.setrlimit(resource.RLIMIT_AS, (900 * 2**20, 900 * 2**20))

    done = run(folder, preexec_fn=little, timeout=20)
    assert done.returncode == 2 and done.stderr.startswith("Error: the address space is limited to 0.9 GiB (ulimit -v)")
    assert os.listdir(folder) == ["f.csv"]


@pytest.mark.slow
def test_a_file_that_may_not_grow_ends_the_run_with_nothing_published_or_charged(folder):
    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    ledger = ss.Ledger(folder / "budget.jsonl", "wages", create=True)
    entered = [*RELEASE, "--set", "privacy.ledger=budget.jsonl", "--set", "privacy.survey=wages"]
    done = run(folder, program=entered, preexec_fn=small)
    assert done.returncode == 2 and "no ledger was charged" in done.stderr and "File too large" in done.stderr
    assert len(ledger.entries()) == 0 and sorted(os.listdir(folder)) == ["budget.jsonl", "f.csv"]


@pytest.mark.slow
def test_internal_files_are_the_owners_alone_whatever_the_umask(folder):
    done = run(folder, preexec_fn=lambda: os.umask(0))
    assert done.returncode == 0
    internal = folder / "r" / "internal"
    assert internal.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in internal.iterdir()} == {0o600}
    assert (folder / "r").stat().st_mode & 0o022 == 0  # others may read it, and not change it


@pytest.fixture
def disk(tmp_path):
    """A disk of 200 kB in memory; skips where this user may mount none."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=200k", "none", str(place)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_a_disk_that_takes_nothing_costs_nothing(how, disk, folder):
    ledger = ss.Ledger(folder / "budget.jsonl", "wages", create=True)
    if how == "full":
        (disk / "other").write_bytes(bytes(190 * 1024))
    else:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    there = sorted(os.listdir(disk))
    words = [*RELEASE[:-1], str(disk / "r"), "--set", "privacy.ledger=budget.jsonl", "--set", "privacy.survey=wages"]
    done = run(folder, program=words)
    why = "No space left on device" if how == "full" else "is not a folder that you may write to"
    assert done.returncode == 2 and why in done.stderr and "Traceback" not in done.stderr
    assert str(disk) in done.stderr  # the file, or its folder, is named
    assert len(ledger.entries()) == 0 and sorted(os.listdir(disk)) == there
    done = run(folder, program=[*words[:-5], "r", *words[-4:]])  # elsewhere it works
    assert done.returncode == 0 and len(ledger.entries()) == 1
