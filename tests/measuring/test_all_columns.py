"""Formulas whose right-hand side is a dot."""

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth import InputError, Outcome
from surveysynth.synthesis.all_columns import written_out

SCHEMA = {
    "job": Outcome(levels=["yes", "no"]), "pay": Outcome(bounds=(0, 500_000)), "our rent": Outcome(bounds=(0, 9_000)),
}  # fmt: skip
PUBLIC = ["region", "sex", "home town"]


def people(n=600, seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"region": rng.choice(list("abc"), n), "sex": rng.choice(["f", "m"], n)})
    frame["home town"] = rng.choice([f"town {k}" for k in range(40)], n)
    frame["job"] = rng.choice(["yes", "no"], n)
    frame["pay"], frame["our rent"] = np.exp(10 + 0.5 * rng.standard_normal((2, n)) - np.array([[0], [3]]))
    return ss.SurveyDesign(frame.assign(w=100.0), weights="w")


def out(formula, epsilon=None, public=PUBLIC, design=None, delta=None):
    return written_out(people() if design is None else design, formula, public, epsilon, delta, SCHEMA)


def test_a_dot_is_every_public_column_and_every_outcome_before():
    assert out(["job ~ .", "pay ~ .", "`our rent` ~ ."]) == [
        "job ~ region + sex + `home town`", "pay ~ region + sex + `home town` + job",
        "`our rent` ~ region + sex + `home town` + job + pay",
    ]  # fmt: skip
    assert out("C(job) + pay ~ .") == ["job ~ region + sex + `home town`", "pay ~ region + sex + `home town` + job"]
    assert out("pay ~ .") == "pay ~ region + sex + `home town`"
    assert out(["job ~ sex", "pay ~ ."])[1] == "pay ~ region + sex + `home town` + job"
    assert out("pay ~ .", public=[]) == "pay ~ 1"


@pytest.mark.parametrize("formula", ["pay ~ region", ["job ~ sex", "pay ~ sex + job"], ss.FBS("pay ~ sex"), None, 3])
def test_what_has_no_dot_comes_back_as_it_is(formula):
    assert out(formula, public=None) is formula


def test_tables_that_noise_would_drown_are_left_out_by_public_numbers():
    """Forty towns go first, then regions; more records, more epsilon or, of many tables, Gaussian noise keep them."""
    formulas = ["job ~ .", "pay ~ ."]
    assert out(formulas, 100.0)[1] == "pay ~ region + sex + `home town` + job"
    assert out(formulas, 10.0)[1] == "pay ~ region + sex + job"
    assert out(formulas, 0.1)[1] == "pay ~ sex"
    assert out(formulas, 10.0, design=people(40_000))[1] == "pay ~ region + sex + `home town` + job"
    many = ["job ~ .", *(f"y{k} ~ ." for k in range(20))]
    kept = [len(out(many, 10.0, delta=delta)[-1].split("+")) for delta in (None, 1e-6)]
    assert kept[0] < kept[1]


def test_a_release_says_what_was_measured():
    design, given = people(1_000), {"epsilon": 9.0, "population_total": 1e5, "outcomes": SCHEMA}
    release = ss.synthesize(design, "job + pay + `our rent` ~ .", public=PUBLIC, m=4, seed=1, **given)
    assert release.method["formula"] == (
        "job ~ region + sex; pay ~ region + sex + job; our rent ~ region + sex + job + pay"
    )
    assert list(release.datasets[0].frame) == ["region", "sex", "job", "pay", "our rent", "w"]
    expected = ss.expected_errors(design, "job + pay + `our rent` ~ .", public=PUBLIC, by="sex", m=4, **given)
    assert set(expected["outcome"]) == set(SCHEMA) and (expected["ratio"] > 0.5).all()


@pytest.mark.parametrize(
    ("formula", "public", "said"),
    [
        ("pay ~ .", None, "public=\\['region', 'sex'"),
        ("pay ~ . + region", PUBLIC, "a dot stands alone"),
        ("pay ~ .", ["wealth"], "wealth"),
    ],
)
def test_dots_that_say_too_little_are_refused(formula, public, said):
    with pytest.raises(InputError, match=said):
        ss.measure(people(), formula, public=public, epsilon=5, population_total=1e5, outcomes={"pay": SCHEMA["pay"]})
