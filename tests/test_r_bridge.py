"""The R package in r_bridge/ reads a release and combines to the numbers that Python has."""

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from tests.surveys import PSEUDO

COMBINE = """
release <- read_release("release")
by_field <- as.data.frame(combine_release(with_release(release, svyby(~y, ~field, design, svymean))))
total <- as.data.frame(combine_release(with_release(release, svymean(~y, design))))
counting <- with_release(release, svyby(~one, ~field, update(design, one = 1), svytotal), counts = TRUE)
counts <- as.data.frame(combine_release(counting))
columns <- c("estimate", "se", "df", "ci_low", "ci_high")
write.csv(rbind(by_field[columns], total[columns], counts[columns]), "out.csv", row.names = FALSE)
"""
MODELS = {
    "FBS": (ss.FBS("y", "field", prior="flat"), None),
    "FBP": (ss.FBP("y", "field", prior="flat"), None),
    "FBP as in the paper": (ss.FBP.paper("y", "field", prior="flat"), None),
    "totals by stratum": (ss.FBP("y", "field + size", prior="flat"), {"01": 1000, "02": 1500, "NA": 2000}),
}
SIZES = ["large", "small"]


def made_frame():
    rng = np.random.default_rng(3)
    n = 240
    frame = pd.DataFrame({"field": np.repeat(["01", "02", "NA"], n // 3), "id": range(n)})
    frame["y"] = np.exp(rng.normal(3 + 0.2 * (frame["field"] == "02"), 0.5))
    frame["wt"] = np.exp(-0.3 * np.log(frame["y"]) + rng.normal(0, 0.3, n))
    return frame.assign(size=rng.choice(SIZES, n))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_r_combines_a_release_to_the_same_numbers(rscript, name, tmp_path):
    model, totals = MODELS[name]
    design = ss.SurveyDesign(made_frame(), weights="wt", strata="field")
    release = ss.synthesize(design, model, epsilon=12, m=3, seed=1, population_total=totals, mechanism=PSEUDO)
    release.write(tmp_path / "release")
    rscript(COMBINE, tmp_path)
    ours = pd.concat([release.tables("field", statistic="mean"), release.tables("field", statistic="count").iloc[:3]])
    theirs = pd.read_csv(tmp_path / "out.csv")
    for column in ("estimate", "se", "df", "ci_low", "ci_high"):
        free = ours["se"].to_numpy() > 0  # a public total: R leaves rounding noise
        np.testing.assert_allclose(theirs[column][free], ours[column][free], rtol=1e-9)
    np.testing.assert_allclose(theirs["estimate"], ours["estimate"], rtol=1e-9)
    assert (theirs["se"][ours["se"].to_numpy() == 0] < 1e-6).all()


CALIBRATED = {
    "post-stratified": {"size": {"large": 900, "small": 1100}},
    "crossed": {("field", "size"): {(f, s): 300 + 20 * i for i, f in enumerate(["01", "02", "NA"]) for s in SIZES}},
    "raked": {"field": {"01": 500, "02": 700, "NA": 800}, "size": {"large": 900, "small": 1100}},
}


@pytest.mark.slow
@pytest.mark.parametrize("model", [ss.FBS, ss.FBP])
@pytest.mark.parametrize("name", CALIBRATED)
def test_r_knows_what_a_release_was_calibrated_to(rscript, tmp_path, model, name):
    release = ss.synthesize(
        ss.SurveyDesign(made_frame(), weights="wt", strata="field"),
        model("y", "field + size", prior="flat"), epsilon=12, m=2, seed=1, population_total=2000, mechanism=PSEUDO
    ).calibrate(CALIBRATED[name])  # fmt: skip
    release.write(tmp_path / "release")
    rscript(COMBINE, tmp_path)
    theirs = pd.read_csv(tmp_path / "out.csv")
    again = ss.read_release(tmp_path / "release")
    for ours in (release, again):
        tables = [ours.tables("field", statistic="mean"), ours.tables("field", statistic="count").iloc[:3]]
        table = pd.concat(tables)
        np.testing.assert_allclose(theirs["estimate"], table["estimate"], rtol=1e-8)
        np.testing.assert_allclose(theirs["se"], table["se"], rtol=1e-7, atol=1e-6)
        fixed = (table["se"] == 0).to_numpy()
        assert fixed.sum() == (0 if name == "post-stratified" else 3)
