"""Simulated files pass the checks of the studies, whatever the seed.

No model is fitted: each fit raises a known error, and no other error is allowed.  Samples, confidential tables, Laplace
tables and histograms are computed.
"""

import numpy as np
import pytest

import surveysynth as ss
from replication.censoring import study as censoring
from replication.clusters import study as clusters
from replication.reweighting import study as reweighting
from replication.risk_efficient.study import consumer_units_study
from replication.tabular import study as repeated
from replication.tabular.study import sdr
from surveysynth.privacy.protected_fit import PseudoLikelihood

THE_FIT = "the fit begins here"


@pytest.fixture(autouse=True)
def no_fits(monkeypatch):
    def stop(*_):
        raise ss.EngineError(THE_FIT)

    monkeypatch.setattr(PseudoLikelihood, "fit", stop)
    monkeypatch.setattr(PseudoLikelihood, "censored", stop)


def reach_the_fits(replicate, work, seeds, fits):
    """Run replicate 1 with several seeds, and check that it records ``fits`` errors, all of them raised by fits."""
    for seed in range(seeds):
        failures = replicate(work(seed), 1).failures
        assert [failure["reason"] for failure in failures] == [THE_FIT] * fits, (seed, failures)


@pytest.mark.slow
@pytest.mark.parametrize("kind", repeated.ERRORS)
def test_samples_of_the_tabular_study(kind):
    population = sdr(kind)
    methods = ("fbs", "fbp", "laplace")
    reach_the_fits(
        repeated.replicate,
        lambda seed: (population, repeated.Plan(1000, (3,), (1.8,), methods, "flat", (), seed)),
        seeds=12, fits=2,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("second_stage", ["pps", "srs"])
@pytest.mark.parametrize("icc", [0.02, 0.15])
def test_samples_of_the_study_of_clusters(icc, second_stage):
    for choice in clusters.CHOICES:
        population = clusters.two_stage(icc, choice, second_stage=second_stage)
        reach_the_fits(
            repeated.replicate,
            lambda seed, chosen=population: (chosen, repeated.Plan(2000, (1, 3), (1.8,), ("fbs",), "flat", (), seed)),
            seeds=8, fits=1,
        )  # fmt: skip


@pytest.mark.slow
def test_files_of_the_study_of_censoring():
    """Every fit fails by design, and nothing else fails.

    The fits: unweighted, weighted with two c1, three mechanisms at three epsilons, and two with the other c1.
    """
    reach_the_fits(
        censoring.replicate, lambda seed: censoring.Plan(2000, (5, 4, 3), (1, 0.8), seed), seeds=20, fits=1 + 2 + 9 + 2
    )
    for seed in range(200):
        file = censoring.drawn(2000, censoring.TRUTH, seed)
        file.pseudo.model.check_censored(file.pseudo.records)
        assert np.isfinite(file.pseudo.records.y).all()


@pytest.mark.slow
def test_files_of_the_study_of_reweighting():
    """Every fit fails by design, and nothing else fails.

    The fits: of Poisson counts, the mixture, two epsilons, two sizes by two rules, and samples of salaries.
    """
    population = sdr()
    reach_the_fits(
        reweighting.replicate,
        lambda seed: (population, reweighting.Plan(1000, (4, 20), (500, 32_000), 1, seed)),
        seeds=12, fits=3 + 7 + 2 * 6 + 2 * 2 * 3 + 4 * 5,
    )  # fmt: skip


@pytest.mark.slow
def test_files_of_the_study_of_identification_risk():
    for seed in range(8):
        with pytest.raises(ss.EngineError, match=THE_FIT):
            consumer_units_study(seed=seed)
