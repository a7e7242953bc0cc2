"""Strict releases beside general differentially private synthesizers, on the same samples and at the same epsilon.

    pip install "opendp[mbi]"
    python benchmarks/dp_peers.py --samples 20 --out benchmarks/dp_peers.csv

The peers are those of OpenDP (mbi: McKenna, Sheldon & Miklau 2019): AIM and MST choose tables by themselves, "fixed"
has those of our own model.  The weight is a column like any other, income and weight are cut at equal steps of an asinh
scale, synthetic records have the mean of their bin, and the mean of five synthetic files counts.  A record is added or
removed, as where its values are blanked.  Intervals of the peers take a file for a sample, as their users do.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

import surveysynth as ss
from surveysynth.measuring.bins import Bins
from surveysynth.measuring.measure import WEIGHT_BOUNDS
from surveysynth.studies.coverage.populations import RealPopulation, by_margin, workers

CELLS = (2_000, 5.0), (10_000, 1.0)
SEED, FILES = 20261128, 5
INCOME_BINS, WEIGHT_BINS = 32, 16
STATISTICS = ["mean", "count"]
Estimates = pd.DataFrame  # margin, level, statistic, estimate, se


def bins_of(population: RealPopulation, n: int) -> dict[str, Bins]:
    """Public bins of income and weight."""
    unit = len(population.frame) / n
    return {
        population.outcome: Bins.between(*population.bounds, population.bounds[1] / 2_000, INCOME_BINS),
        "weight": Bins.between(WEIGHT_BOUNDS[0] * unit, WEIGHT_BOUNDS[1] * unit, unit / 5, WEIGHT_BINS),
    }


def ours(population: RealPopulation, design: ss.SurveyDesign, epsilon: float) -> Estimates:
    release = ss.synthesize(
        design, population.formula, epsilon=epsilon, population_total=len(population.frame), bounds=population.bounds
    )
    return by_margin(lambda margin: release.tables(margin, statistic=STATISTICS), population.margins)


def peer(name: str) -> Callable[[RealPopulation, ss.SurveyDesign, float], Estimates]:
    """One of OpenDP's algorithms."""
    import opendp.prelude as dp
    import polars as pl
    from opendp.extras.mbi import AIM, MST, Count, Fixed

    dp.enable_features("contrib", "honest-but-curious")

    def run(population: RealPopulation, design: ss.SurveyDesign, epsilon: float) -> Estimates:
        outcome, margins = population.outcome, population.margins
        bins = bins_of(population, design.n)
        numbers = {outcome: design.frame[outcome].to_numpy(float), "weight": np.asarray(design.weights)}
        columns = {margin: design.frame[margin].astype(str).to_list() for margin in margins}
        keys: dict[str, Any] = {m: sorted(set(population.frame[m].astype(str))) for m in margins}
        keys |= {column: list(range(len(of))) for column, of in bins.items()}
        pairs = [(outcome, m) for m in margins] + [("weight", m) for m in margins] + [("weight", outcome)]
        algorithm = {"AIM": AIM(), "MST": MST(), "fixed": Fixed(queries=[Count(by=pair) for pair in pairs])}[name]
        data = pl.DataFrame(columns | {column: of.codes(numbers[column]) for column, of in bins.items()})
        context = dp.Context.compositor(
            data=data.lazy(), privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(epsilon=epsilon),
            split_evenly_over=1, margins=[],
        )  # fmt: skip
        table = context.query().contingency_table(keys=keys, algorithm=algorithm).release()
        return pd.concat(_estimates(population, table, design, bins)).groupby(
            ["margin", "level", "statistic"], sort=False
        ).mean().reset_index().assign(se=lambda t: t.pop("u") ** 0.5)  # fmt: skip

    return run


def _estimates(
    population: RealPopulation, table: Any, design: ss.SurveyDesign, bins: dict[str, Bins]
) -> Iterator[pd.DataFrame]:
    """Of each synthetic file, with the variance that it has as a sample."""
    for _ in range(FILES):
        # noise leaves some records in OpenDP's cell for values that are in none of the public bins
        frame = table.synthesize(rows=design.n, method="sample").to_pandas().dropna()
        for column, of in bins.items():
            frame[column] = of.means[frame[column].to_numpy(int)]
        frame["weight"] *= len(population.frame) / frame["weight"].sum()
        synthetic = ss.SurveyDesign(frame, weights="weight")
        of_file = by_margin(
            lambda margin, d=synthetic: ss.estimate(d, population.outcome, [margin], STATISTICS), population.margins
        )
        yield of_file[["margin", "level", "statistic", "estimate"]].assign(u=of_file["se"] ** 2)


def compared(population: RealPopulation, n: int, epsilon: float, samples: int) -> pd.DataFrame:
    """Errors of every method over those of the samples themselves, and what their 95% intervals hold."""
    methods = {"surveysynth": ours, **{f"OpenDP mbi, {name}": peer(name) for name in ("fixed", "MST", "AIM")}}
    truths, rows = population.truths(), []
    for k in range(samples):
        design = population.sample(n, SEED + k)
        own = by_margin(lambda margin, d=design: ss.estimate(d, population.outcome, [margin], STATISTICS),
                        population.margins)  # fmt: skip
        for method, make in {"sample": lambda *_, o=own: o, **methods}.items():
            start = time.perf_counter()
            try:
                found = make(population, design, epsilon).assign(seconds=time.perf_counter() - start)
            except Exception as error:
                print(f"{method}, n = {n:,}, sample {k + 1}: {type(error).__name__}", flush=True)
                continue
            rows.append(found.assign(method=method, sample=k))
        print(f"n = {n:,}, epsilon = {epsilon:g}: sample {k + 1} of {samples}", flush=True)
    every = pd.concat(rows).merge(truths, on=["margin", "level", "statistic"])
    every = every[(every["margin"] != "all") | (every["statistic"] == "mean")]
    every["square"] = (every["estimate"] / every["truth"] - 1) ** 2
    every["holds"] = (every["estimate"] - every["truth"]).abs() < norm.ppf(0.975) * every["se"]
    keys = ["method", "statistic", "margin"]
    table = every.groupby(keys, sort=False).agg(
        square=("square", "mean"),
        coverage=("holds", "mean"),
        seconds=("seconds", "median"),
        released=("sample", "nunique"),
    )
    base = table.loc["sample", "square"]
    table["rmse_ratio"] = [(row["square"] / base[key[1:]]) ** 0.5 for key, row in table.iterrows()]
    return table.drop(columns="square").reset_index().assign(n=n, epsilon=epsilon, samples=samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    population = workers()
    table = pd.concat([compared(population, n, epsilon, given.samples) for n, epsilon in CELLS])
    table.round(4).to_csv(given.out, index=False)
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
