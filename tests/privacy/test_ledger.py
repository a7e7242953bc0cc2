"""The privacy ledger: exact sums, caps, crashes, several processes, files that are damaged, and what releases say."""

import dataclasses
import fcntl
import hashlib
import json
import os
import re
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
from surveysynth.privacy.accounting.ledger import Ledger
from surveysynth.release import laplace as noise
from surveysynth.storage import paid_folders
from tests.conftest import decoded
from tests.surveys import PSEUDO


@pytest.fixture
def path():
    """In memory where there is such a place: a busy disk can take minutes to write through what is not tested here."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder) / "budget.jsonl"


def spend(ledger, blank=0.1, what="tables", kind="strict", **settings):
    return ledger.spend(blank, None if blank is None else 2 * blank, kind=kind, what=what, **settings)


def begun(path, survey="survey", cap=None):
    return Ledger(path, survey, cap, create=True)


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
    ledger = begun(path, cap=1)
    for i in range(10):
        assert ledger.left == 1 - Fraction(i, 10)
        entry = spend(ledger)
        assert (entry.blank, entry.replace) == (Fraction(1, 10), Fraction(2, 10))
    before = path.read_bytes()
    assert ledger.spent.blank == ledger.cap == 1 and ledger.left == 0 and ledger.spent.replace == 2
    for epsilon in (0.1, 1e-17, 5e-324):
        with pytest.raises(PrivacyError, match=r"asked for, but 1 of 'survey' .* cap of 1 only 0 is left"):
            spend(ledger, epsilon)
    assert path.read_bytes() == before
    np.testing.assert_array_equal(ledger.entries()["sum_blank"], np.arange(1, 11) / 10)
    np.testing.assert_array_equal(ledger.entries()["sum_replace"], np.arange(1, 11) / 5)


AMOUNT = st.one_of(
    st.floats(5e-324, 1e308), st.floats(1e-3, 3), st.integers(1, 30).map(lambda k: k / 10), st.integers(1, 9)
)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(cap=st.none() | AMOUNT, asked=st.lists(st.tuples(AMOUNT, AMOUNT), max_size=12))
def test_the_sums_are_those_of_fractions_and_never_above_the_cap(tmp_path_factory, cap, asked):
    """Every number counts as it is printed; what fits is recorded, what does not leaves no trace."""
    path = tmp_path_factory.mktemp("ledger") / "budget"
    ledger = begun(path, cap=cap)
    blanked = replaced = Fraction(0)
    for blank, replace in asked:
        new, before = blanked + Fraction(repr(blank)), path.read_bytes()
        if cap is None or new <= Fraction(repr(cap)):
            ledger.spend(blank, replace, kind="strict", what="tables")
            blanked, replaced = new, replaced + Fraction(repr(replace))
        else:
            with pytest.raises(PrivacyError, match="is left"):
                ledger.spend(blank, replace, kind="strict", what="tables")
            assert path.read_bytes() == before
        again = Ledger(path, "survey", cap)
        assert tuple(map(Fraction, again.spent)) == (blanked, replaced)
        assert again.left is None if cap is None else Fraction(again.left) == Fraction(repr(cap)) - blanked


def test_a_person_reads_what_was_spent_rounded_up_and_what_is_left_rounded_down(path):
    ledger = begun(path, "labour force", cap=2)
    spend(ledger, 1 / 3, "January, m = 3", kind="asymptotic")
    spend(ledger, 1.00001, "counts")
    text = str(ledger)
    for part in (
        "epsilon = 1.3334 (blank), 2.6667 (replace), cap 2, 0.6666 left", "The cap is on blanking", "January, m = 3",
        "0.3334", "1.0001", "- strict: 1.0001 (blank), 2.0001 (replace)",
    ):  # fmt: skip
        assert part in text, part
    assert "add up (sequential composition)" in text and "added or removed" in text and "Unknown" not in text
    assert "asymptotic parts, so they are no strict guarantee" in text and "given the privacy weights" not in text
    assert "Entries protect" not in text
    spend(ledger, 0.1, "households", kind="strict given alpha", unit="household")
    assert "strict given the privacy weights" in str(ledger)
    assert "different units (record, household)" in str(ledger)


def test_what_has_no_guarantee_takes_it_from_the_sums_and_fits_under_no_cap(path):
    free, capped = begun(path, "free"), begun(path, "capped", cap=5)
    for blank, replace, kind in ((1.0, 2.0, "none"), (None, 2.0, "none"), (None, None, "strict")):
        with pytest.raises(InputError, match="blank and replace must be None for kind='none'"):
            free.spend(blank, replace, kind=kind, what="tables")
    spend(free, 2)
    spend(free, None, kind="none")
    spend(free, 3)
    np.testing.assert_array_equal(free.entries()["blank"], [2, np.nan, 3])
    np.testing.assert_array_equal(free.entries()["replace"], [4, np.nan, 6])
    np.testing.assert_array_equal(free.entries()["sum_blank"], [2, np.inf, np.inf])
    np.testing.assert_array_equal(free.entries()["sum_replace"], [4, np.inf, np.inf])
    assert free.spent == (float("inf"), float("inf")) and "The sums have no guarantee" in str(free)
    with pytest.raises(PrivacyError, match="no guarantee cannot be counted"):
        spend(capped, None, kind="none")
    assert capped.spent == (0, 0) and "no guarantee" not in str(capped)
    free.set_cap(100, what="too late")
    with pytest.raises(PrivacyError, match="no guarantee of 'free' is spent"):
        spend(free)


def test_a_sum_of_which_a_part_is_unknown_is_unknown(path):
    """A part that is missing is neither 0 nor left out: what it adds is not known; the other column goes on."""
    ledger = begun(path)
    for blank, replace in ((1.0, 2.0), (None, 1.5), (0.5, None), (2.0, 4.0)):
        ledger.spend(blank, replace, kind="strict", what="tables")
    table = ledger.entries()
    np.testing.assert_array_equal(table["blank"], [1, np.nan, 0.5, 2])
    np.testing.assert_array_equal(table["replace"], [2, 1.5, np.nan, 4])
    np.testing.assert_array_equal(table["sum_blank"], [1, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(table["sum_replace"], [2, 3.5, np.nan, np.nan])
    assert ledger.spent == (None, None)
    assert "epsilon = unknown (blank), unknown (replace)" in str(ledger) and "it is not 0" in str(ledger)
    spend(ledger, None, kind="none")  # and a part without a guarantee leaves none
    assert ledger.spent == (float("inf"), float("inf"))


def test_a_cap_is_on_blanking_and_what_is_unknown_there_does_not_fit(path):
    capped, late = begun(path, "capped", cap=3), begun(path, "late")
    with pytest.raises(PrivacyError, match="what has no epsilon for blanking a record cannot be counted against it"):
        capped.spend(None, 1.0, kind="strict", what="tables")
    capped.spend(3, None, kind="strict", what="at the cap, whatever replacing costs")
    assert (capped.left, capped.spent) == (0, (3, None))
    late.spend(None, 1.0, kind="strict", what="tables")
    late.set_cap(100, what="decided afterwards")
    assert late.left == 0 and "cap 100, 0 left" in str(late)
    for refused in (spend, lambda ledger: ledger.check(0.1)):
        with pytest.raises(PrivacyError, match=r"but unknown of 'late' is spent, and of its cap of 100 only 0 is left"):
            refused(late)


def test_caps_are_entries_and_surveys_have_budgets_of_their_own(path):
    first, other = begun(path, "first", cap=1), begun(path, "other")
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
    assert (first.spent.blank, first.cap, first.left) == (2, 1.5, 0)
    with pytest.raises(PrivacyError, match=r"2 of 'first' is spent, and of its cap of 1\.5 only 0 is left"):
        spend(first, 0.001)
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [line["number"] for line in lines] == [*range(1, 8)]
    assert [line.get("cap") for line in lines if line["survey"] == "first"] == [1, None, 2, None, 1.5]
    assert "Other surveys" in str(first) and len(other.entries()) == 1


def test_a_planned_cap_is_checked_and_recorded_with_the_first_entry(path):
    plain = begun(path)
    before = path.read_bytes()
    planned = plain.with_cap(2)
    assert (planned.cap, planned.left, plain.cap) == (2, 2, None) and "cap 2, 2 left" in str(planned)
    for refused in (lambda: planned.check(3), lambda: spend(planned, 3), lambda: spend(planned, None, kind="none")):
        with pytest.raises(PrivacyError, match="cap of"):
            refused()
    assert path.read_bytes() == before
    first = spend(planned, 1.5, salt="first")
    assert first.number == 3 and plain.find("first") == first and plain.head == first.head
    spend(planned, 0.5)
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [(line["type"], line.get("cap"), line.get("blank")) for line in lines] == [
        ("cap", None, None), ("cap", 2, None), ("spend", None, 1.5), ("spend", None, 0.5),
    ]  # fmt: skip
    assert (plain.cap, plain.left) == (2, 0)
    with pytest.raises(InputError, match="the cap of 'survey' is 2, and cap= names another"):
        plain.with_cap(3)
    assert spend(begun(path, "next").with_cap(1), 1).number == 7


def test_a_cap_that_was_recorded_meanwhile_is_kept(path):
    planned = begun(path).with_cap(2)
    Ledger(path, "survey").set_cap(1, what="decided by the board")
    with pytest.raises(PrivacyError, match="cap of 1"):
        spend(planned, 1.5)
    spend(planned, 1)
    assert planned.cap == 1 and planned.left == 0


@pytest.mark.parametrize("cap", [0, -1, float("nan"), "1", True])
def test_a_planned_cap_is_a_positive_number(path, cap):
    with pytest.raises(InputError, match="cap must be"):
        begun(path).with_cap(cap)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "1", True])
def test_epsilon_is_a_positive_number(path, epsilon):
    ledger = begun(path)
    before = path.read_bytes()
    with pytest.raises(InputError, match="blank must be"):
        ledger.spend(epsilon, 1.0, kind="strict", what="tables")
    with pytest.raises(InputError, match="replace must be"):
        ledger.spend(None, epsilon, kind="strict", what="tables")
    with pytest.raises(InputError, match="epsilon must be"):
        ledger.check(epsilon)
    with pytest.raises(InputError, match="cap must be"):
        ledger.set_cap(epsilon, what="why")
    assert path.read_bytes() == before


def test_texts_are_of_one_line(path):
    for survey in ("", "  ", "a\nb", "\x1b[2J", "\udc80", None):
        with pytest.raises(InputError, match="survey must be a text of one line"):
            begun(path, survey)
    ledger = begun(path)
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
    ledger = begun(path)

    def write_until_killed():
        while True:
            entry = spend(ledger, what=f"process {os.getpid()}")
            os.write(telling, f"{entry.number}\n".encode())

    child = forked(write_until_killed)
    os.close(telling)
    with open(told) as pipe:
        acknowledged = [int(pipe.readline()) for _ in range(4)]
        time.sleep(0.013 * round)
        os.kill(child, signal.SIGKILL)
        assert finished(child) == -signal.SIGKILL
        acknowledged += [int(line) for line in pipe if line.endswith("\n")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a torn line, which this may leave or not
        spend(ledger, what="after the crash")
    found = len(ledger.entries()) - 1
    assert acknowledged == [*range(2, len(acknowledged) + 2)]  # number 1 began the survey
    assert len(acknowledged) <= found <= len(acknowledged) + 1
    assert Fraction(ledger.spent.blank) == Fraction(found + 1, 10)


@pytest.mark.slow
def test_a_torn_last_line_is_not_counted_reported_and_put_aside_by_the_next_entry(path):
    """Cut off after every single byte; an entry that lacks only the end of its line counts."""
    ledger = begun(path, cap=10)
    spend(ledger, 1, "Lohn- und Gehaltstafeln ä")
    whole = path.read_bytes()
    spend(ledger, 2, "Vermögen")
    data, aside = path.read_bytes(), path.with_name("budget.jsonl.torn")
    for size in range(len(whole) + 1, len(data) - 1):
        path.write_bytes(data[:size])
        assert ledger.spent.blank == 1 and "cut short, as by a crash" in str(ledger)
        with pytest.raises(PrivacyError):
            spend(ledger, 9.5)
        assert path.read_bytes() == data[:size] and not aside.exists()
        with pytest.warns(UserWarning, match="was cut short, as by a crash"):
            assert spend(ledger, 4).number == 3
        assert ledger.spent.blank == 5 and path.read_bytes().startswith(whole)
        assert aside.read_bytes() == data[len(whole) : size] + b"\n" and aside.stat().st_mode & 0o777 == 0o600
        aside.unlink()
    path.write_bytes(data[:-1])
    assert ledger.spent.blank == 3 and spend(ledger, 4).number == 4 and ledger.spent.blank == 7
    assert path.read_bytes().startswith(data)
    path.write_bytes(data + b"\0" * 300)  # blocks that the file system had not filled yet
    with pytest.warns(UserWarning, match="cut short"):
        spend(ledger, 4)
    assert ledger.spent.blank == 7


def test_a_full_disk_leaves_the_ledger_as_it_was(path):
    """A write that the system cuts short (limit on the size of files)."""
    ledger = begun(path)
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
    """Each would begin the ledger, and spends until it is refused; it holds what they were told, no more, no less."""
    told, telling = os.pipe()
    ready, telling_ready = os.pipe()
    start, hold = os.pipe()

    def spend_all():
        os.close(hold)
        try:
            ledger = begun(path, cap=10)
        except InputError as error:  # another one was first
            assert "has the survey 'survey' already" in str(error)
            ledger = Ledger(path, "survey", cap=10)
        own = 0
        try:
            while True:
                entry = spend(ledger, what=f"{os.getpid()} {own}")
                os.write(telling, f"{entry.number} {entry.what}\n".encode())
                if own == 0:  # none goes on before all have begun
                    os.write(telling_ready, b".")
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
    assert len(entries) == 100 and Ledger(path, "survey").spent.blank == 10
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
    ledger = begun(path)
    spend(ledger, 1)
    with locked(path):
        child = forked(lambda: spend(ledger, 2))
        time.sleep(0.3)
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
        shutil.copy(path, path.with_name("copy"))
        os.replace(path.with_name("copy"), path)
    assert finished(child) == 0 and ledger.spent.blank == 3


# ---- files


def test_the_file_is_for_its_owner_alone(path):
    before = os.umask(0)
    try:
        begun(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def rechained(lines):
    """The lines with heads that fit: head = SHA-256(head before, and the line without its head)."""
    previous, fitting = hashlib.sha256(lines[0]).hexdigest(), [lines[0]]
    for line in lines[1:]:
        body = line[: line.rindex(b', "head"')] + b"}"
        previous = hashlib.sha256(previous.encode() + body).hexdigest()
        fitting.append(body[:-1] + f', "head": "{previous}"}}'.encode())
    return fitting


def test_lines_are_chained_as_documented(path):
    ledger = begun(path, cap=10)
    heads = [spend(ledger, 0.5).head, spend(ledger, 0.25).head]
    lines = path.read_bytes().splitlines()
    assert rechained(lines) == lines
    assert [json.loads(line)["head"] for line in lines[2:]] == heads
    path.write_bytes(b"\n".join(lines[:-1]) + b"\n")
    assert spend(ledger, 0.25).head != heads[1]  # though all that it says may be the same: it has a salt of its own


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
            lambda lines, b=b: rechained([*lines[:2], lines[2].replace(b'"blank": 0.5', b'"blank": ' + b), *lines[3:]])
            for b in (b"-1", b"0", b"NaN", b"Infinity", b'"0.5"', b"true", b"1e999", b"0.10000000000000000001")
        ),
        *(
            lambda lines, a=a, b=b: rechained([*lines[:2], lines[2].replace(a, b), *lines[3:]])
            for a, b in (
                (b'"strict"', b'"pure"'), (b'"strict"', b'"none"'), (b'"kind"', b'"sort"'), (b'"replace": 1.0, ', b""),
                (b'0.5, "replace": 1.0', b'null, "replace": null'), (b'"number": 2', b'"number": 3'),
            )
        ),
        lambda lines: rechained([lines[0], lines[1].replace(b"10.0", b'"10"'), *lines[2:]]),
        # lines that could have been written, but were not: only the chain tells
        lambda lines: [*lines[:2], lines[2].replace(b'"blank": 0.5', b'"blank": 0.4'), *lines[3:]],
        lambda lines: [*lines[:2], lines[2].replace(b"tables", b"Tables"), *lines[3:]],
        lambda lines: [lines[0], lines[1].replace(b"10.0", b"11.0"), *lines[2:]],
        lambda lines: [lines[0].replace(b": 2", b":  2"), *lines[1:]],
        lambda lines: [*lines[:2], lines[2].replace(b'"salt": "', b'"salt": "0'), *lines[3:]],
        lambda lines: [*lines[:3], lines[3].replace(b'"time": "20', b'"time":  "20')],
        lambda lines: [*lines[:3], lines[3][:-67] + lines[2][-67:]],
    ],
)  # fmt: skip
def test_a_damaged_ledger_spends_nothing(path, damage):
    ledger = begun(path, cap=10)
    spend(ledger, 0.5)
    spend(ledger, 0.25)
    whole = path.read_bytes().splitlines()
    damaged = b"\n".join(damage(whole)) + b"\n"
    assert damaged.splitlines() != whole
    path.write_bytes(damaged)
    for use in (spend, str, lambda ledger: ledger.spent, Ledger.verify, lambda _: begun(path, "another survey")):
        with pytest.raises(PrivacyError, match=r"is damaged in \d lines \(line numbers"):
            use(ledger)
    assert path.read_bytes() == damaged


NOT_LEDGERS = [b"", b"\n", b"time,epsilon\n1,2\n", b'{"ledger": "another", "version": 2}\n', b"{}", b"[]\n"]


@pytest.mark.parametrize("data", NOT_LEDGERS)
def test_a_file_that_is_no_ledger_is_refused(path, data):
    path.write_bytes(data)
    with pytest.raises(InputError, match="is not a ledger of surveysynth"):
        Ledger(path, "survey", cap=1)
    assert path.read_bytes() == data


def test_a_ledger_of_another_version_is_refused(path):
    entry = '{"number": 1, "time": "x", "survey": "s", "type": "spend", "epsilon": 1.0, "kind": "strict"}'
    for version in ("1", "3", "null"):
        data = f'{{"ledger": "surveysynth", "version": {version}}}\n{entry}\n'.encode()
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"is of another version than 2.* two epsilons .* Begin a new ledger"):
            Ledger(path, "s")
        assert path.read_bytes() == data


def test_places_where_no_ledger_can_be(path, tmp_path):
    with pytest.raises(InputError, match="its folder does not exist"):
        begun(tmp_path / "no" / "budget")
    with pytest.raises(InputError, match="is not a file"):
        begun(tmp_path)
    ledger = begun(path)
    path.unlink()
    with pytest.raises(InputError, match="is not a file"):
        spend(ledger)
    assert not path.exists()  # and it does not begin anew
    begun(path, "another")
    for use in (spend, lambda ledger: ledger.set_cap(1, what="x")):
        with pytest.raises(InputError, match="has no survey 'survey'"):
            use(ledger)
    assert ledger.surveys == ["another"]


# ---- surveys are begun by name


def test_a_survey_that_is_not_there_is_begun_explicitly(path):
    with pytest.raises(InputError, match=r"there is no ledger .*create=True"):
        Ledger(path, "SDR")
    assert not path.exists()
    spend(begun(path, "SDR", cap=5))
    before = path.read_bytes()
    begun(path.with_name("other"), "health")
    for typed in ("sdr", "s d r", "S.D.R.", "SDRR", "SRD", "SD", "sdr 2015"):
        with pytest.raises(InputError, match=rf"no survey '{re.escape(typed)}' \(did you mean 'SDR'\?\); it has 'SDR'"):
            Ledger(path, typed)
        with pytest.raises(InputError, match="did you mean"):
            Ledger(path, typed, cap=7)
    with pytest.raises(InputError, match=r"no survey 'health'; it has 'SDR'\. To begin one, .*: create=True"):
        Ledger(path, "health")
    assert path.read_bytes() == before


def test_a_survey_is_begun_once_and_a_name_near_another_is_pointed_out(path):
    begun(path, "SDR 2024", cap=5)
    before = path.read_bytes()
    for typed in ("SDR 2024", "sdr 2024", " SDR2024", "SDR-2024"):
        with pytest.raises(InputError, match=r"has the survey 'SDR 2024' already; .* without create=True"):
            begun(path, typed)
    assert path.read_bytes() == before
    with pytest.warns(UserWarning, match=r"'SDR 2025' was begun .* its name is near 'SDR 2024'"):
        begun(path, "SDR 2025")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        begun(path, "household budgets", cap=2)
        assert Ledger(path, "household budgets").cap == 2 and Ledger(path, "SDR 2025").cap is None
        assert Ledger(path, "SDR 2025", cap=3).cap == 3


# ---- releases


BOX = {"weight": (1.0, 10.0), "y": (0.0, 10.0)}


@pytest.fixture(scope="module")
def design():
    frame = pd.DataFrame({"y": np.linspace(1, 9, 40), "g": ["a", "b"] * 20, "w": 5.0, "s": [1, 1, 2, 2] * 10})
    return ss.SurveyDesign(frame, weights="w", strata="s")


def release_of(design, ledger, epsilon=1.0):
    return ss.perturbed_histogram(design, "y", epsilon=epsilon, bounds=(0, 10), population_total=200, ledger=ledger)


def test_everything_that_draws_noise_enters_first_what_it_protects(design, path):
    """Strict tables protect a change of values; a removal, too, where the weight may be 0; local ones nothing."""
    ledger = begun(path)
    release_of(design, ledger)
    for low in (0.0, 1.0):
        said = ss.laplace_tables(
            design, "y", "g", 1.5, kind="strict", bounds=BOX | {"weight": (low, 10)}, ledger=ledger
        )
        assert ("is one of weight 0, which the bounds allow" in said.guarantee) is (low == 0)
        assert ("taken out is not covered" in said.guarantee) is (low > 0)
    ss.laplace_tables(design, "y", "g", 1.5, ledger=ledger)
    entries = ledger.entries()
    assert entries["kind"].tolist() == ["strict"] * 3 + ["none"]
    np.testing.assert_array_equal(entries["blank"], [1, 1.5, np.nan, np.nan])
    np.testing.assert_array_equal(entries["replace"], [2, 1.5, 1.5, np.nan])
    np.testing.assert_array_equal(entries["sum_blank"], [1, 2.5, np.nan, np.inf])
    np.testing.assert_array_equal(entries["sum_replace"], [2, 3.5, 5, np.inf])


def test_what_the_cap_does_not_allow_draws_nothing(design, path):
    ledger = begun(path, cap=3)
    release_of(design, ledger, 2.5)
    with pytest.raises(PrivacyError, match="is left"):
        ledger.check(0.6)
    ledger.check(0.5)
    with pytest.raises(PrivacyError, match="is left"):
        release_of(design, ledger)
    with pytest.raises(PrivacyError, match="no guarantee"):
        ss.laplace_tables(design, "y", "g", 0.1, ledger=ledger)
    with pytest.raises(PrivacyError, match="no epsilon for blanking"):
        ss.laplace_tables(design, "y", "g", 0.1, kind="strict", bounds=BOX, ledger=ledger)
    assert ledger.entries()["blank"].tolist() == [2.5] and ledger.surveys == ["survey"]


def test_strict_sensitivities_cover_a_record_that_is_taken_out_where_weights_may_be_0(design):
    """Each record's clipped w, and w y, is what a count, and a total, loses with it."""
    w, y = np.full(40, 10.0), np.linspace(-4, 7, 40)
    (partition, *_) = noise.partitions_of(design, ["g"])
    boot = noise.preston(design.stages, 2, np.random.default_rng(0), design.lonely_psu)
    for low in (0.0, 4.0):
        box = {"weight": (low, 10.0), "y": (-4.0, 7.0)}
        counts = noise.strict(w, None, partition, boot, box["weight"])
        totals = noise.strict(w, y, partition, boot, box["weight"], box["y"])
        covered = w.max() <= counts.sensitivity and np.abs(w * y).max() <= totals.sensitivity
        assert noise.may_be_blank(box) is bool(covered) is (low == 0)


def test_the_manifest_names_the_entry_and_nothing_else_of_the_ledger(design, path, tmp_path):
    ledger = begun(path, "a name for us alone", cap=30)
    release = release_of(design, ledger)
    line = json.loads(path.read_text().splitlines()[-1])
    assert release.method["ledger"] == {"entry": 2, "head": line["head"]}
    folder = release.write(tmp_path / "release")
    said = json.loads((folder / "public" / "manifest.json").read_text())
    assert said["ledger"] == {"entry": 2, "head": line["head"]}
    public = "".join(decoded(file) for file in (folder / "public").iterdir())
    assert ledger.survey not in public and str(path) not in public
    assert ss.read_release(folder).method["ledger"] == said["ledger"]
    fit = ss.fit(design, ss.FBS("y", "g", prior="flat"), epsilon=9.0, m=1, clusters="ignore", seed=1, mechanism=PSEUDO)
    assert fit.release(ledger=ledger).manifest()["ledger"]["entry"] == 3
    assert "ledger" not in fit.release().manifest()


def test_releases_and_ledger_that_go_together(design, path, tmp_path):
    ledger, other = begun(path), begun(path, "other")
    releases = [release_of(design, ledger), release_of(design, ledger, 0.5)]
    spend(ledger, 1, "tables of another program")
    folder = releases[0].write(tmp_path / "release")
    table = ledger.verify({"what was published": ss.read_release(folder), "the other": releases[1]})
    assert table["number"].tolist() == [3, 4, 5]
    assert table["release"].tolist() == ["what was published", "the other", ""]
    assert ledger.verify(releases[0])["release"].tolist() == ["release 1", "", ""]
    with pytest.raises(InputError, match=r"give a folder as {folder: read_release\(folder\)}"):
        ledger.verify([folder])
    assert ledger.verify()["release"].tolist() == [""] * 3
    with pytest.raises(PrivacyError, match="does not go with 1 of 1 releases: release 1 is entry 3, of the survey 'su"):
        other.verify(releases[0])


def with_method(release, said):
    return dataclasses.replace(release, method=release.method | said)


def unlike(release, **changes):
    return dataclasses.replace(release, privacy=dataclasses.replace(release.privacy, **changes))


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (lambda lines: lines[:3], "release 2 is entry 3, and the ledger ends with 2: it was cut off"),
        (lambda lines: rechained([*lines[:2], *(x.replace(b'"blank": 1.0', b'"blank": 0.1') for x in lines[2:])]),
         r"with 2 of 2 releases: release 1 is entry 2, and the ledger has another .*; release 2 is entry 3"),
        (lambda lines: rechained([*lines[:3], lines[3].replace(b"m = 3", b"m = 2")]),
         "with 1 of 2 releases: release 2 is entry 3, and the ledger has another one there: it was edited"),
        (lambda lines: rechained([*lines[:2], lines[3].replace(b'"number": 3', b'"number": 2')]), "with 2 of 2 re"),
    ],
)  # fmt: skip
def test_verify_finds_a_ledger_that_was_cut_off_or_edited(design, path, edit, fault):
    """Also where all heads were computed anew, so that the ledger by itself is sound."""
    ledger = begun(path)
    releases = [release_of(design, ledger), release_of(design, ledger)]
    ledger.verify(releases)
    path.write_bytes(b"\n".join(edit(path.read_bytes().splitlines())) + b"\n")
    ledger.verify()
    with pytest.raises(PrivacyError, match=fault):
        ledger.verify(releases)
    release_of(design, ledger)  # as after an old copy was put back and used
    with pytest.raises(PrivacyError, match="does not go with"):
        ledger.verify(releases)


def test_verify_finds_releases_that_were_not_entered_or_say_something_else(design, path):
    ledger = begun(path)
    release = release_of(design, ledger)
    for other, fault in (
        (release_of(design, None), "was not entered in a ledger"),
        (unlike(release, epsilon=0.5), r"says epsilon = 0.5 \(strict\), and its entry 2 says epsilon = 1 \(blank\), 2"),
        (unlike(release, kind="asymptotic"), r"says epsilon = 1 \(asymptotic\)"),
        (
            with_method(release, {"ledger": {"entry": 1, "head": "0"}}),
            "is entry 1, and the ledger has",
        ),
        (with_method(release, {"ledger": {"entry": "2"}}), "names no entry"),
        (with_method(release, {"ledger": "2"}), "names no entry"),
    ):
        with pytest.raises(PrivacyError, match=f"with 1 of 2 releases: release 2 {fault}"):
            ledger.verify([release, other])


def test_ledgers_of_version_0_2_with_their_kind_of_guarantee_are_read(path):
    """An entry of the kind "per-instance", which releases no longer have, still counts."""
    ledger = begun(path, cap=2.0)
    spend(ledger, 0.5)
    *before, last = path.read_bytes().splitlines()
    body = re.sub(rb', "head": "[0-9a-f]{64}"\}', b"}", last).replace(b'"strict"', b'"per-instance"')
    previous = re.search(rb'"head": "([0-9a-f]{64})"', before[-1])
    head = hashlib.sha256((previous[1] if previous else b"") + body).hexdigest()
    path.write_bytes(b"\n".join([*before, body[:-1] + b', "head": "' + head.encode() + b'"}', b""]))
    again = Ledger(path, "survey")
    assert again.spent.blank == 0.5 and "per-instance parts" in str(again)
    spend(again, 1.0)
    with pytest.raises(InputError, match="kind"):
        spend(again, 0.1, kind="per-instance")


def test_a_folder_with_brackets_in_its_name_is_found_when_it_was_paid(tmp_path):
    hidden = tmp_path / ".release[1].0123abcd"
    hidden.mkdir()
    (hidden / "unfinished.json").touch()
    assert paid_folders(tmp_path / "release[1]") == [hidden]
    assert paid_folders(tmp_path / "release1") == []
