"""The count models: does a fit's cost grow with n, what the Lipschitz pass costs, and what a row-by-row program costs.

    python benchmarks/counts.py [--small 1000] [--large 1000000] [--pairs 3]

Fits are taken in turn at the two sizes, and given as ratios.  The row-by-row program is that of tests/reference/,
sampled by the same engine for the same number of iterations at the small size.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import stanli

import surveysynth as ss
from surveysynth.engines import get_engine
from surveysynth.models.counts import CountRecords, NegativeBinomialRegression
from surveysynth.models.draws import Sampler

MODEL = NegativeBinomialRegression("y", "field + gender")
ROWWISE = Path(__file__).parents[1] / "tests" / "reference" / "counts_rowwise.stan"


def design(n: int, mean: float, *, modelled: bool) -> ss.SurveyDesign:
    """Eight fields, two genders, counts NB(mean, 3); the weight is constant, or depends on the count."""
    rng = np.random.default_rng(1)
    field, gender = np.arange(n) % 8, rng.integers(0, 2, n)
    y = rng.poisson(mean * np.exp(0.1 * field + 0.2 * gender) * rng.gamma(3, 1 / 3, n))
    w = np.exp(-0.2 * np.log1p(y) + rng.normal(0, 0.3, n)) if modelled else np.ones(n)
    frame = pd.DataFrame({"field": field.astype(str), "gender": gender.astype(str), "y": y.astype(float), "w": w})
    return ss.SurveyDesign(frame, weights="w", strata="field")


def seconds(work: partial) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def sampler(seed: int) -> Sampler:
    """The embedded engine's: four chains of 1,000 + 1,000."""
    return Sampler(lambda: get_engine("embedded"), np.random.default_rng(seed))


def rowwise(data: CountRecords, seed: int) -> object:
    """The same posterior, a term a record."""
    n, K = len(data.pair), data.X.shape[1]
    program = stanli.Model(
        stan_file=str(ROWWISE),
        data={
            "n": n, "K": K, "dispersed": 1, "correlated": 1, "weighted": 0, "X": data.X[data.row],
            "y": data.y, "w": np.zeros(n), "alpha": np.full(n, 0.7),
        },
    )  # fmt: skip
    return program.sample(chains=4, warmup=1000, samples=1000, seed=seed, delta=0.95, refresh=0)


def compare(mean: float, modelled: bool, sizes: tuple[int, int], pairs: int) -> None:
    """Fits at two sizes in turn, and the Lipschitz pass of each."""
    prepared = {n: MODEL.prepare(design(n, mean, modelled=modelled)) for n in sizes}
    weights, K = "modelled" if modelled else "public", prepared[sizes[0]].X.shape[1]
    print(f"mean {mean:g}, weights {weights}, K = {K}")
    ratios = []
    for pair in range(pairs):
        took = {n: seconds(partial(MODEL.fit, prepared[n], np.full(n, 0.7), sampler(pair))) for n in sizes}
        ratios.append(took[sizes[1]] / took[sizes[0]])
        print("  fit: " + ", ".join(f"{took[n]:6.2f} s at n = {n:,}" for n in sizes))
    print(f"  ratio, large / small: median {np.median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f})")
    for n, data in prepared.items():
        posterior = MODEL.fit(data, np.full(n, 0.7), sampler(1))
        bounds = partial(MODEL.lipschitz, data, posterior)
        bounds()  # compiled
        said = f"  Lipschitz bounds, 4,000 draws, n = {n:,} ({len(data.row):,} pairs of count and row)"
        print(f"{said}: {seconds(bounds):.2f} s", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", type=int, default=1_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    for mean, modelled in ((20.0, False), (20.0, True), (1e5, False)):
        compare(mean, modelled, (options.small, options.large), options.pairs)
    data = MODEL.prepare(design(options.small, 20, modelled=False))
    slow = seconds(partial(rowwise, data, 1))
    fast = seconds(partial(MODEL.fit, data, np.full(options.small, 0.7), sampler(1)))
    print(f"n = {options.small:,}: row by row {slow:.1f} s, collapsed {fast:.2f} s, ratio {slow / fast:.0f}")


if __name__ == "__main__":
    main()
