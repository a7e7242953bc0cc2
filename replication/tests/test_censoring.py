"""The study of mechanisms (Hu, Williams & Savitsky 2025): definitions by scipy, printed counts, own files."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import surveysynth as ss
from replication.censoring import outputs
from replication.censoring import study as censoring
from replication.censoring.__main__ import censoring_command
from replication.censoring.outputs import invocations
from replication.censoring.study import censoring_study, compare_mechanisms, ecdf_differences
from surveysynth.privacy.weight_maps import linear_map
from tests.conftest import looks_like_a_figure, words_of

SHARED = Path(__file__).resolve().parents[3] / "shared"
PRINTED = SHARED / "paper_tables"
CE = SHARED / "data" / "ce_2017q1_sample.csv"
SMALL = {"replicates": 2, "n": 300, "epsilon": (5, 3), "c1": (1, 0.8), "seed": 3}
HISTOGRAMS = ["perturbed_histogram", "perturbed_histogram_sqrt"]  # never seeded

with_the_papers = pytest.mark.skipif(not PRINTED.is_dir(), reason="the printed tables are not here")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A small study, its folder and the files written there."""
    out = tmp_path_factory.mktemp("censoring") / "out"
    study = censoring_study(out=out, **SMALL)
    return study, out, outputs.write(study, out)


def drawn(n=300, seed=7):
    return censoring.drawn(n, stats.beta(0.5, 3), seed)


# distances


def test_ecdf_differences_by_hand():
    """At 0, 0.5 and 1, the ECDF of (0.5, 1) is 0, 1/2 and 1, and the ECDF of (0, 0, 1) is 2/3, 2/3 and 1."""
    largest, average = ecdf_differences([1, 0.5], [0, 1, 0])
    assert largest == pytest.approx(2 / 3) and average == pytest.approx((2 * (2 / 3) ** 2 + (1 / 6) ** 2) / 5)


values = st.lists(st.integers(-5, 5), min_size=1, max_size=12)


@given(values, values)
def test_ecdf_differences_are_those_of_the_definition(one, other):
    """Distances equal those of the definition.  Exchanging the files or transforming all values changes nothing."""
    differences = [np.mean([x <= r for x in one]) - np.mean([x <= r for x in other]) for r in one + other]
    found = ecdf_differences(one, other)
    assert found == pytest.approx((np.abs(differences).max(), np.square(differences).mean()))
    assert ecdf_differences(other, one) == pytest.approx(found)
    assert ecdf_differences(np.exp(one), np.exp(other)) == pytest.approx(found)
    assert ecdf_differences(one, one) == (0, 0)


def test_the_largest_difference_is_that_of_r(r):
    x, y = r.r("set.seed(4); x <- rbeta(90, 0.5, 3); x"), r.r("y <- rbeta(70, 0.6, 3); y")
    in_r = r.r("ks.test(x, y)$statistic[[1]]")[0]
    assert ecdf_differences(np.array(x), np.array(y))[0] == pytest.approx(in_r, abs=1e-12)


def test_statistics_are_those_of_r(r):
    y = np.array(r.r("set.seed(4); x <- rbeta(90, 0.5, 3); x"))
    in_r = list(r.r("c(mean(x), quantile(x, c(0.5, 0.15, 0.9)))"))
    assert list(censoring.statistics_of(y)) == ["mean", "median", "q15", "q90"]
    np.testing.assert_allclose(list(censoring.statistics_of(y).values()), in_r, rtol=1e-12)


# what each mechanism does, by scipy's beta density


def contributions(mechanisms, posterior):
    """Return the log density of every record in every posterior draw, by scipy."""
    y = mechanisms.design.numeric("y")
    phi, lam = 1 / (1 + np.exp(-posterior.values["b"])), posterior.values["lambda"][:, None]
    return stats.beta.logpdf(y, lam * phi, lam * (1 - phi))


def test_weighted_e_cuts_off_what_exceeds_half_of_epsilon():
    mechanisms, twin = drawn(), drawn()
    made = mechanisms.make("weighted_e", 2.4, 0.9)
    f = np.abs(contributions(twin, twin.unweighted.posterior)).max(axis=0)
    alpha = 0.9 * (f.max() - f) / (f.max() - f.min())
    cut = alpha * f > 1.2
    assert made.invocations == cut.sum() > 20
    posterior = twin.pseudo.fit(np.where(cut, 0, alpha))
    bound = (np.where(cut, 0, alpha) * np.abs(contributions(twin, posterior))).max()
    assert made.lipschitz == pytest.approx(bound) and np.isnan(made.censored) and made.bound == made.lipschitz


@pytest.mark.parametrize("synthesizer", ["censor_w", "censor_uw"])
def test_censored_mechanisms_count_who_is_clamped_in_some_draw(synthesizer):
    mechanisms, twin = drawn(), drawn()
    made = mechanisms.make(synthesizer, 2.4, 1.0)
    alpha = linear_map(twin.unweighted.bounds, 1.0, 0.0, np.nan) if synthesizer == "censor_w" else np.ones(300)
    posterior = twin.pseudo.censored(alpha, 1.2)
    added = alpha * np.abs(contributions(twin, posterior))
    assert made.invocations == (added.max(axis=0) >= 1.2).sum() > 20
    assert made.lipschitz == pytest.approx(added.max()) and made.lipschitz > 1.2 == made.censored == made.bound


def test_the_weighted_mechanism_knows_no_epsilon():
    first, second = (drawn().make("weighted", epsilon, 1.0) for epsilon in (np.nan, 3.0))
    assert first.lipschitz == second.lipschitz and np.isnan(first.invocations)
    np.testing.assert_array_equal(first.values, second.values)
    assert first.lipschitz < drawn().make("unweighted", np.nan, 1.0).lipschitz


def test_values_near_a_bound_keep_their_density():
    """Values below 1e-6 are not moved, unlike in BetaRegression, and the smallest has the largest Lipschitz bound."""
    mechanisms = drawn(4000)
    y = mechanisms.design.numeric("y")
    assert y.min() < 1e-6 and np.unique(mechanisms.pseudo.records.y[:, 0]).size == 4000
    f = mechanisms.unweighted.bounds
    assert f.argmax() == y.argmin() and f.max() > np.sort(f)[-2]


@pytest.mark.parametrize(("synthesizer", "bins"), [("perturbed_histogram", 6), ("perturbed_histogram_sqrt", 18)])
def test_the_histogram_has_the_noise_of_the_paper(synthesizer, bins, monkeypatch):
    """Half of the published epsilon is used, because the package's epsilon is for adding or removing a record."""
    asked = {}

    def recorded(design, outcome, **settings):
        asked.update(settings)
        return ss.perturbed_histogram(design, outcome, **settings)

    monkeypatch.setattr(censoring, "perturbed_histogram", recorded)
    made = drawn().make(synthesizer, 4, 1.0)
    assert (asked["epsilon"], asked["bins"], asked["m"], asked["bounds"]) == (2, bins, 1, (0, 1))
    assert made.values.size == 300 and np.isnan([made.lipschitz, made.censored, made.invocations]).all()


@pytest.mark.slow
@with_the_papers
def test_counts_are_those_that_the_paper_prints():
    """Mean counts of clamped records, or of those with weight 0, are within four standard errors of published means."""
    printed = pd.read_csv(PRINTED / "censoring_table1_invocations.csv")
    printed = printed.set_index(["synthesizer", "epsilon", "downscale_c1"])
    files = [drawn(2000, seed) for seed in range(10)]
    for name, epsilon, R in [("weighted_e", e, 10) for e in (5, 4, 3)] + [("censor_uw", 5, 3), ("censor_uw", 3, 3)]:
        row = printed.loc[name, epsilon, 1.0]
        if name == "weighted_e":  # its count needs the unweighted fit alone
            risks = [m.unweighted.bounds for m in files]
            counts = [(linear_map(f, 1.0, 0.0, np.nan) * f > epsilon / 2).sum() for f in risks]
        else:
            counts = [m.make(name, epsilon, 1.0).invocations for m in files[:R]]
        assert abs(np.mean(counts) - row["mean"]) < 4 * row["sd"] * np.sqrt(1 / R + 1 / 100), (name, epsilon)


# the study


@pytest.mark.slow
def test_every_sample_gets_every_file(written):
    study, out, _ = written
    plan = study.plan
    assert plan.epsilon == (5, 3) and plan.downscaled == 3
    kinds = ["weighted_e", "censor_w", "censor_uw", *HISTOGRAMS]
    expected = {("unweighted", "", 1), ("weighted", "", 1), ("weighted", "", 0.8)}
    expected |= {(kind, epsilon, 1) for kind in kinds for epsilon in (5, 3)}
    expected |= {("weighted_e", 3, 0.8), ("censor_w", 3, 0.8)}
    for table, more in ((study.bounds, set()), (study.utility, {("data", "", "")})):
        for _, part in table.groupby("replicate"):
            assert len(part) == len(expected | more)
            keys = part[["synthesizer", "epsilon", "c1"]].astype(object).fillna("")
            assert set(keys.itertuples(index=False, name=None)) == expected | more
    assert study.failures.empty and study.utility["replicate"].unique().tolist() == [1, 2]
    assert list(pd.read_csv(out / "lipschitz.csv")) == [
        "replicate", "epsilon", "c1", "synthesizer", "lipschitz", "censored", "invocations", "diagnostics",
    ]  # fmt: skip
    assert list(pd.read_csv(out / "utility.csv")) == [
        "replicate", "epsilon", "c1", "synthesizer", "max_ecdf", "avg_ecdf", "mean", "median", "q15", "q90",
    ]  # fmt: skip


@pytest.mark.slow
def test_what_is_clamped_never_exceeds_half_of_epsilon(written):
    bounds = written[0].bounds
    clamped = bounds[bounds["synthesizer"].isin(["censor_w", "censor_uw"])]
    assert (clamped["censored"] == np.minimum(clamped["lipschitz"], clamped["epsilon"] / 2)).all()
    assert bounds["censored"].notna().sum() == len(clamped) and clamped["invocations"].between(0, 300).all()
    at_the_clamp = clamped["lipschitz"] >= clamped["epsilon"] / 2
    assert ((clamped["invocations"] > 0) == at_the_clamp).all() and at_the_clamp.any()


@pytest.mark.slow
def test_distances_are_between_the_file_and_its_synthetic_one(written):
    """Distances and statistics equal those computed here from the first file and its synthetic file."""
    study = written[0]
    again = drawn(300, censoring.seed_of(3, 1, 300))
    y = again.design.numeric("y")
    made = again.make("unweighted", np.nan, 1.0)
    rows = study.utility[study.utility["replicate"] == 1].set_index("synthesizer")
    assert rows.loc["data", "q15"] == np.quantile(y, 0.15) and np.isnan(rows.loc["data", "max_ecdf"])
    assert rows.loc["unweighted", "max_ecdf"] == pytest.approx(stats.ks_2samp(y, made.values).statistic)
    assert rows.loc["unweighted", "median"] == np.median(made.values)


@pytest.mark.slow
def test_invocations_are_tabled_as_in_the_paper(written):
    study, out, _ = written
    table = pd.read_csv(out / "table1.csv")
    columns = ["epsilon", "downscale_c1", "synthesizer", "min", "q1", "median", "mean", "q3", "max", "sd"]
    assert list(table) == [*columns, *(f"paper_{name}" for name in columns[3:])]
    order = table[["epsilon", "downscale_c1", "synthesizer"]].to_numpy().tolist()
    names = ["weighted_e", "censor_w", "censor_uw"]
    assert order == [[e, 1, name] for e in (5, 3) for name in names] + [[3, 0.8, name] for name in names[:2]]
    b = study.bounds
    counts = b[(b["synthesizer"] == "censor_uw") & (b["epsilon"] == 3)]["invocations"]
    row = table.iloc[5]
    assert (row["min"], row["max"], row["mean"]) == (counts.min(), counts.max(), counts.mean())
    assert row["sd"] == pytest.approx(abs(np.diff(counts)[0]) / np.sqrt(2)) and table["paper_mean"].isna().all()


@pytest.mark.slow
@with_the_papers
def test_the_papers_figures_stand_beside(written):
    printed = pd.read_csv(PRINTED / "censoring_table1_invocations.csv")
    study = written[0]
    table = invocations(replace(study, settings=study.settings | {"n": 2000}))
    assert list(table)[:10] == list(printed)
    both = table.merge(printed, on=["epsilon", "downscale_c1", "synthesizer"], suffixes=("", "_printed"))
    assert len(both) == 6
    for name in ("min", "q1", "median", "mean", "q3", "max", "sd"):
        assert both[f"paper_{name}"].tolist() == both[f"{name}_printed"].tolist()
    assert table.loc[table["downscale_c1"] < 1, "paper_mean"].isna().all()  # the paper scales down at epsilon 4


@pytest.mark.slow
def test_tables_figures_and_a_summary_are_written(written):
    study, out, files = written
    statistics, ecdf = ["mean", "median", "q15", "q90"], ["max_ecdf", "avg_ecdf"]
    figures = ["censored_posterior", "lipschitz", "lipschitz_unweighted", *ecdf, *statistics]
    figures += [f"downscaling_{name}" for name in ("lipschitz", *ecdf, *statistics)]
    tables = {"table1.csv", "lipschitz.csv", "utility.csv", "failures.csv", "summary.txt"}
    assert {path.name for path in files} == tables | {f"{name}.png" for name in figures}
    for name in figures:
        looks_like_a_figure(out / f"{name}.png")
    text = (out / "summary.txt").read_text()
    for words in ("2 files of n = 300", "Censor_w, epsilon 3, c1 0.8", "Paper: Weighted first", "PH, sqrt(n)"):
        assert words in text
    assert text.endswith("Failures: none.\n")
    order = [line for line in text.splitlines() if "average record-level squared difference:" in line]
    utility = study.utility[(study.utility["c1"] == 1) & (study.utility["epsilon"].fillna(5) == 5)]
    means = utility[utility["synthesizer"] != "unweighted"].groupby("synthesizer")["avg_ecdf"].mean().sort_values()
    assert order[0].split(":")[1].split(", ")[0].strip().startswith(outputs.plots.MECHANISMS[means.index[0]])


def same(first, second):
    """Check that results are equal to the last bit, except for histograms, whose noise is never seeded."""
    for name in ("bounds", "utility"):
        a, b = (getattr(s, name) for s in (first, second))
        a, b = (t[~t["synthesizer"].isin(HISTOGRAMS)].reset_index(drop=True) for t in (a, b))
        pd.testing.assert_frame_equal(a, b, check_exact=True)


@pytest.mark.slow
def test_a_stopped_study_goes_on_and_ends_the_same(written, tmp_path):
    study, out, _ = written
    shutil.copytree(out, tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "replicates" / "00001")
    kept = (tmp_path / "out" / "replicates" / "00002" / "run.json").stat().st_mtime_ns
    again = censoring_study(out=tmp_path / "out", **{k: v for k, v in SMALL.items() if k != "seed"})
    same(study, again)
    assert (tmp_path / "out" / "replicates" / "00002" / "run.json").stat().st_mtime_ns == kept
    assert sorted(os.listdir(tmp_path / "out" / "replicates")) == ["00001", "00002"]


@pytest.mark.slow
def test_a_folder_of_another_study_is_refused(written, tmp_path):
    out = written[1]
    with pytest.raises(ss.InputError, match=r"other settings \(n\)"):
        censoring_study(out=out, **SMALL | {"n": 200})
    assert json.loads((out / "settings.json").read_text())["n"] == 300
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ss.InputError, match="not the folder of a study"):
        censoring_study(out=tmp_path, **SMALL)


def test_a_mechanism_that_fails_is_recorded_and_the_others_go_on(monkeypatch):
    def fails(self, epsilon, bins):
        raise ss.ModelError("no such bins")

    monkeypatch.setattr(censoring.Mechanisms, "_histogram", fails)
    study = censoring_study(replicates=1, n=200, epsilon=(5,), c1=(1,), seed=1)
    assert study.failures["synthesizer"].tolist() == HISTOGRAMS
    assert set(study.failures["error"]) == {"ModelError"} and len(study.bounds) == 5
    assert "PH, epsilon 5: ModelError in 1 of 1 files; the first: no such bins" in outputs.describe(study)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"replicates": 0}, "replicates must be a whole number"),
        ({"n": 2.5}, "n must be a whole number"),
        ({"epsilon": ()}, "epsilon is empty"),
        ({"epsilon": (0,)}, "epsilon must be a positive number"),
        ({"c1": ()}, "c1 is empty"),
        ({"c1": (1, -0.5)}, "c1 must be a positive number"),
        ({"c1": (1.5,)}, "c1 must be at most 1"),
        ({"workers": 0}, "workers must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_before_any_work(settings, words, tmp_path):
    with pytest.raises(ss.InputError, match=words):
        censoring_study(out=tmp_path / "out", **SMALL | settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.reference
@with_the_papers
def test_the_papers_order_of_utility_comes_out():
    """Weighted is among the best three, Censor_w is better than Censor_uw, the histogram is worst if epsilon >= 4."""
    study = censoring_study(replicates=20, c1=(1,), workers=2, seed=1)
    for epsilon in (5, 4, 3):
        here = outputs.comparable(study.utility, epsilon, 1.0, censoring.SYNTHESIZERS)
        means = here.groupby("synthesizer")[["max_ecdf", "avg_ecdf"]].mean()
        for measure in means:
            order = means[measure].sort_values().index.tolist()
            assert order.index("censor_w") < order.index("censor_uw"), (epsilon, measure)
            assert order.index("weighted") <= 2, (epsilon, measure)  # by chance behind Censor_w or Weighted-e at 5
            assert epsilon == 3 or order[-1] == "perturbed_histogram", (epsilon, measure)


# one's own file


@pytest.fixture
def frame():
    """600 records, whose outcome depends on two public columns."""
    rng = np.random.default_rng(5)
    sex, age = rng.integers(0, 2, 600), rng.integers(20, 70, 600)
    phi = 1 / (1 + np.exp(1.5 - 0.5 * sex - 0.01 * (age - 45)))
    return pd.DataFrame({"salary": 1000 * rng.beta(6 * phi, 6 * (1 - phi)), "sex": np.where(sex, "m", "f"), "age": age})


OWN = {
    "data": "f.csv", "outcome": "salary", "predictors": "sex + age", "bounds": "0,1000", "epsilon": "5", "seed": "1",
    "out": "side",
}  # fmt: skip


COMMAND = censoring_command


@pytest.fixture
def run_cli(run_cli, frame):
    """A function that runs the command in a folder with a data file."""
    frame.to_csv("f.csv", index=False)
    return run_cli


@pytest.mark.slow
def test_mechanisms_on_ones_own_file(run_cli, frame, tmp_path):
    code, text, complaint = run_cli(*words_of(OWN))
    assert (code, complaint) == (0, "") and text.startswith("NOT FOR PUBLICATION")
    folder = tmp_path / "side"
    assert folder.stat().st_mode & 0o777 == 0o700
    files = {p.name for p in folder.iterdir()}
    assert files == {"NOT-FOR-PUBLICATION.txt", "summary.txt", "table2.csv", "densities.png"}
    looks_like_a_figure(folder / "densities.png")
    table = pd.read_csv(folder / "table2.csv").set_index("measure")
    np.testing.assert_allclose(
        table.loc[["mean", "median", "q15", "q90"], "data"],
        [frame["salary"].mean(), *np.quantile(frame["salary"], [0.5, 0.15, 0.9])], rtol=1e-12,
    )  # fmt: skip
    lipschitz, epsilon = table.loc["lipschitz"], table.loc["epsilon"]
    assert (lipschitz[["censor_w", "censor_uw"]] <= 2.5).all()
    assert lipschitz[["data", "perturbed_histogram"]].isna().all()
    assert (epsilon[["censor_w", "censor_uw", "perturbed_histogram"]] == 5).all()
    np.testing.assert_allclose(epsilon[["weighted", "weighted_e"]], 2 * lipschitz[["weighted", "weighted_e"]])
    assert table.loc["max_ecdf"].drop("data").between(0.001, 0.3).all() and table.loc["max_ecdf"].isna()["data"]
    assert "with ceil(sqrt(n)):" in text and "Records cut off or clamped" in text


@with_the_papers
def test_the_table_is_shaped_as_the_papers(frame):
    compared = compare_mechanisms(frame, "salary", "sex", bounds=(0, 1000), epsilon=5, seed=1)
    table, printed = outputs.side_by_side(compared), pd.read_csv(PRINTED / "censoring_table2_sdr.csv")
    assert table.columns.tolist() == printed.columns.tolist()
    assert table["measure"].tolist() == printed["measure"].tolist()
    assert table.isna().to_numpy().tolist() == printed.isna().to_numpy().tolist()


@pytest.mark.skipif(not CE.is_file(), reason="the sample of the Consumer Expenditure Survey is not here")
def test_spending_of_households():
    """Beta regression keeps differences between groups, the histogram does not.  ECDFs differ by less than 0.25."""
    ce = pd.read_csv(CE).iloc[::3]
    compared = compare_mechanisms(ce, "Expenditure", "Educ", bounds=(0, 150_000), epsilon=5, seed=2)
    table = outputs.side_by_side(compared).set_index("measure")
    assert table.loc["max_ecdf"].drop("data").max() < 0.25
    assert table.loc["max_ecdf", "perturbed_histogram"] == table.loc["max_ecdf"].max()
    educ = ce["Educ"].to_numpy()
    for name, made in compared.made.items():
        slope = stats.linregress(educ, made.values)
        assert (slope.slope / slope.stderr > 4) == (name not in HISTOGRAMS), name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": None}, "--outcome, --predictors, --bounds: only with --data"),
        ({"bounds": None}, "--data needs --bounds, too"),
        ({"epsilon": None, "outcome": None}, "--data needs --outcome, --epsilon, too"),
        ({"epsilon": "5,4"}, "--epsilon is one number"),
        ({"bounds": "0"}, "'--bounds': two numbers were expected"),
        ({"bounds": "0,much"}, "'--bounds': numbers were expected"),
        ({"bounds": "0,500"}, "outside the bounds in"),
        ({"replicates": "3"}, "--replicates: not with --data"),
        ({"outcome": "wages"}, "wages"),
    ],
    ids=str,
)
def test_what_ones_own_file_needs(change, words, run_cli, tmp_path):
    options = {name: value for name, value in (OWN | change).items() if value is not None}
    code, _, complaint = run_cli(*words_of(options))
    assert code == 2 and words in complaint and not (tmp_path / "side").exists()


def test_a_folder_that_is_there_is_left_alone(run_cli, tmp_path):
    (tmp_path / "side").mkdir()
    (tmp_path / "side" / "thesis.txt").write_text("mine")
    code, _, complaint = run_cli(*words_of(OWN))
    assert code == 2 and "exists" in complaint and [p.name for p in (tmp_path / "side").iterdir()] == ["thesis.txt"]


def test_missing_outcomes_are_named_by_row(frame):
    frame.loc[[3, 9], "salary"] = np.nan
    with pytest.raises(ss.InputError, match=r"'salary' is missing in 2 rows \(row numbers 4, 10;"):
        compare_mechanisms(frame, "salary", bounds=(0, 1000), epsilon=5)


@pytest.mark.slow
def test_the_study_from_the_command_line(run_cli, tmp_path):
    options = {"replicates": "1", "n": "200", "epsilon": "5", "c1": "1", "workers": "1", "seed": "1", "out": "study"}
    code, text, complaint = run_cli(*words_of(options))
    assert (code, complaint) == (0, "") and text.startswith("1 files of n = 200") and "Written: study" in text
    assert not list((tmp_path / "study").glob("downscaling_*"))
    assert run_cli(*words_of(options | {"n": "250"}))[0] == 2
