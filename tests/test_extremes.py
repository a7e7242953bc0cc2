"""Extreme numbers, clipped weights, constants and collinear predictors: taken, or refused in our own words."""

import warnings

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss

N = 120
RNG = np.random.default_rng(1)
X, Z, Y = RNG.choice(["a", "b"], N), RNG.normal(size=N), RNG.lognormal(9, 0.8, N)
W, FOURTH = np.exp(RNG.normal(2, 0.3, N)), np.arange(N) == 3
FILES = {
    "an outcome of 1e300": {"y": np.where(FOURTH, 1e300, Y)},
    "outcomes near 1e299": {"y": Y * 1e295},
    "outcomes near 1e-296": {"y": Y * 1e-300},
    "a constant outcome": {"y": np.full(N, 5.0)},
    "an outcome of two values": {"y": np.where(X == "a", 1.0, 2.0)},
    "one outcome that differs": {"y": np.where(FOURTH, 1e-300, 5.0)},
    "nearly all zeros": {"y": np.where(np.arange(N) < 110, 0.0, Y)},
    "equal weights": {"w": np.full(N, 3.0)},
    "weights clipped at .2": {"w": np.where(RNG.random(N) < 0.6, 0.2, W)},
    "a weight of 1e300": {"w": np.where(FOURTH, 1e300, 2.0)},
    "a weight of 1e-300": {"w": np.where(FOURTH, 1e-300, 2.0)},
    "a predictor of 1e300": {"z": np.where(FOURTH, 1e300, Z)},
    "collinear predictors": {"z": (X == "a") * 1.0},
    "nearly collinear predictors": {"z": (X == "a") + 1e-12 * Z},
    "a predictor that is the outcome": {"y": np.exp(Z)},
}
CHAINS = {"chains": 2, "warmup": 60, "draws": 80}
STRICT = {"epsilon": 30, "population_total": 1000, "m": 4}
WHATEVER = ["information", "divergences", "rhat", "ess_bulk", "ess_tail"]
PSEUDO = {"epsilon": 30, "mechanism": ss.PseudoPosterior(), "accept_diagnostics": WHATEVER}
QUICK = {
    "FBS": (lambda: ss.FBS("y ~ x + z", prior="flat"), PSEUDO),
    "FBP": (lambda: ss.FBP("y ~ x + z", prior="flat"), PSEUDO),
    "strict": (lambda: "y ~ x", STRICT | {"bounds": (0, 1e6)}),
    "strict with zeros": (lambda: "y ~ x", STRICT | {"outcomes": {"y": ss.Outcome(bounds=(0, 1e6), zeros=True)}}),
    "FBS, identity": (lambda: ss.FBS("y ~ x", prior="flat", transform=ss.IdentityTransform(scale=1000)), PSEUDO),
}  # fmt: skip
CHAINED = {
    "gamma": (lambda: ss.GammaRegression("y ~ x"), PSEUDO | CHAINS),
    "censored": (
        lambda: ss.FBS("y ~ x", prior="normal"),
        CHAINS | {"epsilon": 30, "population_total": 1000, "mechanism": ss.Censored()},
    ),
    "mixture": (lambda: ss.Mixture("y ~ x"), PSEUDO | CHAINS),
}  # fmt: skip


def design(what, **roles):
    frame = pd.DataFrame({"x": X, "z": Z, "y": Y, "w": W, "k": RNG.choice(["p", "q", "r"], N)} | FILES[what])
    return ss.SurveyDesign(frame, weights="w", **roles)


def told(work):
    """What the work gives, or None where it is refused in our own words; any other exception fails."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return work()
        except ss.SurveySynthError as refused:
            assert "\n" not in str(refused)[:80] and len(str(refused)) > 30
            return None


def released(what, model, settings, place):
    file = design(what)
    release = told(lambda: ss.synthesize(file, model(), seed=1, **({"m": 2} | settings)))
    if release is not None:
        told(lambda: release.tables("x"))
        told(lambda: release.regression("y ~ x"))
        told(lambda: ss.compare(file, release, "x"))
        told(lambda: release.write(place / "r", by="x"))


@pytest.mark.parametrize("what", FILES)
def test_releases(what, tmp_path):
    for k, (model, settings) in enumerate(QUICK.values()):
        released(what, model, settings, tmp_path / f"{k}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHAINED)
@pytest.mark.parametrize("what", [name for name in FILES if "weight" in name and "equal" not in name])
def test_releases_by_chains(what, kind, tmp_path):
    released(what, *CHAINED[kind], tmp_path)


def test_what_breaks_down_is_told_with_what_to_do():
    model, settings = CHAINED["mixture"]
    with pytest.raises(ss.ModelError, match=r"the computation broke down .* trim or rescale them"):
        ss.synthesize(design("a weight of 1e300"), model(), m=2, seed=1, **settings)


@pytest.mark.parametrize("what", FILES)
def test_estimates(what):
    file = design(what)
    for family in ("gaussian", "poisson", "gamma", "binomial"):
        told(lambda family=family: ss.regression(file, "y ~ x + z", family))
    for statistic in ("mean", "total", "variance", "gini", "quintile_share_ratio"):
        told(lambda statistic=statistic: ss.estimate(file, "y", "x", statistic))
    told(lambda: ss.estimate(file, "y", "x", estimator="bootstrap"))
    told(lambda: ss.joint_estimates(file, ["y", "z"], "x"))
    told(lambda: ss.independence_test(file, "x", "k"))
    told(lambda: ss.predictive_margins(file, "y ~ x + z", "x"))
    told(lambda: ss.population_covariances(file, ["y", "z"]))
    told(lambda: file.calibrate({"x": {"a": 500, "b": 600}}, "linear"))
    told(lambda: file.calibrate({"x": {"a": 500, "b": 600}}, "raking"))
