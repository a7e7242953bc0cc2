"""The mixture: what a fit costs beside a row-by-row program, how it grows, and what its constants do.

    python benchmarks/mixture.py [--n 2000]

Speed is effective draws of the log likelihood a second, ours over those of the program of tests/reference/ that
sums over the components record by record, sampled by NUTS; both at 150 records and 3 components, one after the other.
Then one sweep at n, 2 n and 4 n; then how the synthetic distribution moves with a_gamma, b_gamma, K and the least
standard deviation, beside its Monte Carlo error.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import stanli

import surveysynth as ss
from surveysynth.engines import get_engine
from surveysynth.engines.base import diagnose
from surveysynth.models.draws import Sampler
from surveysynth.models.mixture.model import Mixture, MixtureRecords

ROWWISE = Path(__file__).parents[1] / "tests" / "reference" / "mixture_rowwise.stan"
MODEL = Mixture(
    "income", "age_group + tenure + marital", transform=ss.AsinhTransform(scale=1000), zeros=True,
    bounds=(-200_000, 2_000_000),
)  # fmt: skip
SETTINGS = {
    "as it is": {}, "a_gamma = 2, b_gamma = 4": {"a_gamma": 2.0, "b_gamma": 4.0}, "a_gamma = 4": {"a_gamma": 4.0},
    "K = 5": {"components": 5}, "K = 10": {"components": 10}, "K = 40": {"components": 40},
    "least_sd = 0.1": {"least_sd": 0.1}, "least_sd = 0.5": {"least_sd": 0.5}, "prior paper": {"prior": "paper"},
}  # fmt: skip
QUANTILES = {"q10": 0.1, "q25": 0.25, "median": 0.5, "q75": 0.75, "q90": 0.9, "q99": 0.99}


def prepared(n: int, model: Mixture) -> MixtureRecords:
    """The made-up consumer units, as the model takes them."""
    frame = ss.datasets.consumer_units(n, seed=1).assign(weight=1.0)
    return model.prepare(ss.SurveyDesign(frame, weights="weight"))


def sampler(warmup: int, draws: int, chains: int = 2) -> Sampler:
    """A short one."""
    return Sampler(lambda: get_engine("embedded"), np.random.default_rng(1), chains, warmup, draws)


def growth(n: int) -> pd.DataFrame:
    """Seconds of the same fit at n, 2 n and 4 n, plain and under privacy weights."""
    found = []
    for records in (n, 2 * n, 4 * n):
        data = prepared(records, MODEL)
        row: dict[str, float] = {"n": records, "predictor rows": len(data.X)}
        for name, alpha in {"plain": np.ones(records), "weighted": np.full(records, 0.4)}.items():
            MODEL.fit(data, alpha, sampler(1, 1))
            start = time.perf_counter()
            MODEL.fit(data, alpha, sampler(20, 20))
            row[name] = time.perf_counter() - start
        found.append(row)
    table = pd.DataFrame(found)
    for name in ("plain", "weighted"):
        table[f"{name}, ratio"] = table[name] / table[name].shift()
    return table


def sensitivity(n: int) -> pd.DataFrame:
    """Synthetic quantiles under other constants, as means over files; and components with a share above 1%."""
    found = {}
    for name, changed in SETTINGS.items():
        model = replace(MODEL, **changed)
        data = prepared(n, model)
        posterior = model.fit(data, np.ones(n), sampler(150, 250))
        rng = np.random.default_rng(2)
        files = [
            next(model.simulations(data, posterior, [s], rng)).outcomes[:, 0] for s in range(0, posterior.size, 10)
        ]
        row = {q: float(np.mean([np.quantile(y, p) for y in files])) for q, p in QUANTILES.items()}
        row |= {"mean": float(np.mean(files)), "zeros": float(np.mean(np.array(files) == 0))}
        used = (posterior.values["share"] > 0.01).sum(axis=1).mean()
        found[name] = row | {"components": float(used), "rhat": posterior.diagnostics.rhat}
    income = ss.datasets.consumer_units(n, seed=1)["income"]
    own = {q: float(income.quantile(p)) for q, p in QUANTILES.items()}
    found = {"the file": own | {"mean": float(income.mean()), "zeros": float((income == 0).mean())}} | found
    return pd.DataFrame(found).T


def beside_rowwise(n: int = 150, K: int = 3) -> str:
    """Effective draws of the log likelihood a second, ours over NUTS on the row-by-row program."""
    model = replace(MODEL, predictors="tenure", components=K, zeros=False, transform=ss.AsinhTransform(scale=1000))
    frame = ss.datasets.consumer_units(2 * n, seed=1).query("income != 0").head(n).assign(weight=1.0)
    data = model.prepare(ss.SurveyDesign(frame, weights="weight"))
    x, alpha = data.X[data.row], np.full(n, 0.6)
    model.fit(data, alpha, sampler(1, 1))
    start = time.perf_counter()
    ours = model.fit(data, alpha, sampler(200, 500))
    seconds = time.perf_counter() - start
    values = {
        "n": n, "K": K, "R": x.shape[1], "weighted": 0, "zeros": 0, "common": 1, "x": x, "y": data.y.tolist(),
        "w": [0.0] * n, "zero": [0] * n, "alpha": alpha.tolist(), "M": 1e9, "least_sd": model.least_sd,
        "least_sd_w": 0.01, "a_gamma": model.a_gamma, "b_gamma": model.b_gamma,
    }  # fmt: skip
    program = stanli.Model(stan_file=str(ROWWISE), data=values)
    start = time.perf_counter()
    fit = program.sample(chains=2, warmup=500, samples=500, seed=1, delta=0.95, refresh=0)
    theirs = time.perf_counter() - start
    draws = {name: fit.draws(name).reshape(1000, *fit.draws(name).shape[2:]) for name in ("share", "b", "sd", "gamma")}
    draws["b"] = draws["b"].swapaxes(1, 2)
    nuts = replace(ours, values=draws, chain=np.repeat([0, 1], 500), weight=np.empty(0))
    ess = [
        diagnose({"l": model._log_likelihood(data, alpha, np.inf, p).reshape(2, -1)}, 0).ess_bulk for p in (ours, nuts)
    ]
    ratio, divergences = ess[0] / seconds / (ess[1] / theirs), int(fit.divergences.sum())
    return (
        f"n = {n}, K = {K}: ours {ess[0]:,.0f} effective draws in {seconds:.1f} s, NUTS {ess[1]:,.0f} in "
        f"{theirs:.1f} s ({divergences} divergences): {ratio:,.0f} times as many a second"
    )


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=2000)
    n = parser.parse_args().n
    with pd.option_context("display.float_format", "{:,.3g}".format, "display.width", 160):
        print(beside_rowwise())
        print(growth(n).to_string(index=False))
        print(sensitivity(n).to_string(float_format="{:,.2f}".format))


if __name__ == "__main__":
    main()
