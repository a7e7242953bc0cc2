"""FBS and FBP as we fit them, against the papers' row-by-row programs in rstan: the same posterior, one run.

    python benchmarks/rowwise.py [--sizes 1000,10355] [--models FBS,FBP] [--iterations 2000,400]

Both sample the alpha-weighted pseudo posterior under the papers' priors (Hu, Savitsky & Williams 2022a, appendices C
and D) for the same file: eight fields, two genders, K = 9.  Times are of one chain after compilation, which
is given apart.  At the larger size the row-by-row program is run for fewer iterations, half of
them warm-up, and its time for 2,000 is taken from its iterations after warm-up: too little, as
warm-up has longer trajectories, or too much, as a short one adapts less well.  Effective draws
are the least bulk ESS over coefficients and covariances.

Needs R with rstan: apt-get install r-cran-rstan libboost-dev g++
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import surveysynth as ss
from surveysynth.engines import get_engine
from surveysynth.engines.base import diagnose
from surveysynth.models.draws import Sampler

PROGRAMS = Path(__file__).parents[1] / "tests" / "reference"
FULL = 2000  # iterations of a chain, half of them warm-up
SCRIPT = """
suppressPackageStartupMessages(library(rstan))
rstan_options(boost_lib = "/usr/include")
given <- commandArgs(TRUE)
compile <- system.time(program <- suppressWarnings(stan_model(given[1], save_dso = FALSE)))[["elapsed"]]
data <- read_rdump(given[2])
iterations <- as.integer(given[3])
fit <- suppressWarnings(sampling(program, data = data, chains = 1, iter = iterations, seed = 1, refresh = 0, cores = 1))
spent <- get_elapsed_time(fit)
draws <- extract(fit, permuted = FALSE, pars = strsplit(given[5], ",")[[1]])
write.csv(draws[, 1, ], given[4], row.names = FALSE)
cat(sprintf('{"compile": %f, "warmup": %f, "sampling": %f, "divergences": %d, "deepest": %d}', compile,
            spent[1, "warmup"], spent[1, "sample"], get_num_divergent(fit),
            max(get_sampler_params(fit, FALSE)[[1]][, "treedepth__"])))
"""


def design(n: int, rng: np.random.Generator) -> ss.SurveyDesign:
    """Eight fields, two genders; log outcome and log weight correlated at about -0.7."""
    field, gender = np.arange(n) % 8, rng.integers(0, 2, n)
    y = 11.5 + 0.1 * field + 0.1 * gender + rng.normal(0, 0.4, n)
    w = -(y - 11) + 0.1 * field + rng.normal(0, 0.4, n)
    frame = pd.DataFrame({"field": field.astype(str), "gender": gender.astype(str), "y": np.exp(y), "w": np.exp(w)})
    return ss.SurveyDesign(frame, weights="w", strata="field")


def least_ess(draws: np.ndarray) -> float:
    """The least bulk effective sample size over parameters: draws (S, P) of one chain."""
    return diagnose({"draws": draws[None]}, 0).ess_bulk


def ours(model: ss.FBS | ss.FBP, data: object, alpha: np.ndarray) -> dict[str, float]:
    """Seconds and effective draws of one chain of 2,000 iterations; the second of two runs, as programs are cached."""
    for _ in range(2):
        start = time.perf_counter()
        sampler = Sampler(lambda: get_engine("embedded"), np.random.default_rng(1), 1, FULL // 2, FULL // 2)
        posterior = model.fit(data, alpha, sampler)
        seconds = time.perf_counter() - start
    B, L = posterior.values["B"], posterior.values["L"]
    draws = np.column_stack([B.reshape(len(B), -1), L[:, [0, 1, 1], [0, 0, 1]]])
    return {"seconds": seconds, "ess": least_ess(draws), "divergences": posterior.diagnostics.divergences}


def rdump(values: dict[str, object]) -> str:
    """Data in R's dump format, which rstan reads without further packages."""
    lines = []
    for name, value in values.items():
        a = np.asarray(value, dtype=float)
        numbers = ", ".join(f"{x:.17g}" for x in a.flatten(order="F"))
        shape = ", ".join(str(k) for k in a.shape)
        lines.append(
            f"{name} <- {numbers}" if a.ndim == 0
            else f"{name} <- c({numbers})" if a.ndim == 1
            else f"{name} <- structure(c({numbers}), .Dim = c({shape}))"
        )  # fmt: skip
    return "\n".join(lines)


def rowwise(name: str, data: object, alpha: np.ndarray, iterations: int) -> dict[str, float]:
    """The same of the row-by-row program in rstan."""
    X, Y = data.X[data.pattern], data.Y
    n, K = X.shape
    if name == "FBS":
        program, parameters = "fbs_rowwise.stan", "B,L"
        given = {"n": n, "K": K, "D": 2, "X": X, "Y": Y, "alpha": alpha, "correlated": 1}
    else:
        program, parameters = "fbp_rowwise.stan", "beta,kappa_y,kappa_x,sigma_y,sigma_pi"
        given = {"n": n, "K": K, "weighted": 1, "X": X, "y": Y[:, 0], "log_pi": -Y[:, 1], "alpha": alpha}
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f for f in ("run.R", "data.R", "draws.csv")]
        files[0].write_text(SCRIPT)
        files[1].write_text(rdump(given))
        arguments = [files[0], PROGRAMS / program, files[1], str(iterations), files[2], parameters]
        done = subprocess.run(["Rscript", "--vanilla", *arguments], capture_output=True, text=True, check=True)
        said = json.loads(done.stdout[done.stdout.index("{") :])
        draws = pd.read_csv(files[2]).to_numpy()
    scale = FULL / iterations
    seconds = said["warmup"] + said["sampling"] if scale == 1 else 2 * scale * said["sampling"]
    return said | {"seconds": seconds, "ess": least_ess(draws) * scale}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1000,10355")
    parser.add_argument("--models", default="FBS,FBP")
    parser.add_argument("--iterations", default="2000,400", help="of the row-by-row program, one number a size")
    options = parser.parse_args()
    sizes, iterations = ([int(x) for x in text.split(",")] for text in (options.sizes, options.iterations))
    for n, length in zip(sizes, iterations, strict=True):
        sample = design(n, np.random.default_rng(1))
        alpha = np.random.default_rng(2).uniform(0.4, 1, n)
        for name in options.models.split(","):
            model = {"FBS": ss.FBS, "FBP": ss.FBP}[name]("y", "field + gender")
            data = model.prepare(sample)
            here, there = ours(model, data, alpha), rowwise(name, data, alpha, length)
            scaled = "" if length == FULL else f" (scaled from {length})"
            print(f"{name}, n = {n:,}, one chain of {FULL:,} iterations")
            for label, run in (("collapsed, embedded engine", here), ("row by row, rstan", there)):
                print(
                    f"  {label + ':':28}{run['seconds']:9.2f} s, {FULL / 2 / run['seconds']:8.1f} draws/s, "
                    f"{run['ess'] / run['seconds']:8.1f} effective draws/s, {run['divergences']:.0f} divergences"
                )
            print(f"  the latter{scaled}: deepest tree {there['deepest']}, compiled in {there['compile']:.0f} s")
            speed = there["seconds"] / here["seconds"]
            effective = speed * here["ess"] / there["ess"]
            print(f"  ratio: time {speed:.0f}, effective draws a second {effective:.0f}", flush=True)


if __name__ == "__main__":
    main()
