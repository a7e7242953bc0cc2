"""The R package: the same releases as from Python, and its own checks."""

import json
import os
import re
import shutil
import tarfile

import numpy as np
import pandas as pd
import pytest
from conftest import R_BRIDGE, run_r

import surveysynth as ss
from tests.surveys import PSEUDO

SYNTHESIZE = """
data(api)
design <- svydesign(id = ~1, strata = ~stype, weights = ~pw, data = apistrat)
synthesizer <- {synthesizer}
release <- suppressWarnings(synthesize(
  design, synthesizer, epsilon = 9, m = 2, seed = 7, population_total = 6194, accept_diagnostics = "information",
  mechanism = pseudo_posterior()
))
write_release(release, "from_r", by = c("stype", "awards"))
write.csv(tables(release, by = ~ stype + awards), "tables.csv", row.names = FALSE)
"""
OF_R = "classes_in_r", "checksum"
SAME = {
    "FBS, paper's prior": ("fbs(api00 ~ stype + awards)", ss.FBS("api00", "stype + awards")),
    "FBS": ('fbs("api00", ~ stype * awards, prior = "flat")', ss.FBS("api00", "stype * awards", prior="flat")),
    "FBP": ('fbp(api00 ~ stype + awards, prior = "flat")', ss.FBP("api00", "stype + awards", prior="flat")),
    "two outcomes": (
        'fbs(cbind(api00, api99) ~ stype + awards, prior = "flat")',
        ss.FBS(["api00", "api99"], "stype + awards", prior="flat"),
    ),
    "a count": ("negbin(enroll ~ stype + awards)", ss.NegativeBinomialRegression("enroll", "stype + awards")),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SAME)
def test_the_same_release_from_r_and_from_python(rscript, r, tmp_path, name):
    in_r, model = SAME[name]
    rscript(SYNTHESIZE.replace("{synthesizer}", in_r), tmp_path)
    design = ss.r.from_r(r.r("svydesign(id = ~1, strata = ~stype, weights = ~pw, data = apistrat)"))
    release = ss.synthesize(
        design,
        model,
        epsilon=9,
        m=2,
        seed=7,
        population_total=6194,
        accept_diagnostics=["information"],
        mechanism=PSEUDO,
    )
    release.write(tmp_path / "from_python", by=["stype", "awards"])
    for file in ("synthetic_1.csv", "synthetic_2.csv", "tables.csv", "manifest.json", "report.txt"):
        ours, theirs = ((tmp_path / side / "public" / file).read_bytes() for side in ("from_python", "from_r"))
        if file == "manifest.json":  # R's says, too, of which class its columns were
            ours, theirs = ({k: v for k, v in json.loads(each).items() if k not in OF_R} for each in (ours, theirs))
        assert ours == theirs, file
    theirs = pd.read_csv(tmp_path / "tables.csv")
    ours = release.tables(["stype", "awards"])
    np.testing.assert_allclose(theirs[["estimate", "se", "df"]], ours[["estimate", "se", "df"]], rtol=1e-14)


HERE = {  # what is this machine's and not the package's: no access to CRAN, no qpdf, other work at the same time
    "_R_CHECK_CRAN_INCOMING_": "false",
    "_R_CHECK_SYSTEM_CLOCK_": "false",
    "R_QPDF": "true",  # a command that is there; the package has no PDF
    "_R_CHECK_EXAMPLE_TIMING_THRESHOLD_": "60",
    "_R_CHECK_LENGTH_1_LOGIC2_": "false",  # survey's own svyCprod() of version 4.1.1
}


@pytest.mark.slow
def test_r_cmd_check_with_its_testthat_suite_and_its_vignette(r, tmp_path):
    shutil.copytree(R_BRIDGE, tmp_path / "surveysynth")
    run_r("R", "CMD", "build", "surveysynth", cwd=tmp_path)
    (built,) = tmp_path.glob("surveysynth_*.tar.gz")
    with tarfile.open(built) as parts:  # the vignette as it was built just now
        assert any(re.search(r"/inst/doc/.+\.html$", name) for name in parts.getnames())
    how = ("--no-manual", "--no-build-vignettes", *(["--as-cran"] if os.environ.get("SURVEYSYNTH_AS_CRAN") else []))
    said = run_r("R", "CMD", "check", *how, built.name, cwd=tmp_path, **HERE)
    print(said)
    assert len(re.findall(r"Rmd\W+using\W+UTF-8\W+OK", said)) == 3  # running R code from vignettes
    assert "Status: OK" in said
    suite = (tmp_path / "surveysynth.Rcheck" / "tests" / "testthat.Rout").read_text()
    closing = re.findall(r"\[ FAIL (\d+) \| WARN (\d+) \| SKIP (\d+) \| PASS (\d+) \]", suite)[-1]
    failed, _, skipped, passed = map(int, closing)
    assert (failed, skipped) == (0, 0)
    assert passed > 0
    print(f"testthat: {passed} expectations, {skipped} skipped")


MEASURED = """
data(api)
design <- svydesign(id = ~1, strata = ~stype, weights = ~pw, data = apistrat)
release <- synthesize(
  design, fbs(api00 ~ stype + awards), epsilon = 5, m = 4, seed = 7, population_total = 6194, bounds = c(200, 1000)
)
means <- combine_release(with_release(release, svyby(~api00, ~awards, design, svymean)))
counts <- combine_release(with_release(release, svytotal(~awards, design), counts = TRUE))
write.csv(data.frame(mean = coef(means), se = SE(means), count = coef(counts), count_se = SE(counts)), "r.csv")
write.csv(tables(release, by = ~awards), "tables.csv", row.names = FALSE)
"""


@pytest.mark.slow
def test_combining_in_r_follows_the_rule_of_noisy_tables(rscript, tmp_path):
    """Standard errors by R's survey, with the noise that all data sets share, are those of tables."""
    rscript(MEASURED, tmp_path)
    here, table = pd.read_csv(tmp_path / "r.csv"), pd.read_csv(tmp_path / "tables.csv")
    table = table[table["awards"] != "all"]
    means, counts = (table[table["statistic"] == name] for name in ("mean", "count"))
    np.testing.assert_allclose(here[["mean", "se"]], means[["estimate", "se"]], rtol=1e-9)
    np.testing.assert_allclose(here[["count", "count_se"]], counts[["estimate", "se"]], rtol=1e-9)
