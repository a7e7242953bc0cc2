"""Edit rules: every synthetic record obeys them, by another draw of the same record from the same parameters."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import surveysynth as ss
from surveysynth.models.draws import Synthetic
from surveysynth.synthesis.edits import check_rules, obeyed, redrawn
from tests.models.test_sequential import make_design

MODELS = ["income ~ region", "rent ~ region + log(income)"]
SETTINGS = {"epsilon": 30, "mechanism": ss.PseudoPosterior(), "m": 2, "seed": 1, "population_total": 30_000}
ACCEPT = ["information"]  # whatever privacy weights leave


def test_records_obey_them_and_others_stay_as_they_were():
    design = make_design(800)
    rules = ["rent * 30 <= income", "income > 5000"]
    plain = ss.fit(design, MODELS, **SETTINGS).release(accept_diagnostics=ACCEPT)
    edited = ss.fit(design, MODELS, **SETTINGS).release(accept_diagnostics=ACCEPT, edits=rules)
    for before, after in zip(plain.datasets, edited.datasets, strict=True):
        assert (after.frame["rent"] * 30 <= after.frame["income"]).all() and (after.frame["income"] > 5000).all()
        obeys = (before.frame["rent"] * 30 <= before.frame["income"]) & (before.frame["income"] > 5000)
        assert 0.02 < (~obeys).mean() < 0.9
    assert edited.privacy.epsilon == plain.privacy.epsilon
    assert "drawn again: rent * 30 <= income; income > 5000" in str(edited.privacy)
    assert edited.method["edits"] == ["rent * 30 <= income", "income > 5000"]
    shares = edited.privacy.internal["redrawn_by_edits"]
    assert len(shares) == 2 and all(0.02 < share < 0.9 for share in shares)
    assert "redrawn_by_edits" not in plain.privacy.internal


def normals(rng, n):
    return Synthetic(rng.standard_normal((n, 1)), np.ones(n))


def test_what_is_drawn_is_the_model_given_the_rules():
    """Normals above 1: the mean of the truncated normal (Johnson, Kotz & Balakrishnan 1994, eq. 13.134)."""
    rng, n = np.random.default_rng(2), 200_000
    made, share = redrawn(
        normals(rng, n), lambda: normals(rng, n), ["y > 1"], lambda m: pd.DataFrame({"y": m.outcomes[:, 0]})
    )
    y = made.outcomes[:, 0]
    assert y.min() > 1
    assert share == pytest.approx(norm.cdf(1), abs=4 * 0.4 / n**0.5)
    assert y.mean() == pytest.approx(norm.pdf(1) / norm.sf(1), abs=4 * 0.45 / n**0.5)


def test_records_that_obey_keep_every_value_and_the_others_get_all_of_another_draw():
    rng = np.random.default_rng(3)

    def draw():
        y = rng.standard_normal((50, 2))
        return Synthetic(y, y[:, 0] + 10, {"job": pd.Series(np.where(y[:, 1] > 0, "a", "b"))}, y[:, 0] + 10)

    first = draw()
    made, _ = redrawn(
        first, draw, ["y > 0 or job == 'a'"], lambda m: pd.DataFrame({"y": m.outcomes[:, 0], "job": m.labels["job"]})
    )
    kept = (first.outcomes[:, 0] > 0) | (first.labels["job"] == "a")
    np.testing.assert_array_equal(made.outcomes[kept], first.outcomes[kept])
    np.testing.assert_array_equal(made.weights, made.outcomes[:, 0] + 10)  # of the same draw as the outcomes
    np.testing.assert_array_equal(made.count_weights, made.weights)
    assert (made.labels["job"] == np.where(made.outcomes[:, 1] > 0, "a", "b")).all()


def test_a_rule_that_the_model_hardly_obeys_is_an_error():
    rng = np.random.default_rng(4)
    with pytest.raises(ss.ModelError, match="in every one of 100 draws"):
        redrawn(
            normals(rng, 20), lambda: normals(rng, 20), ["y > 9"], lambda m: pd.DataFrame({"y": m.outcomes[:, 0]})
        )


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("rent <= salary", "names salary, which synthetic files do not have: they hold region, income, rent"),
        ("`net rent` > 0", "names net rent"),
        ("rent <", "is no condition"),
        ("", "conditions on columns"),
        (7, "conditions on columns"),
        ("abs(rent) > 0", "calls a function"),
        ("@rent > 0", "is no condition"),
    ],
)
def test_rules_that_are_none_are_refused_at_the_door(rule, said):
    with pytest.raises(ss.InputError, match=said):
        ss.synthesize(make_design(100), MODELS, edits=[rule], **SETTINGS)


@pytest.mark.parametrize("rule", ["rent + income", "region > income"])
def test_what_is_no_condition_once_it_is_evaluated_is_refused(rule):
    with pytest.raises(ss.InputError, match=r"no condition|cannot be evaluated"):
        obeyed([rule], make_design(20).frame)


def test_conditions_can_be_joined_and_name_columns_with_spaces():
    frame = pd.DataFrame({"net rent": [1.0, -1.0, np.nan], "job": ["a", "b", "a"]})
    assert check_rules("`net rent` > 0 & job == 'a'", list(frame)) == ["`net rent` > 0 & job == 'a'"]
    np.testing.assert_array_equal(obeyed(["`net rent` > 0 or job == 'b'"], frame), [True, True, False])


def test_a_plan_says_them(tmp_path):
    make_design(600).frame.to_csv(tmp_path / "file.csv", index=False)
    (tmp_path / "plan.toml").write_text(
        """
        [survey]
        file = "file.csv"
        weights = "w"
        [model]
        formula = "income ~ region"
        later = ["rent ~ region + log(income)"]
        [privacy]
        epsilon = 30
        mechanism = "pseudo-posterior"
        population_total = 30000
        [release]
        accept = ["information"]
        [edits]
        rules = ["rent <= income / 12"]
        derive = {left = "income - 12 * rent", poor = "left < 10000"}
        """
    )
    plan = ss.Plan.read(tmp_path / "plan.toml")
    release = plan.release(seed=5)
    assert all((each.frame["rent"] <= each.frame["income"] / 12).all() for each in release.datasets)
    for each in release.datasets:
        assert (each.frame["left"] == each.frame["income"] - 12 * each.frame["rent"]).all()
    assert "rent <= income / 12" in plan.to_toml()
    back = ss.read_release(plan.write(release, tmp_path / "release"))
    assert {"left", "poor"} <= set(back.datasets[0].frame)
    assert back.tables("region", outcome="left", statistic="mean")["se"].gt(0).all()
    for derive, said in [({"income": "rent"}, "is a column of the synthetic files"), ({"x": "wage + 1"}, "names wage"),
                         ({"x": "region * income"}, "stopped with")]:  # fmt: skip
        with pytest.raises(ss.InputError, match=said):
            plan.set(derive=derive).release(seed=5)


def test_a_rule_that_forces_a_value_that_is_not_declared_is_told():
    """Rent is at most pay, and a third have no pay: without zeros of rent, these records are drawn again as a whole."""
    rng, n = np.random.default_rng(1), 600
    pay = np.where(rng.random(n) < 1 / 3, 0.0, rng.lognormal(7, 0.5, n))
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "pay": pay, "rent": pay * rng.random(n), "w": 10.0})
    design = ss.SurveyDesign(frame, weights="w")

    def release(**rent):
        outcomes = {"pay": ss.Outcome(bounds=(0, 10_000), zeros=True), "rent": ss.Outcome(bounds=(0, 10_000), **rent)}
        return ss.synthesize(
            design, ["pay ~ sex", "rent ~ sex + pay"], epsilon=20, weight="public", outcomes=outcomes,
            edits=["rent <= pay"], m=4, seed=1,
        )  # fmt: skip

    with pytest.warns(UserWarning, match="broke a rule of edits= and were drawn again"):
        without = release()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*broke a rule of edits=")
        with_zeros = release(zeros=True)
    shares = [np.mean([(d.frame["pay"] == 0).mean() for d in made.datasets]) for made in (without, with_zeros)]
    assert shares[0] < 0.1 < 0.25 < shares[1]
