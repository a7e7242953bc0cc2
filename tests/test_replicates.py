"""Replicates against R's survey, the Taylor variance over all possible draws, closed forms, and plain loops."""

import pickle
import tracemalloc
import warnings
from dataclasses import FrozenInstanceError, replace
from itertools import combinations, product
from math import comb

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surveysynth import InputError, SurveyDesign, estimate
from surveysynth.design.replicates import base, levels
from surveysynth.design.replicates import given as of_a_file
from surveysynth.design.replicates import preston as bootstrap
from surveysynth.design.replicates.balanced import balanced, hadamard
from surveysynth.design.replicates.given import given as given_replicates
from surveysynth.design.replicates.jackknife import jackknife
from surveysynth.design.replicates.levels import LevelReplicates
from surveysynth.design.replicates.preston import preston
from surveysynth.design.stages import Stage

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 7, "f": 3}  # PSUs by stratum, even and odd
POPULATION = {"a": 9, "b": 11, "c": 40, "d": 6, "e": 1000, "f": 3}  # the last one is sampled completely


def blocks_of(monkeypatch, numbers):
    """Blocks of so many numbers, in every module that works in blocks."""
    for module in (base, levels, of_a_file, bootstrap):
        if hasattr(module, "BLOCK"):
            monkeypatch.setattr(module, "BLOCK", numbers)


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


def staged(stages, seed=6, sizes=(2, 3, 4, 5), certain=True):
    """Strata a, b, c, the last complete; units of two or three stages of even and odd size, in no order."""
    rng = np.random.default_rng(seed)
    rows = []
    n1 = {"a": 3, "b": 4, "c": 3 if certain else 2}
    N1 = {"a": 10, "b": 7, "c": 3 if certain else 8}
    for h in n1:
        for p in range(n1[h]):
            n2 = rng.choice(sizes)
            N2 = n2 + rng.integers(0, 7)
            for s in range(n2):
                n3 = rng.choice(sizes) if stages == 3 else rng.integers(1, 3)
                N3 = n3 + rng.integers(0, 7)
                rows += [(h, p, s, t, N1[h], N2, N3) for t in range(n3)]
    frame = pd.DataFrame(rows, columns=["h", "p", "s", "t", "N1", "N2", "N3"])
    frame = frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)
    return frame.assign(wt=rng.uniform(1, 30, len(frame)), y=rng.gamma(2, 10, len(frame)))


def staged_design(frame, stages, **roles):
    psu, fpc = ["p", "s", "t"][:stages], ["N1", "N2", "N3"][:stages]
    return SurveyDesign(frame, weights="wt", strata="h", psu=psu, fpc=fpc, **roles)


def all_factors(replicated):
    return replicated.factors(0, replicated.R)


def code(column):
    return pd.factorize(column, sort=True)[0]


# ---- Preston's bootstrap


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
    of_records = all_factors(boot)
    for stratum, where in frame.groupby("stratum").indices.items():
        ours, theirs = of_records[where], r_frame_of_factors.to_numpy()[where]
        np.testing.assert_allclose(np.unique(ours.round(9)), np.unique(theirs.round(9)), rtol=1e-8, err_msg=stratum)
        psu = frame["psu"].to_numpy()[where]
        for factors in (ours, theirs):  # as many PSUs of each kind in every replicate
            first = factors[np.unique(psu, return_index=True)[1]]
            kept = (first > 1 + 1e-9).sum(axis=0)
            assert (kept == (0 if fpc and stratum == "f" else SIZES[stratum] // 2)).all()


@pytest.mark.parametrize("stages", [2, 3])
def test_factors_of_several_stages_equal_r(stages, r, r_frame, to_r):
    """With the units that R kept, read from its factors, our table of factors gives all of R's."""
    frame = staged(stages)
    to_r("d", frame)
    theirs = r_frame(f"""local({{
        set.seed(2)
        design <- svydesign(id = ~{"+".join("pst"[:stages])}, strata = ~h, weights = ~wt, data = d, nest = TRUE,
                            fpc = ~{"+".join(["N1", "N2", "N3"][:stages])})
        reps <- as.svrepdesign(design, type = "mrbbootstrap", replicates = 60)
        as.data.frame(weights(reps, type = "replication"))}})""").to_numpy()
    boot = preston(staged_design(frame, stages).stages, 60, np.random.default_rng(1))
    first_record = np.unique(boot.unit, return_index=True)[1]
    distance = np.abs(theirs[first_record][:, :, None] - boot.value[boot.group][:, None, :])
    level = distance.argmin(axis=2).astype(np.uint8)
    assert set(level.ravel()) == set(range(stages + 1)) == set(boot.level.ravel())
    np.testing.assert_allclose(all_factors(replace(boot, level=level)), theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_half_of_the_units_are_kept_at_every_stage(stages):
    design = staged_design(staged(stages), stages)
    boot = preston(design.stages, 30, np.random.default_rng(3))
    first_record = np.unique(boot.unit, return_index=True)[1]
    for number, stage in enumerate(design.stages):
        unit = pd.Series(stage.unit[first_record])
        of_unit = pd.DataFrame(boot.level).groupby(unit).max()  # kept so far: by one of its last units at least
        parent = stage.stratum_of_unit
        kept = pd.DataFrame(of_unit > number).groupby(parent).sum().to_numpy()
        n = np.bincount(parent)[:, None]
        above = pd.DataFrame(of_unit).groupby(parent).max().to_numpy() >= number
        np.testing.assert_array_equal(kept, np.where(above, np.maximum(n // 2, 1), 0))


def test_an_even_stratum_without_fpc_is_a_doubled_half_sample():
    frame = pd.DataFrame({"h": np.repeat(["a", "b"], [6, 10]), "wt": 1.0})
    factors = all_factors(preston(SurveyDesign(frame, weights="wt", strata="h").stages, 50, np.random.default_rng(0)))
    assert set(factors.ravel()) == {0.0, 2.0}
    assert (factors[:6].sum(axis=0) == 6).all() and (factors[6:].sum(axis=0) == 10).all()


@pytest.mark.slow
@pytest.mark.parametrize("fpc", [None, "N"])
def test_standard_error_of_a_total_equals_taylor_and_r(fpc, r, to_r):
    frame = clustered()
    design = SurveyDesign(frame, **ROLES, fpc=fpc)
    boot = preston(design.stages, 4000, np.random.default_rng(2))
    z = design.weights * frame["y"].to_numpy()
    theta, theta_r = np.bincount(code(frame["group"]), z), boot.totals(z, code(frame["group"]), 3)
    taylor = estimate(design, "y", "group", "total").set_index("group")["se"][["x", "y", "z"]].to_numpy()
    error = ((theta_r - theta) ** 2).std(axis=0) / np.sqrt(4000)  # Monte Carlo error of a variance
    variance = boot.variance(theta_r, theta)
    assert (np.abs(variance - taylor**2) < 4 * error).all()

    to_r("d", frame)
    r.r(f"""set.seed(2)
        design <- svydesign(id = ~psu, strata = ~stratum, weights = ~wt, data = d, nest = TRUE,
                            fpc = {f"~{fpc}" if fpc else "NULL"})
        reps <- suppressWarnings(as.svrepdesign(design, type = "mrbbootstrap", replicates = 2000))""")
    # around the mean of the replicates: with mse = TRUE, R leaves a complete stratum out of these, not out of the total
    theirs = np.array(r.r("SE(svyby(~y, ~group, reps, svytotal))")) ** 2
    assert (np.abs(variance - theirs) < 4 * error * np.sqrt(1 + 4000 / 2000)).all()


@pytest.mark.slow
@pytest.mark.parametrize("replicates", [700, pytest.param(5000, marks=pytest.mark.reference)])
def test_standard_errors_of_a_two_stage_sample_equal_taylor_and_r(replicates, r, r_frame):
    """apiclus2: 40 of 757 districts, up to 5 schools in each; 5,000 of R's replicates take it 40 s."""
    frame = r_frame("apiclus2")
    design = SurveyDesign(frame, weights="pw", psu=["dnum", "snum"], fpc=["fpc1", "fpc2"])
    boot = preston(design.stages, 5000, np.random.default_rng(3))
    kind, z = code(frame["stype"]), design.weights * frame["api00"].to_numpy()
    theta, theta_r = np.bincount(kind, z), boot.totals(z, kind, 3)
    variance = boot.variance(theta_r, theta)
    error = ((theta_r - theta) ** 2).std(axis=0) / np.sqrt(5000)
    taylor = estimate(design, "api00", "stype", "total").set_index("stype")["se"][["E", "H", "M"]].to_numpy()
    assert (np.abs(variance - taylor**2) < 4 * error).all()
    r.r(f"""set.seed(3)
        reps <- as.svrepdesign(svydesign(id = ~dnum + snum, fpc = ~fpc1 + fpc2, weights = ~pw, data = apiclus2),
                               type = "mrbbootstrap", replicates = {replicates})""")
    theirs = np.array(r.r("SE(svyby(~api00, ~stype, reps, svytotal))")) ** 2
    assert (np.abs(variance - theirs) < 4 * error * np.sqrt(1 + 5000 / replicates)).all()


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
    choices = np.unique(all_factors(boot), axis=1)
    assert choices.shape[1] == np.prod([comb(n, n // 2) for n in sizes])
    f = fraction if "f" in frame else 0.0
    expected = sum((1 - f) * n * z[h == k].var(ddof=1) for k, n in enumerate(sizes))
    np.testing.assert_allclose(((z @ choices - z.sum()) ** 2).mean(), expected, rtol=1e-9)


def every_draw(stages):
    """Levels of the last units in every possible draw: (units, draws); all draws are as likely."""
    levels = [np.zeros(stages[0].sampled.size, dtype=int)]
    for number, stage in enumerate(stages):
        parent = stage.stratum_of_unit
        members = [np.flatnonzero(parent == h) for h in range(parent.max() + 1)]
        halves = [list(combinations(units, max(len(units) // 2, 1))) for units in members]
        levels = [
            above[parent] + (np.isin(np.arange(parent.size), [u for half in choice for u in half])
                             & (above[parent] == number))
            for above in levels for choice in product(*halves)
        ]  # fmt: skip
    return np.array(levels).T.astype(np.uint8)


@settings(deadline=None, max_examples=30)
@given(
    sizes=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=2),
    third=st.booleans(),
    remove=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_expected_square_of_a_total_is_the_variance_of_all_stages(sizes, third, remove, seed):
    """Over all choices, exactly, with certain units that are alone; lonely ones add nothing when they are removed."""
    rng = np.random.default_rng(seed)
    rows = []
    for h, psus in enumerate(sizes):
        N1 = len(psus) + (rng.integers(0, 4) if len(psus) > 1 or remove else 0)
        for p, n2 in enumerate(psus):
            N2 = n2 + (rng.integers(0, 4) if n2 > 1 or remove else 0)
            for s in range(n2):
                n3 = 2 if third and h == 0 and p == 0 else 1
                N3 = n3 + (rng.integers(0, 4) if n3 > 1 or remove else 0)
                rows += [(h, p, s, t, N1, N2, N3) for t in range(n3)]
    frame = pd.DataFrame(rows, columns=["h", "p", "s", "t", "N1", "N2", "N3"])
    frame = frame.assign(wt=rng.uniform(1, 9, len(frame)), y=rng.normal(3, 2, len(frame)))
    design = staged_design(frame, 3 if third else 2, lonely_psu="remove")
    boot = preston(design.stages, 1, rng, "remove" if remove else "fail")
    level = every_draw(design.stages)
    boot = LevelReplicates(
        "preston", 1 / level.shape[1], np.ones(level.shape[1]), True, boot.unit, level, boot.group, boot.value
    )
    z = design.weights * frame["y"].to_numpy()
    variance = boot.variance(boot.totals(z, np.zeros(len(frame), dtype=int), 1), z.sum(keepdims=True))
    taylor = estimate(design, "y", None, "total", estimator="onepass")["se"].to_numpy() ** 2
    np.testing.assert_allclose(variance, taylor, rtol=1e-9, atol=1e-9 * z.sum() ** 2)


def test_every_choice_of_psus_is_as_likely():
    h = np.repeat([0, 1], [4, 3])
    frame = pd.DataFrame({"h": h, "wt": 1.0})
    boot = preston(SurveyDesign(frame, weights="wt", strata="h").stages, 18_000, np.random.default_rng(5))
    times = np.unique(all_factors(boot), axis=1, return_counts=True)[1]
    chi2 = ((times - 1000) ** 2 / 1000).sum()
    assert times.size == 18 and chi2 < 40.8  # 99.9% point of chi-squared with 17 degrees of freedom


def test_every_choice_of_units_of_two_stages_is_as_likely():
    """3 PSUs of 2, 3 and 2 units, in no order: of the kept one, one unit is kept."""
    frame = pd.DataFrame({"p": [2, 0, 1, 1, 2, 0, 1], "s": [0, 1, 2, 0, 1, 0, 1], "wt": 1.0, "N1": 9, "N2": 9})
    design = SurveyDesign(frame, weights="wt", psu=["p", "s"], fpc=["N1", "N2"])
    boot = preston(design.stages, 18_000, np.random.default_rng(5))
    possible = np.unique(every_draw(design.stages), axis=1)
    drawn, times = np.unique(boot.level, axis=1, return_counts=True)
    np.testing.assert_array_equal(drawn, possible)
    expected = 18_000 / 3 / (drawn > 0).sum(axis=0)  # units of the PSU that is kept
    chi2 = ((times - expected) ** 2 / expected).sum()
    assert times.size == 7 and chi2 < 22.5  # 99.9% point of chi-squared with 6 degrees of freedom


def test_replicates_are_drawn_independently():
    """Two strata, many replicates: neither neighbours in a stratum nor strata go together."""
    frame = pd.DataFrame({"h": np.repeat([0, 1], 2), "wt": 1.0})
    stages = SurveyDesign(frame, weights="wt", strata="h").stages
    factors = all_factors(preston(stages, 10_000, np.random.default_rng(7)))
    first = factors[[0, 2]] - 1  # 1 or -1
    assert abs(first[0] @ first[1]) < 400 and (np.abs((first[:, 1:] * first[:, :-1]).sum(axis=1)) < 400).all()  # 4 sd


def test_the_draw_does_not_depend_on_the_size_of_a_block(monkeypatch):
    stages = staged_design(staged(3), 3).stages
    whole = preston(stages, 7, np.random.default_rng(1))
    blocks_of(monkeypatch, 20)
    parts = preston(stages, 7, np.random.default_rng(1))
    np.testing.assert_array_equal(parts.level, whole.level)
    assert parts.degf(np.ones(parts.unit.size)) == whole.degf(np.ones(parts.unit.size)) == 6


def test_a_complete_stratum_with_one_psu_keeps_its_weight():
    frame = pd.DataFrame({"h": [0, 1, 1, 1], "N": [1, 9, 9, 9], "wt": 1.0})
    boot = preston(SurveyDesign(frame, weights="wt", strata="h", fpc="N").stages, 20, np.random.default_rng(0))
    assert (all_factors(boot)[0] == 1).all() and not (all_factors(boot)[1:] == 1).any()


def test_a_certain_psu_keeps_its_second_stage_which_r_loses(r, r_frame, to_r):
    frame = pd.DataFrame({"h": np.repeat([1, 2], [4, 6]), "p": [1] * 4 + [1, 1, 1, 2, 2, 2], "s": np.arange(10)})
    frame = frame.assign(N1=np.repeat([1, 5], [4, 6]), N2=9, wt=1.0)
    design = SurveyDesign(frame, weights="wt", strata="h", psu=["p", "s"], fpc=["N1", "N2"])
    factors = all_factors(preston(design.stages, 50, np.random.default_rng(0)))
    gain = np.sqrt(1 - 4 / 9)  # f = 1, q = n/2: 1 - lambda and 1 + lambda
    np.testing.assert_allclose(np.unique(factors[:4].round(12)), [1 - gain, 1 + gain])
    assert ((factors[:4] > 1).sum(axis=0) == 2).all()
    to_r("d", frame)
    theirs = r_frame("""local({set.seed(1)
        design <- svydesign(id = ~p + s, strata = ~h, nest = TRUE, fpc = ~N1 + N2, weights = ~wt, data = d)
        as.data.frame(weights(as.svrepdesign(design, type = "mrbbootstrap"), type = "replication"))})""")
    assert (theirs.to_numpy()[:4] == 1).all()


@pytest.mark.parametrize("lonely_psu", ["fail", "adjust", "average"])
@pytest.mark.parametrize("make", [lambda *a: preston(a[0], 10, np.random.default_rng(0), a[1]),
                                  lambda *a: jackknife(a[0], True, a[1])])  # fmt: skip
def test_a_lonely_psu_is_refused(make, lonely_psu):
    frame = pd.DataFrame({"h": [0, 0, 1, 0], "wt": 1.0})
    design = SurveyDesign(frame, weights="wt", strata="h", lonely_psu="remove")
    with pytest.raises(InputError, match=r"only one PSU.*1 row \(row numbers 3;.*merge strata.*'remove'"):
        make(design.stages, lonely_psu)
    make(design.stages, "remove")


def test_a_lonely_unit_of_a_later_stage_is_refused():
    frame = pd.DataFrame({"p": [1, 1, 2, 3, 3], "s": [1, 2, 3, 4, 5], "N1": 9, "N2": 4, "wt": 1.0})
    design = SurveyDesign(frame, weights="wt", psu=["p", "s"], fpc=["N1", "N2"], lonely_psu="remove")
    with pytest.raises(InputError, match=r"a unit of stage 1 has only one unit of stage 2.*1 row \(row numbers 3;"):
        preston(design.stages, 10, np.random.default_rng(0))
    preston(design.stages, 10, np.random.default_rng(0), "remove")


@pytest.mark.parametrize("R", [0, -1, 2.5, "10", True, None])
def test_the_number_of_replicates(R):
    design = SurveyDesign(clustered(), **ROLES)
    with pytest.raises(InputError, match="number of replicates"):
        preston(design.stages, R, np.random.default_rng(0))


# ---- the jackknife and balanced half samples


R_DESIGNS = {
    "apistrat": ("svydesign(id = ~1, strata = ~stype, weights = ~pw, fpc = ~fpc, data = apistrat)", "api00", "awards",
                 {"weights": "pw", "strata": "stype", "fpc": "fpc"}),
    "apistrat without fpc": ("svydesign(id = ~1, strata = ~stype, weights = ~pw, data = apistrat)", "api00", "awards",
                             {"weights": "pw", "strata": "stype"}),
    "apiclus1": ("svydesign(id = ~dnum, weights = ~pw, fpc = ~fpc, data = apiclus1)", "api00", "stype",
                 {"weights": "pw", "psu": "dnum", "fpc": "fpc"}),
    "apiclus1 without fpc": ("svydesign(id = ~dnum, weights = ~pw, data = apiclus1)", "api00", "stype",
                             {"weights": "pw", "psu": "dnum"}),
    "apiclus2": ("svydesign(id = ~dnum + snum, weights = ~pw, fpc = ~fpc1 + fpc2, data = apiclus2)", "api00", "stype",
                 {"weights": "pw", "psu": ["dnum", "snum"], "fpc": ["fpc1", "fpc2"]}),
    "nhanes": ("svydesign(id = ~SDMVPSU, strata = ~SDMVSTRA, weights = ~WTMEC2YR, nest = TRUE, data = nhanes)",
               "RIAGENDR", "race", {"weights": "WTMEC2YR", "strata": "SDMVSTRA", "psu": "SDMVPSU"}),
    "scd": ("svydesign(id = ~ambulance, strata = ~ESA, weights = ~w, nest = TRUE, data = scd)", "alive", "busy",
            {"weights": "w", "strata": "ESA", "psu": "ambulance"}),
    "nhanes pairs": ("svydesign(id = ~SDMVPSU, strata = ~SDMVSTRA, weights = ~WTMEC2YR, nest = TRUE, data = pairs)",
                     "RIAGENDR", "race", {"weights": "WTMEC2YR", "strata": "SDMVSTRA", "psu": "SDMVPSU"}),
}  # fmt: skip


@pytest.fixture
def survey(r, r_frame):
    """A design of R's survey by name: R has it as `design`; the frame and our design."""
    r.r("""data(scd); scd$w <- c(3, 4, 5, 6, 7, 8); scd$busy <- scd$arrests > 200
        pairs <- nhanes[nhanes$SDMVSTRA %in% names(which(tapply(nhanes$SDMVPSU, nhanes$SDMVSTRA, max) == 2)), ]""")

    def named(name):
        expression, y, by, roles = R_DESIGNS[name]
        r.r(f"design <- {expression}")
        frame = r_frame("design$variables")
        return frame[y].to_numpy(float), code(frame[by]), SurveyDesign(frame, **roles), (y, by)

    return named


def standard_errors(replicated, w, y, domain):
    """Of totals and means by domain."""
    domains = domain.max() + 1
    total, count = (replicated.totals(z, domain, domains) for z in (w * y, w))
    T, N = np.bincount(domain, w * y), np.bincount(domain, w)
    with np.errstate(invalid="ignore"):
        return np.sqrt(replicated.variance(total, T)), np.sqrt(replicated.variance(total / count, T / N))


def assert_equal_to_r(r, replicated, w, y, domain, names, rtol=1e-9):
    for mse in (True, False):
        r.r(f"reps$mse <- {str(mse).upper()}")
        ours = standard_errors(replace(replicated, mse=mse), w, y, domain)
        for se, function in zip(ours, ("svytotal", "svymean"), strict=True):
            theirs = np.array(r.r(f"SE(svyby(~{names[0]}, ~{names[1]}, reps, {function}))"))
            np.testing.assert_allclose(se, theirs, rtol=rtol, atol=1e-12 * se.max())


@pytest.mark.parametrize(
    ("name", "kind"),
    [("apistrat", "JKn"), ("apistrat without fpc", "JKn"), ("apiclus1", "JK1"), ("apiclus1 without fpc", "JK1"),
     ("apiclus2", "JK1"), ("nhanes", "JKn"), ("scd", "JKn")],
)  # fmt: skip
def test_the_jackknife_equals_r(name, kind, r, survey):
    y, domain, design, names = survey(name)
    r.r(f"reps <- suppressWarnings(as.svrepdesign(design, type = '{kind}'))")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made = jackknife(design.stages, kind == "JKn")
    assert ["later stages" in str(warning.message) for warning in said] == [True] * (name == "apiclus2")
    theirs = np.array(r.r("weights(reps, type = 'replication')"))
    order = np.lexsort(theirs), np.lexsort(all_factors(made))
    assert (made.method, made.R, made.mse) == (kind, theirs.shape[1], True)
    np.testing.assert_allclose(all_factors(made)[:, order[1]], theirs[:, order[0]], rtol=1e-12)
    assert made.scale == pytest.approx(r.r("reps$scale")[0], rel=1e-12)
    np.testing.assert_allclose(made.rscales[order[1]], np.array(r.r("reps$rscales"))[order[0]], rtol=1e-12)
    assert_equal_to_r(r, made, design.weights, y, domain, names)
    assert made.degf(design.weights) == r.r("degf(reps)")[0]
    inside = domain == 0
    assert made.degf(design.weights * inside) == r.r(f"degf(subset(reps, {_first_domain(names[1], name)}))")[0]


def _first_domain(by, name):
    return {"awards": "awards == 'No'", "stype": "stype == 'E'", "race": "race == 1", "busy": "!busy"}[by]


@pytest.mark.parametrize("fpc", [None, "N"])
def test_the_jackknife_of_a_total_is_the_taylor_variance(fpc):
    frame = clustered()
    design = SurveyDesign(frame, **ROLES, fpc=fpc)
    se, _ = standard_errors(jackknife(design.stages, True), design.weights, frame["y"].to_numpy(), code(frame["group"]))
    taylor = estimate(design, "y", "group", "total").set_index("group")["se"][["x", "y", "z"]]
    np.testing.assert_allclose(se, taylor, rtol=1e-12)


@pytest.mark.parametrize("certain", [False, True])
def test_the_jackknife_has_no_replicate_for_a_psu_that_is_alone(certain, r, r_frame, to_r):
    frame = pd.DataFrame({"h": [2, 1, 2, 3, 2, 3], "p": [1, 1, 2, 2, 3, 1], "wt": [2.0, 1, 3, 4, 5, 6]})
    frame["N"] = frame["h"].map({1: 1 if certain else 4, 2: 9, 3: 8})
    design = SurveyDesign(frame, weights="wt", strata="h", psu="p", fpc="N", lonely_psu="remove")
    made = jackknife(design.stages, True, "fail" if certain else "remove")
    to_r("d", frame)
    r.r("""options(survey.lonely.psu = 'remove')
        reps <- as.svrepdesign(svydesign(id = ~p, strata = ~h, nest = TRUE, weights = ~wt, fpc = ~N, data = d),
                               type = 'JKn')
        options(survey.lonely.psu = 'fail')""")
    theirs = np.array(r.r("weights(reps, type = 'replication')"))
    order = np.lexsort(theirs), np.lexsort(all_factors(made))
    np.testing.assert_allclose(all_factors(made)[:, order[1]], theirs[:, order[0]], rtol=1e-12)
    np.testing.assert_allclose(made.rscales[order[1]], np.array(r.r("reps$rscales"))[order[0]], rtol=1e-12)
    assert made.degf(design.weights) == r.r("degf(reps)")[0] == 3


def test_a_domain_in_one_psu_is_exactly_nothing_without_it():
    """So that its mean is missing there, not a ratio of rounding errors."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"h": np.repeat([0, 1], [60, 90]), "p": np.repeat(np.arange(15), 10)})
    frame = frame.assign(wt=rng.uniform(1, 3, 150))
    made = jackknife(SurveyDesign(frame, weights="wt", strata="h", psu="p").stages, True)
    totals = made.totals(frame["wt"].to_numpy(), frame["p"].to_numpy(), 15)
    assert (np.diag(totals) == 0).all() and (totals + np.eye(15) > 0.9).all()


def test_jackknife_refuses():
    strata = SurveyDesign(clustered(), **ROLES).stages
    with pytest.raises(InputError, match="without strata, and this one has 6; choose JKn"):
        jackknife(strata, stratified=False)
    with pytest.raises(InputError, match="no stratum has two PSUs"):
        jackknife(SurveyDesign(pd.DataFrame({"w": [1.0], "N": 1}), weights="w", fpc="N").stages, stratified=True)


def test_a_jackknife_of_elements_takes_little_memory():
    n = 10_000
    stages = SurveyDesign(pd.DataFrame({"w": np.ones(n), "h": np.arange(n) % 4}), weights="w", strata="h").stages
    tracemalloc.start()
    try:
        made = jackknife(stages, True)
        totals = made.totals(np.arange(n, dtype=float), np.arange(n) % 3, 3)
        assert made.degf(np.ones(n)) == n - 4 and made.factors(5000, 5002).shape == (n, 2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert totals.shape == (n, 3) and peak < 10 * totals.nbytes  # factors of all would be 800 MB


@pytest.mark.parametrize("rho", [0.0, 0.3])
@pytest.mark.parametrize("name", ["scd", "nhanes pairs"])
def test_balanced_half_samples_equal_r(name, rho, r, to_r, survey):
    y, domain, design, names = survey(name)
    made = balanced(design.stages, rho)
    kind = f"type = 'Fay', fay.rho = {rho}" if rho else "type = 'BRR'"
    r.r(f"reps <- as.svrepdesign(design, {kind})")  # with a Hadamard matrix of its own: totals are the same
    total, _ = standard_errors(made, design.weights, y, domain)
    np.testing.assert_allclose(total, r.r(f"SE(svyby(~{names[0]}, ~{names[1]}, reps, svytotal))"), rtol=1e-9)
    taylor = estimate(design, names[0], names[1], "total", estimator="onepass")["se"].to_numpy()[:-1]
    np.testing.assert_allclose(np.sort(total), np.sort(taylor), rtol=1e-12)
    assert made.degf(design.weights) == design.degf == r.r("degf(reps)")[0]
    assert made.method == ("Fay" if rho else "BRR")
    assert design.stages[0].sampled.size < made.R <= r.r("ncol(weights(reps))")[0]

    to_r("f", pd.DataFrame(all_factors(made)))  # and means, with our half samples
    w = R_DESIGNS[name][3]["weights"]
    kind = f"type = 'Fay', rho = {rho}" if rho else "type = 'BRR'"
    r.r(f"""reps <- svrepdesign(data = design$variables, weights = ~{w}, repweights = as.matrix(f), {kind},
                                combined.weights = FALSE)""")
    assert made.scale == pytest.approx(r.r("reps$scale")[0], rel=1e-12)
    assert_equal_to_r(r, made, design.weights, y, domain, names)


def test_balanced_half_samples_say_that_the_fpc_is_not_used():
    frame = pd.DataFrame({"h": [1, 1, 2, 2], "N": 5, "wt": 1.0, "y": [1.0, 2, 3, 5]})
    with pytest.warns(UserWarning, match="fpc is not used"):
        made = balanced(SurveyDesign(frame, weights="wt", strata="h", fpc="N").stages)
    se, _ = standard_errors(made, frame["wt"].to_numpy(), frame["y"].to_numpy(), np.zeros(4, dtype=int))
    np.testing.assert_allclose(se, np.sqrt((1 - 2) ** 2 + (3 - 5) ** 2))


@pytest.mark.parametrize("kind", ["BRR", "Fay", "JKn", "preston"])
def test_units_may_be_numbered_in_any_order(kind):
    h = np.array([0, 1, 0, 2, 2, 1])
    stage = Stage(h, np.arange(6), h.copy(), np.full(3, 2), np.zeros(3))
    made = KINDS[kind](None, (stage,))
    z = np.array([3.0, 1, 4, 1, 5, 9])
    factors = all_factors(made)
    for k in range(3):  # the weight of a stratum stays
        np.testing.assert_allclose(factors[h == k].sum(axis=0), 2.0)
    if kind != "preston":
        total = made.totals(z, np.zeros(6, dtype=int), 1)
        expected = (3 - 4) ** 2 + (1 - 9) ** 2 + (1 - 5) ** 2
        np.testing.assert_allclose(made.variance(total, z.sum(keepdims=True)), expected)


@pytest.mark.parametrize("rho", [1, 1.0, -0.1, float("nan"), "0.5", None, True])
def test_rho_out_of_range(rho):
    stages = SurveyDesign(pd.DataFrame({"wt": [1.0, 1]}), weights="wt").stages
    with pytest.raises(InputError, match="rho must be a number from 0 to below 1"):
        balanced(stages, rho)


def test_balanced_half_samples_need_pairs():
    frame = pd.DataFrame({"h": [1, 2, 1, 2, 2, 3, 3], "p": [1, 1, 2, 2, 3, 1, 2], "wt": 1.0})
    with pytest.raises(InputError, match=r"exactly two PSUs in every stratum: not so in 3 rows \(row numbers 2, 4, 5;"):
        balanced(SurveyDesign(frame, weights="wt", strata="h", psu="p").stages)


def test_hadamard_matrices():
    for least in range(1, 140):
        H = hadamard(least).astype(int)
        order = len(H)
        assert least <= order <= max(least + 7, 4) and set(H.ravel()) <= {-1, 1} and (H[0] == 1).all()
        np.testing.assert_array_equal(H @ H.T, order * np.eye(order))


# ---- replicate weights that came with the file


def with_weights(n=300, R=12, seed=8):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"y": rng.gamma(2, 10, n), "g": rng.integers(0, 4, n), "w": rng.uniform(1, 3, n)})
    factors = rng.choice([0, 1, 2.5], (n, R)) * rng.uniform(0.5, 1.5, R)
    names = [f"r{k}" for k in range(R)]
    return pd.concat([frame, pd.DataFrame(frame["w"].to_numpy()[:, None] * factors, columns=names)], axis=1), names


RSCALES = [1, 2, 0.5, 0, 1, 1, 3, 0.1, 1, 0, 2, 1]


@pytest.mark.parametrize(("scale", "rscales"), [(None, None), (0.3, None), (0.7, RSCALES)])
def test_given_weights_equal_r(scale, rscales, r, to_r):
    frame, names = with_weights()
    w = frame["w"].to_numpy()
    to_r("d", frame)
    r.r(f"""reps <- svrepdesign(data = d, weights = ~w, repweights = "r[0-9]+", type = "other", combined.weights = TRUE,
        scale = {scale or 1 / 12}, rscales = c({", ".join(map(str, rscales or [1] * 12))}))""")
    made = given_replicates(frame, names, w, scale, rscales)
    assert (made.method, made.R, made.names) == ("given", 12, tuple(names))
    np.testing.assert_allclose(all_factors(made), frame[names] / w[:, None], rtol=1e-15)
    assert_equal_to_r(r, made, w, frame["y"].to_numpy(), frame["g"].to_numpy(), ("y", "g"), rtol=1e-11)
    assert made.degf(w) == r.r("degf(reps)")[0] == 11


@pytest.mark.parametrize("mse", [True, False])
def test_covariances_equal_r(mse, r, to_r):
    frame, names = with_weights()
    frame["x"] = frame["y"] ** 2
    w = frame["w"].to_numpy()
    to_r("d", frame)
    r.r(f"""reps <- svrepdesign(data = d, weights = ~w, repweights = "r[0-9]+", type = "other", combined.weights = TRUE,
        scale = 0.7, rscales = c({", ".join(map(str, RSCALES))}), mse = {str(mse).upper()})""")
    made = given_replicates(frame, names, w, 0.7, RSCALES, mse)
    z, one = [w * frame[name].to_numpy() for name in ("y", "x")], np.zeros(len(frame), dtype=int)
    theta_r = np.column_stack([made.totals(values, one, 1) for values in z])
    theta = np.array([values.sum() for values in z])
    covariance = made.covariance(theta_r, theta)
    np.testing.assert_allclose(covariance, np.array(r.r("vcov(svytotal(~y + x, reps))")), rtol=1e-10)
    np.testing.assert_allclose(np.diag(covariance), made.variance(theta_r, theta), rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "names", "message"),
    [
        ({}, ["r1", "r2", "r9999"], "there is no column 'r9999'"),
        ({}, ["r1"], "at least two columns"),
        ({}, [], "at least two columns"),
        ({}, ["r1", "r2", "r1"], "name 'r1' twice"),
        ({"r2": "a"}, ["r1", "r2"], "'r2' is not a number in 2 rows"),
        ({"r2": None}, ["r1", "r2"], r"'r2' is missing in 2 rows \(row numbers 3, 8;"),
        ({"r2": np.inf}, ["r1", "r2"], r"'r2' is not finite in 2 rows \(row numbers 3, 8;"),
    ],
)
def test_given_weights_are_checked(change, names, message):
    frame, _ = with_weights()
    for name, value in change.items():
        frame[name] = frame[name].astype(object).where(~frame.index.isin([2, 7]), value)
        if not isinstance(value, str):
            frame[name] = frame[name].astype(float)
    with pytest.raises(InputError, match=message) as caught:
        given_replicates(frame, names, frame["w"].to_numpy())
    assert "0.25" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale": 0}, "scale must be a positive number"),
        ({"scale": float("inf")}, "scale must be a positive number"),
        ({"scale": "1"}, "scale must be a number"),
        ({"rscales": [1, 2, 3]}, "one number for each of the 2 replicates"),
        ({"rscales": 1.0}, "one number for each of the 2 replicates"),
        ({"rscales": [1, -1]}, "finite and not negative"),
        ({"rscales": [1, np.nan]}, "finite and not negative"),
        ({"rscales": ["a", "b"]}, "rscales must be numbers"),
        ({"mse": 1}, "mse must be True or False"),
    ],
)
def test_scales_are_checked(settings, message):
    frame, _ = with_weights()
    with pytest.raises(InputError, match=message):
        given_replicates(frame, ["r1", "r2"], frame["w"].to_numpy(), **settings)


def test_the_frame_is_not_copied_and_may_change_later():
    frame, names = with_weights(n=20_000, R=40)
    size = frame[names].to_numpy().nbytes
    tracemalloc.start()
    try:
        made = given_replicates(frame, names, frame["w"].to_numpy())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size / 4
    before = all_factors(made)
    frame.loc[:, names] = 7.0
    frame["r3"] = 1.0
    np.testing.assert_array_equal(all_factors(made), before)


def test_given_weights_of_other_types():
    """Whole numbers, 32 bits, numbers that pandas keeps as objects or with a mask of its own."""
    frame, names = with_weights(R=4)
    whole = frame[names].round()
    mixed = frame.assign(r0=whole["r0"].astype(int), r1=whole["r1"].astype(np.float32), r2=whole["r2"].astype(object),
                         r3=whole["r3"].astype("Float64"))  # fmt: skip
    w = frame["w"].to_numpy()
    plain, made = (given_replicates(f, names, w) for f in (frame.assign(**whole), mixed))
    np.testing.assert_array_equal(all_factors(made), all_factors(plain))
    np.testing.assert_array_equal(made.totals(w, frame["g"].to_numpy(), 4), plain.totals(w, frame["g"].to_numpy(), 4))
    assert made.degf(w) == plain.degf(w)


# ---- all of them


def pairs(n=40, seed=3):
    """Strata of two PSUs, as every kind of replicates can have them."""
    rng = np.random.default_rng(seed)
    h, p = np.divmod(rng.permutation(np.arange(n) % 10), 2)
    frame = pd.DataFrame({"h": h, "p": p, "wt": rng.uniform(1, 5, n), "y": rng.normal(3, 2, n)})
    replicates = {f"r{k}": frame["wt"] * rng.choice([0.0, 1, 2], n) for k in range(6)}
    return frame.assign(domain=rng.integers(-1, 3, n), **replicates)


KINDS = {
    "preston": lambda frame, stages: preston(stages, 9, np.random.default_rng(1)),
    "JKn": lambda frame, stages: jackknife(stages, True),
    "BRR": lambda frame, stages: balanced(stages),
    "Fay": lambda frame, stages: balanced(stages, 0.4),
    "given": lambda frame, stages: given_replicates(frame, [f"r{k}" for k in range(6)], frame["wt"].to_numpy()),
}


def make(kind, frame):
    return KINDS[kind](frame, SurveyDesign(frame, weights="wt", strata="h", psu="p").stages)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("domains", [3, 30])  # fewer and more (PSU, domain) pairs than records
def test_totals_are_those_of_replicate_weights(kind, domains, monkeypatch):
    frame = pairs()
    made, domain, z = make(kind, frame), frame["domain"].to_numpy(), (frame["wt"] * frame["y"]).to_numpy()
    factors = all_factors(made)
    expected = [[sum(z[domain == d] * factors[domain == d, r]) for d in range(domains)] for r in range(made.R)]
    np.testing.assert_allclose(made.totals(z, domain, domains), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(made.factors(2, 5), factors[:, 2:5])
    blocks_of(monkeypatch, 50)
    np.testing.assert_allclose(made.totals(z, domain, domains), expected, rtol=1e-12, atol=1e-12)


def test_records_of_few_units_are_summed_within_these_first(monkeypatch):
    frame = pd.concat([pairs()] * 50, ignore_index=True)
    made, added, add = make("preston", frame), [], levels._add_levels
    monkeypatch.setattr(levels, "_add_levels", lambda z, *rest: added.append(z.size) or add(z, *rest))
    z = np.random.default_rng(1).normal(size=len(frame))
    expected = (z[:, None] * all_factors(made)).sum(axis=0)
    np.testing.assert_allclose(made.totals(z, np.zeros(len(frame), dtype=int), 1)[:, 0], expected, rtol=1e-10)
    assert added == [10]


@pytest.mark.parametrize("kind", KINDS)
def test_degrees_of_freedom_are_those_of_r(kind, r, to_r, monkeypatch):
    frame = pairs()
    made = make(kind, frame)
    of_three_psus = ((frame["h"] == 1) | (frame["h"] == 3) & (frame["p"] == 0)).to_numpy()
    few = of_three_psus & (np.cumsum(of_three_psus) <= 5)
    to_r("f", pd.DataFrame(all_factors(made)))
    r.globalenv["w"] = r.FloatVector(frame["wt"])
    r.globalenv["few"] = r.BoolVector(few)
    r.r("""reps <- svrepdesign(data = data.frame(w = w), weights = w, repweights = as.matrix(f), type = 'other',
                               scale = 1, rscales = 1, combined.weights = FALSE)""")
    w = frame["wt"].to_numpy()
    assert made.degf(w) == r.r("degf(reps)")[0]
    assert made.degf(w * few) == r.r("degf(reps[few, ])")[0] < made.degf(w)
    blocks_of(monkeypatch, 1)
    assert made.degf(w) == r.r("degf(reps)")[0]


def test_a_replicate_counts_where_a_hundred_thousandth_of_it_is_new_as_in_r(r, to_r):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.uniform(1, 3, (50, 4)), columns=["w", "r0", "r1", "noise"])
    for k, size in enumerate((1e-3, 1e-4, 1e-6, 1e-7)):
        frame[f"r{k + 2}"] = frame["r0"] + frame["r1"] + size * frame.pop("noise") ** (k + 1)
        frame["noise"] = rng.uniform(1, 3, 50)
    to_r("d", frame)
    r.r("""reps <- svrepdesign(data = d, weights = ~w, repweights = "r[0-9]", type = "other", combined.weights = TRUE,
                               scale = 1, rscales = 1)""")
    made = given_replicates(frame, [f"r{k}" for k in range(6)], frame["w"].to_numpy())
    assert made.degf(made.weights) == r.r("degf(reps)")[0] == 3


def test_the_rank_of_a_thousand_columns():
    """Of 30 PSUs, with noise far below the tolerance: 29, whatever the units of the columns."""
    rng = np.random.default_rng(2)
    of_psus = rng.integers(0, 2, (30, 1000)) * np.exp(rng.normal(0, 4, 1000))
    columns = of_psus[rng.integers(0, 30, 2000)]
    columns *= 1 + 1e-8 * rng.normal(size=columns.shape)
    frame = pd.DataFrame(columns, columns=[f"r{k}" for k in range(1000)])
    made = given_replicates(frame, frame.columns, columns.mean() * rng.uniform(0.5, 1.5, 2000))
    assert made.degf(made.weights) == np.linalg.matrix_rank(of_psus > 0) - 1 == 29


def test_degrees_of_freedom_stop_at_full_rank():
    n = 200_000
    made = preston(SurveyDesign(pd.DataFrame({"w": np.ones(n)}), weights="w").stages, 40, np.random.default_rng(1))
    assert made.degf(np.ones(n)) == 39


def test_a_replicate_without_an_estimate_is_left_out():
    made = preston(SurveyDesign(clustered(), **ROLES).stages, 2, np.random.default_rng(0))
    theta_r = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan]])
    theta = np.array([2.0, 2.0, 2.0])
    np.testing.assert_array_equal(made.variance(theta_r, theta), [1.0, 9.0, np.nan])
    np.testing.assert_array_equal(made.covariance(theta_r[:, :2], theta[:2]), [[1, 3], [3, 9]])
    np.testing.assert_array_equal(made.covariance(theta_r, theta), np.full((3, 3), np.nan))


def test_the_others_are_scaled_up_by_their_share_of_the_rscales():
    frame, _ = with_weights(R=4)
    made = given_replicates(frame, ["r0", "r1", "r2", "r3"], frame["w"].to_numpy(), 0.5, [1, 2, 0, 3])
    theta_r = np.array([[1.0], [np.nan], [100.0], [4.0]])
    assert made.variance(theta_r, np.array([2.0])) == pytest.approx(0.5 * (1 * 1 + 3 * 4) * 6 / 4)
    centred = replace(made, mse=False).variance(theta_r, np.array([2.0]))  # around 2.5: rscales of 0 are left out
    assert centred == pytest.approx(0.5 * (1 * 1.5**2 + 3 * 1.5**2) * 6 / 4)
    assert replace(made, mse=False).covariance(theta_r, np.array([2.0]))[0] == pytest.approx(centred)
    theta_r[[0, 3]] = np.nan  # the one that exists counts 0 times
    assert np.isnan(made.variance(theta_r, np.array([2.0]))).all()
    for mse in (True, False):  # a complete sample
        complete = replace(made, rscales=np.zeros(4), mse=mse)
        np.testing.assert_array_equal(complete.variance(theta_r, np.array([2.0])), [0.0])


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(sorted(KINDS)),
    scale=st.floats(1e-6, 1e3) | st.floats(-1e3, -1e-6),
)
def test_invariances(seed, kind, scale):
    """Permuting rows permutes factors, and scaled values have scaled totals and variances."""
    frame = pairs(seed=seed)
    order = np.random.default_rng(seed).permutation(len(frame))
    made = make(kind, frame)
    first = SurveyDesign(frame, weights="wt", strata="h", psu="p").stages[0]
    moved = Stage(first.stratum[order], first.unit[order], first.stratum_of_unit, first.sampled, first.fraction)
    permuted = KINDS[kind](frame.iloc[order].reset_index(drop=True), (moved,))
    np.testing.assert_array_equal(all_factors(permuted), all_factors(made)[order])
    domain, z = frame["domain"].to_numpy(), (frame["wt"] * frame["y"]).to_numpy()
    totals, theta = made.totals(z, domain, 3), np.bincount(domain[domain >= 0], z[domain >= 0], 3)
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(permuted.totals(z[order], domain[order], 3), totals, **close)
    scaled = made.totals(scale * z, domain, 3)
    np.testing.assert_allclose(scaled, scale * totals, rtol=1e-9, atol=1e-9 * abs(scale))
    expected = scale**2 * made.variance(totals, theta)
    np.testing.assert_allclose(made.variance(scaled, scale * theta), expected, rtol=1e-7, atol=1e-9 * scale**2)


@pytest.mark.parametrize("kind", KINDS)
def test_replicates_are_immutable_and_can_be_pickled(kind):
    made = make(kind, pairs())
    for one in (made, pickle.loads(pickle.dumps(made))):
        np.testing.assert_array_equal(all_factors(one), all_factors(made))
        assert (one.method, one.scale, one.mse, one.R) == (made.method, made.scale, True, made.R)
        arrays = [value for value in vars(one).values() if isinstance(value, np.ndarray)]
        assert arrays and not any(array.flags.writeable for array in arrays)
        with pytest.raises(FrozenInstanceError):
            one.scale = 1.0


def test_a_million_records_need_far_less_than_a_hundred_columns():
    n, R = 1_000_000, 100
    stages = SurveyDesign(pd.DataFrame({"w": np.ones(n), "h": np.arange(n) % 7}), weights="w", strata="h").stages
    z, domain = np.ones(n), np.arange(n) % 16
    tracemalloc.start()
    try:
        made = preston(stages, R, np.random.default_rng(1))
        totals = made.totals(z, domain, 16)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert totals.shape == (R, 16) and peak < n * 8 * 20
