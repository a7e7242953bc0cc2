"""A release is charged last: what goes wrong before costs nothing, and what goes wrong after is published still."""

import dataclasses
import fcntl
import os
import signal
import subprocess
import sys
import textwrap

import pytest

import surveysynth as ss
from tests.surveys import make_design, model

SPENT = 3.0


@pytest.fixture(scope="module")
def made():
    return ss.synthesize(
        make_design(), model("field"), epsilon=SPENT, m=2, seed=1, mechanism=ss.PseudoPosterior(),
        accept_diagnostics=["information"],
    )  # fmt: skip


@pytest.fixture
def release(made):
    """One that no test has entered in a ledger."""
    return dataclasses.replace(made)


@pytest.fixture
def ledger(tmp_path):
    return ss.Ledger(tmp_path / "budget.jsonl", "wages", cap=10, create=True)


def test_a_release_is_entered_when_it_is_written(release, ledger, tmp_path):
    place = release.write(tmp_path / "r", ledger=ledger)
    back = ss.read_release(place)
    assert ledger.entries()[["blank", "replace"]].to_numpy().tolist() == [[SPENT, 2 * SPENT]]
    assert ledger.verify(back)["release"].tolist() == ["release 1"]
    assert sorted(p.name for p in place.iterdir()) == ["internal", "public"]
    with pytest.raises(ss.InputError, match="was entered in a ledger when it was made, or written"):
        back.write(tmp_path / "again", ledger=ledger)


def test_the_cap_is_looked_at_before_anything_is_published(release, tmp_path):
    small = ss.Ledger(tmp_path / "small.jsonl", "wages", cap=2, create=True)
    with pytest.raises(ss.PrivacyError, match="nothing was recorded"):
        release.write(tmp_path / "r", ledger=small)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["small.jsonl"] and len(small.entries()) == 0


def test_one_release_is_charged_once(release, ledger, tmp_path):
    """Also where it is written in two formats."""
    release.write(tmp_path / "a", ledger=ledger)
    with pytest.raises(ss.InputError, match="entered in a ledger when it was made, or written: leave ledger= out"):
        release.write(tmp_path / "b", format="parquet", ledger=ledger)
    release.write(tmp_path / "b", format="parquet")
    assert len(ledger.entries()) == 1


def full(*_, **__):
    raise OSError(28, "No space left on device", "somewhere")


@pytest.mark.parametrize("step", ["restrict", "_write_internal", "_write_metadata", "sealed"])
def test_what_fails_before_the_charge_costs_nothing(step, release, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(f"surveysynth.release.folder.{step}", full)
    with pytest.raises(ss.InputError, match=r"not written \('somewhere': No space left .* no ledger was charged"):
        release.write(tmp_path / "r", ledger=ledger)
    assert len(ledger.entries()) == 0 and [p.name for p in tmp_path.iterdir()] == ["budget.jsonl"]


@pytest.mark.parametrize("step", ["release.charging.sealed", "storage.os.rename"])
def test_what_fails_after_the_charge_is_resumed_and_not_charged_again(step, release, ledger, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(f"surveysynth.{step}", full)
        with pytest.raises(ss.PrivacyError, match=r"was charged .* surveysynth resume '.*/r' publishes it"):
            release.write(tmp_path / "r", ledger=ledger)
    assert len(ledger.entries()) == 1 and not (tmp_path / "r").exists()
    with pytest.raises(ss.InputError, match=r"an earlier run .* was charged to its ledger .* surveysynth resume"):
        release.write(tmp_path / "r", ledger=ledger)
    place = ss.resume(tmp_path / "r")
    assert ledger.verify(ss.read_release(place))["release"].tolist() == ["release 1"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["budget.jsonl", "r"]
    assert sorted(p.name for p in place.iterdir()) == ["internal", "public"]
    with pytest.raises(ss.InputError, match="nothing to resume"):
        ss.resume(tmp_path / "r")


def test_what_is_staged_is_the_owners_alone_until_it_is_charged(release, ledger, tmp_path, monkeypatch):
    modes = []

    def spend(self, *_, **__):
        (staging,) = tmp_path.glob(".r.*")
        modes.append(staging.stat().st_mode & 0o777)
        raise ss.PrivacyError("not now")

    monkeypatch.setattr(ss.Ledger, "spend", spend)
    with pytest.raises(ss.PrivacyError, match="not now"):
        release.write(tmp_path / "r", ledger=ledger)
    assert modes == [0o700] and [p.name for p in tmp_path.iterdir()] == ["budget.jsonl"]
    monkeypatch.undo()
    assert release.write(tmp_path / "r", ledger=ledger).stat().st_mode & 0o777 == 0o755


def without_locks(monkeypatch):
    """A file system on which folders cannot be locked, as some network drives."""
    lock = fcntl.flock

    def refuse(file, how):
        if os.path.isdir(f"/proc/self/fd/{file}"):
            raise OSError(9, "Bad file descriptor")
        return lock(file, how)

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_a_charged_release_is_found_where_there_are_no_locks(release, ledger, tmp_path, monkeypatch):
    without_locks(monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr("surveysynth.storage.os.rename", full)
        with pytest.raises(ss.PrivacyError, match=r"was charged .* surveysynth resume '.*/r' publishes it"):
            release.write(tmp_path / "r", ledger=ledger)
    with pytest.raises(ss.InputError, match="was charged to its ledger"):
        dataclasses.replace(release).write(tmp_path / "r", ledger=ledger)
    assert ledger.verify(ss.read_release(ss.resume(tmp_path / "r")))["release"].tolist() == ["release 1"]
    assert len(ledger.entries()) == 1


def test_a_fault_after_the_move_says_that_the_release_is_there(release, ledger, tmp_path, monkeypatch):
    from surveysynth import storage

    sync = storage.sync
    monkeypatch.setattr(storage, "sync", lambda path: full() if (tmp_path / "r").exists() else sync(path))
    with pytest.raises(ss.PrivacyError, match=r"was charged .* and is in its place, '.*/r', but it is not sure"):
        release.write(tmp_path / "r", ledger=ledger)
    monkeypatch.undo()
    assert ledger.verify(ss.read_release(tmp_path / "r"))["release"].tolist() == ["release 1"]


@pytest.mark.parametrize("how", ["moved", "begun anew", "older"])
def test_a_charged_release_outlives_a_ledger_that_is_not_the_one_of_then(how, release, ledger, tmp_path, monkeypatch):
    before = ledger.path.read_bytes()
    ledger.spend(1.0, 2.0, kind="strict", what="tables")
    with monkeypatch.context() as patched:
        patched.setattr("surveysynth.storage.os.rename", full)
        with pytest.raises(ss.PrivacyError, match="was charged"):
            release.write(tmp_path / "r", ledger=ledger)
    ledger.path.rename(tmp_path / "elsewhere")
    if how == "begun anew":
        ss.Ledger(ledger.path, "wages", create=True)
    elif how == "older":
        ledger.path.write_bytes(before)
    for work in (ss.resume, dataclasses.replace(release).write):
        with pytest.raises(ss.InputError, match=r"'.*/\.r\..*' holds a release .* put (it|back)"):
            work(tmp_path / "r")
    (tmp_path / "elsewhere").rename(ledger.path)
    assert ledger.verify(ss.read_release(ss.resume(tmp_path / "r")))["release"].tolist() == ["", "release 1"]
    assert len(ledger.entries()) == 2


def test_an_overwrite_by_two_renames_that_was_killed_between_them_is_put_right(release, tmp_path, monkeypatch):
    """Where two folders cannot be exchanged in one step."""
    place = release.write(tmp_path / "r")
    place.rename(tmp_path / ".r.replaced")
    with pytest.raises(ss.InputError, match="exists; choose another place"):
        release.write(place)
    assert (tmp_path / "r" / "public" / "manifest.json").is_file()  # the old one is back
    (tmp_path / ".r.replaced").mkdir()
    (tmp_path / ".r.replaced" / "left").write_text("1")
    monkeypatch.setattr("surveysynth.storage.ctypes.CDLL", lambda *_, **__: object())
    release.write(place, overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r"]


def test_a_file_of_the_same_name_that_is_not_ours_stays(release, tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "unfinished.json").write_text("mine")
    with pytest.raises(ss.InputError, match="nothing to resume"):
        ss.resume(tmp_path / "r")
    assert (tmp_path / "r" / "unfinished.json").read_text() == "mine"


CHILD = """
    import os, signal, sys
    from pathlib import Path
    import surveysynth as ss
    from surveysynth import storage
    from surveysynth.privacy.accounting.ledger import Ledger
    sys.path.insert(0, {tests!r})
    from tests.surveys import make_design, model

    def die(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    release = ss.synthesize(make_design(), model("field"), epsilon=3.0, m=2, seed=1, mechanism=ss.PseudoPosterior(),
                            accept_diagnostics=["information"])
    ledger = Ledger("budget.jsonl", "wages")
    {moment}
    print("ready", flush=True)
    sys.stdin.readline()
    release.write("r", ledger=ledger)
"""
MOMENTS = {
    "while files are written": "from surveysynth.release import folder; folder._write_internal = die",
    "before the charge": "Ledger.spend = die",
    "after the charge": "from surveysynth.release import charging; charging._name = die",
    "before the rename": "storage.os.rename = die",
    "after the rename": (
        "unlink = Path.unlink; there = Path('r/unfinished.json');"
        "Path.unlink = lambda self, **how: die() if self == there and there.exists() else unlink(self, **how)"
    ),
}


def start(folder, moment="pass"):
    tests = str(next(p for p in map(os.path.abspath, sys.path) if os.path.isdir(os.path.join(p, "tests", "privacy"))))
    code = textwrap.dedent(CHILD).format(tests=tests, moment=moment)
    return subprocess.Popen(
        [sys.executable, "-W", "error::UserWarning", "-c", code], cwd=folder, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_that_is_killed_loses_no_budget_and_publishes_nothing_in_part(moment, ledger, release, tmp_path):
    child = start(tmp_path, MOMENTS[moment])
    child.communicate("go\n", timeout=120)
    assert child.returncode == -signal.SIGKILL
    charged, place = len(ledger.entries()), tmp_path / "r"
    assert charged == (moment in ("after the charge", "before the rename", "after the rename"))
    if moment == "after the rename":
        assert ledger.verify(ss.read_release(place))["release"].tolist() == ["release 1"]
        with pytest.raises(ss.InputError, match="nothing to resume"):
            ss.resume(place)
    elif charged:
        assert not place.exists()
        assert ledger.verify(ss.read_release(ss.resume(place)))["release"].tolist() == ["release 1"]
    else:
        assert not place.exists()
        with pytest.warns(UserWarning, match="which a run that was killed left behind, was removed"):
            release.write(place, ledger=ledger)
    assert len(ledger.entries()) == 1 and sorted(p.name for p in tmp_path.iterdir()) == ["budget.jsonl", "r"]
    assert sorted(p.name for p in place.iterdir()) == ["internal", "public"]


@pytest.mark.slow
def test_of_two_runs_for_one_place_one_is_published_and_one_is_charged(ledger, tmp_path):
    runs = [start(tmp_path) for _ in range(2)]
    for run in runs:
        assert run.stdout.readline() == "ready\n"
    for run in runs:
        run.stdin.write("go\n")
        run.stdin.flush()
    said = [run.communicate(timeout=120)[1] for run in runs]
    assert sorted(run.returncode for run in runs) == [0, 1]
    assert sum("exists; choose another place" in text or "there is something by now" in text for text in said) == 1
    assert len(ledger.entries()) == 1
    assert ledger.verify(ss.read_release(tmp_path / "r"))["release"].tolist() == ["release 1"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["budget.jsonl", "r"]


def test_a_living_run_is_left_alone(release, tmp_path):
    """Staged folders are removed only when their process is gone."""
    from surveysynth.storage import left_behind, whole_folder

    with pytest.warns(UserWarning, match="left behind"), whole_folder(tmp_path / "r") as staging:
        gone = tmp_path / ".r.0123abcd"
        gone.mkdir()
        (gone / "records.csv").write_text("1")
        assert left_behind(tmp_path / "r") == [] and staging.is_dir() and not gone.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["r"]
