"""Domain estimates, replicates and inclusion probabilities side by side with svy, samplics and R, as ratios.

    python benchmarks/estimation.py [--n 1000000] [--units 10000000] [--repeat 3] [--only taylor|preston|pps]

Every measurement is a process of its own, on the same files; one after the other, each reports the
least of its times and its peak memory above what it held before.  What a peer needs minutes for is
measured on some of the domains and scaled, and says so.  A peer that is not installed is left out
(``pip install svy``; R with survey and sampling).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    import polars

DOMAINS = (16, 800)
FEW = 20  # domains on which slow peers are measured, where there are more

R = r"""
at <- commandArgs(TRUE)
folder <- at[1]; task <- at[2]; domains <- at[3]; few <- as.integer(at[4]); R <- as.integer(at[5])
suppressPackageStartupMessages(library(survey))
number <- function(name, what, size) {
  path <- file.path(folder, name)
  readBin(path, what, file.size(path) / size, size)
}
memory <- function(field) {
  line <- grep(field, readLines("/proc/self/status"), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 1024
}
measured <- function(work) {
  gc(); before <- memory("VmRSS"); writeLines("5", "/proc/self/clear_refs")
  seconds <- system.time(value <- work())[["elapsed"]]
  cat(sprintf('{"seconds": %.6f, "peak": %.1f, "check": %.12g}', seconds, memory("VmHWM") - before, value))
}
if (task == "pps") {
  size <- number("size", "double", 8)
  measured(function() sum(sampling::inclusionprobabilities(size, length(size) / 100)^2))
} else {
  d <- data.frame(y = number("y", "double", 8), w = number("w", "double", 8), h = number("h", "integer", 4))
  d$g <- number(paste0("g", domains), "integer", 4)
  if (few) d$g[d$g >= few] <- NA  # svyby leaves these out, and keeps the whole design for each of the others
  design <- svydesign(~1, strata = ~h, weights = ~w, data = d)
  if (task == "taylor") {
    measured(function() sum(SE(svyby(~y, ~g, design, svymean))))
  } else {
    measured(function() {
      reps <- suppressWarnings(as.svrepdesign(design, type = "mrbbootstrap", replicates = R))
      sum(SE(svyby(~y, ~g, reps, svymean)))
    })
  }
}
"""


def memory(field: str) -> float:
    """A field of /proc/self/status in MB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def measured(work: Callable[[], float], repeat: int) -> dict[str, float]:
    """Least time of some runs, and the peak memory of the first."""
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    times, peak = [], 0.0
    for i in range(repeat):
        start = time.perf_counter()
        value = work()
        times.append(time.perf_counter() - start)
        peak = peak if i else memory("VmHWM") - before
    return {"seconds": min(times), "peak": peak, "check": value}


def task(name: str, folder: Path, domains: int, few: int, replicates: int, repeat: int) -> dict[str, float]:
    """One measurement of a Python package, in this process."""
    if name == "pps":
        from surveysynth.sampling import inclusion_probabilities

        size = np.fromfile(folder / "size")
        inclusion_probabilities(size[:1000], 10)  # compiled
        return measured(lambda: float((inclusion_probabilities(size, size.size // 100) ** 2).sum()), repeat)
    frame = pd.DataFrame({c: np.fromfile(folder / c) for c in ("y", "w")})
    frame["h"] = np.fromfile(folder / "h", dtype=np.int32)
    frame["g"] = np.fromfile(folder / f"g{domains}", dtype=np.int32)
    if few:  # a domain of their own for the rest: all are visited
        frame["g"] = np.where(frame["g"] < few, frame["g"], few)
    if name == "svy":
        import polars
        import svy

        sample = svy.Sample(data=polars.from_pandas(frame), design=svy.Design(stratum="h", wgt="w"))
        return measured(lambda: _errors(sample.estimation.mean("y", by="g").to_polars(), few), repeat)

    import surveysynth as ss

    design = ss.SurveyDesign(frame, weights="w", strata="h")
    ss.estimate(ss.SurveyDesign(frame[:1000], weights="w", strata="h"), "y", "g")  # imported

    def total_error(design: ss.SurveyDesign, estimator: str) -> float:
        table = ss.estimate(design, "y", "g", estimator=estimator)
        return float(table["se"][table["g"] != "all"][: few or None].sum())

    if name == "preston":
        design.replicates("preston", R=2)  # compiled
        total_error(ss.SurveyDesign(frame[:1000], weights="w", strata="h").replicates("preston", R=2), "auto")
        return measured(lambda: total_error(design.replicates("preston", R=replicates), "replicates"), repeat)
    return measured(lambda: total_error(design, name), repeat)


def _errors(table: polars.DataFrame, few: int) -> float:
    return float(table.sort("g")["se"][: few or None].sum())


def run(name: str, folder: Path, domains: int = 16, few: int = 0, replicates: int = 0, repeat: int = 1) -> dict | None:
    """One measurement in a process of its own; None where the peer is not installed."""
    if name.startswith("R "):
        words = ["Rscript", "-e", R, str(folder), name[2:], str(domains), str(few), str(replicates)]
    else:
        given = [name, str(folder), str(domains), str(few), str(replicates), str(repeat)]
        words = [sys.executable, __file__, "--task", *given]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"   {name}: not measured ({(getattr(error, 'stderr', '') or str(error)).strip().splitlines()[-1]})")
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def show(title: str, results: dict[str, dict | None], scale: dict[str, float], own: str) -> None:
    """Seconds, ratio to ours, and peak memory of each."""
    print(f"\n{title}\n   {'':14}{'seconds':>10}{'ratio':>9}{'peak MB':>10}   sum of results")
    base = results[own]
    for name, found in results.items():
        if found is None or base is None:
            continue
        seconds = found["seconds"] * scale.get(name, 1.0)
        note = f"   scaled from {FEW} domains" if scale.get(name, 1.0) != 1 else ""
        print(
            f"   {name:14}{seconds:10.3f}{seconds / base['seconds']:9.1f}{found['peak']:10.0f}   "
            f"{found['check']:.9g}{note}",
            flush=True,
        )


def main() -> None:
    """Make the files, measure, print."""
    if sys.argv[1:2] == ["--task"]:
        name, folder, *numbers = sys.argv[2:]
        print(json.dumps(task(name, Path(folder), *map(int, numbers))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--units", type=int, default=10_000_000)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=["taylor", "preston", "pps"])
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng.normal(50, 10, given.n).tofile(folder / "y")
        rng.uniform(1, 10, given.n).tofile(folder / "w")
        rng.integers(0, 20, given.n).astype(np.int32).tofile(folder / "h")
        for domains in DOMAINS:
            rng.integers(0, domains, given.n).astype(np.int32).tofile(folder / f"g{domains}")
        if given.only in (None, "taylor"):
            for domains in DOMAINS:
                few = FEW if domains > FEW else 0
                parts = {"svy": domains / (few + 1), "samplics": (domains + 1) / (few + 2), "R survey": domains / FEW}
                slow = parts if few else {}
                found = {"onepass": run("onepass", folder, domains, repeat=given.repeat)}
                found["svy"] = run("svy", folder, domains, few)
                found["samplics"] = run("samplics", folder, domains, few)
                found["R survey"] = run("R taylor", folder, domains, few)
                show(f"Means, Taylor: n = {given.n:,}, 20 strata, {domains} domains", found, slow, "onepass")
        if given.only in (None, "preston"):
            options = {"domains": 16, "replicates": given.replicates}
            found = {"surveysynth": run("preston", folder, **options), "R survey": run("R preston", folder, **options)}
            title = f"Preston, R = {given.replicates}, drawn and used: n = {given.n:,}, 20 strata, 16 domains"
            show(title, found, {}, "surveysynth")
        if given.only in (None, "pps"):
            rng.lognormal(0, 1.5, given.units).tofile(folder / "size")
            found = {"surveysynth": run("pps", folder, repeat=given.repeat), "R sampling": run("R pps", folder)}
            title = f"Inclusion probabilities: N = {given.units:,}, n = N / 100"
            show(title, found, {}, "surveysynth")


if __name__ == "__main__":
    main()
