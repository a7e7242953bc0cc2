"""The R package in r_bridge/ reads a release and combines to the numbers that Python has."""

import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss

R_BRIDGE = Path(__file__).parents[1] / "r_bridge"
SCRIPT = """
source(commandArgs(TRUE)[1])
suppressMessages(library(survey))
release <- read_release(commandArgs(TRUE)[2])
by_field <- as.data.frame(combine(with_release(release, svyby(~y, ~field, design, svymean))))
total <- as.data.frame(combine(with_release(release, svymean(~y, design))))
counting <- with_release(release, svyby(~one, ~field, update(design, one = 1), svytotal), counts = TRUE)
counts <- as.data.frame(combine(counting))
write.csv(rbind(by_field, total, counts), commandArgs(TRUE)[3], row.names = FALSE)
"""


def run_r(*arguments):
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


MODELS = {
    "FBS": (ss.FBS("y", "field", prior="flat"), None),
    "FBP": (ss.FBP("y", "field", prior="flat"), None),
    "FBP as in the paper": (ss.FBP.paper("y", "field", prior="flat"), None),
    "totals by stratum": (ss.FBP("y", "field + size", prior="flat"), {"01": 1000, "02": 1500, "NA": 2000}),
}


@pytest.fixture(params=MODELS)
def release(tmp_path, request):
    rng = np.random.default_rng(3)
    n = 240
    frame = pd.DataFrame({"field": np.repeat(["01", "02", "NA"], n // 3), "id": range(n)})
    frame["y"] = np.exp(rng.normal(3 + 0.2 * (frame["field"] == "02"), 0.5))
    frame["wt"] = np.exp(-0.3 * np.log(frame["y"]) + rng.normal(0, 0.3, n))
    frame["size"] = rng.choice(["large", "small"], n)
    design = ss.SurveyDesign(frame, weights="wt", strata="field")
    model, totals = MODELS[request.param]
    release = ss.synthesize(design, model, epsilon=12, m=3, seed=1, population_total=totals)
    release.write(tmp_path / "release")
    return release


def test_r_combines_a_release_to_the_same_numbers(r, release, tmp_path):
    script = tmp_path / "combine.R"
    script.write_text(SCRIPT)
    out = tmp_path / "out.csv"
    run_r("Rscript", "--vanilla", script, R_BRIDGE / "R" / "release.R", tmp_path / "release", out)
    ours = pd.concat([release.tables("field", statistic="mean"), release.tables("field", statistic="count").iloc[:3]])
    theirs = pd.read_csv(out)
    for column in ("estimate", "se", "df", "ci_low", "ci_high"):
        free = ours["se"].to_numpy() > 0  # a public total: R leaves rounding noise
        np.testing.assert_allclose(theirs[column][free], ours[column][free], rtol=1e-9)
    np.testing.assert_allclose(theirs["estimate"], ours["estimate"], rtol=1e-9)
    assert (theirs["se"][ours["se"].to_numpy() == 0] < 1e-6).all()


def test_testthat_suite(r, tmp_path):
    run_r("R", "CMD", "INSTALL", "--no-docs", f"--library={tmp_path}", R_BRIDGE)
    tests = R_BRIDGE / "tests" / "testthat"
    said = run_r(
        "Rscript", "-e", f".libPaths(c('{tmp_path}', .libPaths()))", "-e",
        f"library(surveysynth); testthat::test_dir('{tests}', reporter='summary', stop_on_failure=TRUE)",
    )  # fmt: skip
    assert "DONE" in said
    assert "Skipped" not in said
