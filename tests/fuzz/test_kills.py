"""Kills at random moments: nothing is half-published, no budget is lost or spent twice, and the next run works."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from tests.conftest import without_r
from tests.fuzz.strategies import TIMES

pytestmark = pytest.mark.slow

KILLS = 4 * TIMES  # by each of two signals
SIGNALS = [signal.SIGKILL, signal.SIGTERM]
STOPPED = (0, 130, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)

# A process that has imported everything forks one for each run, and kills that after so many seconds.
KILLER = """
    import json, os, select, signal, sys, time
    from pathlib import Path
    import surveysynth as ss
    from surveysynth.__main__ import main
    from surveysynth.cli import app
    from surveysynth.design import read
    from surveysynth.models.normal import fbs
    from surveysynth.studies.coverage import outputs, study
    from surveysynth.plan import plan
    from surveysynth.engines import scratch

    scratch.MEMORY = Path("nowhere")  # confidential files of others are none of ours

    def charge(times):
        ledger = ss.Ledger("budget.jsonl", "wages")
        for k in range(times):
            ledger.spend(1.0, 2.0, kind="strict", what="tables")
            with open("done", "a") as file:
                file.write(".")

    for line in sys.stdin:
        told = json.loads(line)
        begun = time.perf_counter()
        child = os.fork()
        if child == 0:
            os.chdir(told["folder"])
            said = os.open(told["folder"] + ".said", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            for stream in range(3):
                os.dup2(said, stream)
            code = 0
            try:
                if told["command"]:
                    sys.argv = ["surveysynth", *told["command"]]
                    main()
                else:
                    charge(told["times"])
            except SystemExit as end:
                code = end.code or 0
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                code = 1
            os._exit(code)
        ended = os.pidfd_open(child)
        if not select.select([ended], [], [], told["seconds"])[0]:
            os.kill(child, told["signal"])
        os.close(ended)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps([status, time.perf_counter() - begun]), flush=True)
"""

PLAN = """
[survey]
file = "f.csv"
weights = "w"
[model]
formula = "y ~ x"
[privacy]
epsilon = 9
mechanism = "pseudo-posterior"
population_total = 4000
ledger = "budget.jsonl"
survey = "wages"
[release]
folder = "release"
m = 2
[tables]
by = ["x"]
"""


@pytest.fixture(scope="module")
def temporary(tmp_path_factory):
    """The system's temporary folder, as the processes that are killed see it."""
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def killed(temporary):
    """Run a command, or entries of a ledger, in a folder and kill it after so many seconds: exit code and seconds."""
    code = textwrap.dedent(KILLER)
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=without_r() | {"TMPDIR": str(temporary)}, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    def run(folder, command=None, *, seconds=600.0, number=signal.SIGKILL, times=0):
        told = {"folder": str(folder), "command": command, "seconds": seconds, "signal": int(number), "times": times}
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        return tuple(json.loads(process.stdout.readline()))

    yield run
    process.stdin.close()
    process.wait(60)


def moments(whole, seed, *, last=0.15):
    """Random moments of a run: half of them within its last part, where files are written and budgets charged."""
    rng = np.random.default_rng(seed)
    late = rng.random(KILLS) < 0.5
    return np.where(late, rng.uniform(1 - last, 1.02, KILLS), rng.uniform(0, 1, KILLS)) * whole


def fresh(folder):
    """A folder with a survey, a plan and a ledger, and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.choice(["a", "b"], 200), "y": rng.lognormal(10, 0.5, 200)})
    frame.assign(w=rng.uniform(5, 20, 200)).to_csv(folder / "f.csv", index=False)
    (folder / "plan.toml").write_text(PLAN)
    ss.Ledger(folder / "budget.jsonl", "wages", create=True)
    return folder


def said(folder):
    """What the last run in a folder printed."""
    return folder.with_name(f"{folder.name}.said").read_text(errors="replace")


@pytest.mark.parametrize("number", SIGNALS)
def test_releases(number, killed, temporary, tmp_path):
    folder = fresh(tmp_path / "here")
    status, whole = killed(folder, ["release", "plan.toml"])
    assert status == 0, said(folder)
    found = {"nothing": 0, "resumed": 0, "released": 0}
    for k, seconds in enumerate(moments(whole, int(number))):
        folder = fresh(folder)
        status, _ = killed(folder, ["release", "plan.toml"], seconds=float(seconds), number=number)
        assert status in STOPPED, (k, status, said(folder))
        ledger, place = ss.Ledger(folder / "budget.jsonl", "wages"), folder / "release"
        charged = len(ledger.entries())
        if place.exists():
            assert charged == 1
            what = "released"
        elif charged:
            ss.resume(place)
            what = "resumed"
        else:
            assert killed(folder, ["release", "plan.toml"])[0] == 0, said(folder)
            what = "nothing"
        found[what] += 1
        assert ledger.verify(ss.read_release(place))["release"].tolist() == ["release 1"]
        assert len(ledger.entries()) == 1
        assert sorted(os.listdir(folder)) == ["budget.jsonl", "f.csv", "plan.toml", "release"], k
        assert sorted(os.listdir(place)) == ["internal", "public"]
    assert os.listdir(temporary) == []
    assert found["nothing"], found  # or every run had ended before its moment


@pytest.mark.parametrize("number", SIGNALS)
def test_ledgers(number, killed, tmp_path):
    """What was said to be entered is; at most one entry more; the next is entered after it."""
    folder, times = tmp_path / "here", 12
    _, whole = killed(fresh(folder), times=times)
    for seconds in moments(whole, int(number), last=0.9):
        folder = fresh(folder)
        killed(folder, seconds=float(seconds), number=number, times=times)
        done = (folder / "done").stat().st_size if (folder / "done").exists() else 0
        ledger = ss.Ledger(folder / "budget.jsonl", "wages")
        entered = len(ledger.entries())
        assert done <= entered <= done + 1
        ledger.spend(1.0, 2.0, kind="strict", what="tables")
        assert ledger.spent.blank == entered + 1
        assert set(os.listdir(folder)) - {"done"} == {"budget.jsonl", "f.csv", "plan.toml"}


STUDY = [
    "study", "coverage", "--out", "study", "--replicates", "4", "--n", "300", "--epsilon", "9",
    "--mechanisms", "pseudo", "--workers", "1", "--seed", "1",
]  # fmt: skip


@pytest.mark.parametrize("number", SIGNALS)
def test_studies_go_on(number, killed, tmp_path):
    """A study that is begun again after a kill ends with the results of one that was not killed."""
    folder = fresh(tmp_path / "whole")
    status, whole = killed(folder, STUDY)
    assert status == 0, said(folder)
    wanted = results(folder / "study")
    for seconds in moments(whole, int(number))[: 3 * TIMES]:
        folder = fresh(tmp_path / "here")
        killed(folder, STUDY, seconds=float(seconds), number=number)
        assert killed(folder, STUDY)[0] == 0, said(folder)
        assert results(folder / "study") == wanted
        assert not [x for x in os.listdir(folder) if x.startswith(".")]


def results(folder):
    """The tables of a study, which depend on its seed alone."""
    found = {x.name: x.read_text().splitlines() for x in sorted(folder.glob("*.csv"))}
    assert len(found) > 1
    return found
