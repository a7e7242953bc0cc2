"""Rao and Wu's bootstrap, successive differences, and squares around the mean of replicates."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_taylor import CLUS1, NHANES, STRAT, svydesign

from surveysynth import InputError, SurveyDesign, estimate


def survey(seed=0, sizes=(2, 5, 9), certain=False):
    rng = np.random.default_rng(seed)
    rows = [(h, c) for h, n in enumerate(sizes) for c in range(n) for _ in range(rng.integers(1, 4))]
    frame = pd.DataFrame(rows, columns=["h", "c"])
    frame["w"], frame["y"] = rng.uniform(1, 9, len(frame)), rng.gamma(2, 10, len(frame))
    frame["N"] = frame["h"].map(dict(enumerate([n if certain and h == 0 else 3 * n for h, n in enumerate(sizes)])))
    return frame


ROLES = {"weights": "w", "strata": "h", "psu": "c"}


def totals(design):
    z = pd.Series(design.weights * design.numeric("y"))
    return [
        part.to_numpy() for _, part in z.groupby(design.stages[0].unit).sum().groupby(design.stages[0].stratum_of_unit)
    ]


@pytest.mark.parametrize("roles", [ROLES, ROLES | {"fpc": "N"}])
def test_successive_differences_are_those_of_neighbours(roles):
    """By hand, exactly: half the squared differences of each PSU from the next, the last one's next being the first."""
    design = SurveyDesign(survey(certain=True), **roles)
    replicated = design.replicates("successive_differences", R=80)
    wanted = 0.0
    for f, z in zip(design.stages[0].fraction, totals(design), strict=True):
        wanted += (1 - f) / 2 * ((z - np.roll(z, -1)) ** 2).sum()
    assert estimate(replicated, "y", statistic="total")["se"][0] == pytest.approx(np.sqrt(wanted), rel=1e-12)
    assert replicated.replication.R == 20 and "20 successive differences replicates" in repr(replicated)


def test_successive_differences_in_r(r, r_frame, to_r):
    """R has these replicates' variance by its type "successive-difference"."""
    frame = r_frame("apistrat")
    design = SurveyDesign(frame, **STRAT).replicates("successive_differences", R=160)
    weights = design.replication.factors(0, design.replication.R) * design.weights[:, None]
    to_r("d", frame)
    to_r("w", pd.DataFrame(weights, columns=[f"r{i}" for i in range(weights.shape[1])]))
    r.r("""design <- svrepdesign(data = d, repweights = as.matrix(w), weights = ~pw, type = "successive-difference")""")
    for statistic in ("mean", "total"):
        theirs = r.r(f"as.numeric(SE(svy{statistic}(~api00, design)))")[0]
        assert estimate(design, "api00", statistic=statistic)["se"][0] == pytest.approx(theirs, rel=1e-9)
    # 200 schools share 159 rows: the sum of differences in expectation only
    z = frame["pw"] * frame["api00"]
    around = sum(((v - np.roll(v, -1)) ** 2).sum() / 2 for _, v in z.groupby(frame["stype"]))
    assert design.replication.variance(weights.T @ frame["api00"].to_numpy()[:, None], np.array([z.sum()]))[0] == (
        pytest.approx(around, rel=0.25)
    )


def test_rao_wu_draws_one_psu_less_with_replacement():
    design = SurveyDesign(survey(), **ROLES)
    replicated = design.replicates("rao_wu", R=4000, seed=1)
    first, factors = design.stages[0], replicated.replication.factors(0, 4000)
    of_psu = factors[np.unique(first.unit, return_index=True)[1]]
    for h, n in enumerate(first.sampled):
        inside = of_psu[first.stratum_of_unit == h]
        np.testing.assert_allclose(inside.sum(axis=0), n)
        times = inside * (n - 1) / n
        np.testing.assert_allclose(times, np.round(times), atol=1e-9)
        # binomial: the mean is 1 and the variance that of n - 1 draws
        assert inside.mean() == pytest.approx(1) and inside.var(axis=1) == pytest.approx(1, rel=0.15)
    for statistic in ("mean", "total"):
        ours, taylor = (estimate(d, "y", statistic=statistic)["se"][0] for d in (replicated, design))
        assert ours == pytest.approx(taylor, rel=0.06)
    again = design.replicates("rao_wu", R=4000, seed=1)
    assert (again.replication.level == replicated.replication.level).all()


def test_rao_wu_leaves_the_fpc_out_and_says_so():
    design = SurveyDesign(survey(), **ROLES | {"fpc": "N"})
    with pytest.warns(UserWarning, match="fpc is not used"):
        design.replicates("rao_wu", R=5, seed=1)


@pytest.mark.parametrize(("kind", "dataset", "roles", "outcome"), [
    ("JKn", "apistrat", STRAT, "api00"), ("JK1", "apiclus1", CLUS1, "api00"),
    ("BRR", "na.omit(nhanes)", NHANES, "HI_CHOL"),
])  # fmt: skip
def test_squares_around_the_mean_of_replicates_as_in_r(kind, dataset, roles, outcome, r, r_frame, to_r):
    frame = r_frame(dataset)
    if kind == "BRR":
        frame = frame[frame["SDMVPSU"] < 3]
    to_r("d", frame)
    r.r(f"design <- as.svrepdesign({svydesign(roles)}, type = '{kind}', mse = FALSE)")
    design = SurveyDesign(frame, **roles).replicates(kind, mse=False)
    # half samples of other Hadamard matrices agree for totals
    for statistic in ("total",) if kind == "BRR" else ("mean", "total"):
        theirs = r.r(f"as.numeric(SE(svy{statistic}(~{outcome}, design)))")[0]
        assert estimate(design, outcome, statistic=statistic)["se"][0] == pytest.approx(theirs, rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["preston", "rao_wu"]))
def test_of_a_bootstrap_they_are_the_variance_of_the_replicates(seed, method):
    design = SurveyDesign(survey(seed % 7), **ROLES).replicates(method, R=11, mse=False, seed=seed)
    theta = design.numeric("y") * design.weights @ design.replication.factors(0, 11)
    assert estimate(design, "y", statistic="total")["se"][0] == pytest.approx(theta.std(ddof=1), rel=1e-10)


def test_refusals():
    lonely = SurveyDesign(survey(sizes=(1, 4)), **ROLES, lonely_psu="adjust")
    for method in ("rao_wu", "successive_differences"):
        with pytest.raises(InputError, match="only one PSU"):
            lonely.replicates(method)
        removed = SurveyDesign(survey(sizes=(1, 4)), **ROLES, lonely_psu="remove").replicates(method, R=12)
        assert (removed.replication.factors(0, removed.replication.R)[removed.stages[0].unit == 0] == 1).all()
    with pytest.raises(InputError, match="mse must be True or False"):
        lonely.replicates("JKn", mse=1)
    with pytest.raises(InputError, match="number of replicates"):
        lonely.replicates("successive_differences", R=-1)
