"""Standard errors of released files over those of the confidential one, for surveys with strata and PSUs.

    python benchmarks/design_errors.py --out benchmarks/design_errors.csv       needs R with survey and laeken

nhanes, apiclus1, apiclus2 and apistrat are R's, each released many times; workers and households in PSUs are samples of
2,000, each released once.  Epsilon is 5, m = 20.  ``u`` is the mean of the files' own design-based variances, which the
design of the survey makes: 1 is the confidential file's.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import surveysynth as ss
from surveysynth.studies.coverage.populations import columns_of_r, population

EPSILON, N = 5, 2_000
COLUMNS = {  # of R's data sets, by R's type
    "nhanes": {"SDMVSTRA": "numeric", "SDMVPSU": "numeric", "WTMEC2YR": "numeric", "HI_CHOL": "numeric",
               "RIAGENDR": "numeric", "agecat": "character"},
    "apiclus1": {"dnum": "numeric", "stype": "character", "api00": "numeric", "pw": "numeric"},
    "apiclus2": {"dnum": "numeric", "snum": "numeric", "fpc1": "numeric", "fpc2": "numeric", "stype": "character",
                 "api00": "numeric", "pw": "numeric"},
    "apistrat": {"stype": "character", "fpc": "numeric", "api00": "numeric", "pw": "numeric"},
}  # fmt: skip
DESIGNS: dict[str, dict[str, Any]] = {
    "nhanes": {"weights": "WTMEC2YR", "strata": "SDMVSTRA", "psu": "SDMVPSU"},
    "apiclus1": {"weights": "pw", "psu": "dnum"},
    "apiclus2": {"weights": "pw", "psu": ["dnum", "snum"], "fpc": ["fpc1", "fpc2"]},
    "apistrat": {"weights": "pw", "strata": "stype", "fpc": "fpc"},
}  # fmt: skip
API = {"api00": ss.Outcome(bounds=(200, 1000), whole=True)}
ASKED: dict[str, tuple[str, dict[str, ss.Outcome], str]] = {
    "nhanes": ("HI_CHOL ~ agecat + RIAGENDR", {"HI_CHOL": ss.Outcome(levels=["no", "yes"])}, "agecat"),
    **dict.fromkeys(["apiclus1", "apiclus2", "apistrat"], ("api00 ~ stype", API, "stype")),
}
PSUS = {"workers-psu": "education", "households-psu": "age"}


def survey(name: str) -> ss.SurveyDesign:
    """One of R's surveys; of nhanes those who answered."""
    frame = columns_of_r("survey", "nhanes" if name == "nhanes" else "api", name, **COLUMNS[name])
    if name == "nhanes":
        frame = frame[frame["HI_CHOL"].notna()].reset_index(drop=True)
        frame["HI_CHOL"] = np.where(frame["HI_CHOL"] > 0, "yes", "no")
        frame[["SDMVSTRA", "SDMVPSU"]] = frame[["SDMVSTRA", "SDMVPSU"]].astype(int).astype(str)
    return ss.SurveyDesign(frame, **DESIGNS[name])


def ratios(design: ss.SurveyDesign, formula: str, outcomes: dict[str, ss.Outcome], by: str, seed: int) -> pd.DataFrame:
    """Standard errors of one release's files over the file's own: of all, and of the domains on average."""
    (name,) = outcomes
    total = float(design.weights.sum())
    release = ss.synthesize(
        design, formula, epsilon=EPSILON, population_total=total, outcomes=outcomes, seed=seed
    )
    statistic = "mean" if outcomes[name].levels is None else "proportion"
    own = ss.estimate(design, name, by, [statistic, "count"])
    files = [ss.estimate(each, name, by, [statistic, "count"]) for each in release.datasets]
    u = np.mean([each["se"].to_numpy() ** 2 for each in files], axis=0)
    found = own.assign(ratio=np.sqrt(u) / own["se"], what=np.where(own[by] == "all", "all", "domains"))
    if statistic == "proportion":
        found = found[(found["statistic"] == "count") | (found["category"].astype(str) == "yes")]
    found = found[(found["statistic"] != "count") | (found["what"] == "domains")]
    found = found[np.isfinite(found["ratio"])]  # a count that the design fixes has no error
    return found.groupby(["statistic", "what"], as_index=False)["ratio"].mean()


def main() -> None:
    """Go on from what is there, and print means with their standard errors."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--releases", type=int, default=40)
    arguments.add_argument("--surveys", default=",".join([*ASKED, *PSUS]))
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    done = pd.read_csv(given.out) if given.out.exists() else pd.DataFrame({"survey": [], "seed": []})
    warnings.simplefilter("ignore")
    for name in given.surveys.split(","):
        fixed = survey(name) if name in ASKED else None
        for seed in range(given.releases):
            if ((done["survey"] == name) & (done["seed"] == seed)).any():
                continue
            if fixed is not None:
                made = ratios(fixed, *ASKED[name], seed)
            else:
                of = population(name)
                sample = of.sample(N, 300 + seed)
                made = ratios(sample, of.formula, {of.outcome: of.schema}, PSUS[name], seed)
            done = pd.concat([done, made.assign(survey=name, seed=seed)], ignore_index=True)
            done.round(5).to_csv(given.out, index=False)
    of = done.groupby(["survey", "statistic", "what"])["ratio"]
    print(pd.DataFrame({"mean": of.mean(), "se": of.std() / of.size() ** 0.5, "releases": of.size()}).round(3))


if __name__ == "__main__":
    main()
