"""What a strict release costs as n grows, and beside the censored mechanism: seconds and memory, in one run.

    python benchmarks/strict_cost.py [--sizes 2000,10000,100000,1000000] [--picture docs/strict_cost.png]

The file has 36 combinations of two predictors, heavy-tailed log incomes and modelled weights.  The peer, the papers'
strict mechanism, is timed at the least n, under its fastest prior.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import surveysynth as ss

PEER = 30.0  # epsilon of the peer, which refuses the file at smaller ones
FORMULA, BOUNDS = "pay ~ education + sex", (0, 1_000_000)


def design(n: int, rng: np.random.Generator) -> ss.SurveyDesign:
    """Twelve levels of education, three of sex; t errors of 6 degrees of freedom."""
    education, sex, e = rng.integers(0, 12, n), rng.integers(0, 3, n), rng.standard_t(6, n) / 1.22
    pay = np.minimum(np.exp(10 + 0.07 * education + 0.1 * sex + 0.6 * e), BOUNDS[1])
    weight = 40 * np.exp(-0.25 * e + 0.5 * rng.standard_normal(n))
    frame = pd.DataFrame({"pay": pay, "w": weight, "education": education.astype(str), "sex": sex.astype(str)})
    return ss.SurveyDesign(frame, weights="w")


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="2000,10000,100000,1000000")
    parser.add_argument("--epsilon", type=float, default=5)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    rng, rows = np.random.default_rng(1), []
    sizes = [int(n) for n in given.sizes.split(",")]
    warm = design(1000, rng)
    ss.synthesize(warm, FORMULA, epsilon=20, bounds=BOUNDS, population_total=warm.weights.sum())  # compiles
    for n in sizes:
        file = design(n, rng)
        total = file.weights.sum()

        def strict(file: ss.SurveyDesign = file, total: float = total) -> object:
            return ss.synthesize(file, FORMULA, epsilon=given.epsilon, bounds=BOUNDS, population_total=total)

        took = seconds(strict)
        rows.append((n, took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6))
        print(f"Strict, n = {n:>9,}: {took:7.1f} s, {rows[-1][2]:.2f} GB at most", flush=True)
    small = design(sizes[0], rng)
    model = ss.FBS(FORMULA, prior="normal")
    peer = seconds(
        lambda: ss.fit(
            small, model, epsilon=PEER, m=1, mechanism=ss.Censored(), population_total=small.weights.sum()
        )
    )
    print(f"Censored, n = {sizes[0]:,}: {peer:.1f} s: {peer / rows[0][1]:.1f} times Strict")
    if given.picture is not None:
        draw(rows, given.picture)


def draw(rows: list[tuple[int, float, float]], path: Path) -> None:
    """Seconds and memory against n, both scales logarithmic."""
    from matplotlib.figure import Figure

    n, took, memory = zip(*rows, strict=True)
    figure = Figure(figsize=(7.5, 3.4), layout="constrained")
    for ax, values, label in zip(figure.subplots(1, 2), (took, memory), ("seconds", "GB at most"), strict=True):
        ax.plot(n, values, "o-", color="#0b6fa4")
        for x, y in zip(n, values, strict=True):
            ax.annotate(f"{y:.3g}", (x, y), textcoords="offset points", xytext=(0, 7), ha="center", fontsize=9)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(min(values) / 1.6, max(values) * 2)
        ax.set_xlabel("records")
        ax.set_ylabel(label)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
