"""What a release rests on is said by the release, and a ledger counts it once."""

import dataclasses
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surveysynth as ss
from surveysynth.expenses import Expense, least_float, total
from tests.surveys import PSEUDO

ASKED = {"bounds": (0, 200_000), "population_total": 4_650, "seed": 1}


def make(seed=5, n=600):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.choice(["a", "b"], n), "y": rng.lognormal(9, 0.8, n).round()})
    return ss.SurveyDesign(frame.assign(w=np.exp(rng.normal(2, 0.3, n))), weights="w")


@pytest.fixture
def ledger(tmp_path):
    return ss.Ledger(tmp_path / "budget.jsonl", "wages", create=True)


@pytest.fixture(scope="module")
def measured():
    return ss.measure(make(), "y ~ x", epsilon=8, **ASKED)


@pytest.fixture(scope="module")
def two_years(measured):
    """A release that rests on this year's tables and on those of the year before."""
    return ss.synthesize(make(6), "y ~ x", epsilon=3, m=4, earlier=measured, **ASKED)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8))
def test_sums_are_exact_and_floats_of_them_never_below(parts):
    blank, replaced = total([Expense("part", part, 2 * part) for part in parts])
    exact = sum((Decimal(repr(part)) for part in parts), Decimal(0))
    assert abs(blank - exact) < Decimal("1e-9")
    assert Decimal(repr(least_float(blank))) >= blank
    assert replaced >= blank


def test_the_parts_of_a_release_add_up_to_its_epsilon(measured, two_years):
    fitted = ss.synthesize(make(), ss.FBS("y ~ x", prior="flat"), epsilon=9, mechanism=PSEUDO, seed=1)
    for release, epsilon, parts in ((measured.release(4), 8, 1), (two_years, 11, 2), (fitted, 9, 1)):
        blank, replaced = total(release.rests_on)
        assert float(blank) == release.privacy.epsilon == epsilon
        assert float(replaced) == release.privacy.epsilon_replace_one == 2 * epsilon
        assert len({expense.id for expense in release.rests_on}) == len(release.rests_on) == parts


def test_what_several_releases_share_is_counted_once(measured, two_years, ledger):
    measured.release(4).entered(ledger)
    assert float(ledger.spent.blank) == 8
    two_years.entered(ledger)  # whose own tables are new
    assert float(ledger.spent.blank) == 11
    with pytest.raises(ss.InputError, match="all of this release was entered before"):
        measured.release(4).entered(ledger)


def test_the_ledger_refuses_what_does_not_name_all_of_it(two_years, ledger):
    fewer = dataclasses.replace(two_years, rests_on=two_years.rests_on[1:])
    changed = dataclasses.replace(two_years, privacy=dataclasses.replace(two_years.privacy, epsilon=25.0))
    for wrong in (fewer, changed):
        with pytest.raises(ss.PrivacyError, match="does not name all that it rests on"):
            wrong.entered(ledger)
    assert len(ledger.entries()) == 0


def test_a_ledger_without_parts_is_read_as_before(ledger, two_years):
    ledger.spend(1.0, 2.0, kind="strict", what="tables")
    assert "rests_on" not in ledger.path.read_text()
    done = dataclasses.replace(two_years).entered(ledger)
    line = json.loads(ledger.path.read_text().splitlines()[-1])
    assert set(line["rests_on"]) == {expense.id for expense in two_years.rests_on}
    assert float(ledger.spent.blank) == 12
    ledger.verify(done)
    other = dataclasses.replace(done, rests_on=done.rests_on[:-1])
    with pytest.raises(ss.PrivacyError, match="rests on other parts than its entry 3 says"):
        ledger.verify(other)


def test_the_cap_is_on_what_is_new(measured, two_years, tmp_path):
    capped = ss.Ledger(tmp_path / "small.jsonl", "wages", cap=10, create=True)
    measured.release(4).entered(capped)
    with pytest.raises(ss.PrivacyError, match="only 2 is left"):
        two_years.entered(capped)
    capped.set_cap(11, what="for the next")
    two_years.entered(capped)
    assert capped.left == 0
