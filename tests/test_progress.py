"""What is said meanwhile: plain lines from a piped command, nothing from Python, a spinner on a terminal."""

import io
import time

import numpy as np
import pytest
from conftest import PROGRESS
from surveys import make_frame

import surveysynth as ss
from surveysynth import progress
from surveysynth.engines.hamiltonian import chains
from tests.surveys import PSEUDO


def test_a_call_from_python_is_silent_where_there_is_no_terminal(capfd):
    design = ss.SurveyDesign(make_frame(), weights="wt", strata="field")
    ss.fit(design, ss.FBS("income", "field + gender", prior="flat"), epsilon=10.8, seed=1, mechanism=PSEUDO)
    with progress.bar("samples", 2) as advance:
        advance()
    assert capfd.readouterr() == ("", "")


def test_a_stage_is_named_when_it_begins_and_again_while_it_lasts(monkeypatch, capfd):
    monkeypatch.setattr(progress, "EVERY", 0.05)
    with progress.plain_lines(), progress.stages() as say:
        say("reading the file")
        say("fits under privacy weights")
        time.sleep(1)
    out, err = capfd.readouterr()
    assert not out and not PROGRESS.sub("", err)
    said = PROGRESS.findall(err)
    assert said[:2] == ["reading the file", "fits under privacy weights"]
    assert set(said[1:]) == {"fits under privacy weights"} and len(said) > 4  # about 20 on an idle machine
    time.sleep(0.2)
    assert capfd.readouterr() == ("", "")


def test_a_stage_says_which_it_is_of_how_many(capfd):
    """A stage that may be missing has its number, and one that nobody announced has none."""
    with progress.plain_lines(), progress.stages("reading", "counting", "drawing") as say:
        for name in ("reading", "drawing", "else"):
            say(name)
    assert PROGRESS.findall(capfd.readouterr().err) == ["1 of 3: reading", "3 of 3: drawing", "else"]
    heard = []
    with progress.progress_to(heard.append), progress.stages("reading", "counting") as say:
        say("counting")
    assert heard == ["0 s  2 of 2: counting"]


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (PSEUDO, ["1 of 3: reading the file", "2 of 3: unweighted fit: the records' risks",
                  "3 of 3: fits under privacy weights"]),
        (ss.WeightedE(c1=0.9), ["1 of 3: reading the file", "2 of 3: unweighted fit: the records' risks",
                                "3 of 3: fits under privacy weights"]),
        (ss.PseudoPosterior(risk=ss.CountRisk(radius=0.2)), ["1 of 3: reading the file",
                                                            "3 of 3: fits under privacy weights"]),
    ],
)  # fmt: skip
def test_the_stages_of_a_fit_are_numbered(mechanism, said):
    heard = []
    design = ss.SurveyDesign(make_frame(), weights="wt", strata="field")
    with progress.progress_to(heard.append, lambda text: None):
        ss.fit(design, ss.FBS("income", "field + gender", prior="flat"), epsilon=10.8, seed=1, mechanism=mechanism)
    assert [line.partition("s  ")[2] for line in heard] == said


def test_steps_of_a_stage_are_a_share_and_a_time(monkeypatch, capfd):
    """A quarter of the steps in 3 s: the rest takes 9 s."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.plain_lines(), progress.stages() as say:
        say("draws")
        count = progress.steps(8)
        now[0] = 103.0
        count()
        count()
        shown = str(progress._stage.get())
        say("data sets")
    assert shown == "draws: 25%, about 9 s left"
    assert capfd.readouterr().err.splitlines() == ["    0 s  draws", "    3 s  data sets"]
    progress.steps(8)()  # of no stage


def test_chains_count_their_steps(capfd):
    """Every draw of every chain, warm-up included, is one step of the stage."""
    with progress.stages() as say:
        say("draws")
        chains(
            lambda x: (float(-x @ x / 2), -x), [np.zeros(2)] * 3, np.ones(2), np.random.default_rng(1), warmup=20,
            draws=30,
        )  # fmt: skip
        stage = progress._stage.get()
        assert (stage.done, stage.total) == (150, 150)


def test_a_bar_as_lines_says_how_long_it_will_take(monkeypatch, capfd):
    """Two samples were there; two more take 8 s, so that the other six take 24 s."""
    now = iter([100.0, 100.0, 108.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    with progress.plain_lines(), progress.bar("samples", 10, 2) as advance:
        advance()
        advance()
    assert capfd.readouterr().err == "    0 s  samples: 2 of 10\n    8 s  samples: 4 of 10, about 24 s left\n"


def test_what_was_all_there_is_said_once(capfd):
    with progress.plain_lines(), progress.bar("samples", 3, 3):
        pass
    assert capfd.readouterr().err == "    0 s  samples: 3 of 3\n"


def test_stages_within_a_bar_are_not_named(capfd):
    with progress.plain_lines():
        with progress.bar("samples", 1) as advance:
            with progress.stages() as say:
                say("reading the file")
            advance()
        with progress.stages() as say:
            say("writing")
    assert PROGRESS.findall(capfd.readouterr().err) == ["samples: 0 of 1", "samples: 1 of 1", "writing"]


@pytest.mark.parametrize("command_line", [False, True])
def test_on_a_terminal_it_is_a_spinner(command_line, monkeypatch):
    """No lines of our own, whoever asks."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_lines_wanted", progress.ContextVar("wanted", default=command_line))
    with progress.stages() as say:
        say("fits under privacy weights")
        time.sleep(0.3)
    with progress.bar("samples", 3) as advance:
        advance()
    shown = terminal.getvalue()
    assert "\x1b[" in shown and "fits under privacy weights" in shown and "samples" in shown
    assert not PROGRESS.findall(shown)


def test_a_reader_who_has_left_stops_nothing(monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    closed = io.StringIO()
    closed.close()
    for stderr in (Closed(), closed):
        monkeypatch.setattr("sys.stderr", stderr)
        with progress.plain_lines(), progress.stages() as say:
            say("reading the file")


def test_a_front_end_with_messages_of_its_own_is_told_and_stderr_is_not(capfd):
    heard = []
    with progress.progress_to(heard.append):
        with progress.stages() as say:
            say("reading the file")
            say("draws")
        progress.tell("for you alone")
    assert heard == ["0 s  reading the file", "0 s  draws", "for you alone"]
    inside = []
    with progress.progress_to(heard.append, inside.append):
        progress.tell("for you alone, too")
    assert inside == ["for you alone, too"] and len(heard) == 3
    assert capfd.readouterr().err == ""
    progress.tell("for you alone")
    assert capfd.readouterr().err == "for you alone\n"
