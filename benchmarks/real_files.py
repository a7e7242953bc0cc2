"""Four real files, each released in one call from Python, from a plan and from R: seconds, intervals beside the file's.

    python benchmarks/real_files.py            needs R with survey, laeken and reticulate, and surveysynth's R package

- nhanes: R's survey, high cholesterol by age and sex: 15 strata, 31 PSUs, answers missing of some.
- ses: laeken's structure of earnings survey, monthly earnings of employees of 500 employers, which are PSUs.
- persons: wages of the members of 1,000 of laeken's eusilc households, which epsilon protects.
- labour: 1,500 adults of laeken's eusilc, 47% of whom have no wage: the answer is missing.

All three ways have one seed, so that the releases are to be the same.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import surveysynth as ss
from surveysynth.studies.coverage.populations import columns_of_r

EPSILON, SEED = 5, 20261128
FORMULAS = {
    "nhanes": "HI_CHOL ~ agecat + sex", "ses": "earnings ~ size + sex + education", "persons": "wage ~ sex + region",
    "labour": "wage ~ sex + region",
}  # fmt: skip
DESIGNS: dict[str, dict[str, Any]] = {
    "nhanes": {"strata": "SDMVSTRA", "psu": "SDMVPSU"}, "ses": {"strata": "size", "psu": "employer"},
    "persons": {"psu": "household"}, "labour": {},
}  # fmt: skip
SCHEMAS: dict[str, dict[str, Any]] = {
    "nhanes": {"levels": [0, 1], "missing": "category"}, "ses": {"bounds": (0, 100_000)},
    "persons": {"bounds": (0, 150_000), "zeros": True, "missing": "category"},
    "labour": {"bounds": (1, 150_000), "missing": "category"},
}  # fmt: skip
BY = {"nhanes": "agecat", "ses": "education", "persons": "region", "labour": "region"}
UNITS = {"persons": "household"}


def files() -> dict[str, pd.DataFrame]:
    """Each with a column ``w`` of weights."""
    rng = np.random.default_rng(SEED)
    kinds = dict.fromkeys(["SDMVSTRA", "SDMVPSU", "WTMEC2YR", "HI_CHOL", "RIAGENDR"], "numeric")
    nhanes = columns_of_r("survey", "nhanes", "nhanes", **kinds, agecat="character").rename(columns={"WTMEC2YR": "w"})
    nhanes["sex"] = np.where(nhanes.pop("RIAGENDR") == 1, "male", "female")
    nhanes[["SDMVSTRA", "SDMVPSU"]] = nhanes[["SDMVSTRA", "SDMVPSU"]].astype(int)
    kinds = dict.fromkeys(["size", "sex", "education", "IDunit"], "character")
    ses = columns_of_r("laeken", "ses", "ses", **kinds, earningsMonth="numeric", weights="numeric")
    ses = ses.rename(columns={"earningsMonth": "earnings", "weights": "w"})
    ses["employer"] = pd.factorize(ses.pop("IDunit"))[0] + 1
    kinds = {"db030": "numeric", "db040": "character", "rb090": "character", "age": "numeric", "py010n": "numeric"}
    names = {"db030": "household", "db040": "region", "rb090": "sex", "py010n": "wage", "rb050": "w"}
    eusilc = columns_of_r("laeken", "eusilc", "eusilc", **kinds, rb050="numeric").rename(columns=names)
    households = rng.choice(eusilc["household"].unique(), 1_000, replace=False)
    persons = eusilc[eusilc["household"].isin(households)].drop(columns="age").reset_index(drop=True)
    adults = eusilc[eusilc["age"] >= 16].sample(1_500, random_state=SEED)
    adults["wage"] = adults["wage"].where(adults["wage"] > 0)
    labour = adults.drop(columns=["age", "household"]).reset_index(drop=True)
    return {"nhanes": nhanes, "ses": ses, "persons": persons, "labour": labour}


def by_python(name: str, file: Path, total: float) -> pd.DataFrame:
    """One call."""
    design = ss.SurveyDesign.read(file, weights="w", **DESIGNS[name])
    outcome = FORMULAS[name].split(" ~ ")[0]
    release = ss.synthesize(
        design, FORMULAS[name], epsilon=EPSILON, population_total=total, unit=UNITS.get(name),
        outcomes={outcome: ss.Outcome(**SCHEMAS[name])}, seed=SEED,
    )  # fmt: skip
    return release.tables(BY[name])


def by_plan(name: str, file: Path, total: float) -> pd.DataFrame:
    """``surveysynth release``, as a process of its own."""
    outcome = FORMULAS[name].split(" ~ ")[0]
    roles = {role: [column] if role == "psu" else column for role, column in DESIGNS[name].items()}
    plan = ss.Plan.draft(
        file, formula=FORMULAS[name], weights="w", guess=False, epsilon=EPSILON, population_total=total, by=[BY[name]],
        unit=UNITS.get(name), outcomes={outcome: ss.Outcome(**SCHEMAS[name])}, folder=f"{name}-release", **roles,
    )  # fmt: skip
    place = plan.save(file.with_suffix(".toml"), overwrite=True)
    command = [sys.executable, "-m", "surveysynth", "release", place.name, "--seed", str(SEED), "--overwrite"]
    subprocess.run(command, cwd=file.parent, check=True, capture_output=True)
    return ss.read_release(file.parent / f"{name}-release").tables(BY[name])


def by_r(name: str, file: Path, total: float) -> pd.DataFrame:
    """``synthesize()`` of the R package, as a process of its own."""
    outcome = FORMULAS[name].split(" ~ ")[0]
    roles = DESIGNS[name]
    entries = list[str]()
    for option, value in SCHEMAS[name].items():
        listed = f"c({', '.join(map(str, value))})" if isinstance(value, list | tuple) else repr(value)
        entries.append(f"{option} = {'TRUE' if value is True else listed}")
    unit = f", unit = '{UNITS[name]}'" if name in UNITS else ""
    script = f"""
    suppressMessages({{library(surveysynth); library(survey)}})
    frame <- read.csv("{file}")
    design <- svydesign(ids = {'~' + roles['psu'] if 'psu' in roles else '~1'}, weights = ~w, data = frame, nest = TRUE
                        {', strata = ~' + roles['strata'] if 'strata' in roles else ''})
    release <- synthesize(design, {FORMULAS[name]}, epsilon = {EPSILON}, population_total = {total!r}, seed = {SEED},
                          outcomes = list({outcome} = outcome({', '.join(entries)})){unit})
    write.csv(tables(release, by = ~{BY[name]}), "{file.with_suffix('.r.csv')}", row.names = FALSE)
    """
    done = subprocess.run(["Rscript", "-e", script], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return pd.read_csv(file.with_suffix(".r.csv"))


def beside(name: str, table: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Estimates and intervals of the release, and of the file."""
    outcome, by = FORMULAS[name].split(" ~ ")[0], BY[name]
    answers = frame[outcome].map({0: "0", 1: "1"}).fillna("missing") if name == "nhanes" else frame[outcome]
    design = ss.SurveyDesign(frame.assign(**{outcome: answers}), weights="w", **DESIGNS[name])
    statistic = "proportion" if name == "nhanes" else "mean"
    own = ss.estimate(design, outcome, by, statistic, missing="available")
    keep = table[table["statistic"] == statistic]
    if name == "nhanes":  # among all, those who did not answer among them
        keep, own = (each[each["category"].astype(str) == "1"] for each in (keep, own))
    both = own.merge(keep, on=by, suffixes=("", "_released"))
    return both[[by, "estimate", "ci_low", "ci_high", "estimate_released", "ci_low_released", "ci_high_released"]]


def main() -> None:
    """Release all files in all ways, and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--files", default=",".join(FORMULAS))
    names = arguments.parse_args().files.split(",")
    frames = files()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            frame, file = frames[name], Path(folder) / f"{name}.csv"
            frame.to_csv(file, index=False)
            total, tables = float(frame["w"].sum()), {}
            for way, made in {"Python": by_python, "plan": by_plan, "R": by_r}.items():
                started = time.time()
                tables[way] = made(name, file, total)
                print(f"{name}: {len(frame):,} records, {way}: {time.time() - started:.1f} s", flush=True)
            estimates = [table["estimate"].to_numpy() for table in tables.values()]
            same = all(np.allclose(estimates[0], each, rtol=1e-9, equal_nan=True) for each in estimates[1:])
            print(f"the three releases are {'the same' if same else 'NOT the same'}")
            print(beside(name, tables["Python"], frame).round(3).to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
