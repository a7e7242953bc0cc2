"""What a release would cost, as a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import surveysynth as ss
from surveysynth.cli.app import app
from surveysynth.models.normal import relative
from tests.conftest import Seen, targets_of

FORMULA = "income ~ division + education"


@pytest.fixture(scope="module")
def design() -> ss.SurveyDesign:
    return ss.datasets.census_sample(2000, 20261123)


def test_a_table_of_strict_releases_is_that_of_the_expected_accuracy(design: ss.SurveyDesign) -> None:
    """With 2 K + 5 parameters, K = 12; refused is what the release itself refuses."""
    table = ss.privacy_cost(design, FORMULA).set_index(["m", "epsilon"])
    for (m, epsilon), row in table.iterrows():
        try:
            expected = ss.expected_se(2000, 2 * 12 + 5, epsilon, m)
        except ss.PrivacyError:
            assert row["verdict"] == "refused"
            assert np.isnan(row["se_ratio"])
        else:
            assert row["verdict"] == "possible"
            assert row["se_ratio"] == pytest.approx(expected)
    assert set(table["verdict"]) == {"refused", "possible"}


@pytest.mark.parametrize(
    ("formula", "roles", "public"),
    [
        ("pay ~ region", {}, False), ("pay + C(job) ~ region", {}, False), ("pay ~ region", {"psu": "place"}, False),
        ("pay ~ region", {}, True), ("pay ~ region", {"psu": "place"}, True),
    ],
)  # fmt: skip
def test_information_is_what_the_release_has_whatever_else_is_measured(monkeypatch, formula, roles, public) -> None:
    """Scores, first draw, shares of categories, shares of PSUs: none of them is forgotten."""
    targets = targets_of(relative, monkeypatch, last=1 if public else 2)
    rng, n = np.random.default_rng(1), 4_000
    frame = pd.DataFrame({
        "region": rng.choice(["east", "west"], n), "job": pd.Categorical(rng.choice(["full", "none"], n)),
        "place": np.arange(n) // 50,
        "pay": np.exp(9 + rng.standard_normal(n)), "w": np.exp(rng.standard_normal(n)),
    })  # fmt: skip
    file = ss.SurveyDesign(frame, weights="w", **roles)
    strict, bounds = ss.Strict(), {"bounds": (0, 1e6), "warmup": 300}  # of a fit to records
    if public:  # which says nothing of PSUs
        plain = ss.SurveyDesign(frame.assign(pay=frame["pay"] * rng.uniform(1, 1.1, n)), weights="w")
        reference = ss.Reference.from_public(plain, ss.FBS(formula), population_total=frame["w"].sum(), source="a file")
        strict, bounds = ss.Strict(reference=reference), {}
    table = ss.privacy_cost(file, formula, mechanism=strict, m=3).set_index("epsilon")
    with pytest.raises(Seen):
        ss.synthesize(file, formula, mechanism=strict, epsilon=5, m=3, population_total=frame["w"].sum(), **bounds)
    assert targets[-1].tempering.sum() / n == pytest.approx(table.loc[5, "information"], rel=1e-9)


def test_it_looks_at_no_confidential_value(design: ss.SurveyDesign) -> None:
    rng = np.random.default_rng(5)
    frame = design.frame.assign(income=rng.exponential(9, design.n), weight=rng.uniform(1, 9, design.n))
    other = ss.SurveyDesign(frame, weights="weight", strata="division")
    assert ss.privacy_cost(design, FORMULA).equals(ss.privacy_cost(other, FORMULA))


@pytest.mark.slow
def test_a_table_of_privacy_weights_has_what_single_settings_have(design: ss.SurveyDesign) -> None:
    model, pseudo = ss.FBS(FORMULA, prior="flat"), ss.PseudoPosterior()
    table = ss.privacy_cost(design, model, m=3, mechanism=pseudo, seed=1).set_index("epsilon")
    assert table.loc[1, "verdict"] == "refused"
    for epsilon in (3, 20):
        cost = ss.privacy_cost(design, model, epsilon=epsilon, m=3, seed=1)
        assert table.loc[epsilon, "information"] == pytest.approx(cost.mean_alpha)
        assert (table.loc[epsilon, "verdict"] == "possible") == (cost.mean_alpha >= 0.3)


def test_a_table_of_privacy_weights_tells_what_is_wrong_with_the_file(design: ss.SurveyDesign) -> None:
    with pytest.raises(ss.InputError, match="no column 'tenure'"):
        ss.privacy_cost(design, "income ~ tenure", mechanism=ss.PseudoPosterior())
    with pytest.raises(ss.InputError, match=r"leave epsilon= out for a table"):
        ss.privacy_cost(design, FORMULA, epsilon=3, mechanism=ss.Strict())
    with pytest.raises(ss.InputError, match="say how much privacy to spend"):
        ss.privacy_cost(design, ss.FBS(FORMULA), mechanism=ss.Censored())


@pytest.mark.slow
def test_the_command_prints_a_table(design: ss.SurveyDesign, tmp_path) -> None:
    file = tmp_path / "f.csv"
    design.frame.to_csv(file, index=False)
    words = ["privacy-cost", str(file), "--weights", "weight", "--formula", "income ~ education"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    table = ss.privacy_cost(design, "income ~ education").set_index(["m", "epsilon"])
    shown = f"{table.loc[(3, 5.0), 'information']:.0%}, {table.loc[(3, 5.0), 'se_ratio']:.2f} x"
    assert shown in done.stdout
    assert "public facts alone" in done.stdout
    pseudo = ["--set", "privacy.mechanism=pseudo-posterior", "--set", "model.prior=flat", "--set", "release.m=2"]
    priced = CliRunner().invoke(app, [*words, *pseudo])
    assert "keep them inside" in priced.stdout, priced.output
