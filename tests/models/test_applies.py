"""Questions that do not apply to all: who is asked is confidential where it hangs on an earlier outcome."""

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth.design.recode import with_missing
from tests.models.test_sequential import make_design, make_frame, sampler

FIRST, SECOND = ss.FBS("income ~ region", prior="flat"), ss.FBS("rent ~ region + log(income)", prior="flat")
RULE = {"rent": "income > 22000"}
SOME = ss.Sequential([FIRST, SECOND], applies=RULE)


def test_a_model_is_that_of_the_records_to_which_it_applies():
    """Posterior means are least squares of these alone; others have the density of their income and weight."""
    design = make_design()
    records = SOME.prepare(design)
    draws = SOME.fit(records, np.ones(design.n), sampler(4000))
    frame, log_w = design.frame, np.log(design.weights / design.weights.mean())
    asked = (frame["income"] > 22_000).to_numpy()
    assert 0.2 < asked.mean() < 0.8
    region = pd.get_dummies(frame["region"]).to_numpy(float)[:, 1:]
    X = np.column_stack([np.ones(design.n), region, np.log(frame["income"]), log_w])[asked]
    expected = np.linalg.lstsq(X, np.log(frame["rent"])[asked], rcond=None)[0]
    b = draws["1.B"][:, :, 0]
    assert (np.abs(b.mean(axis=0) - expected) < 5 * b.std(axis=0) / 4000**0.5).all()
    few = draws.subset(range(5))
    alone = FIRST.log_density(records.first, few.subset(range(5), {"B": few["0.B"], "L": few["0.L"]}))
    together = SOME.log_density(records, few)
    np.testing.assert_allclose(together[:, ~asked], alone[:, ~asked])
    assert (np.abs(together[:, asked] - alone[:, asked]) > 1e-6).all()


@pytest.mark.parametrize("elsewhere", [np.nan, -9.0, 1e12])
def test_what_the_file_has_elsewhere_is_not_looked_at(elsewhere):
    frame = make_frame()
    plain = SOME.fit(SOME.prepare(ss.SurveyDesign(frame, weights="w")), np.ones(600), sampler(5))
    frame["rent"] = frame["rent"].where(frame["income"] > 22_000, elsewhere)
    moved = SOME.fit(SOME.prepare(ss.SurveyDesign(frame, weights="w")), np.ones(600), sampler(5))
    for name, value in plain.values.items():
        np.testing.assert_array_equal(moved[name], value)


SETTINGS = {
    "epsilon": 30, "mechanism": ss.PseudoPosterior(), "m": 4, "seed": 4, "accept_diagnostics": ["information"],
}  # fmt: skip


def test_a_release_is_missing_or_0_where_a_question_does_not_apply(tmp_path):
    design = make_design(2000)
    asked = design.frame["income"] > 22_000
    own = ss.SurveyDesign(design.frame.assign(rent=design.frame["rent"].where(asked)), weights="w")
    total = design.weights.sum()
    release = ss.synthesize(own, SOME, population_total=total, **SETTINGS)
    for each in release.datasets:
        assert (each.frame["rent"].isna() == ~(each.frame["income"] > 22_000)).all()
    table = release.tables("region", outcome="rent", statistic="mean")
    confidential = ss.estimate(own, "rent", "region", "mean", missing="drop")
    far = 4 * np.hypot(table["se"].to_numpy(), confidential["se"].to_numpy())
    assert (np.abs(table["estimate"].to_numpy() - confidential["estimate"].to_numpy()) < far).all()
    back = ss.read_release(release.write(tmp_path / "release", by=["region"]))
    assert back.method["applies"] == RULE and back.method["elsewhere"] == {"rent": "missing"}
    assert back.datasets[0].frame["rent"].isna().mean() == release.datasets[0].frame["rent"].isna().mean() > 0.2
    assert "rent applies where income > 22000, a public rule, and is missing elsewhere" in str(release.privacy)
    none = ss.Sequential([FIRST, SECOND], applies=RULE, elsewhere={"rent": 0})
    zeros = ss.synthesize(own, none, population_total=total, **SETTINGS)
    frame = zeros.datasets[0].frame
    assert (frame["rent"].eq(0) == ~(frame["income"] > 22_000)).all()
    np.testing.assert_allclose(frame["rent"], release.datasets[0].frame["rent"].fillna(0))  # the same draws


def test_later_models_and_rules_see_what_is_elsewhere():
    """Rent of those with 0 elsewhere is a predictor of visits; a rule on it follows the rule before."""
    models = [FIRST, SECOND, ss.FBS("tax ~ region + log(rent + 1)", prior="flat")]
    sequence = ss.Sequential(models, applies=RULE | {"tax": "rent > 700"}, elsewhere={"rent": 0, "tax": 0})
    frame = make_frame(1500)
    frame["tax"] = frame["rent"] * 0.2 * np.exp(0.1 * np.random.default_rng(1).standard_normal(1500))
    release = ss.synthesize(ss.SurveyDesign(frame, weights="w"), sequence, population_total=9e4, **SETTINGS)
    for each in release.datasets:
        taxed = each.frame["tax"] > 0
        assert (taxed == (each.frame["rent"] > 700)).all() and (each.frame["income"][taxed] > 22_000).all()


def test_categories_that_do_not_apply_are_a_level_of_their_own():
    """Numbers become text; predictors keep that level; pseudo posterior."""
    frame = make_frame(800)
    frame["floor"] = np.random.default_rng(3).integers(1, 4, 800).astype(float)
    frame.loc[frame["income"] < 22_000, "floor"] = np.nan
    sequence = ss.Sequential(
        [FIRST, ss.MultinomialRegression("C(floor) ~ region"), ss.FBS("rent ~ floor", prior="flat")],
        applies={"floor": "income >= 22000"},
    )
    design = ss.SurveyDesign(frame, weights="w")
    records = sequence.prepare(design)
    assert list(records.others[0].levels) == ["1", "2", "3"]
    assert any("not applicable" in column for column in records.others[1].columns)
    draws = sequence.fit(records, np.full(800, 0.8), sampler(400))
    made = sequence.simulate(records.public, draws.subset([3]), np.random.default_rng(4))
    asked = made.outcomes[:, 0] >= 22_000
    assert set(made.labels["floor"][asked]) == {"1", "2", "3"}
    assert set(made.labels["floor"][~asked]) == {"not applicable"}


def test_missing_is_a_category_where_that_is_declared():
    """Of the question, and among predictors of later models; those who are not asked are another one."""
    frame = make_frame(800)
    frame["floor"] = pd.Series(np.random.default_rng(3).choice([1.0, 2.0, np.nan], 800))
    floor = ss.MultinomialRegression("C(floor) ~ region", missing="category")
    sequence = ss.Sequential(
        [FIRST, floor, ss.FBS("rent ~ floor", prior="flat")], applies={"floor": "income >= 22000"}
    )
    records = sequence.prepare(ss.SurveyDesign(frame, weights="w"))
    assert list(records.others[0].levels) == ["1", "2", "missing"]
    assert sum("missing" in column or "not applicable" in column for column in records.others[1].columns) == 2
    asked = frame["income"] >= 22_000
    np.testing.assert_array_equal(records.others[0].category[asked] == 2, frame["floor"][asked].isna())
    with pytest.raises(ss.InputError, match="has a category 'missing' already"):
        with_missing(pd.Series(["missing", None], name="floor"))
    with pytest.raises(ss.InputError, match="missing"):
        ss.NegativeBinomialRegression("visits ~ region", missing="category")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"applies": {"income": "region == 'east'"}}, "'income' is not the one outcome of a later model"),
        ({"applies": {"visits": "income > 1"}}, "'visits' is not the one outcome"),
        ({"applies": {"rent": "rent > 1"}}, "names rent, which no earlier model has"),
        ({"applies": {"rent": ""}}, "conditions on columns, as text"),
        ({"applies": {"rent": "abs(income) > 1"}}, "calls a function"),
        ({"elsewhere": {"rent": 0}}, "'rent' has no condition in applies"),
        ({"applies": RULE, "elsewhere": {"rent": -9}}, "'rent' is 0, or missing if it is left out"),
        ({"applies": RULE, "elsewhere": {"rent": "none"}}, "'rent' is 0, or missing if it is left out"),
    ],
)
def test_rules_that_are_none_are_refused_by_name(options, said):
    with pytest.raises(ss.InputError, match=said):
        ss.Sequential([FIRST, SECOND], **options)


def test_a_rule_that_applies_to_nobody_is_refused():
    with pytest.raises(ss.InputError, match="rent applies to no record"):
        ss.Sequential([FIRST, SECOND], applies={"rent": "income > 1e9"}).prepare(make_design(100))


def test_columns_of_rules_are_public_predictors():
    sequence = ss.Sequential([FIRST, SECOND], applies={"rent": "sector == 'public'"})
    assert sequence.predictor_columns == ("region", "sector")
