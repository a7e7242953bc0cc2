"""Means of a real, skewed outcome: does the private release come near the confidential sample?

    python benchmarks/census.py [--samples 200] [--workers 2]

The population is 29,501 US census workers (weekly income; log income has kurtosis 6).  30% of
them, drawn once, are "last year's file"; from the rest, samples of 2,000 are drawn, stratified by
division, proportional to experience.  Released at epsilon = 10.8, m = 3.  For the education
and division means: relative root mean square error, and how often the 95% interval covers.

No seed is chosen: the random numbers of sample k are those of SeedSequence(0).spawn, child k.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import surveysynth as ss
from surveysynth.datasets.census import census_workers
from surveysynth.datasets.draw import draw_sample

EPSILON, M, N = 10.8, 3, 2000
BY = ["division", "education"]


def populations(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Last year's file, and the population of this year."""
    workers = census_workers()
    last_year = rng.random(len(workers)) < 0.3
    return workers[last_year], workers[~last_year].reset_index(drop=True)


def one_sample(seed: np.random.SeedSequence, last_year: pd.DataFrame, population: pd.DataFrame) -> pd.DataFrame:
    """Estimates of every method from one sample."""
    rng = np.random.default_rng(seed)
    design = draw_sample(population, n=N, strata="division", size="experience", rng=rng)
    scores = ss.NormalScores.from_historical(last_year["income"], source="last year's workers")
    tables = {"confidential sample": ss.estimate(design, "income", BY, "mean", estimator="onepass")}
    for transform, name in (("log", "logs"), (scores, "normal scores")):
        model = ss.FBS("income", "division + education", prior="flat", transform=transform)
        seed = int(rng.integers(2**31))
        fit = ss.fit(
            design,
            model,
            epsilon=EPSILON,
            m=M,
            seed=seed,
            population_total=len(population),
            mechanism=ss.PseudoPosterior(),
        )
        for debias in (False, True):
            label = f"FBS on {name}" + (", Fisher-consistent" if debias else "")
            release = fit.release(debias=debias, epsilon=EPSILON)
            tables[label] = release.tables(BY, statistic="mean", estimator="onepass")
    return pd.concat([t.assign(method=label) for label, t in tables.items()], ignore_index=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    split, *seeds = np.random.SeedSequence(0).spawn(options.samples + 1)
    last_year, population = populations(np.random.default_rng(split))
    start = time.perf_counter()
    work = partial(one_sample, last_year=last_year, population=population)
    with ProcessPoolExecutor(options.workers) as pool:
        results = pd.concat(pool.map(work, seeds), ignore_index=True)
    everyone = ss.SurveyDesign(population.assign(one=1.0), weights="one")
    truth = ss.estimate(everyone, "income", BY, "mean", estimator="onepass")[[*BY, "estimate"]]
    results = results.merge(truth.rename(columns={"estimate": "truth"}), on=BY)
    results["error"] = results["estimate"] / results["truth"] - 1
    results["covers"] = (results["ci_low"] <= results["truth"]) & (results["truth"] <= results["ci_high"])
    results["length"] = (results["ci_high"] - results["ci_low"]) / results["truth"]
    print(f"{options.samples} samples of {N:,}, epsilon = {EPSILON}, m = {M}; {time.perf_counter() - start:.0f} s")
    order = list(dict.fromkeys(results["method"]))
    for title, rows, key in (
        ("education", (results["division"] == "all") & (results["education"] != "all"), "education"),
        ("division", (results["education"] == "all") & (results["division"] != "all"), "division"),
        ("all workers", (results["division"] == "all") & (results["education"] == "all"), "division"),
    ):
        groups = results[rows].groupby(["method", key], sort=False, observed=True)
        for label, table in (
            ("relative root mean square error", groups["error"].apply(lambda e: np.sqrt(np.mean(e**2)))),
            ("relative bias", groups["error"].mean()),
            ("coverage of the 95% interval", groups["covers"].mean()),
            ("length of the interval, relative", groups["length"].mean()),
        ):
            shown = table.unstack(key).loc[order]
            print(f"\n{title}: {label}\n{shown.round(3).to_string()}")


if __name__ == "__main__":
    main()
