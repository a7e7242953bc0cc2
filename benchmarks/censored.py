"""The censored mechanism: what a gradient costs, how fits grow with n, and what the clamp does to coverage.

    python benchmarks/censored.py gradient [--sizes 2000,100000]
    python benchmarks/censored.py fit [--sizes 1500,10000] [--model fbs|fbp|beta]
    python benchmarks/censored.py coverage [--replicates 60] [--epsilon 10.8] [--m 3] [--model fbs]

``gradient``: the program as it is against the same density with a loop over records (as in supplement 1
of Hu, Williams & Savitsky 2025), in turn, as ratios.  ``coverage``: repeated samples of the simulated population (Hu,
Savitsky & Williams 2022a, section 4.1), strict releases with and without the correction for the clamp, coverage over
cells, margins and the total.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd
import stanli
from fit_cost import design

import surveysynth as ss
from replication.tabular.study import sdr
from surveysynth.engines import base, get_engine
from surveysynth.models.draws import Sampler
from surveysynth.models.normal.censored_fit import coordinates, distinct_records, only_mode

LOOP = """
data {
  int D; int K; int n; int G; real bound; matrix[G, K] X; matrix[n, D] r; vector[n] base; vector[n] alpha;
  array[n] int g;
}
parameters { matrix[K, D] B; vector[D] u; vector[(D * (D - 1)) %/% 2] v; }
model {
  matrix[D, D] W = diag_matrix(exp(u));
  int at = 1;
  for (i in 2:D) for (j in 1:(i - 1)) { W[i, j] = v[at]; at += 1; }
  for (i in 1:n) {
    vector[D] e = W * (r[i]' - (X[g[i]] * B)');
    target += fmax(fmin(alpha[i] * (base[i] + sum(u) - 0.5 * dot_self(e)), bound), -bound);
  }
}
"""
VECTORISED = """
functions {
#include censored.stanfunctions
}
data {
  int D; int K; int n; int G; real bound; matrix[G, K] X; matrix[n, D] r; matrix[n, (D * (D + 1)) %/% 2] rr;
  vector[n] base; vector[n] alpha; vector[n] count; array[n] int g; array[G + 1] int start;
}
parameters { matrix[K, D] B; vector[D] u; vector[(D * (D - 1)) %/% 2] v; }
model {
  matrix[D, D] W = diag_matrix(exp(u));
  int at = 1;
  for (i in 2:D) for (j in 1:(i - 1)) { W[i, j] = v[at]; at += 1; }
  target += censored_normal(r, rr, base, alpha, count, start, g, X * B, W, bound);
}
"""


def sampler(seed: int, chains: int = 4) -> Sampler:
    """The embedded engine's."""
    return Sampler(lambda: get_engine("embedded"), np.random.default_rng(seed), chains, 1000, 1000)


def gradient(sizes: list[int]) -> None:
    """Milliseconds a gradient, taken in turn."""
    print(f"{'n':>8} {'loop ms':>9} {'ours ms':>9} {'ratio':>7}")
    for n in sizes:
        data = ss.FBS("y", "field + gender").prepare(design(n, np.random.default_rng(1)))
        alpha, zero = np.ones(n), np.zeros(n)
        distinct = distinct_records(data.X, data.pattern, data.Y, alpha, zero)
        records = coordinates(distinct, 3.0, only_mode(distinct, 3.0, np.random.default_rng(1)))
        folder = [str(base.program_path("fbs_censored").parent)]
        programs = [stanli.Model(stan_code=c, data=records, include_paths=folder) for c in (LOOP, VECTORISED)]
        theta = np.full(21, 0.01)
        values = [p.log_prob_grad(theta)[0] for p in programs]
        np.testing.assert_allclose(values[0], values[1])
        times = np.zeros((5, 2))
        for pair in times:
            for k, program in enumerate(programs):
                begin = time.perf_counter()
                for _ in range(20):
                    program.log_prob_grad(theta)
                pair[k] = (time.perf_counter() - begin) / 20 * 1e3
        loop, ours = np.median(times, axis=0)
        print(f"{n:8,} {loop:9.2f} {ours:9.3f} {loop / ours:7.1f}")


def fit(sizes: list[int], name: str) -> None:
    """Seconds of a censored fit, four chains of 1,000 + 1,000, and its diagnostics."""
    for n in sizes:
        survey, formula = design(n, np.random.default_rng(1)), "field + gender"
        if name == "beta":
            y = np.random.default_rng(1).beta(0.5, 3, n)
            survey, model = (
                ss.SurveyDesign(pd.DataFrame({"y": y, "w": 1.0}), weights="w"),
                ss.BetaRegression("y", bounds=(0, 1)),
            )
        else:
            model = ss.FBS("y", formula, prior="normal") if name == "fbs" else ss.FBP("y", formula)
        data = model.prepare(survey, "model", survey.weights.mean())
        begin = time.perf_counter()
        posterior = model.censored(data, np.ones(n), 2.5, sampler(1))
        took, d = time.perf_counter() - begin, posterior.diagnostics
        print(
            f"{model.name} n = {n:7,}: {took:7.1f} s, {d.divergences} divergences, R-hat {d.rhat:.4f}, "
            f"ESS {d.ess_bulk:.0f} (bulk), {d.ess_tail:.0f} (tail)", flush=True,
        )  # fmt: skip


def coverage(replicates: int, epsilon: float, m: int, name: str) -> None:
    """Coverage, interval length and relative error of counts and means, by kind of domain."""
    population = sdr("sdr")
    by, N = list(population.by), population.N
    formula = population.predictors
    model = ss.FBS("salary", formula, prior="normal") if name == "fbs" else ss.FBP("salary", formula)
    rows, begin = [], time.perf_counter()
    for k in range(replicates):
        survey = population.sample(population.frame, 1000, 1000 + k)
        strict = ss.fit(survey, model, epsilon=epsilon, m=m, mechanism=ss.Censored(), population_total=N, seed=k)
        debiased = strict.release(debias=True)
        wide = debiased.tables(by=by)
        half = (wide["ci_high"] - wide["ci_low"]) / 2 * debiased.method.get("variance_factor", 1.0) ** 0.5
        tables = {
            "confidential": ss.estimate(survey, "salary", by, ["count", "mean"]),
            "strict": strict.release().tables(by=by),
            "strict, debias": debiased.tables(by=by),
            "strict, debias, with the factor": wide.assign(
                ci_low=wide["estimate"] - half, ci_high=wide["estimate"] + half
            ),
        }
        for method, table in tables.items():
            part = table.merge(population.truths, on=[*by, "statistic"]).assign(method=method, replicate=k)
            rows.append(part[part["truth"].notna()])
    table = pd.concat(rows)
    margins = (table[by] == "all").sum(axis=1)
    table["domain"] = margins.map({0: "cells", 1: "margins", 2: "total"})
    slack = 1e-9 * table["truth"]
    table["covered"] = (table["ci_low"] <= table["truth"] + slack) & (table["ci_high"] >= table["truth"] - slack)
    table["length"] = (table["ci_high"] - table["ci_low"]) / table["truth"]
    table["error"] = ((table["estimate"] - table["truth"]) / table["truth"]) ** 2
    summary = table.groupby(["statistic", "domain", "method"])[["covered", "length", "error"]].mean()
    summary["rmse"] = np.sqrt(summary.pop("error"))
    print(f"{model.name}, epsilon = {epsilon:g}, m = {m}, {replicates} samples, {time.perf_counter() - begin:.0f} s")
    print(summary.round(3).to_string())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["gradient", "fit", "coverage"])
    parser.add_argument("--sizes", default=None)
    parser.add_argument("--model", choices=["fbs", "fbp", "beta"], default="fbs")
    parser.add_argument("--replicates", type=int, default=60)
    parser.add_argument("--epsilon", type=float, default=10.8)
    parser.add_argument("--m", type=int, default=3)
    given = parser.parse_args()
    sizes = [int(s) for s in given.sizes.split(",")] if given.sizes else None
    if given.what == "gradient":
        gradient(sizes or [2_000, 100_000])
    elif given.what == "fit":
        fit(sizes or [1_500, 10_000], given.model)
    else:
        coverage(given.replicates, given.epsilon, given.m, given.model)


if __name__ == "__main__":
    main()
