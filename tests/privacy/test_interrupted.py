"""Every step between a charge and a folder is broken, and killed: nothing is charged, or the folder can be had whole.

A step is a change of the file system (an audit event), from the moment on at which the ledger is about to be charged.
"""

import dataclasses
import os
import shutil
import signal
import sys
import warnings
from contextlib import suppress

import pandas as pd
import pytest

import surveysynth as ss
from surveysynth.release import charging, folder
from tests.surveys import make_design, model

STEPS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.link", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
WAYS = ["written", "made, then written", "made, then resumed"]


@pytest.fixture(scope="module")
def made():
    return ss.synthesize(
        make_design(80), model("gender"), epsilon=30.0, m=1, seed=1, mechanism=ss.PseudoPosterior(),
        accept_diagnostics=["information"],
    )  # fmt: skip


def run(release, place, ledger, way):
    """Charge and publish."""
    if way == "written":
        release.write(place, by=[], ledger=ledger)
        return
    entered = release.entered(ledger)
    if way == "made, then written":
        entered.write(place, by=[])
    else:
        ss.resume(place, ledger=ledger)


def interrupted(release, place, ledger, way, at, how):
    """The exit code of a process that is killed, or whose disk fails, at one step; and whether it came so far."""
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        warnings.simplefilter("ignore")
        count = [0]

        def step(event, arguments):
            if event in STEPS and count[0] and not (event == "open" and not arguments[2] & WRITING):
                count[0] += 1
                if count[0] == at + 2:
                    os.write(telling, b".")
                    if how == "killed":
                        os.kill(os.getpid(), signal.SIGKILL)
                    raise OSError(28, "No space left on device", "somewhere")

        charge = charging.charge

        def begin(*arguments, **named):
            count[0] = count[0] or 1
            return charge(*arguments, **named)

        folder.charge = begin
        sys.addaudithook(step)
        code = 1
        try:
            run(release, place, ledger, way)
            code = 0
        except ss.errors.SurveySynthError:
            code = 2
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(code)
    os.close(telling)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with os.fdopen(told, "rb") as pipe:
        return code, bool(pipe.read())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "broken"])
@pytest.mark.parametrize("way", WAYS)
def test_every_step_from_the_charge_on(way, how, made, tmp_path):
    at, came, found = 0, True, set()
    while came:
        here = tmp_path / f"{at}"
        here.mkdir()
        release = dataclasses.replace(made)
        place, ledger = here / "r", ss.Ledger(here / "budget.jsonl", "wages", create=True)
        code, came = interrupted(release, place, ledger, way, at, how)
        assert code in ((-signal.SIGKILL,) if how == "killed" and came else (0, 2)), (at, code)
        charged = len(ledger.entries())
        assert charged in (0, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a run that was killed left behind
            if not charged:
                assert not place.exists(), at
                run(release, place, ledger, way)
                found.add("nothing was charged")
            elif place.exists():
                found.add("published")
                with pytest.raises(ss.InputError, match="nothing to resume"):
                    ss.resume(place)  # which removes the note of a run that was killed at its very last step
            else:
                ss.resume(place, ledger=ledger)
                found.add("resumed")
            with suppress(ss.InputError):  # killed while what was kept beside the ledger was removed
                ss.resume(place, ledger=ledger)
        back = ss.read_release(place)
        assert ledger.verify(back)["release"].tolist() == ["release 1"], at
        for ours, theirs in zip(back.datasets, release.datasets, strict=True):
            pd.testing.assert_frame_equal(ours.frame, theirs.frame, check_dtype=False)
        assert sorted(os.listdir(here)) == ["budget.jsonl", "r"], at
        assert sorted(os.listdir(place)) == ["internal", "public"], at
        assert (place / "internal").stat().st_mode & 0o777 == 0o700 and place.stat().st_mode & 0o777 == 0o755
        shutil.rmtree(here)
        at += 1 if way == "written" or at < 25 else 4  # later steps write one file after the other
    assert at > 10 and {"nothing was charged", "resumed", "published"} <= found, (at, found)
