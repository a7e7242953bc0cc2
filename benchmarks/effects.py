"""What do effects of PSUs cost?  Fit times of FBS with effects, as ratios to the fit without in the same run.

    python benchmarks/effects.py [--sizes 10000,1000000] [--psus 62,600,6000] [--priors flat,paper] [--pairs 3]

A fit is statistics of the records, sampling, and the draws of coefficients; the Lipschitz
pass, linear in n and in the number of draws, is timed apart.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import pandas as pd
from fit_cost import seconds

from surveysynth import FBS, SurveyDesign
from surveysynth.engines import get_engine
from surveysynth.models.draws import Draws, Sampler
from surveysynth.models.normal.joint_records import JointRecords

MODEL = FBS("y", "field + gender")


def design(n: int, psus: int, rng: np.random.Generator) -> SurveyDesign:
    """Eight fields, two genders, PSUs within fields; 10% of the variance of log outcome and log weight is theirs."""
    psu = rng.permutation(np.arange(n) % psus)
    field, gender = psu % 8, rng.integers(0, 2, n)
    u, v = rng.normal(0, 0.133, (2, psus))
    y = 11.5 + 0.1 * field + 0.1 * gender + u[psu] + rng.normal(0, 0.4, n)
    w = -(y - 11) + 0.1 * field + v[psu] + rng.normal(0, 0.4, n)
    frame = pd.DataFrame({
        "field": field.astype(str), "gender": gender.astype(str), "psu": psu, "y": np.exp(y), "w": np.exp(w),
    })  # fmt: skip
    return SurveyDesign(frame, weights="w", strata="field", psu="psu")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="10000,1000000")
    parser.add_argument("--psus", default="62,600,6000")
    parser.add_argument("--priors", default="flat,paper")
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    sizes, psus = ([int(part) for part in text.split(",")] for text in (options.sizes, options.psus))
    rng = np.random.default_rng(1)
    for n in sizes:
        prepared: dict[int, JointRecords] = {0: MODEL.prepare(design(n, psus[0], rng), "ignore")}
        prepared |= {C: MODEL.prepare(design(n, C, rng)) for C in psus}
        for prior in options.priors.split(","):
            compare(prepared, prior, n, options.pairs)


def compare(prepared: dict[int, JointRecords], prior: str, n: int, pairs: int) -> None:
    """Fits without effects (0 PSUs) and with them, taken in turn."""
    model = replace(MODEL, prior=prior)
    engine = get_engine("embedded")
    alpha = np.random.default_rng(2).uniform(0.5, 0.9, n)
    last: dict[int, Draws] = {}

    def fit(C: int, rng: np.random.Generator, **settings: int) -> None:
        last[C] = model.fit(prepared[C], alpha, Sampler(lambda: engine, rng, **settings))

    for C in prepared:  # what is compiled is compiled first
        fit(C, np.random.default_rng(3), chains=1, warmup=200, draws=50)
        model.lipschitz(prepared[C], last[C])
    fits: dict[int, list[float]] = {C: [] for C in prepared}
    passes: dict[int, list[float]] = {C: [] for C in prepared}
    for pair in range(pairs):
        for C, data in prepared.items():
            fits[C].append(seconds(lambda C=C, pair=pair: fit(C, np.random.default_rng(pair))))
            passes[C].append(seconds(lambda data=data, C=C: model.lipschitz(data, last[C])))
    without = f"fit {np.median(fits[0]):.2f} s, Lipschitz {np.median(passes[0]):.2f} s"
    print(f"n = {n:,}, prior {prior}, without effects: {without}")
    for C in prepared:
        if C:
            print(f"  {C:>6,} PSUs: fit {_ratio(fits[C], fits[0])}, Lipschitz {_ratio(passes[C], passes[0])}")


def _ratio(these: list[float], those: list[float]) -> str:
    ratios = np.divide(these, those)
    return f"{np.median(ratios):.2f} times (from {ratios.min():.2f} to {ratios.max():.2f})"


if __name__ == "__main__":
    main()
