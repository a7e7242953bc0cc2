"""The privacy ledger: exact sums, caps, crashes, several processes, files that are damaged or something else."""

import fcntl
import json
import os
import resource
import shutil
import signal
import tempfile
import time
import warnings
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surveysynth as ss
from surveysynth import InputError, PrivacyError
from surveysynth.privacy.ledger import Ledger


@pytest.fixture
def path():
    """In memory where there is such a place: a busy disk can take minutes to write through what is not tested here."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder) / "budget.jsonl"


def spend(ledger, epsilon=0.1, what="tables", kind="strict", **settings):
    return ledger.spend(epsilon, kind=kind, what=what, **settings)


def forked(work):
    """Start a process that does some work, and leaves at once."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def finished(child):
    """Wait for a process of one's own: its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# ---- sums and caps


def test_a_tenth_ten_times_is_one_and_the_next_is_refused(path):
    ledger = Ledger(path, "survey", cap=1)
    for i in range(10):
        assert ledger.left == 1 - Fraction(i, 10)
        assert spend(ledger).epsilon == Fraction(1, 10)
    before = path.read_bytes()
    assert ledger.spent == ledger.cap == 1 and ledger.left == 0
    for epsilon in (0.1, 1e-17, 5e-324):
        with pytest.raises(PrivacyError, match=r"asked for, but 1 of 'survey' .* cap of 1 only 0 is left"):
            spend(ledger, epsilon)
    assert path.read_bytes() == before
    np.testing.assert_array_equal(ledger.entries()["sum"], np.arange(1, 11) / 10)


AMOUNT = st.one_of(
    st.floats(5e-324, 1e308), st.floats(1e-3, 3), st.integers(1, 30).map(lambda k: k / 10), st.integers(1, 9)
)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(cap=st.none() | AMOUNT, asked=st.lists(AMOUNT, max_size=12))
def test_the_sum_is_that_of_fractions_and_never_above_the_cap(tmp_path_factory, cap, asked):
    """Every number counts as it is printed; what fits is recorded, what does not leaves no trace."""
    path = tmp_path_factory.mktemp("ledger") / "budget"
    ledger = Ledger(path, "survey", cap)
    total = Fraction(0)
    for epsilon in asked:
        new, before = total + Fraction(repr(epsilon)), path.read_bytes()
        if cap is None or new <= Fraction(repr(cap)):
            spend(ledger, epsilon)
            total = new
        else:
            with pytest.raises(PrivacyError, match="is left"):
                spend(ledger, epsilon)
            assert path.read_bytes() == before
        again = Ledger(path, "survey", cap)
        assert Fraction(again.spent) == total
        assert again.left is None if cap is None else Fraction(again.left) == Fraction(repr(cap)) - total


def test_a_person_reads_what_was_spent_rounded_up_and_what_is_left_rounded_down(path):
    ledger = Ledger(path, "labour force", cap=2)
    spend(ledger, 1 / 3, "January, m = 3", kind="asymptotic")
    spend(ledger, 1.00001, "counts")
    text = str(ledger)
    for part in ("epsilon = 1.3334, cap 2, 0.6666 left", "January, m = 3", "0.3334", "1.0001", "- strict: 1.0001"):
        assert part in text, part
    assert "add up (sequential composition)" in text and "added or removed" in text
    assert "asymptotic parts, so it is no strict guarantee" in text and "given the privacy weights" not in text
    assert "Entries protect" not in text
    spend(ledger, 0.1, "households", kind="strict given alpha", unit="household")
    assert "strict given the privacy weights" in str(ledger)
    assert "different units (record, household)" in str(ledger)


def test_what_has_no_guarantee_takes_it_from_the_sum_and_fits_under_no_cap(path):
    free, capped = Ledger(path, "free"), Ledger(path, "capped", cap=5)
    for epsilon, kind in ((1.0, "none"), (None, "strict")):
        with pytest.raises(InputError, match="epsilon must be None for kind='none'"):
            spend(free, epsilon, kind=kind)
    spend(free, 2)
    spend(free, None, kind="none")
    spend(free, 3)
    np.testing.assert_array_equal(free.entries()["epsilon"], [2, np.nan, 3])
    np.testing.assert_array_equal(free.entries()["sum"], [2, np.inf, np.inf])
    assert free.spent == float("inf") and "The sum has no guarantee" in str(free)
    with pytest.raises(PrivacyError, match="no guarantee cannot be counted"):
        spend(capped, None, kind="none")
    assert capped.spent == 0 and "no guarantee" not in str(capped)
    free.set_cap(100, what="too late")
    with pytest.raises(PrivacyError, match="no guarantee of 'free' is spent"):
        spend(free)


def test_caps_are_entries_and_surveys_have_budgets_of_their_own(path):
    first, other = Ledger(path, "first", cap=1), Ledger(path, "other")
    spend(first, 0.75)
    spend(other, 50)
    assert (Ledger(path, "first").cap, other.cap, other.left) == (1, None, None)
    with pytest.raises(InputError, match=r"the cap of 'first' is 1, and cap= names another"):
        Ledger(path, "first", cap=2)
    before = path.read_bytes()
    first.set_cap(2, what="decided by the board")
    assert path.read_bytes().startswith(before)  # added, not edited
    spend(first, 1.25)
    with pytest.raises(PrivacyError):
        spend(first, 0.001)
    first.set_cap(1.5, what="decided again")
    assert (first.spent, first.cap, first.left) == (2, 1.5, 0)
    with pytest.raises(PrivacyError, match=r"2 of 'first' is spent, and of its cap of 1\.5 only 0 is left"):
        spend(first, 0.001)
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [line["number"] for line in lines] == [*range(1, 7)]
    assert [line.get("cap") for line in lines if line["survey"] == "first"] == [1, None, 2, None, 1.5]
    assert "Other surveys" in str(first) and len(other.entries()) == 1


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "1", True])
def test_epsilon_is_a_positive_number(path, epsilon):
    ledger = Ledger(path, "survey")
    before = path.read_bytes()
    with pytest.raises(InputError, match="epsilon must be"):
        spend(ledger, epsilon)
    with pytest.raises(InputError, match="cap must be"):
        ledger.set_cap(epsilon, what="why")
    assert path.read_bytes() == before


def test_texts_are_of_one_line(path):
    for survey in ("", "  ", "a\nb", "\x1b[2J", "\udc80", None):
        with pytest.raises(InputError, match="survey must be a text of one line"):
            Ledger(path, survey)
    ledger = Ledger(path, "survey")
    with pytest.raises(InputError, match="what must be a text"):
        spend(ledger, what="a\nb")
    with pytest.raises(InputError, match="kind='pure' is not one of"):
        spend(ledger, kind="pure")
    spend(ledger, what='Löhne, "Q1"')
    assert ledger.entries()["what"].tolist() == ['Löhne, "Q1"']


# ---- crashes


@pytest.mark.parametrize("round", range(6))
def test_a_killed_writer_loses_no_entry_that_it_was_told_of(path, round):
    """kill -9 in a loop of spends: what was acknowledged is there; at most one more entry is."""
    told, telling = os.pipe()
    ledger = Ledger(path, "survey")

    def write_until_killed():
        while True:
            entry = spend(ledger, what=f"process {os.getpid()}")
            os.write(telling, f"{entry.number}\n".encode())

    child = forked(write_until_killed)
    os.close(telling)
    time.sleep(0.05 + 0.013 * round)
    os.kill(child, signal.SIGKILL)
    assert finished(child) == -signal.SIGKILL
    with open(told) as pipe:
        acknowledged = [int(line) for line in pipe if line.endswith("\n")]
    assert len(acknowledged) > 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a torn line, which this may leave or not
        spend(ledger, what="after the crash")
    found = len(ledger.entries()) - 1
    assert acknowledged == [*range(1, len(acknowledged) + 1)]
    assert len(acknowledged) <= found <= len(acknowledged) + 1
    assert Fraction(ledger.spent) == Fraction(found + 1, 10)


def test_a_torn_last_line_is_not_counted_reported_and_put_aside_by_the_next_entry(path):
    """Cut off after every single byte; an entry that lacks only the end of its line counts."""
    ledger = Ledger(path, "survey", cap=10)
    spend(ledger, 1, "Lohn- und Gehaltstafeln ä")
    whole = path.read_bytes()
    spend(ledger, 2, "Vermögen")
    data, aside = path.read_bytes(), path.with_name("budget.jsonl.torn")
    for size in range(len(whole) + 1, len(data) - 1):
        path.write_bytes(data[:size])
        assert ledger.spent == 1 and "cut short, as by a crash" in str(ledger)
        with pytest.raises(PrivacyError):
            spend(ledger, 9.5)
        assert path.read_bytes() == data[:size] and not aside.exists()
        with pytest.warns(UserWarning, match="was cut short, as by a crash"):
            assert spend(ledger, 4).number == 3
        assert ledger.spent == 5 and path.read_bytes().startswith(whole)
        assert aside.read_bytes() == data[len(whole) : size] + b"\n" and aside.stat().st_mode & 0o777 == 0o600
        aside.unlink()
    path.write_bytes(data[:-1])
    assert ledger.spent == 3 and spend(ledger, 4).number == 4 and ledger.spent == 7
    assert path.read_bytes().startswith(data)
    path.write_bytes(data + b"\0" * 300)  # blocks that the file system had not filled yet
    with pytest.warns(UserWarning, match="cut short"):
        spend(ledger, 4)
    assert ledger.spent == 7


def test_a_full_disk_leaves_the_ledger_as_it_was(path):
    """A write that the system cuts short (limit on the size of files)."""
    ledger = Ledger(path, "survey")
    spend(ledger)
    before = path.read_bytes()

    def write_too_much():
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, len(before) + 20))
        with pytest.raises(PrivacyError, match="could not be written"):
            spend(ledger)

    assert finished(forked(write_too_much)) == 0
    assert path.read_bytes() == before


# ---- several processes


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_at_once_lose_no_entry_and_stay_below_the_cap(path, processes):
    """Each makes the ledger, and spends until it is refused; the file holds what they were told, no more, no less."""
    told, telling = os.pipe()
    ready, begun = os.pipe()
    start, hold = os.pipe()

    def spend_all():
        os.close(hold)
        ledger = Ledger(path, "survey", cap=10)
        own = 0
        try:
            while True:
                entry = spend(ledger, what=f"{os.getpid()} {own}")
                os.write(telling, f"{entry.number} {entry.what}\n".encode())
                if own == 0:  # none goes on before all have begun
                    os.write(begun, b".")
                    os.read(start, 1)
                own += 1
        except PrivacyError:
            return

    children = [forked(spend_all) for _ in range(processes)]
    for _ in children:
        assert os.read(ready, 1) == b"."
    os.close(hold)
    os.close(telling)
    with open(told) as pipe:
        acknowledged = sorted(pipe.read().splitlines(), key=lambda line: int(line.split()[0]))
    assert [finished(child) for child in children] == [0] * processes
    entries = Ledger(path, "survey").entries()
    assert len(entries) == 100 and Ledger(path, "survey").spent == 10
    assert acknowledged == [f"{i} {what}" for i, what in enumerate(entries["what"], 2)]  # number 1 is the cap
    assert len({line.split()[1] for line in acknowledged}) == processes  # they did run at once
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@contextmanager
def locked(path):
    file = os.open(path, os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX)
    yield
    fcntl.flock(file, fcntl.LOCK_UN)  # a process that was forked meanwhile has it, too
    os.close(file)


def test_a_writer_waits_and_writes_to_the_file_that_is_there_then(path):
    """Someone else holds the lock, and puts another file in the ledger's place meanwhile."""
    ledger = Ledger(path, "survey")
    spend(ledger, 1)
    with locked(path):
        child = forked(lambda: spend(ledger, 2))
        time.sleep(0.3)
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
        shutil.copy(path, path.with_name("copy"))
        os.replace(path.with_name("copy"), path)
    assert finished(child) == 0 and ledger.spent == 3


# ---- files


def test_the_file_is_for_its_owner_alone(path):
    before = os.umask(0)
    try:
        Ledger(path, "survey")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [*lines[:2], *lines[3:]],
        lambda lines: [*lines[:3], lines[2], *lines[3:]],
        lambda lines: [*lines[:2], lines[3], lines[2]],
        lambda lines: [*lines[:2], lines[2][:-9], *lines[3:]],
        lambda lines: [*lines[:2], b"", *lines[2:]],
        lambda lines: [*lines, b"a note"],
        lambda lines: [*lines, lines[-1][:-1]],
        *(
            lambda lines, b=b: [*lines[:2], lines[2].replace(b'"epsilon": 0.5', b'"epsilon": ' + b), *lines[3:]]
            for b in (b"-1", b"0", b"NaN", b"Infinity", b'"0.5"', b"null", b"true", b"1e999", b"0.10000000000000000001")
        ),
        lambda lines: [*lines[:2], lines[2].replace(b'"strict"', b'"pure"'), *lines[3:]],
        lambda lines: [*lines[:2], lines[2].replace(b'"kind"', b'"sort"'), *lines[3:]],
        lambda lines: [lines[0], lines[1].replace(b"10.0", b"null"), *lines[2:]],
    ],
)  # fmt: skip
def test_a_damaged_ledger_spends_nothing(path, damage):
    ledger = Ledger(path, "survey", cap=10)
    spend(ledger, 0.5)
    spend(ledger, 0.25)
    damaged = b"\n".join(damage(path.read_bytes().splitlines())) + b"\n"
    path.write_bytes(damaged)
    for use in (spend, str, lambda ledger: ledger.spent, lambda _: Ledger(path, "another survey")):
        with pytest.raises(PrivacyError, match=r"is damaged in \d lines \(line numbers"):
            use(ledger)
    assert path.read_bytes() == damaged


NOT_LEDGERS = [b"", b"\n", b"time,epsilon\n1,2\n", b'{"ledger": "surveysynth", "version": 2}\n', b"{}"]


@pytest.mark.parametrize("data", NOT_LEDGERS)
def test_a_file_that_is_no_ledger_is_refused(path, data):
    path.write_bytes(data)
    with pytest.raises(InputError, match="is not a ledger of surveysynth"):
        Ledger(path, "survey", cap=1)
    assert path.read_bytes() == data


def test_places_where_no_ledger_can_be(path, tmp_path):
    with pytest.raises(InputError, match="its folder does not exist"):
        Ledger(tmp_path / "no" / "budget", "survey")
    with pytest.raises(InputError, match="is not a file"):
        Ledger(tmp_path, "survey")
    ledger = Ledger(path, "survey")
    path.unlink()
    with pytest.raises(InputError, match="is not a file"):
        spend(ledger)
    assert not path.exists()  # and it does not begin anew


def test_everything_that_draws_noise_enters_it_first(tmp_path):
    """Histograms, Laplace tables of both kinds; a refused one draws nothing."""
    frame = pd.DataFrame({"y": np.linspace(1, 9, 40), "g": ["a", "b"] * 20, "w": 5.0, "s": [1, 1, 2, 2] * 10})
    design = ss.SurveyDesign(frame, weights="w", strata="s")
    ledger = ss.Ledger(tmp_path / "ledger.jsonl", "survey", cap=3)
    box = {"weight": (1.0, 10.0), "y": (0.0, 10.0)}
    ss.perturbed_histogram(design, "y", epsilon=1, bounds=(0, 10), population_total=200, ledger=ledger)
    ss.laplace_tables(design, "y", "g", 1.5, kind="strict", bounds=box, ledger=ledger)
    with pytest.raises(ss.PrivacyError, match="is left"):
        ledger.check(0.6)
    ledger.check(0.5)
    with pytest.raises(ss.PrivacyError, match="is left"):
        ss.perturbed_histogram(design, "y", epsilon=1, bounds=(0, 10), population_total=200, ledger=ledger)
    with pytest.raises(ss.PrivacyError, match="no guarantee"):
        ss.laplace_tables(design, "y", "g", 1.5, ledger=ledger)
    assert ledger.entries()["epsilon"].tolist() == [1.0, 1.5] and ledger.surveys == ["survey"]
