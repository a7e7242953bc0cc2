"""What a release rests on is carried by the objects that saw the file, said by the release, and counted once."""

import dataclasses
import json
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surveysynth as ss
from surveysynth.expenses import Expense, Fingerprint, least_float, of_this_file, strict, total

BOUNDS, TOTAL = (0, 200_000), 4_650.0


def make(n=600, seed=5, order=None):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.choice(["a", "b"], n), "y": rng.lognormal(9, 0.8, n).round()})
    frame["w"] = np.exp(rng.normal(2, 0.3, n))
    return ss.SurveyDesign(frame if order is None else frame.sample(frac=1, random_state=order), weights="w")


def strictly(design, epsilon, *, scale="log", ledger=None, m=1, reference=None, bounds=None, seed=1):
    """By a fit to records, whose parameters can be a reference."""
    return ss.fit(
        design, ss.FBS("y ~ x", transform=scale, weight="public"), epsilon=epsilon, m=m, population_total=TOTAL,
        bounds=bounds, mechanism=ss.Strict(reference=reference), seed=seed,
    ).release(ledger=ledger)  # fmt: skip


@pytest.fixture
def ledger(tmp_path):
    return ss.Ledger(tmp_path / "budget.jsonl", "wages", create=True)


@pytest.fixture(scope="module")
def earlier():
    return strictly(make(), 20.0, bounds=BOUNDS)


@pytest.fixture(scope="module")
def fitted():
    return ss.fit(make(), ss.FBS("y ~ x"), epsilon=9.0, m=2, population_total=TOTAL, bounds=BOUNDS, seed=1)


# ---- fingerprints


values = st.lists(st.floats(-1e300, 1e300) | st.just(float("nan")), min_size=1, max_size=20)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(values, st.randoms())
def test_a_fingerprint_is_of_the_values_in_any_order_and_of_no_others(some, random):
    column = pd.Series(some, dtype=float)
    there = [x for x in some if x == x]
    file = Fingerprint.of([column])
    shuffled = random.sample(some, len(some))
    assert file.matches([pd.Series(shuffled, dtype=float), pd.Series([1.5])])
    assert file.matches([pd.Series(there, dtype=float)])
    other = pd.Series([*there, 0.25])
    assert not file.matches([other])
    if there:
        changed = pd.Series([np.nextafter(there[0], np.inf), *there[1:]])
        assert not file.matches([changed]) or sorted(changed) == sorted(there)


def test_two_fingerprints_of_one_file_have_nothing_in_common():
    """Each has a key of its own: whoever sees a digest without it cannot try values."""
    one, other = (Fingerprint.of([pd.Series([1.0, 2.0]), pd.Series(["a", "b"])]) for _ in range(2))
    assert one.key != other.key and not set(one.digests) & set(other.digests)
    assert one.matches([pd.Series(["b", "a"])]) and other.matches([pd.Series([2, 1])])


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8))
def test_sums_are_exact_and_floats_of_them_never_below(parts):
    blank, replaced = total([strict("part", part, None) for part in parts])
    exact = sum((Decimal(repr(part)) for part in parts), Decimal(0))
    assert abs(blank - exact) < Decimal("1e-9")
    assert Decimal(repr(least_float(blank))) >= blank
    assert replaced >= blank


def test_what_may_be_of_this_file_counts_and_what_had_no_protection_is_refused():
    here, other = [pd.Series([1.0, 2.0, 3.0])], [pd.Series([1.0, 2.0, 4.0])]
    own, foreign, unknown = (strict("draws", 1.0, file) for file in (Fingerprint.of(here), Fingerprint.of(other), None))
    assert of_this_file([own, foreign, unknown], here) == ((own, unknown), (foreign,))
    without = dataclasses.replace(own, file=None)  # the same expense, whose file another copy of it knows
    assert of_this_file([without, own], other) == ((), (own,))
    bare = Expense("public file", None, None, file=Fingerprint.of(here))
    assert of_this_file([bare], other) == ((), (bare,))
    with pytest.raises(ss.InputError, match="computed from this very file, without any protection"):
        of_this_file([bare], here)


# ---- what releases say


def test_the_parts_of_a_release_add_up_to_its_epsilon(earlier, fitted):
    for release in (earlier, fitted.release()):
        blank, replaced = total(release.rests_on)
        assert float(blank) == pytest.approx(release.privacy.epsilon, abs=1e-12)
        assert float(replaced) == pytest.approx(release.privacy.epsilon_replace_one, abs=1e-12)
        assert release.rests_on[0].what == "normal scores of y"
        assert len({expense.id for expense in release.rests_on}) == len(release.rests_on)


def test_a_release_from_a_fit_that_released_before_says_all_that_its_files_rest_on(fitted, ledger):
    """Normal scores, first draw and its own draws; a ledger that has both counts what they share once."""
    first, second = fitted.release(), fitted.release(m=1)
    shared = {expense.id: expense for expense in first.rests_on} | {expense.id: expense for expense in second.rests_on}
    parts = sum(epsilon for _, epsilon in fitted.budget.parts)
    draws = 2 * fitted.delta * (1 + fitted.draws.led)  # the draw that leads is released, too
    assert second.privacy.epsilon == pytest.approx(parts + draws, abs=0.011)
    alone = second.entered(ledger)
    assert float(ledger.spent.blank) == second.privacy.epsilon
    first.entered(ledger)
    assert ledger.spent.blank == total(shared.values())[0]
    assert float(ledger.spent.blank) < first.privacy.epsilon + second.privacy.epsilon - 0.5
    assert ledger.verify(alone)["release"].tolist() == ["release 1", ""]


WAYS = ["object", "folder", "release that was read", "public part", "pickle", "rows in another order"]


@pytest.mark.parametrize("by", WAYS)
def test_a_reference_of_the_very_file_is_counted_however_it_comes(by, earlier, ledger, tmp_path):
    """It was never entered: the entry of what is measured against it has both."""
    folder = earlier.write(tmp_path / "r")
    reference = {
        "object": earlier, "folder": folder, "release that was read": ss.read_release(folder),
        "public part": folder / "public", "pickle": pickle.loads(pickle.dumps(earlier)),
        "rows in another order": earlier,
    }[by]  # fmt: skip
    design = make(order=3) if by == "rows in another order" else make()
    done = strictly(design, 8.0, reference=reference, ledger=ledger)
    assert done.privacy.epsilon == pytest.approx(28) and done.privacy.epsilon_requested == 8
    assert ledger.entries()[["blank", "replace"]].to_numpy().tolist() == [[28, 56]]
    assert "epsilon = 28 is of all that the files rest on: 8 for themselves" in str(done.privacy)
    ledger.verify(done)
    with pytest.raises(ss.InputError, match="all of this release was entered before, as entry 2"):
        dataclasses.replace(earlier).entered(ledger)


def test_a_reference_that_was_entered_is_not_counted_again(earlier, ledger):
    dataclasses.replace(earlier).entered(ledger)
    done = strictly(make(), 8.0, reference=earlier, ledger=ledger)
    assert done.privacy.epsilon == pytest.approx(28)  # its own files rest on both
    assert float(ledger.spent.blank) == pytest.approx(28)
    assert ledger.entries()["blank"].tolist() == pytest.approx([20, 8])
    ledger.verify(done)


def test_a_reference_of_another_file_costs_nothing_here_and_is_remembered(earlier, ledger, tmp_path):
    other = make(seed=6)
    for reference in (earlier, earlier.write(tmp_path / "r")):
        done = strictly(other, 8.0, reference=reference)
        assert done.privacy.epsilon == 8
    entered = done.entered(ledger)
    assert ledger.entries()["blank"].tolist() == [8]
    third = strictly(make(), 8.0, reference=entered)  # the first file again, through the release of the other one
    assert third.privacy.epsilon == pytest.approx(28)


@pytest.mark.parametrize("saved", [False, True])
def test_normal_scores_that_were_kept_are_counted_in_a_release_of_their_file(saved, ledger, tmp_path):
    kept = ss.NormalScores.private(make(), "y", bounds=BOUNDS, epsilon=1000).kept()
    if saved:
        kept.save(tmp_path / "scores.json")
        assert (tmp_path / "scores.json").stat().st_mode & 0o777 == 0o600
        kept = ss.NormalScores.load(tmp_path / "scores.json")
    done = strictly(make(order=2), 8.0, scale=kept, ledger=ledger)
    assert done.privacy.epsilon == 1008 and float(ledger.spent.blank) == 1008
    assert strictly(make(seed=6), 8.0, scale=kept).privacy.epsilon == 8


def test_a_reference_that_was_fitted_to_the_very_file_is_refused():
    reference = ss.Reference.from_public(make(), ss.FBS("y ~ x", weight="public"), source="public file")
    with pytest.raises(ss.InputError, match="public file was computed from this very file, without any protection"):
        strictly(make(), 8.0, reference=reference)


# ---- what is published of it, and what the ledger takes


def test_nothing_that_tells_the_file_is_public(earlier, tmp_path):
    folder = earlier.write(tmp_path / "r")
    known = json.loads((folder / "internal" / "fingerprints.json").read_text())
    secrets = [text for each in known.values() for text in (each["key"], *each["digests"])]
    assert secrets and set(known) == {expense.id for expense in earlier.rests_on}
    public = b"".join(file.read_bytes() for file in (folder / "public").iterdir()).decode("latin-1")
    assert not any(text in public for text in secrets)
    assert not any(text.encode() in pickle.dumps(earlier) for text in secrets)
    assert "Fingerprint" not in repr(earlier) + repr(earlier.rests_on)


def test_the_ledger_refuses_what_does_not_name_all_of_it(earlier, ledger):
    fewer = dataclasses.replace(earlier, rests_on=earlier.rests_on[1:])
    with pytest.raises(ss.PrivacyError, match="does not name all that it rests on"):
        fewer.entered(ledger)
    changed = dataclasses.replace(earlier, privacy=dataclasses.replace(earlier.privacy, epsilon=25.0))
    with pytest.raises(ss.PrivacyError, match="does not name all that it rests on"):
        changed.entered(ledger)
    assert len(ledger.entries()) == 0


def test_a_ledger_without_parts_is_read_as_before(ledger, earlier):
    ledger.spend(1.0, 2.0, kind="strict", what="tables")
    assert "rests_on" not in ledger.path.read_text()
    done = dataclasses.replace(earlier).entered(ledger)
    line = json.loads(ledger.path.read_text().splitlines()[-1])
    assert set(line["rests_on"]) == {expense.id for expense in earlier.rests_on}
    assert float(ledger.spent.blank) == 21
    ledger.verify(done)
    other = dataclasses.replace(done, rests_on=done.rests_on[:-1])
    with pytest.raises(ss.PrivacyError, match="rests on other parts than its entry 3 says"):
        ledger.verify(other)


def test_the_cap_is_on_what_is_new(earlier, tmp_path):
    capped = ss.Ledger(tmp_path / "small.jsonl", "wages", cap=27, create=True)
    dataclasses.replace(earlier).entered(capped)
    with pytest.raises(ss.PrivacyError, match="only 7 is left"):
        strictly(make(), 8.0, reference=earlier, ledger=capped)
    capped.set_cap(28, what="for the next")
    strictly(make(), 8.0, reference=earlier, ledger=capped)
    assert capped.left == 0


def test_zeros_with_a_public_weight_are_charged_written_and_a_reference(ledger, tmp_path):
    """Beside a zero nothing is modelled then: the parameters that are published for it are none."""
    frame = make().frame
    frame["y"] = np.where(np.random.default_rng(2).random(len(frame)) < 0.2, 0.0, frame["y"])
    design = ss.SurveyDesign(frame, weights="w")
    zeros = ss.FBS("y ~ x", zeros=True, weight="public")
    asked = {"epsilon": 8.0, "m": 1, "population_total": TOTAL, "seed": 1}
    release = ss.fit(design, zeros, bounds=BOUNDS, **asked).release(ledger=ledger)
    place = release.write(tmp_path / "r", by="x")
    assert "modelled" in ss.read_release(place).tables("x", statistic="mean").attrs
    assert len(ledger.entries()) == 1 and sorted(p.name for p in tmp_path.iterdir()) == ["budget.jsonl", "r"]
    assert ss.Reference.from_release(place).values["L_zero"].shape == (0, 0)
