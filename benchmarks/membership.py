"""How well one outlier is told to be in the file: with the privacy weights held, and with everything computed anew.

    python benchmarks/membership.py [--files 10] [--fits 12]

Files of lognormal outcomes with informative weights, one outcome times 100; FBS under the flat prior, m = 3.  Each file
is fitted so many times as it is, and as often without the outlier, and the intruder, who knows all else, sees the m
parameter draws.  "held": privacy weights stay those of the file with the outlier; "anew": risks, c1 and privacy
weights are computed without it, and the intruder knows what they came to in both fits; "unknown": he does not, and
simulates other fits of both files instead; "same file": two fits of one file, told apart as under "anew".  "beyond" is
the probability that the privacy loss of a release, the log ratio at its m draws under "anew", exceeds epsilon.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from published_constants import make_frame
from scipy.special import logsumexp

import surveysynth as ss
from surveysynth.privacy.membership import between, log_normalizers, log_ratios, play
from surveysynth.privacy.protected_fit import ProtectedFit

Floats = NDArray[np.float64]

SETTINGS = ((300, 3.0), (2000, 3.0), (2000, 1.0))  # n and epsilon
M, GAMES = 3, 2000
MODEL = ss.FBS("y", "s", prior="flat")


def of_file(n: int, epsilon: float, number: int, fits: int) -> dict[str, float]:
    """The advantages on one file; record 0 is the outlier."""
    frame, rng = make_frame(n, number), np.random.default_rng([n, int(epsilon), number])
    frame.loc[0, "y"] *= 100
    first = ss.fit(
        ss.SurveyDesign(frame, weights="w"),
        MODEL,
        epsilon=epsilon,
        m=M,
        seed=int(rng.integers(2**31)),
        mechanism=ss.PseudoPosterior(),
    )
    within = [first.weighted, *(first.refitted([], rng) for _ in range(fits - 1))]
    without = [first.refitted([0], rng) for _ in range(fits)]
    weight = first.weighted.posterior.weight
    held = play(log_ratios(first.contributions(np.array([0])), weight)[:, 0], weight, M, rng)[0]

    def apart(other: ProtectedFit) -> tuple[float, ...]:
        here, there = first.log_ratio(other, first.weighted.posterior), first.log_ratio(other, other.posterior)
        return between(here, weight, there, other.posterior.weight, M, epsilon, rng)

    anew, same = np.array([apart(w) for w in without]), np.array([apart(w) for w in within[1:]])
    return {
        "held": held, "anew": anew[:, 0].mean(), "unknown": unknown(first, within, without, rng),
        "same file": same[:, 0].mean(), "beyond": anew[:, 2].mean(), "beyond, same file": same[:, 2].mean(),
    }  # fmt: skip


def unknown(first: ss.Fit, within: list[ProtectedFit], without: list[ProtectedFit], rng: np.random.Generator) -> float:
    """The advantage of who takes the mean density over the other fits of each file, instead of that of the fit."""
    every, posterior = [*within, *without], first.weighted.posterior
    shift = [
        log_normalizers(
            first.log_ratio(w, posterior), posterior.weight, first.log_ratio(w, w.posterior), w.posterior.weight
        )[0]
        for w in every
    ]
    inside = np.arange(len(every)) < len(within)
    guessed = []
    for j, of in enumerate(every):
        game = rng.choice(of.posterior.size, (GAMES, M), p=of.posterior.weight)
        log_p = np.array([
            (first.log_ratio(w, of.posterior) - c)[game].sum(axis=1) for w, c in zip(every, shift, strict=True)
        ])  # fmt: skip
        others = np.arange(len(every)) != j
        score = [logsumexp(log_p[others & side], axis=0) - np.log((others & side).sum()) for side in (inside, ~inside)]
        guessed.append(float((score[0] > score[1]).mean()))
    return float(np.mean(guessed[: len(within)]) - np.mean(guessed[len(within) :]))


def main() -> None:
    """Print the means over files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--fits", type=int, default=12)
    asked = parser.parse_args()
    for n, epsilon in SETTINGS:
        found = []
        for number in range(asked.files):
            try:
                found.append(of_file(n, epsilon, number, asked.fits))
            except ss.SurveySynthError:  # the file, with the outlier or without it, is refused in one of the fits
                continue
        table = pd.DataFrame(found)
        bound = np.tanh(epsilon / 2)
        print(f"\nn = {n:,}, epsilon = {epsilon:g} (allows an advantage of {bound:.2f}), {len(found)} files: mean (sd)")
        for name in table:
            print(f"  {name:18} {table[name].mean():.3f} ({table[name].std():.3f})", flush=True)


if __name__ == "__main__":
    main()
