"""Public files of seeded releases of every kind, to compare before and after a change that is to leave behaviour alone.

    python tests/reference/seeded_releases.py FOLDER            # write them
    python tests/reference/seeded_releases.py FOLDER --against OLD    # and say which files differ

Run both in the same virtual environment on the same machine: draws depend on the engine's build.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))
from surveys import make_design, make_frame, model, population_model

import surveysynth as ss
from tests.surveys import PSEUDO

SHORT = {"chains": 4, "warmup": 400, "draws": 400, "seed": 7}
LONG = {"warmup": 1500, "draws": 1500}
ANY = ["rhat", "ess_bulk", "ess_tail", "divergences", "information"]


def persons(n: int = 400) -> pd.DataFrame:
    """Households of one to three persons in PSUs, jobs, visits and shares of income."""
    rng = np.random.default_rng(11)
    frame = make_frame(n).assign(
        psu=rng.permutation(n) % 40,
        household=np.repeat(np.arange(n), rng.integers(1, 4, n))[:n],
        job=rng.choice(["none", "part", "full"], n, p=[0.3, 0.2, 0.5]),
        visits=rng.poisson(3, n),
        share=rng.beta(2, 5, n),
    )
    return frame.assign(own=np.where(frame["gender"] == "f", 20.0, 30.0))


def fitted(synthesizer: object, design: ss.SurveyDesign | None = None, **settings: object) -> ss.Release:
    release = {name: settings.pop(name) for name in ("debias",) if name in settings}
    fit = ss.fit(
        design or make_design(), synthesizer, **({"mechanism": PSEUDO} | {"epsilon": 20, "m": 2} | SHORT | settings)
    )
    return fit.release(accept_diagnostics=[] if fit.weighted.clamp is not None else ANY, **release)


def by_policy() -> ss.Release:
    before = ss.SurveyDesign(make_frame(300, 5), weights="wt")
    policy = ss.Policy.from_historical(
        before, model("gender", prior="normal"), epsilon=60, m=2, source="last year", population_total=2e4, seed=3
    )
    later = ss.SurveyDesign(make_frame(300, 6), weights="wt")
    return ss.fit(later, policy=policy, population_total=2e4, **(SHORT | LONG)).release()


def designs() -> dict[str, Callable[[], ss.Release]]:
    frame = persons()
    loose = ss.SurveyDesign(frame, weights="wt")
    clustered = ss.SurveyDesign(frame, weights="wt", psu="psu")
    kept = ss.SurveyDesign(frame, weights="own")
    return {
        "fbs": lambda: fitted(model(prior="paper")),
        "fbs_flat_debias": lambda: fitted(model(), epsilon=10.8, debias=True),
        "fbp": lambda: fitted(population_model(), population_total=2e4),
        "fbp_paper": lambda: fitted(ss.FBP.paper("income", "field + gender")),
        "clusters_categories": lambda: fitted(
            ss.FBS(["income", "C(job)"], "gender", prior="flat"), clustered, epsilon=40,
            levels={"job": ["full", "none", "part"]},
        ),
        "households": lambda: fitted(model("gender"), loose, unit="household", epsilon=40),
        "counts": lambda: fitted(ss.NegativeBinomialRegression("visits", "gender"), loose),
        "poisson_public_weights": lambda: fitted(ss.PoissonRegression("visits", "gender"), kept),
        "beta": lambda: fitted(ss.BetaRegression("share", "gender", bounds=(0, 1)), kept),
        "mixture": lambda: fitted(ss.Mixture("income", "gender", components=4), loose, epsilon=60),
        "censored": lambda: fitted(
            model("gender", prior="normal"),
            loose,
            epsilon=None,
            mechanism=ss.Censored(epsilon=80),
            population_total=2e4,
            **LONG,
        ),
        "weighted_e": lambda: fitted(model(), mechanism=ss.WeightedE()),
        "linear_count_reweighted": lambda: fitted(
            model(), mechanism=ss.PseudoPosterior(map="linear", risk=ss.CountRisk(radius=0.2)), reweight=1
        ),
        "policy": by_policy,
    }


def write(folder: Path) -> None:
    for name, release in designs().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release().write(folder / name)
        print(name, flush=True)


def differences(folder: Path, other: Path) -> list[str]:
    """Public files that are not the same, byte by byte."""
    files = {p.relative_to(root) for root in (folder, other) for p in root.glob("*/public/*")}

    def content(root: Path, file: Path) -> bytes | None:
        return (root / file).read_bytes() if (root / file).is_file() else None

    return [str(file) for file in sorted(files) if content(folder, file) != content(other, file)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--against", type=Path)
    asked = parser.parse_args()
    write(asked.folder)
    if asked.against:
        print(*(differences(asked.folder, asked.against) or ["no difference"]), sep="\n")
