"""Censored posteriors with two modes: no single record decides which of them is released."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm

from surveysynth import FBP, FBS, Censored, IdentityTransform, ModelError, SurveyDesign, synthesize
from surveysynth.models.normal.censored_fit import distinct_records, only_mode

SCALES = np.geomspace(0.01, 30, 300)
WITHOUT = {"transform": IdentityTransform(scale=1.0)}


def two_groups(size, low, high, sd, last, wider=1.0):
    """Values near two points, each group the mirror image of the other but for its spread, and one record far out."""
    z = sd * norm.ppf((np.arange(size) + 0.5) / size)
    return np.concatenate([low + z, high - wider * z, [last]])


def design(y):
    return SurveyDesign(pd.DataFrame({"y": y, "w": 10.0}), weights="w")


def share_below(y, split, bound):
    """Posterior probability of a mean below ``split``, on a grid; mean N(0, 100), scale nearly flat."""
    mean = np.linspace(y[:-1].min(), y[:-1].max(), 401)
    terms = norm.logpdf(y, mean[:, None, None], SCALES[:, None])
    log_p = np.clip(terms, -bound, bound).sum(axis=2) + norm.logpdf(mean, 0, 10)[:, None] + np.log(SCALES)
    return np.exp(logsumexp(log_p[mean < split]) - logsumexp(log_p))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "low", "high", "last", "prior"),
    [(100, 0.0, 2.6, (19.73, -17.13), "normal"), (20, -3.08, 5.88, (30.0, -30.0), "paper")],
)
@pytest.mark.parametrize("sd", [0.1, 0.3])
def test_two_modes_are_refused_whichever_record_there_is(size, low, high, last, prior, sd):
    shares = [share_below(two_groups(size, low, high, sd, x), (low + high) / 2, 1.8) for x in last]
    assert 0.3 < shares[0] < 0.7 and shares[0] == pytest.approx(shares[1], abs=1e-6)  # the same posterior
    for x in last:
        for seed in range(3):
            with pytest.raises(ModelError, match="several modes apart"):
                synthesize(
                    design(two_groups(size, low, high, sd, x)), FBS("y", "1", prior=prior, **WITHOUT), epsilon=10.8,
                    m=3, mechanism=Censored(), population_total=10 * (2 * size + 1), seed=seed,
                )  # fmt: skip


@pytest.mark.slow
def test_a_mode_that_does_not_count_is_not_released_whichever_record_there_is():
    """The wider group is less probable by e^-16; chains that start at least squares of the file end in either."""
    for last in (19.73, -17.13):
        y = two_groups(100, 0.0, 2.6, 0.1, last, wider=1.2)
        assert share_below(y, 1.3, 1.8) > 1 - 1e-6
        release = synthesize(
            design(y), FBS("y", "1", prior="normal", **WITHOUT), epsilon=10.8, m=3, mechanism=Censored(),
            population_total=2010, seed=1,
        )  # fmt: skip
        assert all(abs(d.frame["y"].median()) < 0.2 for d in release.datasets)


@pytest.mark.slow
@settings(derandomize=True, max_examples=15, deadline=None)
@given(
    size=st.integers(15, 60), gap=st.floats(1, 9), sd=st.floats(0.05, 0.9), wider=st.floats(0.7, 1.4),
    bound=st.floats(1.2, 4), seed=st.integers(0, 2**31),
)  # fmt: skip
def test_neighbouring_files_have_the_same_mode_or_one_is_refused(size, gap, sd, wider, bound, seed):
    modes = []
    for last in (25.0, -25.0):
        y = two_groups(size, 0.0, gap, sd, last, wider)
        n = len(y)
        records = distinct_records(np.ones((1, 1)), np.zeros(n, dtype=np.intp), y[:, None], np.ones(n), np.zeros(n))
        try:
            modes.append(only_mode(records, bound, np.random.default_rng(seed)))
        except ModelError:
            continue
    if len(modes) == 2:
        near = max(modes[0].L[0, 0], modes[1].L[0, 0])
        assert abs(modes[0].B[0, 0] - modes[1].B[0, 0]) < near


@pytest.mark.parametrize("model", [FBS("y", "cell", **WITHOUT), FBP("y", "cell", **WITHOUT)])
def test_two_modes_of_one_cell_are_found_beside_the_weight(model):
    """One cell of five has two groups, each the mirror image of the other; the weight is modelled, too."""
    rng = np.random.default_rng(3)
    cell, pair = np.repeat(list("abcde"), 60), np.tile([0, 1], 150)
    noise, w = np.repeat(rng.normal(0, 0.4, (2, 150)), 2, axis=1)
    y = 3 + np.where(cell == "c", (1 - 2 * pair) * (3 + noise), noise)
    frame = pd.DataFrame({"y": y, "cell": cell, "w": 10 * np.exp(w)})
    for file, refused in ((frame, True), (frame.assign(y=3 + noise), False)):
        data = model.prepare(SurveyDesign(file, weights="w"), "model", 10.0)
        records = distinct_records(data.X, data.pattern, data.Y, np.ones(300), model.log_base(data, data.Y))
        if refused:
            with pytest.raises(ModelError, match="several modes apart"):
                only_mode(records, 1.8, rng)
        else:
            mean = data.X @ only_mode(records, 1.8, rng).B
            assert np.abs(mean[:, 0] - 3).max() < 0.3
