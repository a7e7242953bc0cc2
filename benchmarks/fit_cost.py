"""Does the cost of an FBS fit grow with n?  Gradient and fit times at two sizes, taken in turn, as ratios.

    python benchmarks/fit_cost.py [--small 1000] [--large 1000000] [--pairs 5]

A fit is sufficient statistics, sampling and the draws of B; reading the file and the Lipschitz
pass (linear in n) are timed apart.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import stanli

from surveysynth import FBS, SurveyDesign
from surveysynth.engines import base, get_engine
from surveysynth.models.draws import Sampler

MODEL = FBS("y", "field + gender")


def design(n: int, rng: np.random.Generator) -> SurveyDesign:
    """Eight fields, two genders; log outcome and log weight correlated at about -0.7."""
    field, gender = rng.integers(0, 8, n), rng.integers(0, 2, n)
    y = 11.5 + 0.1 * field + 0.1 * gender + rng.normal(0, 0.4, n)
    w = -(y - 11) + 0.1 * field + rng.normal(0, 0.4, n)
    frame = pd.DataFrame({"field": field.astype(str), "gender": gender.astype(str), "y": np.exp(y), "w": np.exp(w)})
    return SurveyDesign(frame, weights="w", strata="field")


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Recording:
    """The embedded engine, keeping the data that the program was given."""

    def __init__(self) -> None:
        self.engine, self.data = get_engine("embedded"), {}
        self.name, self.version = self.engine.name, self.engine.version

    def sample(self, program: str, data: dict, **settings: int) -> base.Samples:
        """Sample, and remember the data."""
        self.data = data
        return self.engine.sample(program, data, **settings)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", type=int, default=1_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    sizes = (options.small, options.large)
    engine = Recording()
    prepared, gradient, ready = {}, {}, {}
    for n in sizes:
        sample = design(n, rng)
        start = time.perf_counter()
        prepared[n] = MODEL.prepare(sample)
        ready[n] = time.perf_counter() - start
        posterior = MODEL.fit(prepared[n], np.full(n, 0.7), Sampler(lambda: engine, rng, 1, 200, 50))
        model = stanli.Model(stan_file=str(base.program_path("fbs")), data=dict(engine.data))
        q = rng.normal(size=model.n_unconstrained) * 0.1
        gradient[n] = lambda model=model, q=q: [model.log_prob_grad(q) for _ in range(2000)]
        MODEL.lipschitz(prepared[n], posterior)
    ratios: dict[str, list[float]] = {"gradient": [], "fit": []}
    for pair in range(options.pairs):
        spent = {}
        for n in sizes:
            spent[n] = seconds(gradient[n]) / 2000
        ratios["gradient"].append(spent[sizes[1]] / spent[sizes[0]])
        print("gradient: " + ", ".join(f"{spent[n] * 1e6:7.1f} us at n = {n:,}" for n in sizes))
        for n in sizes:
            sampler = Sampler(lambda: engine, np.random.default_rng(pair))
            spent[n] = seconds(partial(MODEL.fit, prepared[n], np.full(n, 0.7), sampler))
        ratios["fit"].append(spent[sizes[1]] / spent[sizes[0]])
        print("fit:      " + ", ".join(f"{spent[n]:7.2f} s  at n = {n:,}" for n in sizes))
    for name, values in ratios.items():
        spread = f"(from {min(values):.2f} to {max(values):.2f})"
        print(f"{name} time ratio, large / small: median {np.median(values):.2f} {spread}")
    print(f"apart: preparing the file {ready[sizes[0]]:.3f} s and {ready[sizes[1]]:.3f} s")


if __name__ == "__main__":
    main()
