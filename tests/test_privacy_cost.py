"""What a release would cost, as a table."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import surveysynth as ss
from surveysynth.cli.app import app

FORMULA = "income ~ division + education"


@pytest.fixture(scope="module")
def design() -> ss.SurveyDesign:
    return ss.datasets.census_sample(2000, 20261123)


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
    for said in ({}, {"epsilon": 3}):
        with pytest.raises(ss.InputError, match=r"expected_errors\(\) predicts their accuracy"):
            ss.privacy_cost(design, FORMULA, mechanism=ss.Strict(), **said)
    with pytest.raises(ss.InputError, match="give the privacy budget"):
        ss.privacy_cost(design, ss.FBS(FORMULA), mechanism=ss.Censored())


@pytest.mark.slow
def test_the_command_prints_a_table(design: ss.SurveyDesign, tmp_path) -> None:
    file = tmp_path / "f.csv"
    design.frame.to_csv(file, index=False)
    words = [
        "privacy-cost", str(file), "--weights", "weight", "--strata", "division", "--formula", "income ~ education",
    ]  # fmt: skip
    with pytest.raises(ss.InputError, match=r"check\(\) predicts its accuracy"):
        CliRunner().invoke(app, words, catch_exceptions=False)
    pseudo = ["--set", "privacy.mechanism=pseudo-posterior", "--set", "model.prior=flat", "--set", "release.m=2"]
    done = CliRunner().invoke(app, [*words, *pseudo, "--seed", "1"])
    assert done.exit_code == 0, done.output
    design = ss.SurveyDesign.read(file, weights="weight", strata="division")  # levels as a csv file has them
    table = ss.privacy_cost(design, ss.FBS("income ~ education", prior="flat"), m=2, seed=1).set_index("epsilon")
    assert f"{table.loc[5.0, 'information']:.0%}, {table.loc[5.0, 'se_ratio']:.2f} x" in done.stdout
    assert "keep them inside" in done.stdout
