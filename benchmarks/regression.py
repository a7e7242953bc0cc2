"""CPU seconds of linear and logistic regressions on a survey design, next to R's survey and svy.

    python benchmarks/regression.py [--n 100000] [--columns 10] [--repeat 5]

Each program has the same file, in a process of its own with one thread, and reports its first and its least time once
it has read the file and made the design.  A peer that is not installed is left out (``pip install svy``; R with
survey).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

R = r"""
at <- commandArgs(TRUE)
suppressPackageStartupMessages(library(survey))
d <- read.csv(at[1])
design <- svydesign(~psu, strata = ~s, weights = ~w, data = d, nest = TRUE)
x <- paste(grep("^x", names(d), value = TRUE), collapse = " + ")
timed <- function(formula, family) {
  seconds <- c()
  for (k in seq_len(as.integer(at[2])))
    seconds <- c(seconds, sum(system.time(fit <- svyglm(formula, design = design, family = family))[1:2]))
  list(first = seconds[1], least = min(seconds), b = unname(coef(fit)), se = unname(SE(fit)))
}
found <- list(linear = timed(as.formula(paste("y ~", x)), gaussian()),
              logistic = timed(as.formula(paste("z ~", x)), quasibinomial()))
number <- function(v) paste0("[", paste(sprintf("%.15g", v), collapse = ","), "]")
cat(sprintf('{"%s": {"first": %.4f, "least": %.4f, "b": %s, "se": %s}, ', "linear", found$linear$first,
            found$linear$least, number(found$linear$b), number(found$linear$se)),
    sprintf('"%s": {"first": %.4f, "least": %.4f, "b": %s, "se": %s}}', "logistic", found$logistic$first,
            found$logistic$least, number(found$logistic$b), number(found$logistic$se)), "\n")
"""
OURS = """
import json, sys, time
import pandas as pd
import surveysynth as ss

d = pd.read_csv(sys.argv[1])
design = ss.SurveyDesign(d, weights="w", strata="s", psu="psu")
x = " + ".join(c for c in d if c.startswith("x"))
found = {}
for kind, y, how in (("linear", "y", {}), ("logistic", "z", {"family": "binomial"})):
    seconds = []
    for _ in range(int(sys.argv[2])):
        began = time.process_time()
        fit = ss.regression(design, f"{y} ~ {x}", **how)
        seconds.append(time.process_time() - began)
    found[kind] = {"first": seconds[0], "least": min(seconds), "b": fit.table["estimate"].tolist(),
                   "se": fit.table["se"].tolist()}
print(json.dumps(found))
"""
SVY = """
import json, sys, time
import polars as pl
import svy

d = pl.read_csv(sys.argv[1])
sample = svy.Sample(d, svy.Design(stratum="s", psu="psu", wgt="w"))
x = [c for c in d.columns if c.startswith("x")]
found = {}
for kind, y, how in (("linear", "y", {}), ("logistic", "z", {"family": "binomial"})):
    seconds = []
    for _ in range(int(sys.argv[2])):
        began = time.process_time()
        sample.glm.fit(y=y, x=x, **how)
        seconds.append(time.process_time() - began)
    found[kind] = {"first": seconds[0], "least": min(seconds)}
print(json.dumps(found))
"""


def write(n: int, columns: int, file: Path) -> None:
    """A stratified sample of n records in 800 PSUs."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({f"x{j}": rng.standard_normal(n) for j in range(columns - 1)})
    linear = 0.2 * X.sum(axis=1)
    psu = rng.integers(0, 800, n)
    X.assign(
        s=psu // 40, psu=psu, w=rng.uniform(1, 3, n), y=linear + rng.standard_normal(n),
        z=(rng.random(n) < 1 / (1 + np.exp(-linear))).astype(int),
    ).to_csv(file, index=False)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=10, help="the intercept among them")
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file.csv"
        write(given.n, given.columns, file)
        (Path(folder) / "peer.R").write_text(R)
        commands = {"surveysynth": [sys.executable, "-c", OURS], "svy": [sys.executable, "-c", SVY]}
        if shutil.which("Rscript"):
            commands["R survey"] = ["Rscript", str(Path(folder) / "peer.R")]
        found = {}
        for name, command in commands.items():
            done = subprocess.run(
                [*command, str(file), str(given.repeat)], capture_output=True, text=True, env=os.environ | threads
            )
            if done.returncode == 0:
                found[name] = json.loads(done.stdout.splitlines()[-1])
        for kind in ("linear", "logistic"):
            ours = found["surveysynth"][kind]
            for name, each in found.items():
                of = each[kind]
                print(f"{kind}, {name}: {of['least']:.3f} CPU seconds ({of['first']:.3f} the first time)")
                if name == "R survey":
                    far = max(np.abs(np.divide(ours[k], each[kind][k]) - 1).max() for k in ("b", "se"))
                    print(f"  largest relative difference to ours: {far:.1e}")


if __name__ == "__main__":
    main()
