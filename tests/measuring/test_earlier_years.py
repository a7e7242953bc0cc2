"""Fits to two years: what an earlier year adds, what a drift takes, and what epsilons add up to."""

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth import InputError, Outcome

TOTAL = 200_000.0
SCHEMA = {"job": Outcome(levels=["yes", "no"]), "pay": Outcome(bounds=(0, 1_000_000), zeros=True)}
FORMULAS = ["job ~ region + sex", "pay ~ region + sex + job"]


def people(n, seed, rise=1.0):
    """Pay in region a is ``rise`` times what it was."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"region": rng.choice(list("abc"), n), "sex": rng.choice(["f", "m"], n)})
    frame["job"] = np.where(rng.random(n) < 0.4 + 0.2 * (frame["sex"] == "m"), "yes", "no")
    pay = np.exp(10 + 0.4 * (frame["region"] == "a") + 0.3 * (frame["job"] == "yes") + 0.5 * rng.standard_normal(n))
    frame["pay"] = np.where(rng.random(n) < 0.1, 0.0, pay * np.where(frame["region"] == "a", rise, 1.0))
    w = np.exp(0.3 * rng.standard_normal(n))
    return ss.SurveyDesign(frame.assign(w=w * (TOTAL / w.sum())), weights="w")


def measured(design, formulas="pay ~ region + sex", **settings):
    names = [one.split(" ~")[0] for one in ([formulas] if isinstance(formulas, str) else formulas)]
    given = {"epsilon": 5.0, "population_total": TOTAL, "outcomes": {name: SCHEMA[name] for name in names}, "seed": 1}
    return ss.measure(design, formulas, **given | settings)


@pytest.fixture(scope="module")
def last_year():
    return measured(people(8_000, 1), epsilon=20)


def means(found, seed=1):
    table = found.release(4, seed=seed).tables("region", outcome="pay", statistic="mean").set_index("region")
    return table[["estimate", "se"]]


@pytest.mark.slow
def test_a_small_file_under_a_small_epsilon_knows_more_beside_last_year(last_year):
    """Twelve files of one population: errors of its means, and what standard errors say of them."""
    truth = ss.estimate(people(200_000, 9), "pay", "region", "mean").set_index("region")["estimate"]
    errors, said = {}, {}
    for what, more in (("alone", {}), ("beside", {"earlier": last_year})):
        tables = [means(measured(people(400, 50 + k), epsilon=0.7, seed=k, **more)) for k in range(12)]
        errors[what] = np.mean([(table["estimate"] - truth) ** 2 for table in tables])
        said[what] = np.mean([table["se"] ** 2 for table in tables])
    assert errors["beside"] < 0.5 * errors["alone"] and said["beside"] < 0.5 * said["alone"]
    assert 0.4 < errors["beside"] / said["beside"] < 2


def test_what_has_changed_is_this_years(last_year):
    """Pay in one region has doubled: under a large epsilon the release says so, whatever last year was."""
    design = people(4_000, 3, rise=2.0)
    found = means(measured(design, epsilon=30, earlier=last_year))["estimate"]
    own = ss.estimate(design, "pay", "region", "mean").set_index("region")
    assert (np.abs(found - own["estimate"]) < 2 * own["se"]).all()
    assert found["a"] > 1.7 * means(last_year)["estimate"]["a"]


def test_sequences_weights_and_strata_have_two_years_too(tmp_path):
    old, new = people(1_500, 1), people(800, 2)
    frame = new.frame.assign(town=np.arange(800) % 20)
    design = ss.SurveyDesign(frame, weights="w", psu="town")
    found = measured(design, FORMULAS, earlier=measured(old, FORMULAS, delta=1e-9))
    release = found.release(4, seed=1)
    back = ss.read_release(release.write(tmp_path / "r"))
    table, again = (each.tables("region", outcome="pay") for each in (release, back))
    pd.testing.assert_frame_equal(table, again, check_dtype=False)
    assert back.more(4, seed=3).m == 8
    assert "noisy tables of an earlier year" in str(release.privacy)
    assert release.privacy.epsilon == 10.0 and release.privacy.delta == 1e-9 and len(release.rests_on) == 2
    assert back.privacy == release.privacy and back.measured.delta == 1e-9


@pytest.mark.parametrize("other", [False, True])
def test_epsilon_is_that_of_people_who_are_in_both_years(other):
    """Whatever the files: were it told apart by their values, the report would say whether these are the same."""
    first = measured(people(500, 1))
    twice = measured(people(500, 1 + other), earlier=first, epsilon=3.0).release(4, seed=1)
    assert twice.privacy.epsilon == pytest.approx(8.0) and twice.privacy.neighbours["replace one record's "
                                                                                    "confidential values"] == 16.0
    assert twice.privacy.epsilon_requested == 3.0 and len(twice.rests_on) == 2
    assert "3 of this year's tables, and 5 of those" in str(twice.privacy)


def test_deltas_add_up_and_noise_that_a_seed_undoes_is_not_for_publication():
    first = measured(people(300, 1), delta=1e-9)
    both = measured(people(300, 2), earlier=first, delta=1e-8).release(4, seed=1)
    assert both.privacy.delta == pytest.approx(1.1e-8) and "delta = 1.1e-08" in both.privacy.spent
    assert not measured(people(300, 2), earlier=first, seed=None).source.publishable
    third = measured(people(300, 3), earlier=measured(people(300, 2), earlier=first), epsilon=1.0).release(4, seed=1)
    assert third.privacy.epsilon == pytest.approx(11.0) and third.privacy.delta == 1e-9


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"formulas": "pay ~ region"}, "another formula"),
        ({"formulas": FORMULAS}, "'job' was not measured"),
        ({"outcomes": {"pay": Outcome(bounds=(0, 900_000), zeros=True)}}, "another schema"),
        ({"outcomes": {"pay": Outcome(bounds=(0, 1_000_000))}}, "another schema"),
        ({"weight_bounds": (0.1, 9)}, "other weight bounds"),
        ({"earlier": "measured/"}, "takes measurements"),
        ({"unit": "sex"}, "units of several records"),
    ],
)
def test_another_years_of_something_else_are_refused(last_year, changes, said):
    changes = dict(changes)
    formulas = changes.pop("formulas", "pay ~ region + sex")
    with pytest.raises(InputError, match=said):
        measured(people(300, 2), formulas, **{"earlier": last_year} | changes)


def test_levels_and_numbers_that_do_not_agree_are_refused(last_year):
    few = people(300, 2)
    some = ss.SurveyDesign(few.frame[few.frame["region"] != "c"].reset_index(drop=True), weights="w")
    with pytest.raises(InputError, match="1 levels of 'region' are not in this file"):
        measured(some, earlier=last_year)
    rng = np.random.default_rng(1)
    numbers = ss.SurveyDesign(few.frame.assign(region=rng.random(300)), weights="w")
    old = measured(numbers)
    with pytest.raises(InputError, match="'region' is a number"):
        measured(numbers, earlier=old)
