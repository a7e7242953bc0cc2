"""The study of identification risk: risks and weights by counting, intervals by enumeration and by hand."""

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import surveysynth as ss
from replication.risk_efficient import bench as workbench
from replication.risk_efficient import inputs, outputs
from replication.risk_efficient import study as risk_efficient
from replication.risk_efficient.__main__ import risk_efficient_command
from replication.risk_efficient.inputs import RiskEfficientPlan
from replication.risk_efficient.study import consumer_units_study, risk_efficient_study
from surveysynth import datasets
from surveysynth.datasets.consumer_units import AGES
from surveysynth.engines import get_engine
from surveysynth.models.draws import Sampler
from surveysynth.privacy.protected_fit import PseudoLikelihood
from surveysynth.privacy.units import Unit
from tests.conftest import looks_like_a_figure, words_of

SHARED = Path(__file__).resolve().parents[3] / "shared"
PRINTED, UNITS = SHARED / "paper_tables" / "risk_efficient_utility.csv", SHARED / "data" / "ce_2017q1_sample.csv"
KNOWN = ["age_group", "marital"]
PREDICTORS = "age_group + tenure + education"
SMALL = {"datasets": 4, "resamples": 60, "chains": 2, "warmup": 40, "draws": 60, "radii": (0.1, 0.2)}
PLAN = {
    "known": tuple(KNOWN), "coefficient": "tenure[T.rented]", "top_code": 200_000.0, "radius": 0.2, "radii": (0.1,),
    "floor": 500.0, "datasets": 4, "resamples": 400, "weights_from": "synthetic",
}  # fmt: skip
LINES = [("data", "", ""), ("topcoding", "", ""), ("synthesizer", "", "")] + [
    (kind, *numbers) for kind in ("marginal", "pairwise") for numbers in ((1, 0), (1.5, 0), (1, 0.1))
]

with_the_papers = pytest.mark.skipif(not PRINTED.is_file(), reason="the printed table is not here")
with_the_sample = pytest.mark.skipif(not UNITS.is_file(), reason="the sample of consumer units is not here")


def model(**settings):
    return ss.FBS("income", PREDICTORS, **{"prior": "flat", "transform": ss.AsinhTransform(scale=1000)} | settings)


def bench_of(frame, weights=None, seed=4, **plan):
    engine = get_engine("embedded")
    sampler = Sampler(lambda: engine, np.random.default_rng(seed), 2, 60, 60)
    design = inputs.as_design(frame, weights)
    pseudo = PseudoLikelihood(model(), model().prepare(design), Unit(), sampler)
    return workbench.RiskBench(design, pseudo, RiskEfficientPlan(**PLAN | plan))


def study_of(frame, synthesizer=None, **settings):
    """Run the study on a file.  ``settings`` are arguments of the plan and of the sampler."""
    sampling = {name: settings.pop(name) for name in ("chains", "warmup", "draws", "seed") if name in settings}
    plan = RiskEfficientPlan(**settings)
    return risk_efficient_study(inputs.as_design(frame), synthesizer or model(), plan, **sampling)


@pytest.fixture(scope="module")
def frame():
    return datasets.consumer_units(120, seed=11)


@pytest.fixture(scope="module")
def study():
    return consumer_units_study(220, seed=3, **SMALL)


# the file


def test_consumer_units_are_like_a_survey_of_incomes():
    """Check shares of categories, heaping, the right tail, and differences between groups."""
    n = 20_000
    units = datasets.consumer_units(n, seed=1)
    y = units["income"]
    assert list(units) == ["age_group", "urban", "tenure", "education", "marital", "income"]
    assert units.drop(columns="income").nunique().to_list() == [6, 2, 3, 5, 5] and not units.isna().any(axis=None)
    for label, share, _ in AGES:
        assert abs((units["age_group"] == label).mean() - share) < 4 * np.sqrt(share * (1 - share) / n)
    rural = (units["urban"] == "rural").mean()
    assert abs(rural - 0.07) < 4 * np.sqrt(0.07 * 0.93 / n)
    assert 0.07 < (y == 0).mean() < 0.09 and 0 < (y < 0).sum() < 50
    assert y.max() > 6e5 and stats.skew(y) > 2 and y.mean() > 1.3 * y.median()
    answers = y[y > 10_000]
    assert (answers % 1000 == 0).mean() > 0.4 and (answers % 100 != 0).mean() > 0.15
    tenure = units.groupby("tenure")["income"].mean()
    assert tenure["mortgage"] > 1.5 * tenure["rented"]
    sizes = units.groupby(["age_group", "urban", "marital"]).size()
    assert sizes.max() > 100 * sizes.min()


@pytest.mark.slow
def test_all_incomes_lie_within_the_public_limits():
    """All incomes in 200 files are within the limits.  Without limits, one file in four would have larger incomes."""
    for seed in range(200):
        y = datasets.consumer_units(5571, seed)["income"]
        assert -200_000 <= y.min() and y.max() <= 2_000_000, seed
    assert datasets.INCOMES == (-200_000, 2_000_000)


def test_consumer_units_are_the_same_under_one_seed():
    pd.testing.assert_frame_equal(datasets.consumer_units(50, seed=2), datasets.consumer_units(50, seed=2))
    assert not datasets.consumer_units(50)["income"].equals(datasets.consumer_units(50)["income"])
    with pytest.raises(ss.InputError, match="n must be a whole number"):
        datasets.consumer_units(0)


# risks and weights


def risk_by_counting(frame, values, radius, floor):
    """Compute marginal risks and pairwise weights pair by pair (Hu, Savitsky & Williams 2022b, eq. 8, 11, 14)."""
    y, n = frame["income"].to_numpy(), len(frame)
    width = np.maximum(radius * np.abs(y), floor)
    inside = np.abs(values - y[:, None]) <= width[:, None] * (1 + 1e-12)  # [i, h]
    marginal, pairwise = np.zeros(n), np.ones(n)
    for _, rows in frame.reset_index(drop=True).groupby(KNOWN).groups.items():
        for i in rows:
            marginal[i] = inside[i, i] * np.mean([not inside[i, h] for h in rows])
            both = [
                inside[i, i] * inside[j, j] * np.mean([not (inside[i, h] or inside[j, h]) for h in rows])
                for j in rows if j != i
            ]  # fmt: skip
            if both:
                pairwise[i] = 1 - np.mean(both)
    return marginal, pairwise


@pytest.mark.parametrize("weights_from", ["synthetic", "data"])
@pytest.mark.parametrize("radius", [0.2, 0.1])
def test_risks_and_weights_are_those_of_counting(weights_from, radius, frame):
    bench = bench_of(frame, weights_from=weights_from)
    files = bench.unweighted_files
    counted = [risk_by_counting(frame, values, radius, 500) for values in files.values]
    np.testing.assert_allclose(bench.risk(files, radius), [risk for risk, _ in counted], atol=1e-12)
    if weights_from == "data":
        counted = [risk_by_counting(frame, frame["income"].to_numpy(), radius, 500)]
    risk, pairs = np.mean(counted, axis=0)
    for c1, c2 in inputs.ADJUSTMENTS:
        for kind, weight in (("marginal", 1 - risk), ("pairwise", pairs)):
            made = inputs.Made(kind, c1, c2, radius)
            alpha = bench.weighted(made, bench.risk_behind(made)).alpha
            np.testing.assert_allclose(alpha, np.clip(c1 * weight + c2, 0, 1), atol=1e-12)


def test_profile_counts_by_hand():
    before = np.array([0.0, 0.1, 0.5, 0.2])
    by_file = np.array([[0.6, 0.4, 0.4, 0.1], [0.4, 0.4, 0.7, 0.1]])  # means 0.5, 0.4, 0.55, 0.1
    found = workbench.profile_of(by_file, before)
    expected = {
        "mean": 1.55 / 4, "mean_se": abs(1.5 - 1.6) / 4 / 2, "median": 0.45, "max": 0.55, "high": 1, "low": 0.25,
        "raised": 2, "raised_max": 0.5,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    quarter, third, q90, q99 = np.quantile([0.5, 0.4, 0.55, 0.1], [0.25, 0.75, 0.9, 0.99])
    assert (found["iqr"], found["q90"], found["q99"]) == pytest.approx((third - quarter, q90, q99))
    alone = workbench.profile_of(by_file[:1])
    assert np.isnan([alone["mean_se"], alone["raised"], alone["raised_max"]]).all()


@pytest.mark.slow
def test_whack_a_mole_is_counted_from_the_records(study):
    wide = {
        name: part.set_index("record")["risk"]
        for name, part in study.records[study.records["c1"].isin([np.nan, 1]) & (study.records["c2"] != 0.1)].groupby(
            "synthesizer"
        )
    }
    for row in outputs._plain(outputs.profile(study)).to_dict("records"):
        risk = wide[row["synthesizer"]]
        assert row["mean"] == pytest.approx(risk.mean()) and row["max"] == pytest.approx(risk.max())
        assert row["high"] == sum(r > 0.5 for r in risk) and row["low"] == pytest.approx((risk < 0.25).mean())
        if row["synthesizer"] in ("marginal", "pairwise"):
            risen = [i for i in risk.index if risk[i] - wide["synthesizer"][i] > 0.25]
            assert row["raised"] == len(risen)
            assert not risen or row["raised_max"] == pytest.approx(max(risk[i] for i in risen))


def test_what_rises_by_chance_is_counted_in_other_files(frame):
    """The study counts records whose risk increases by chance, from a first to a second set of files of one fit."""
    bench = bench_of(frame, datasets=1)
    found = risk_efficient.Found(bench)
    found.synthesize(inputs.SYNTHESIZER)
    (row,) = [line for line in found.profile if line["at"] == 0.2]
    # with one file each, a risk increases if the record's own synthetic value is in its ball only in the second file
    assert row["raised"] > 0 and row["raised_max"] > 0.25


@with_the_sample
def test_most_pairwise_weights_from_the_data_are_about_a_quarter():
    """As in Figure 10 of Hu, Savitsky & Williams (2022b), weights are around 0.25, for large incomes as low as 0.1."""
    units = pd.read_csv(UNITS)
    units["age"] = pd.cut(units["Age"], [0, 30, 40, 50, 65, 100]).astype(str)
    file = units[["age", "Marital", "Income"]]
    alpha = ss.pairwise_weights(file, file, known=["age", "Marital"], value="Income")
    assert abs(alpha.median() - 0.25) < 0.05 and round(alpha.min(), 1) == 0.1
    assert (alpha[units["Income"] > 500_000].round(2) <= 0.15).all()


# estimates


weighted = st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 9)), min_size=1, max_size=30)


@given(weighted, st.randoms(use_true_random=False), st.integers(1, 7))
def test_summaries_are_numpys(pairs, random, scale):
    """Weighted means and quantiles equal those of numpy, for any order of the records and any scale of the weights."""
    y, w = np.array(random.sample(pairs, len(pairs)), dtype=float).T
    expected = [np.average(y, weights=w)]
    expected += [np.quantile(y, p, weights=w, method="inverted_cdf") for p in (0.5, 0.9)]
    np.testing.assert_allclose(workbench.summaries(y, scale * w), expected, rtol=1e-9, atol=1e-9)


def test_bootstrap_variances_are_those_of_every_resample():
    """Variances equal those of all 4^4 resamples, within a relative error of sqrt((kurtosis - 1) / resamples)."""
    y, w, R = np.array([3.0, 0.0, 11.0, 5.0]), np.array([1.0, 2.0, 1.5, 4.0]), 20_000
    drawn = [list(rows) for rows in itertools.product(range(4), repeat=4)]
    every = np.array([
        [np.average(y[i], weights=w[i]), *np.quantile(y[i], [0.5, 0.9], weights=w[i], method="inverted_cdf")]
        for i in drawn
    ])  # fmt: skip
    found = workbench.bootstrap_variances(y, w, np.random.default_rng(1), R)
    error = np.sqrt((stats.kurtosis(every, fisher=False) - 1) / R)
    assert (abs(found / every.var(axis=0) - 1) < 4 * error).all()


def test_bootstrap_variance_of_a_mean_is_that_of_a_sample():
    """The bootstrap variance of a mean is near s^2 / n, also if resamples are drawn in several blocks."""
    y, R = np.random.default_rng(2).gamma(2, 100, 3000), 2000
    found = workbench.bootstrap_variances(y, np.ones(y.size), np.random.default_rng(3), R)
    assert abs(found[0] / (y.var(ddof=1) / y.size) - 1) < 4 * np.sqrt(2 / R)


@pytest.mark.parametrize("survey", [False, True], ids=["equal", "weighted"])
def test_estimates_are_combined_by_hand(survey, frame):
    """Estimates, standard errors, degrees of freedom and t intervals equal those combined by hand over the files."""
    if survey:
        frame = frame.assign(w=np.random.default_rng(6).gamma(4, 0.25, len(frame)) + 0.2)
    bench = bench_of(frame, "w" if survey else None)
    files, n, L = bench.unweighted_files, len(frame), 4
    rows = pd.DataFrame(bench.estimates(files)).set_index("statistic")
    assert rows.index.tolist() == ["mean", "median", "q90", "coefficient"]
    X = pd.get_dummies(frame[["age_group", "tenure", "education"]], drop_first=True).assign(one=1).astype(float)
    at = X.columns.get_loc("tenure_rented")
    q, u, means, medians = [], [], [], []
    for values, design in zip(files.values, files.designs, strict=True):
        w, root = design.weights, np.sqrt(design.weights)
        b = np.linalg.lstsq(X * root[:, None], values * root, rcond=None)[0]
        z = w[:, None] * (values - X @ b).to_numpy()[:, None] * X @ np.linalg.inv(X.T @ (X * w[:, None]))
        q.append(b[at])
        u.append(z.iloc[:, at].var(ddof=1) * n)
        means.append(np.average(values, weights=w))
        medians.append(np.quantile(values, 0.5, weights=w, method="inverted_cdf"))
    line, between = rows.loc["coefficient"], np.var(q, ddof=1) / L
    T = np.mean(u) + between
    df = min((L - 1) * (1 + np.mean(u) / between) ** 2, n - X.shape[1])
    half = stats.t.ppf(0.975, df) * np.sqrt(T)
    expected = [np.mean(q), np.sqrt(T), df, np.mean(q) - half, np.mean(q) + half]
    np.testing.assert_allclose(line[["estimate", "se", "df", "ci_low", "ci_high"]].astype(float), expected, rtol=1e-6)
    assert rows.at["mean", "estimate"] == pytest.approx(np.mean(means))
    assert rows.at["median", "estimate"] == pytest.approx(np.mean(medians))
    if not survey:  # u of a mean is the population variance over n, within the error of L times 400 resamples
        u, between = [values.var() / n for values in files.values], np.var(means, ddof=1) / L
        kurtosis = max(stats.kurtosis(values) for values in files.values)  # of the records; of the mean 1 / n of it
        error = 4 * np.sqrt((2 + kurtosis / n) / 400)
        assert abs((rows.at["mean", "se"] ** 2 - between) / np.mean(u) - 1) < error


def test_the_data_have_a_t_interval_of_the_bootstrap_error(frame):
    bench = bench_of(frame)
    line = pd.DataFrame(bench.estimates(bench.released(inputs.DATA, bench.values))).set_index("statistic")
    row, n = line.loc["mean"], len(frame)
    assert row["estimate"] == pytest.approx(frame["income"].mean()) and row["df"] == n - 1
    half = stats.t.ppf(0.975, n - 1) * row["se"]
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((row["estimate"] - half, row["estimate"] + half))


# the study


def keys_of(table):
    return list(table[["synthesizer", "c1", "c2"]].astype(object).fillna("").itertuples(index=False, name=None))


@pytest.mark.slow
def test_every_kind_of_file_is_there(study):
    assert keys_of(outputs.profile(study)) == LINES
    worth = outputs.utility(study)
    assert keys_of(worth[worth["statistic"] == "mean"]) == LINES
    assert keys_of(study.fits) == [*LINES[2:], ("marginal", 1, 0), ("pairwise", 1, 0)]
    assert study.fits["radius"].tolist()[1:] == [0.2] * 6 + [0.1] * 2
    assert len(study.records) == 220 * len(LINES) and study.n == 220
    np.testing.assert_allclose(study.fits["epsilon"], 2 * study.fits["lipschitz"])
    own = study.records[study.records["synthesizer"] == "pairwise"].groupby(["c1", "c2"])["alpha"].mean()
    for row in study.fits[(study.fits["synthesizer"] == "pairwise") & (study.fits["radius"] == 0.2)].to_dict("records"):
        assert row["mean_alpha"] == pytest.approx(own[row["c1"], row["c2"]])


@pytest.mark.slow
def test_utility_stands_beside_the_data(study):
    for _, part in outputs.utility(study).groupby("statistic"):
        own = part.iloc[0]
        off = (part["estimate"] - own["estimate"]) / abs(own["estimate"])
        np.testing.assert_allclose(part["relative_difference"], off, atol=1e-12)
        shared = part["ci_high"].clip(upper=own["ci_high"]) - part["ci_low"].clip(lower=own["ci_low"])
        lengths = part["ci_high"] - part["ci_low"], own["ci_high"] - own["ci_low"]
        np.testing.assert_allclose(part["overlap"], sum(shared / length for length in lengths) / 2)


@pytest.mark.slow
def test_every_radius_is_looked_at(study):
    table = outputs.effect_of_radius(study)
    same = table[table["radius"].isna() | (table["radius"] == 0.2)]
    assert same.groupby("synthesizer")["at"].agg(list).to_dict() == {name: [0.1, 0.2] for name in outputs.SHOWN}
    own = table[table["radius"] == 0.1]
    assert own[["synthesizer", "at"]].values.tolist() == [["marginal", 0.1], ["pairwise", 0.1]]
    worth = study.utility[(study.utility["radius"] == 0.1) & (study.utility["statistic"] == "q90")]
    assert own["relative_difference_q90"].tolist() == worth["relative_difference"].tolist()
    data = table[table["synthesizer"] == "data"].set_index("at")["mean"]
    assert data[0.1] > data[0.2]  # a smaller ball around a true value that is there holds fewer others


@pytest.mark.slow
def test_tables_of_single_records_show_ranges_only(study):
    wide = study.records[study.records["synthesizer"] == "data"]
    riskiest, largest = outputs.riskiest(study), outputs.largest(study)
    assert riskiest["data"].tolist() == sorted(wide["risk"], reverse=True)[:10]
    top = wide.nlargest(10, "value")
    assert largest["value"].tolist() == [outputs.band(value) for value in top["value"]]
    np.testing.assert_allclose(largest["data"], top["risk"])
    assert list(riskiest) == list(largest) == ["value", *outputs.SHOWN]
    assert riskiest["value"].map(type).eq(str).all()


@given(st.floats(-1e9, 1e9).filter(lambda x: x == 0 or abs(x) > 1e-6))
def test_a_range_holds_its_value(value):
    text = outputs.band(value)
    if value == 0:
        assert text == "0"
        return
    ends = [float(end.strip("()[]-").replace(",", "")) for end in text.split(", ")]
    low, high = sorted(ends)
    assert low * (1 - 1e-9) <= abs(value) < high * (1 + 1e-9) and high == pytest.approx(10 * low)
    assert text.startswith("(-") == (value < 0)


@pytest.mark.parametrize(
    ("value", "text"), [(1000, "[1,000, 10,000)"), (999.99, "[100, 1,000)"), (-25, "(-100, -10]"), (0.5, "[0.1, 1)")]
)
def test_ranges_begin_at_powers_of_ten(value, text):
    assert outputs.band(value) == text


# findings


@pytest.mark.slow
def test_findings_follow_the_results(study):
    """If the results of Marginal and Pairwise are exchanged, the findings are exchanged, too."""
    found = outputs.findings(study).set_index("finding")
    other = {"marginal": "pairwise", "pairwise": "marginal"}
    turned = {
        name: getattr(study, name).replace({"synthesizer": other}) for name in ("profile", "utility", "fits", "records")
    }
    again = outputs.findings(replace(study, **turned)).set_index("finding")
    assert list(again.index) == list(found.index)
    risk = outputs._plain(outputs.profile(study)).set_index("synthesizer")
    name = "Pairwise has the smaller largest risk"
    assert found.at[name, "holds"] == (risk.at["pairwise", "max"] < risk.at["marginal", "max"])
    assert again.at[name, "holds"] == (risk.at["marginal", "max"] < risk.at["pairwise", "max"])
    assert f"{risk.at['pairwise', 'max']:.3f}" in found.at[name, "numbers"]
    worth = outputs._plain(outputs.utility(study))
    for statistic, text in outputs.NAMES.items():
        off = worth[worth["statistic"] == statistic].set_index("synthesizer")["relative_difference"].abs()
        name = f"Pairwise keeps the {text} closer to the data than Marginal"
        assert found.at[name, "holds"] == (off["pairwise"] < off["marginal"])
        assert again.at[name, "holds"] == (off["marginal"] < off["pairwise"])


@pytest.mark.slow
def test_a_finding_is_no_where_the_numbers_say_so(study):
    profile = study.profile.copy()
    profile.loc[profile["synthesizer"].isin(["marginal", "pairwise"]), ["mean", "raised"]] = [0.9, 0]
    found = outputs.findings(replace(study, profile=profile)).set_index("finding")["holds"]
    decided = found[found.index.str.startswith("The synthesizer lowers") | found.index.str.contains("mole: under")]
    assert len(decided) == 2 and not decided.any()


@pytest.mark.slow
@with_the_papers
def test_the_papers_figures_stand_beside(study):
    printed = pd.read_csv(PRINTED).rename(columns={"c": "c1", "g": "c2"})
    printed["statistic"] = printed["statistic"].replace("earner2_coefficient", "coefficient")
    pd.testing.assert_frame_equal(outputs.printed(), printed, check_like=True)
    table = outputs.beside_paper(study).set_index(["synthesizer", "c1", "c2", "statistic"])
    row = table.loc["marginal", 1.0, 0.0, "mean"]
    assert row["paper_relative_difference"] == pytest.approx(76641.95 / 72090.26 - 1)
    assert not row["paper_holds_data"]  # section 3.3.2: no interval of Marginal holds the data's mean
    assert table.loc["pairwise", 1.0, 0.0, "mean"]["paper_holds_data"]


# what is written


TABLES = ["profile", "riskiest", "largest", "utility", "radius", "paper", "findings", "fits"]
FIGURES = ["risk", "whack_a_mole", "weights", "radius"]


def files_of(*more):
    return {f"{name}.csv" for name in TABLES} | {f"{name}.png" for name in FIGURES} | {"summary.txt", *more}


@pytest.mark.slow
def test_outputs_of_the_simulated_file(study, tmp_path):
    text = outputs.write(study, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == files_of("records.csv")
    for name in FIGURES:
        looks_like_a_figure(tmp_path / "out" / f"{name}.png")
    assert text == (tmp_path / "out" / "summary.txt").read_text() and text.startswith("The file is simulated")
    name = "220 records; Mixture synthesizes income"
    for words in (name, "by chance", "whichever is more", "measured, not bounded", "would spend 4 times"):
        assert words in text
    assert "NOT FOR PUBLICATION" not in text
    found = pd.read_csv(tmp_path / "out" / "findings.csv")
    assert f"and this file: {found['holds'].sum()} of {len(found)}" in text


@pytest.mark.slow
def test_a_study_without_topcoding_and_coefficient(frame, tmp_path):
    settings = SMALL | {"radii": (), "datasets": 2}
    found = study_of(frame, known=[], seed=1, **settings)
    assert found.confidential and found.patterns["patterns"] == 1 and found.patterns["most"] == len(frame)
    assert found.profile["at"].unique().tolist() == [0.2]
    assert set(found.utility["statistic"]) == {"mean", "median", "q90"}
    assert "topcoding" not in set(found.profile["synthesizer"])
    text = outputs.write(found, tmp_path / "out")
    assert "knows no column" in text and "Topcoding" not in text
    with pytest.raises(ss.InputError, match="exists"):
        outputs.write(found, tmp_path / "out")


OWN = {
    "data": "f.csv", "value": "wages", "predictors": "age_group + tenure", "known": "age_group,marital", "seed": "1",
    "coefficient": "tenure[T.rented]", "scale": "1000", "floor": "100", "datasets": "3", "chains": "2",
    "warmup": "40", "draws": "60", "radii": "0.2", "top_code": "150000", "out": "side",
}  # fmt: skip


COMMAND = risk_efficient_command


@pytest.fixture
def run_cli(run_cli):
    """A function that runs the command in a folder with a data file."""
    units = datasets.consumer_units(150, seed=8).rename(columns={"income": "wages"})
    units["wages"] += np.random.default_rng(1).uniform(0.0001, 0.9999, 150)  # every value can be told from all others
    units.loc[0, "wages"] = -1250.125  # a loss, which has no logarithm
    units["w"] = 1 + (units["tenure"] == "rented")
    units.to_csv("f.csv", index=False)
    return run_cli


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, "w"])
def test_ones_own_file(weights, run_cli, tmp_path):
    code, text, complaint = run_cli(*words_of(OWN | ({} if weights is None else {"weights": weights})))
    assert (code, complaint) == (0, "") and text.startswith("NOT FOR PUBLICATION") and "Written: side" in text
    folder, units = tmp_path / "side", pd.read_csv(tmp_path / "f.csv")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in folder.iterdir()} == files_of("NOT-FOR-PUBLICATION.txt")
    own = pd.read_csv(folder / "utility.csv").query("synthesizer == 'data'").set_index("statistic")["estimate"]
    w = units["w"] if weights else np.ones(150)
    assert own["mean"] == pytest.approx(np.average(units["wages"], weights=w))
    # quantiles are values of single records; no other one is in any table
    shown = {float(own[name]) for name in ("median", "q90")}
    text = " ".join(path.read_text() for path in folder.iterdir() if path.suffix in (".csv", ".txt"))
    for value in units.loc[units["wages"].abs() > 100, "wages"]:  # others could be parts of any number
        assert f"{value:.4f}"[:-1] not in text or any(abs(value - x) < 0.01 for x in shown)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": None}, "--value, --predictors, --known, --coefficient, --scale, --top-code: only with --data"),
        ({"value": None}, "--data needs --value, too"),
        ({"n": "50"}, "--n: not with --data"),
        ({"known": "age"}, "age"),
        ({"value": "earnings"}, "no column 'earnings'"),
        ({"coefficient": "rents"}, "no term"),
        ({"scale": None}, "wages"),
        ({"radii": "many"}, "'--radii': numbers were expected"),
        ({"draws": "1"}, "datasets exceeds"),
    ],
    ids=str,
)
def test_what_ones_own_file_needs(change, words, run_cli, tmp_path):
    options = {name: value for name, value in (OWN | change).items() if value is not None}
    code, _, complaint = run_cli(*words_of(options))
    assert code == 2 and words in " ".join(complaint.split()) and not (tmp_path / "side").exists()


def test_a_folder_that_is_there_is_left_alone(run_cli, tmp_path):
    (tmp_path / "side").mkdir()
    (tmp_path / "side" / "thesis.txt").write_text("mine")
    code, _, complaint = run_cli(*words_of(OWN))
    assert code == 2 and "exists" in complaint and [p.name for p in (tmp_path / "side").iterdir()] == ["thesis.txt"]


@pytest.mark.slow
def test_the_study_from_the_command_line(run_cli, tmp_path):
    options = {"out": "study", "n": "150", "seed": "2", "datasets": "2", "warmup": "40", "draws": "50", "radii": "0.2"}
    code, text, complaint = run_cli(*words_of(options))
    assert (code, complaint) == (0, "") and text.startswith("The file is simulated") and "Written: study" in text
    assert len(pd.read_csv(tmp_path / "study" / "records.csv")) == 150 * len(LINES)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"radius": -0.1}, "radius must be"),
        ({"radius": 0}, "radius must be a positive number"),
        ({"radii": (0.2, 0)}, "radii must be a positive number"),
        ({"floor": -1}, "floor must be"),
        ({"datasets": 0}, "datasets must be a whole number"),
        ({"resamples": 1}, "resamples must be at least 2"),
        ({"draws": 0}, "draws must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"top_code": np.inf}, "top_code must be a positive number"),
        ({"top_code": "high"}, "top_code must be a number"),
        ({"weights_from": "both"}, "weights_from='both' is not one of synthetic, data"),
        ({"known": ["colour"]}, "no column 'colour'"),
        ({"known": ["income"]}, "known column 'income' is synthesized"),
        ({"coefficient": "age"}, "is no term of"),
        ({"datasets": 500}, "datasets exceeds the posterior draws"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_before_any_fit(settings, words, frame, monkeypatch):
    monkeypatch.setattr(PseudoLikelihood, "fit", lambda *_: pytest.fail("a fit was made"))
    with pytest.raises(ss.InputError, match=words):
        study_of(frame, **{"known": KNOWN} | SMALL | settings)


def test_models_of_more_than_a_number_are_refused(frame):
    two = ss.FBS(["income", "C(tenure)"], "age_group", prior="flat", transform=ss.AsinhTransform(scale=1000))
    with pytest.raises(ss.InputError, match="one numeric outcome"):
        study_of(frame, two, known=KNOWN, **SMALL)


def test_missing_values_are_named_by_row_and_never_shown(frame):
    frame = frame.astype({"income": float})
    frame.loc[[3, 9], "income"] = np.nan
    with pytest.raises(ss.InputError, match=r"'income' is missing in 2 rows \(row numbers 4, 10;"):
        study_of(frame, known=KNOWN, **SMALL)


@pytest.mark.slow
def test_any_synthesizer_will_do(frame):
    """The study runs with any synthesizer of one numeric outcome."""
    whole = frame.assign(income=frame["income"].clip(lower=0).round())
    count = ss.NegativeBinomialRegression("income", "tenure")
    settings = SMALL | {"radii": (), "datasets": 2, "warmup": 100, "draws": 100, "resamples": 20}
    found = study_of(whole, count, known=["tenure"], seed=1, **settings)
    assert keys_of(outputs.profile(found)) == [line for line in LINES if line[0] != "topcoding"]


@pytest.mark.slow
def test_an_allocation_that_looks_at_the_record_has_no_epsilon(frame):
    """There is no epsilon if the mixture component of a synthetic record depends on the record's confidential value."""
    default = inputs.synthesizer(frame, "income", "tenure", ss.AsinhTransform(scale=30_000))
    paper = replace(default, allocation="posterior")
    settings = SMALL | {"radii": (), "datasets": 2, "resamples": 2}
    found = study_of(frame, paper, known=["tenure"], seed=1, **settings)
    assert found.fits["epsilon"].isna().all() and found.fits["lipschitz"].notna().all()


def test_diagnostics_that_fail_are_recorded():
    posterior = SimpleNamespace(failures=("rhat", "ess_bulk"))
    fitted = SimpleNamespace(delta=2.0, alpha=np.array([1.0, 0.5]), weighted_down=0.5, posterior=posterior)
    facts = risk_efficient.facts_of(fitted, 1.5)
    assert facts == {
        "lipschitz": 2, "epsilon": 4, "mean_alpha": 0.75, "weighted_down": 0.5, "seconds": 1.5,
        "diagnostics": "rhat, ess_bulk",
    }  # fmt: skip
