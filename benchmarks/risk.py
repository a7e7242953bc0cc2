"""Identification risk, marginal and by pairs: seconds at the paper's size, growth with n, and the cost of a plain sum.

    python benchmarks/risk.py [--repeat 5] [--largest 400000]

The plain sum looks at every value for every pair of records, O(n^3), as numpy array operations and as a loop of
Python.  The first size is 240, the largest file for which the paper's authors time theirs.  Ratios are of times in one
run, and the numbers are compared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import surveysynth as ss
from surveysynth.privacy.neighbourhoods import balls_of, pairwise

MEASURES = {"marginal": ss.identification_risk, "pairwise": ss.pairwise_weights}
Floats = NDArray[np.float64]


def files(n: int, patterns: int, L: int) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """Incomes of n records in patterns, and L synthetic data sets."""
    rng = np.random.default_rng(n + patterns)
    y = np.exp(rng.normal(10.8, 1, n))
    frame = pd.DataFrame({"p": rng.integers(0, patterns, n), "y": y})
    return frame, [frame.assign(y=y * np.exp(rng.normal(0, 0.5, n))) for _ in range(L)]


def seconds(work: Callable[[], object], repeat: int) -> float:
    """Wall time of one call, the median of several."""
    took = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return float(np.median(took))


def timed(measure: str, n: int, patterns: int, L: int, repeat: int) -> float:
    """Seconds of a measure on such files."""
    frame, synthetic = files(n, patterns, L)
    return seconds(partial(MEASURES[measure], frame, synthetic, known="p", value="y"), repeat)


def plain(y: Floats, star: Floats) -> Floats:
    """alpha~ of one pattern (Hu, Savitsky & Williams 2022b, eq. 11-14), all triples as arrays, a record at a time."""
    n = y.size
    outside = np.abs(star - y[:, None]) > 0.2 * np.abs(y)[:, None]  # of ball i, value h
    hit = ~outside.diagonal()
    risk = np.array([(outside[i] & outside).sum(axis=1) * hit[i] * hit / n for i in range(n)])
    return np.asarray(1 - (risk.sum(axis=1) - risk.diagonal()) / (n - 1))


def looped(y: Floats, star: Floats) -> Floats:
    """The same, as it is written."""
    truth, values = y.tolist(), star.tolist()
    n = len(truth)
    alpha = np.zeros(n)
    for i in range(n):
        total = 0.0
        for j in range(n):
            near = [abs(values[k] - truth[k]) <= 0.2 * abs(truth[k]) for k in (i, j)]
            if j != i and all(near):
                total += sum(
                    abs(v - truth[i]) > 0.2 * abs(truth[i]) and abs(v - truth[j]) > 0.2 * abs(truth[j]) for v in values
                ) / n  # fmt: skip
        alpha[i] = 1 - total / (n - 1)
    return alpha


def compare(n: int, repeat: int) -> None:
    """Ours beside the sums over pairs."""
    frame, synthetic = files(n, 1, 1)
    y, star = frame["y"].to_numpy(), synthetic[0]["y"].to_numpy()
    ours = ss.pairwise_weights(frame, synthetic, known="p", value="y").to_numpy()
    fast = seconds(partial(ss.pairwise_weights, frame, synthetic, known="p", value="y"), 20 * repeat)
    everybody, low, high = np.zeros(n, dtype=np.intp), (0.8 * y)[:, None], (1.2 * y)[:, None]
    bare = seconds(lambda: pairwise(balls_of(everybody, low, high, star[:, None])), 20 * repeat)
    print(f"pairwise, n = {n}, one pattern: {1000 * fast:.2f} ms, without the frames {1000 * bare:.3f} ms")
    for name, work, times in (("numpy", plain, repeat), ("Python", looped, 1)):
        apart = float(np.abs(work(y, star) - ours).max())
        slow = seconds(partial(work, y, star), times)
        ratios = f"{slow / fast:,.0f} times, {slow / bare:,.0f} times without the frames"
        print(f"  all triples in {name}: {slow:.3f} s, {ratios}; results differ by {apart:.1g}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--largest", type=int, default=400_000)
    options = parser.parse_args()
    for measure in MEASURES:
        timed(measure, 100, 2, 1, 1)  # compiled
        for patterns in (40, 1):
            took = timed(measure, 6_208, patterns, 20, options.repeat)
            print(f"{measure}, n = 6,208, patterns {patterns}, L = 20: {took:.3f} s", flush=True)
    for measure in MEASURES:
        n, before = 6_250, 0.0
        print(f"{measure}, 40 patterns, one data set:")
        while n <= options.largest:
            took = timed(measure, n, 40, 1, options.repeat)
            ratio = f", {took / before:.2f} times the half" if before else ""
            print(f"  n = {n:,}: {took:.4f} s{ratio}", flush=True)
            n, before = 2 * n, took
    for n in (240, 960):
        compare(n, options.repeat)


if __name__ == "__main__":
    main()
