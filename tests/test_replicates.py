"""Preston's rescaled bootstrap against R's survey, its closed form, and a plain loop."""

from itertools import product
from math import comb

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surveysynth import InputError, SurveyDesign, estimate
from surveysynth.replicates import preston, variance

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 7, "f": 3}  # PSUs by stratum, even and odd
POPULATION = {"a": 9, "b": 11, "c": 40, "d": 6, "e": 1000, "f": 3}  # the last one is sampled completely


def clustered(seed=4):
    """Strata of even and odd size, PSUs of one to three records."""
    rng = np.random.default_rng(seed)
    rows = [(h, c) for h, size in SIZES.items() for c in range(size) for _ in range(rng.integers(1, 4))]
    frame = pd.DataFrame(rng.permutation(rows), columns=["stratum", "psu"])
    frame["N"] = frame["stratum"].map(POPULATION)
    frame["wt"] = rng.uniform(1, 30, len(frame))
    frame["y"] = rng.gamma(2, 10, len(frame))
    frame["group"] = rng.choice(["x", "y", "z"], len(frame))
    return frame


ROLES = {"weights": "wt", "strata": "stratum", "psu": "psu"}


@pytest.mark.parametrize("fpc", [None, "N"])
def test_factors_equal_r(fpc, r, r_frame, to_r):
    frame = clustered()
    to_r("d", frame)
    r.r("set.seed(1)")
    r_frame_of_factors = r_frame(f"""local({{
        design <- svydesign(id = ~psu, strata = ~stratum, weights = ~wt, data = d, nest = TRUE,
                            fpc = {f"~{fpc}" if fpc else "NULL"})
        as.data.frame(weights(suppressWarnings(as.svrepdesign(design, type = "mrbbootstrap", replicates = 40)),
                              type = "replication"))}})""")
    boot = preston(SurveyDesign(frame, **ROLES, fpc=fpc).stages, 40, np.random.default_rng(1))
    of_records = boot.factors[boot.unit]
    for stratum, where in frame.groupby("stratum").indices.items():
        ours, theirs = of_records[where], r_frame_of_factors.to_numpy()[where]
        np.testing.assert_allclose(np.unique(ours.round(9)), np.unique(theirs.round(9)), rtol=1e-8, err_msg=stratum)
        psu = frame["psu"].to_numpy()[where]
        for factors in (ours, theirs):  # as many PSUs of each kind in every replicate
            first = factors[np.unique(psu, return_index=True)[1]]
            kept = (first > 1 + 1e-9).sum(axis=0)
            assert (kept == (0 if fpc and stratum == "f" else SIZES[stratum] // 2)).all()


def test_an_even_stratum_without_fpc_is_a_doubled_half_sample():
    frame = pd.DataFrame({"h": np.repeat(["a", "b"], [6, 10]), "wt": 1.0})
    boot = preston(SurveyDesign(frame, weights="wt", strata="h").stages, 50, np.random.default_rng(0))
    assert set(boot.factors.ravel()) == {0.0, 2.0}
    assert (boot.factors[:6].sum(axis=0) == 6).all() and (boot.factors[6:].sum(axis=0) == 10).all()


@pytest.mark.parametrize("fpc", [None, "N"])
def test_standard_error_of_a_total_equals_taylor_and_r(fpc, r, to_r):
    frame = clustered()
    design = SurveyDesign(frame, **ROLES, fpc=fpc)
    boot = preston(design.stages, 4000, np.random.default_rng(2))
    code = pd.factorize(frame["group"], sort=True)[0]
    z = design.weights * frame["y"].to_numpy()
    theta, theta_r = np.bincount(code, z), boot.totals(z, code, 3)
    taylor = estimate(design, "y", "group", "total").set_index("group")["se"][["x", "y", "z"]].to_numpy()
    error = ((theta_r - theta) ** 2).std(axis=0) / np.sqrt(4000)  # Monte Carlo error of a variance
    assert (np.abs(variance(theta_r, theta) - taylor**2) < 4 * error).all()

    to_r("d", frame)
    r.r(f"""set.seed(2)
        design <- svydesign(id = ~psu, strata = ~stratum, weights = ~wt, data = d, nest = TRUE,
                            fpc = {f"~{fpc}" if fpc else "NULL"})
        reps <- suppressWarnings(as.svrepdesign(design, type = "mrbbootstrap", replicates = 2000))""")
    # around the mean of the replicates: with mse = TRUE, R leaves a complete stratum out of these, not out of the total
    theirs = np.array(r.r("SE(svyby(~y, ~group, reps, svytotal))")) ** 2
    assert (np.abs(variance(theta_r, theta) - theirs) < 4 * error * np.sqrt(1 + 4000 / 2000)).all()


@settings(deadline=None, max_examples=25)
@given(
    sizes=st.lists(st.integers(2, 5), min_size=1, max_size=2),
    fraction=st.floats(0, 0.95),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_expected_square_of_a_total_is_the_stratified_variance(sizes, fraction, seed):
    """Over all choices of PSUs, each as likely as any other, exactly."""
    rng = np.random.default_rng(seed)
    h = np.repeat(np.arange(len(sizes)), sizes)
    frame = pd.DataFrame({"h": h, "wt": 1.0, "f": fraction}) if fraction > 1e-6 else pd.DataFrame({"h": h, "wt": 1.0})
    z = rng.normal(3, 2, h.size)
    boot = preston(SurveyDesign(frame, weights="wt", strata="h", fpc="f" if "f" in frame else None).stages, 3000, rng)
    choices = np.unique(boot.factors, axis=1)
    assert choices.shape[1] == np.prod([comb(n, n // 2) for n in sizes])
    squares = variance((z @ choices)[:, None], np.array([z.sum()]))
    f = fraction if "f" in frame else 0.0
    expected = sum((1 - f) * n * z[h == k].var(ddof=1) for k, n in enumerate(sizes))
    np.testing.assert_allclose(squares, expected, rtol=1e-9)


def test_every_choice_of_psus_is_as_likely():
    h = np.repeat([0, 1], [4, 3])
    frame = pd.DataFrame({"h": h, "wt": 1.0})
    boot = preston(SurveyDesign(frame, weights="wt", strata="h").stages, 18_000, np.random.default_rng(5))
    times = np.unique(boot.factors, axis=1, return_counts=True)[1]
    chi2 = ((times - 1000) ** 2 / 1000).sum()
    assert times.size == 18 and chi2 < 40.8  # 99.9% point of chi-squared with 17 degrees of freedom


def test_totals_are_those_of_replicate_weights():
    frame = clustered()
    design = SurveyDesign(frame, **ROLES)
    boot = preston(design.stages, 3, np.random.default_rng(6))
    code = pd.factorize(frame["group"])[0]
    weights = design.weights[:, None] * boot.factors[boot.unit]
    expected = [[weights[code == d, r].sum() for d in range(3)] for r in range(3)]
    np.testing.assert_allclose(boot.totals(design.weights, code, 3), expected, rtol=1e-12)
    assert boot.factors.shape == (sum(SIZES.values()), 3)


def test_a_replicate_without_an_estimate_is_left_out():
    theta_r = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan]])
    np.testing.assert_array_equal(variance(theta_r, np.array([2.0, 2.0, 2.0])), [1.0, 9.0, np.nan])


def test_a_complete_stratum_with_one_psu_keeps_its_weight():
    frame = pd.DataFrame({"h": [0, 1, 1, 1], "N": [1, 9, 9, 9], "wt": 1.0})
    boot = preston(SurveyDesign(frame, weights="wt", strata="h", fpc="N").stages, 20, np.random.default_rng(0))
    assert (boot.factors[0] == 1).all() and not (boot.factors[1:] == 1).any()


@pytest.mark.parametrize("lonely_psu", ["remove", "adjust", "average"])
def test_a_lonely_psu_is_refused(lonely_psu):
    frame = pd.DataFrame({"h": [0, 0, 1, 0], "wt": 1.0})
    design = SurveyDesign(frame, weights="wt", strata="h", lonely_psu=lonely_psu)
    with pytest.raises(InputError, match=r"only one PSU.*1 row \(row numbers 3;.*merge strata"):
        preston(design.stages, 10, np.random.default_rng(0))


def test_later_stages_with_a_variance_of_their_own_are_refused():
    frame = pd.DataFrame(list(product("ab", range(3), range(2))), columns=["h", "psu", "unit"])
    frame = frame.assign(wt=1.0, N=10, M=5)
    design = SurveyDesign(frame, weights="wt", strata="h", psu=["psu", "unit"], fpc=["N", "M"])
    with pytest.raises(InputError, match="first stage of sampling"):
        preston(design.stages, 10, np.random.default_rng(0))
    without = SurveyDesign(frame, weights="wt", strata="h", psu=["psu", "unit"])
    assert preston(without.stages, 10, np.random.default_rng(0)).factors.shape == (6, 10)


@pytest.mark.parametrize("R", [0, -1, 2.5, "10", True, None])
def test_the_number_of_replicates(R):
    design = SurveyDesign(clustered(), **ROLES)
    with pytest.raises(InputError, match="number of replicates"):
        preston(design.stages, R, np.random.default_rng(0))
