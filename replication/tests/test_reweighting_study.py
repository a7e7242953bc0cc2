"""The study of re-weighting: intervals by enumeration, weights by scipy, printed numbers, stops, own files."""

import itertools
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import surveysynth as ss
from replication.reweighting import bench, inputs, outputs
from replication.reweighting import study as reweighting
from replication.reweighting.__main__ import reweighting_command
from replication.reweighting.study import compare_weightings, reweighting_study
from surveysynth.privacy.budget import Budget
from tests.conftest import looks_like_a_figure, words_of

PRINTED = Path(__file__).resolve().parents[3] / "shared" / "paper_tables" / "reweighting_table1_nb_mixture_ci95.csv"
SMALL = {"replicates": 2, "n": 200, "epsilon": (6,), "sizes": (200, 300), "curves": 1, "seed": 3}
STATISTICS = ["q15", "q90", "mean", "median"]
FILE, SHARE, CURVE = 7 + 3, 3 * 2 * 2, 6  # fits: both kinds of counts; weights, rules, sizes; weights, epsilon

with_the_papers = pytest.mark.skipif(not PRINTED.is_file(), reason="the printed table is not here")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A small study, its folder and the files written there."""
    out = tmp_path_factory.mktemp("reweighting") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reweighting, "SDR_DELTA", (1.8,))
        study = reweighting_study(out=out, **SMALL)
    return study, out, outputs.write(study, out)


# intervals


def test_intervals_are_those_of_every_resample():
    """Each tail beyond an interval has 2.5% of all 5^5 resamples, within the error of 40,000 random resamples."""
    y, R = np.array([3.0, 0.0, 4.0, 4.0, 9.0]), 40_000
    resamples = np.array(list(itertools.product(y, repeat=y.size)))
    found = bench.interval(y, np.random.default_rng(1), R)
    exact = {"mean": resamples.mean(axis=1)}
    exact |= {name: np.quantile(resamples, p, axis=1) for name, p in (("q15", 0.15), ("q90", 0.9), ("median", 0.5))}
    assert list(found) == [f"{name}_{end}" for name in STATISTICS for end in ("low", "high")]
    for (name, values), (end, p) in itertools.product(exact.items(), (("low", 0.025), ("high", 0.975))):
        at, error = found[f"{name}_{end}"], 4 * np.sqrt(0.025 * 0.975 / R)
        assert np.mean(values < at - 1e-9) <= p + error and np.mean(values <= at + 1e-9) >= p - error, (name, end)


values = st.lists(st.integers(0, 40), min_size=1, max_size=25)


@given(values, st.randoms(use_true_random=False), st.integers(1, 5), st.integers(-9, 9))
def test_intervals_know_neither_order_nor_unit(y, random, scale, shift):
    found = bench.interval(np.array(y, dtype=float), np.random.default_rng(2), 50)
    shuffled = np.array(random.sample(y, len(y)), dtype=float)
    moved = bench.interval(scale * shuffled + shift, np.random.default_rng(2), 50)
    np.testing.assert_allclose(list(moved.values()), scale * np.array(list(found.values())) + shift, atol=1e-9)


def test_intervals_of_many_values_are_those_of_the_normal():
    """The bootstrap interval of a mean is mean +- 1.96 se, within the error of quantiles of 2,000 normal values."""
    y, R = np.random.default_rng(3).normal(5, 2, 6000), 2000
    found, se = bench.interval(y, np.random.default_rng(4), R), y.std() / np.sqrt(y.size)
    error = 4 * np.sqrt(0.025 * 0.975 / R) / stats.norm.pdf(1.96)
    assert abs((found["mean_low"] - y.mean()) / se + 1.96) < error
    assert abs((found["mean_high"] - y.mean()) / se - 1.96) < error


def test_true_values_are_those_of_r(r):
    text = "f <- function(x) 0.2 * pnbinom(x, size = 5, mu = 100) + 0.8 * pnbinom(x, size = 20, mu = 100)"
    in_r = r.r(f"{text}; sapply(c(0.5, 0.15, 0.9), function(p) which(f(0:2000) >= p)[1] - 1)")
    assert list(inputs.truth("nb_mixture").values()) == [100, *in_r]
    assert list(inputs.truth("poisson").values()) == [100, *r.r("qpois(c(0.5, 0.15, 0.9), 100)")]


# weights


@pytest.fixture(scope="module")
def file():
    return inputs.drawn("nb_mixture", 300, 7)


def largest(file, fitted):
    """Return the largest absolute log likelihood of every record over the posterior draws, by scipy."""
    draws = fitted.posterior.values
    mu, phi = np.exp(draws["b"][:, :1]), draws["phi"][:, None]
    return np.abs(stats.nbinom.logpmf(file.values, phi, phi / (phi + mu))).max(axis=0)


def test_weights_before_re_weighting_are_those_of_the_algorithms(file):
    """Weights are those of Algorithms 2 and 3 of Hu, Savitsky & Williams (2020) with c = 1 and g = 0."""
    y, f = file.values, largest(file, file.fitted("unweighted"))
    lw, cw = file.fitted("LW"), file.fitted("CW")
    np.testing.assert_allclose(lw.alpha, (f.max() - f) / (f.max() - f.min()), atol=1e-9)
    outside = (np.abs(y[:, None] - y) > 0.2 * y[:, None] + 1e-9).mean(axis=1)
    np.testing.assert_allclose(cw.alpha, 1 - outside, atol=1e-12)
    for fitted in (lw, cw):
        np.testing.assert_allclose(fitted.bounds, fitted.alpha * largest(file, fitted), rtol=1e-6)
        assert fitted.delta == fitted.bounds.max() and fitted.steps == 0


@pytest.mark.slow
def test_one_step_is_the_algorithm_of_the_paper(file):
    """Re-weighted weights follow eq. 2.1 of Hu, Savitsky & Williams (2020), with maximum 1.  Weights of 0 remain 0."""
    for risk in ("LW", "CW"):
        first, final = file.fitted(risk), file.fitted(f"{risk}_final")
        some = first.alpha > 0
        raised = final.k * first.alpha[some] * first.delta / first.bounds[some]
        np.testing.assert_allclose(final.alpha[some], np.minimum(raised, 1), rtol=1e-9)
        assert final.steps == 1 and (final.alpha[~some] == 0).all()
        assert 0.9 * first.delta < final.delta <= first.delta and final.alpha.sum() > first.alpha.sum()


@pytest.mark.slow
def test_the_curve_spends_what_it_is_given(file):
    for name in reweighting.ON_THE_CURVE:
        fitted = file.fitted(name, Budget(6.0, 1))
        assert 2.9 < fitted.delta <= 3.0, name
    f, inverse = largest(file, file.fitted("unweighted")), file.fitted("inverse", Budget(6.0, 1))
    np.testing.assert_allclose(inverse.alpha, np.minimum(1, inverse.c1 * 3 / f), rtol=1e-9)


def test_synthetic_files_come_from_their_draws(file):
    """Mean and variance of 40 files are within four standard errors of those of the negative binomial distribution."""
    made = file.synthetic(file.fitted("unweighted"), 40)
    expected = np.mean([draw["mu"] for _, draw in made])
    variance = np.mean([draw["mu"] + draw["mu"] ** 2 / draw["phi"] for _, draw in made])
    y = np.concatenate([values for values, _ in made])
    assert len({draw["mu"] for _, draw in made}) == 40 and (y == y.round()).all()
    assert abs(y.mean() - expected) < 4 * np.sqrt(variance / y.size)
    assert abs(y.var() / variance - 1) < 4 * np.sqrt((stats.kurtosis(y) + 2) / y.size)


# the study


@pytest.mark.slow
def test_every_sample_gets_every_fit(written):
    bounds = written[0].bounds
    found = bounds.groupby(["replicate", "part"]).size().to_dict()
    assert found == {(1, "file"): FILE, (1, "share"): SHARE, (1, "curve"): CURVE, (1, "sdr"): 5, (2, "file"): FILE}
    assert written[0].failures.empty
    files = written[0].files[written[0].files["epsilon"].isna()]
    assert files.groupby(["replicate", "data", "synthesizer"]).size().drop("data", level=2).eq(20).all()


@pytest.mark.slow
def test_re_weighting_never_raises_the_bound(written):
    bounds = written[0].bounds.assign(risk=lambda t: t["synthesizer"].str.partition("_")[0])
    keys = ["replicate", "part", "data", "n", "epsilon", "risk"]
    first = bounds[bounds["risk"] == bounds["synthesizer"]].set_index(keys)["lipschitz"]
    after = bounds[bounds["risk"] != bounds["synthesizer"]]
    assert (after["lipschitz"].to_numpy() <= first.loc[list(zip(*(after[k] for k in keys), strict=True))]).all()
    tuned = bounds[bounds["part"].isin(["curve", "share"]) & bounds["epsilon"].notna()]
    assert (2 * tuned["lipschitz"] <= tuned["epsilon"]).all()
    sdr = bounds[bounds["part"] == "sdr"]
    assert (2 * reweighting.SDR_M * sdr["lipschitz"] <= sdr["epsilon"]).all()


@pytest.mark.slow
def test_columns_of_every_file(written):
    _, out, files = written
    fits = ["lipschitz", "k", "steps", "flatness", "weighted_down", "mean_alpha", "diagnostics"]
    keys, ecdf = ["replicate", "data", "synthesizer"], ["max_ecdf", "avg_ecdf"]
    columns = {
        "table1": ["statistic", "synthesizer", "low", "high", "paper_low", "paper_high"],
        "bounds": [*keys, *fits],
        "weights": ["data", "synthesizer", "record", "value", "alpha", "bound"],
        "utility": [*keys, *ecdf, *STATISTICS, "mu", "phi"],
        "share": ["rule", "n", "synthesizer", "replicates", "weighted_down", "lipschitz", "spread", "sd"],
        "curve": ["epsilon", "synthesizer", "statistic", "rmse_ratio", "overlap", "lipschitz", "mean_alpha",
                  "weighted_down", "replicates"],
        "sdr": ["epsilon", "synthesizer", "statistic", "rmse_ratio", "overlap", "length_ratio", "coverage",
                "lipschitz", "mean_alpha", "weighted_down", "flatness", "replicates"],
        "failures": ["replicate", "part", "data", "n", "epsilon", "synthesizer", "error", "reason"],
    }  # fmt: skip
    assert {name: list(pd.read_csv(out / f"{name}.csv")) for name in columns} == columns
    figures = ["bounds_before", "bounds_weights", "before_after", "weights", "utility", "curve"]
    figures += [f"{what}_{data}" for what in ("local_bounds", "estimands") for data in ("poisson", "nb")]
    assert {p.name for p in files} == {f"{t}.csv" for t in columns} | {f"{f}.png" for f in figures} | {"summary.txt"}
    for name in figures:
        looks_like_a_figure(out / f"{name}.png")
    assert len(pd.read_csv(out / "weights.csv")) == 200 * FILE
    text = (out / "summary.txt").read_text()
    for words in ("2 files of n = 200", "NB(100, 5) twice", "does not say what its interval is over", "which is not 0"):
        assert words in text
    assert text.endswith("Failures: none.\n")


@pytest.mark.slow
def test_the_first_table_has_the_papers_rows(written):
    """Interval ends are means over files and replicates.  Published ends are missing, as the sample size differs."""
    study = written[0]
    table = outputs.table1(study)
    names = ["data", "LW", "LW_final", "CW", "CW_final", "LW_flat", "CW_flat"]
    order = list(itertools.product(STATISTICS, names))
    assert list(zip(table["statistic"], table["synthesizer"], strict=True)) == order
    files = study.files.query("data == 'nb_mixture' and synthesizer == 'CW' and epsilon.isna()")
    row = table.set_index(["statistic", "synthesizer"]).loc["q90", "CW"]
    assert (row["low"], row["high"]) == pytest.approx((files["q90_low"].mean(), files["q90_high"].mean()))
    assert table["paper_low"].isna().all()


@pytest.mark.slow
@with_the_papers
def test_the_papers_figures_stand_beside(written):
    study, printed = written[0], pd.read_csv(PRINTED).set_index("statistic")
    study = type(study)(**vars(study) | {"settings": study.settings | {"n": 1000}})
    for row in outputs.table1(study).to_dict("records"):
        if row["synthesizer"].endswith("flat"):
            assert np.isnan([row["paper_low"], row["paper_high"]]).all()
        else:
            here = printed.loc[row["statistic"]]
            ends = [here[f"{row['synthesizer'].lower()}_{end}"] for end in ("low", "high")]
            assert [row["paper_low"], row["paper_high"]] == ends


@pytest.mark.slow
def test_the_curve_compares_with_the_confidential_file(written):
    """RMSE ratio and interval overlap of one statistic equal those computed by hand."""
    study = written[0]
    files = study.files.query("data == 'nb_mixture' and replicate == 1")
    own = files[files["synthesizer"] == "data"].iloc[0]
    here = files[(files["synthesizer"] == "CW") & (files["epsilon"] == 6)]
    true = inputs.truth("nb_mixture")["q15"]
    row = outputs.curve(study).set_index(["epsilon", "synthesizer", "statistic"]).loc[6, "CW", "q15"]
    assert row["rmse_ratio"] == pytest.approx(np.sqrt(((here["q15"] - true) ** 2).mean()) / abs(own["q15"] - true))
    shared = here["q15_high"].clip(upper=own["q15_high"]) - here["q15_low"].clip(lower=own["q15_low"])
    lengths = here["q15_high"] - here["q15_low"], own["q15_high"] - own["q15_low"]
    assert row["overlap"] == pytest.approx(np.mean([shared / length for length in lengths]))


@pytest.mark.slow
def test_a_stopped_study_goes_on_and_ends_the_same(written, tmp_path):
    study, out, _ = written
    shutil.copytree(out, tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "replicates" / "00002")
    kept = (tmp_path / "out" / "replicates" / "00001" / "run.json").stat().st_mtime_ns
    again = reweighting_study(out=tmp_path / "out", **{k: v for k, v in SMALL.items() if k != "seed"})
    for name in ("bounds", "files", "records", "estimates"):
        pd.testing.assert_frame_equal(getattr(again, name), getattr(study, name), check_exact=True)
    assert (tmp_path / "out" / "replicates" / "00001" / "run.json").stat().st_mtime_ns == kept
    assert sorted(os.listdir(tmp_path / "out" / "replicates")) == ["00001", "00002"]


@pytest.mark.slow
def test_a_folder_of_another_study_is_refused(written):
    with pytest.raises(ss.InputError, match=r"other settings \(sizes\)"):
        reweighting_study(out=written[1], **SMALL | {"sizes": (400,)})


@pytest.mark.slow
def test_what_fails_is_recorded_and_the_others_go_on(monkeypatch):
    def fails(*_, **settings):
        raise ss.PrivacyError("no such weights")

    monkeypatch.setitem(bench.MECHANISMS, "inverse", SimpleNamespace(fit=fails))
    found = bench.Found(1)
    found.add(inputs.drawn("nb_mixture", 100, 1), "nb_mixture", ("inverse", "LW"), "curve", 8.0, size=1)
    assert [row["synthesizer"] for row in found.bounds] == ["LW"] and len(found.files) == 1
    assert found.failures[0]["error"] == "PrivacyError" and found.failures[0]["synthesizer"] == "inverse"


@pytest.mark.slow
def test_where_a_fit_fails_nothing_else_goes_by_its_name(monkeypatch):
    """In the samples of doctorate holders, re-weighting fails if the first fit fails."""
    whole = reweighting.fit

    def fails(design, model, *, mechanism, **settings):
        if mechanism.map == "linear":
            raise ss.PrivacyError("no such weights")
        return whole(design, model, mechanism=mechanism, **settings)

    monkeypatch.setattr(reweighting, "fit", fails)
    found = bench.Found(1)
    table = reweighting._on_sdr(found, reweighting.sdr(), 1)
    assert {row["synthesizer"] for row in found.bounds} == {"inverse", "inverse_debias"}
    assert {row["synthesizer"] for row in found.failures} == {"LW", "LW_final", "LW_flat"}
    assert set(table["method"]) == {"confidential", "inverse", "inverse_debias"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"replicates": 0}, "replicates must be a whole number"),
        ({"n": 2.5}, "n must be a whole number"),
        ({"epsilon": ()}, "epsilon is empty"),
        ({"epsilon": (0,)}, "epsilon must be a positive number"),
        ({"sizes": ()}, "sizes is empty"),
        ({"sizes": (10.5,)}, "sizes must be a whole number"),
        ({"curves": 0}, "curves must be a whole number"),
        ({"workers": 0}, "workers must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_before_any_work(settings, words, tmp_path):
    with pytest.raises(ss.InputError, match=words):
        reweighting_study(out=tmp_path / "out", **SMALL | settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.reference
@with_the_papers
def test_the_papers_table_comes_out():
    """Mean intervals of 20 files are within four standard errors of the published intervals, which are of one file.

    Statistics of a synthetic file vary with its records and with the confidential file: the variance is doubled.
    """
    study = reweighting_study(replicates=20, epsilon=(10,), sizes=(500,), curves=1, workers=2, seed=1)
    for row in outputs.table1(study).dropna().to_dict("records"):
        se = (row["paper_high"] - row["paper_low"]) / (2 * 1.96)
        difference = (row["low"] + row["high"] - row["paper_low"] - row["paper_high"]) / 2
        assert abs(difference) < 4 * np.sqrt(2) * se, (row["statistic"], row["synthesizer"])
    bounds = study.bounds[study.bounds["part"] == "file"].groupby(["data", "synthesizer"])["lipschitz"]
    for data, printed in (("nb_mixture", 6), ("poisson", 3.5)):  # read from the figures of appendix D of the paper
        mean, sd = bounds.mean()[data, "LW_final"], bounds.std()[data, "LW_final"]
        assert abs(mean - printed) < 4 * sd / np.sqrt(20), data


# one's own file


@pytest.fixture
def frame():
    """400 records with numbers of visits, which increase with age and are often 0."""
    rng = np.random.default_rng(5)
    age = rng.integers(20, 70, 400)
    visits = rng.poisson(rng.gamma(1, np.exp(0.02 * (age - 20))))
    return pd.DataFrame({"visits": visits, "age": age, "weight_0": 7})


OWN = {"data": "f.csv", "outcome": "visits", "predictors": "age", "seed": "1", "out": "side"}


COMMAND = reweighting_command


@pytest.fixture
def run_cli(run_cli, frame):
    """A function that runs the command in a folder with a data file."""
    frame.to_csv("f.csv", index=False)
    return run_cli


@pytest.mark.slow
def test_weightings_on_ones_own_file(run_cli, frame, tmp_path):
    code, text, complaint = run_cli(*words_of(OWN))
    assert (code, complaint) == (0, "") and text.startswith("NOT FOR PUBLICATION")
    folder = tmp_path / "side"
    assert folder.stat().st_mode & 0o777 == 0o700
    figures = {"bounds_before.png", "bounds_weights.png", "before_after.png", "weights.png", "utility.png"}
    files = {p.name for p in folder.iterdir()}
    assert files == {"NOT-FOR-PUBLICATION.txt", "summary.txt", "table.csv"} | figures
    for name in figures:
        looks_like_a_figure(folder / name)
    table = pd.read_csv(folder / "table.csv").set_index("synthesizer")
    assert table.index.tolist() == ["data", *bench.SYNTHESIZERS]
    np.testing.assert_allclose(
        table.loc["data", ["mean", "median", "q15", "q90"]].astype(float),
        [frame["visits"].mean(), *np.quantile(frame["visits"], [0.5, 0.15, 0.9])], rtol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(table["epsilon"].iloc[1:], 2 * table["lipschitz"].iloc[1:])
    for risk in ("LW", "CW"):
        assert (table.loc[[f"{risk}_final", f"{risk}_flat"], "lipschitz"] <= table.at[risk, "lipschitz"]).all()
        assert table.at[f"{risk}_final", "mean_alpha"] >= table.at[risk, "mean_alpha"]


@pytest.mark.slow
def test_money_in_whole_dollars_with_zeros():
    """The mean of a negative binomial model of salaries is that of the file, within four posterior deviations."""
    rng = np.random.default_rng(8)
    salary = np.where(rng.random(300) < 0.02, 0, 1000 * np.exp(rng.normal(4.5, 0.5, 300))).round()
    compared = compare_weightings(pd.DataFrame({"salary": salary}), "salary", seed=2)
    fits = compared.bounds.set_index("synthesizer")
    mu = fits.at["unweighted", "mu"]
    assert abs(mu / salary.mean() - 1) < 4 * np.sqrt((1 / mu + 1 / fits.at["unweighted", "phi"]) / 300)
    assert (fits.loc[["CW_final", "CW_flat"], "lipschitz"] <= fits.at["CW", "lipschitz"]).all()
    assert fits.at["CW_flat", "mean_alpha"] >= fits.at["CW_final", "mean_alpha"] > fits.at["CW", "mean_alpha"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": None}, "--outcome, --predictors: only with --data"),
        ({"outcome": None}, "--data needs --outcome, too"),
        ({"replicates": "3", "sizes": "500"}, "--replicates, --sizes: not with --data"),
        ({"outcome": "wages"}, "wages"),
    ],
    ids=str,
)
def test_what_ones_own_file_needs(change, words, run_cli, tmp_path):
    options = {name: value for name, value in (OWN | change).items() if value is not None}
    code, _, complaint = run_cli(*words_of(options))
    assert code == 2 and words in complaint and not (tmp_path / "side").exists()


@pytest.mark.parametrize("bad", [271.5, -271, np.nan], ids=str)
def test_bad_counts_are_named_by_row_and_never_shown(bad, frame):
    frame = frame.astype({"visits": float})
    frame.loc[[3, 9], "visits"] = bad
    with pytest.raises(ss.InputError, match=r"'visits'.* 2 rows \(row numbers 4, 10;") as caught:
        compare_weightings(frame, "visits")
    assert "271" not in str(caught.value)


def test_a_folder_that_is_there_is_left_alone(run_cli, tmp_path):
    (tmp_path / "side").mkdir()
    (tmp_path / "side" / "thesis.txt").write_text("mine")
    code, _, complaint = run_cli(*words_of(OWN))
    assert code == 2 and "exists" in complaint and [p.name for p in (tmp_path / "side").iterdir()] == ["thesis.txt"]


@pytest.mark.slow
def test_the_study_from_the_command_line(written, run_cli, tmp_path):
    """The command continues from a folder with all replicates, and writes the same files."""
    shutil.copytree(written[1], tmp_path / "study")
    (tmp_path / "study" / "summary.txt").unlink()
    options = {"replicates": "2", "n": "200", "epsilon": "6", "sizes": "200,300", "curves": "1", "workers": "1"}
    code, text, complaint = run_cli(*words_of(options | {"out": "study"}))
    assert (code, complaint) == (0, "") and text.startswith("2 files of n = 200") and "Written: study" in text
    assert (tmp_path / "study" / "summary.txt").read_text() == (written[1] / "summary.txt").read_text()
    assert run_cli(*words_of(options | {"n": "250", "out": "study"}))[0] == 2
    assert "'--sizes': numbers were expected" in run_cli(*words_of(options | {"sizes": "many", "out": "other"}))[2]
