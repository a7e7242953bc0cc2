"""Columns derived on a design and on a release: what they are, what is refused, and what they do in tables."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from surveys import PSEUDO, make_design, model, population_model

import surveysynth as ss
from surveysynth import InputError

LINE = 18_000


def poor(frame):
    return frame.income < LINE


@pytest.fixture(scope="module")
def plain():
    return ss.synthesize(make_design(), model(), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO)


@pytest.fixture(scope="module")
def release(plain):
    return plain.assign(poor=poor, thousands=lambda f: f.income / 1000, one=lambda f: 1)


def where_poor(table, poor):
    """The one row of a table by the column ``poor``."""
    (found,) = (values for _, values in table.iterrows() if values["poor"] is poor)
    return found


def by_hand(values, frames, domain=lambda frame: slice(None)):
    """Weighted means of strata of elements, drawn with replacement: combined estimate and standard error."""
    q, u = [], []
    for frame in frames:
        y, inside = values(frame), np.zeros(len(frame), dtype=bool)
        inside[domain(frame)] = True
        w = np.where(inside, frame.wt, 0.0)
        mean = (w * y).sum() / w.sum()
        z = pd.Series(w * (y - mean) / w.sum())
        parts = z.groupby(frame.field.to_numpy())
        u.append(sum(len(part) * part.var(ddof=1) for _, part in parts))
        q.append(mean)
    return np.mean(q), np.sqrt(np.mean(u) + np.var(q, ddof=1) / len(q))


def test_derived_columns_are_in_every_data_set_and_nothing_else_changes(plain, release):
    for before, after in zip(plain.datasets, release.datasets, strict=True):
        pd.testing.assert_frame_equal(after.frame[[*before.frame]], before.frame)
        np.testing.assert_array_equal(after.frame.poor, before.frame.income < LINE)
        np.testing.assert_allclose(after.frame.thousands, before.frame.income / 1000)
        assert (after.frame.one == 1).all() and after.roles() == before.roles()
    assert release.privacy == plain.privacy and release.method == plain.method
    assert (release.outcomes, release.predictors) == (plain.outcomes, plain.predictors)
    assert "poor" not in plain.datasets[0].frame and plain.derived == {}


def test_one_derived_column_is_made_of_another(plain):
    made = plain.assign(poor=poor, rich=lambda f: ~f.poor)
    assert (made.datasets[1].frame.rich == (made.datasets[1].frame.income >= LINE)).all()


def test_the_share_of_a_derived_column_is_that_of_a_computation_by_hand(release):
    frames = [design.frame for design in release.datasets]
    table = release.tables("gender", outcome="poor")
    for gender in ("f", "m"):
        row = table[(table.gender == gender) & (table.category == "True")].iloc[0]
        domain = lambda frame, gender=gender: (frame.gender == gender).to_numpy()  # noqa: E731
        estimate, se = by_hand(lambda frame: (frame.income < LINE).to_numpy(dtype=float), frames, domain)
        assert (row.estimate, row.se) == pytest.approx((estimate, se), rel=1e-9)


def test_tables_by_a_derived_column(release):
    frames = [design.frame for design in release.datasets]
    table = release.tables("poor", outcome="thousands", statistic="mean")
    for value in (True, False):
        domain = lambda frame, value=value: ((frame.income < LINE) == value).to_numpy()  # noqa: E731
        expected = by_hand(lambda frame: (frame.income / 1000).to_numpy(), frames, domain)
        found = where_poor(table, value)
        assert (found["estimate"], found["se"]) == pytest.approx(expected, rel=1e-9)
        assert found["n"] == min(domain(frame).sum() for frame in frames)


def test_a_domain_that_some_data_sets_lack_is_there_and_has_no_mean(plain):
    richest = [design.frame.income.max() for design in plain.datasets]
    line = np.sort(richest)[-2] + 1  # one data set has a record above
    table = plain.assign(top=lambda f: f.income > line).tables("top", statistic=["count", "mean"])
    top = table[table.top == True]  # noqa: E712
    assert top["n"].tolist() == [0, 0] and np.isnan(top["estimate"].iloc[1]) and top["estimate"].iloc[0] > 0


def test_differences_regressions_and_figures_have_derived_columns(release, tmp_path):
    frames = [design.frame for design in release.datasets]
    row = release.differences({"gender": ("m", "f")}, outcome="thousands").iloc[0]
    means = [[np.average(f.income / 1000, weights=f.wt * (f.gender == g)) for f in frames] for g in ("m", "f")]
    assert row.estimate == pytest.approx(np.mean(means[0]) - np.mean(means[1]))
    split = release.differences({"poor": (True, False)}, outcome="thousands").iloc[0]
    table = release.tables("poor", outcome="thousands", statistic="mean")
    assert split.estimate == pytest.approx(where_poor(table, True)["estimate"] - where_poor(table, False)["estimate"])
    shares = release.differences({"gender": ("m", "f")}, outcome="poor", statistic="proportion")
    assert shares["category"].tolist() == ["False", "True"]
    slope = release.regression("thousands ~ gender").table
    assert slope["estimate"].iloc[1] == pytest.approx(row.estimate)  # one dummy is a difference of means
    assert release.regression("poor ~ gender", "binomial").table["estimate"].notna().all()
    assert release.plot(tmp_path / "a.svg", "gender", outcome="poor").exists()
    text = release.write_tables(tmp_path / "a.md", "gender", outcome="poor").read_text()
    assert "poor: share of “True”, in percent" in text


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_written_release_has_its_derived_columns_and_says_so(release, format, tmp_path):
    banded = release.assign(band=lambda f: pd.cut(f.income, [0, LINE, np.inf], labels=["low", "high"]))
    banded.write(tmp_path / "r", format=format, by="band")
    back = ss.read_release(tmp_path / "r")
    assert list(back.derived) == ["poor", "thousands", "one", "band"]
    for one, other in zip(banded.datasets, back.datasets, strict=True):
        pd.testing.assert_frame_equal(one.frame, other.frame, check_exact=True)
    pd.testing.assert_frame_equal(banded.tables("band", outcome="poor"), back.tables("band", outcome="poor"))
    said = banded.manifest()
    assert said["derived"] == ["poor", "thousands", "one", "band"] and said["synthesized"] == ["income"]
    assert said["public_predictors"] == ["field", "gender"]
    assert "Derived from these columns: poor, thousands, one, band." in (tmp_path / "r/public/report.txt").read_text()
    again = back.assign(rich=lambda f: ~f.poor)
    assert again.tables("rich")["n"].notna().all()


def test_without_derived_columns_the_manifest_and_report_are_as_they_were(plain, tmp_path):
    plain.write(tmp_path / "r")
    assert "derived" not in plain.manifest()
    assert "Derived" not in (tmp_path / "r/public/report.txt").read_text()


def test_counts_of_fbp_by_a_derived_column_come_from_its_weights_for_counts():
    release = ss.synthesize(make_design(), population_model(), epsilon=10.8, m=2, seed=1, mechanism=PSEUDO)
    table = release.assign(poor=poor).tables("poor", statistic="count")
    sums = [(f.income < LINE) @ f[release.count_roles["weights"]] for f in (d.frame for d in release.datasets)]
    assert where_poor(table, True)["estimate"] == pytest.approx(np.mean(sums)) and where_poor(table, True)["se"] > 0


def test_the_noise_of_tables_moves_derived_columns_too():
    """The share below a line, by hand: u + b / m, and its variance over data sets that other noise would have made."""
    asked = {"epsilon": 1, "bounds": (0, 1e6), "population_total": 20_000, "m": 4, "seed": 1}
    release = ss.synthesize(make_design(), "income ~ gender", **asked)
    made = release.assign(poor=poor, low=lambda f: np.where(f.income < LINE, 1.0, 0.0))
    again = [np.average(d.frame.income < LINE, weights=d.weights) for d in release.redrawn]
    base = by_hand(lambda f: (f.income < LINE).to_numpy(dtype=float), [d.frame for d in release.datasets])[1]
    assert np.var(again) > 0
    expected = np.sqrt(base**2 + np.var(again, ddof=1))
    assert made.tables(outcome="low", statistic="mean")["se"].iloc[0] == pytest.approx(expected)
    assert made.differences({"poor": (True, False)})["se"].iloc[0] > 0
    unknown = replace(made, derived=dict.fromkeys(made.derived))
    with pytest.raises(InputError, match="standard errors need the function of 'low'"):
        unknown.tables(outcome="low")
    assert unknown.tables("gender")["se"].notna().all()


REFUSED = {
    "no function": (5, "new must be a function of the frame"),
    "an array of its own": (np.arange(400.0), "new must be a function"),
    "too few values": (lambda f: f.income[:3], "gave 3 values for 400 records"),
    "a table": (lambda f: f[["income"]], "one value a record, not DataFrame"),
    "another order": (lambda f: f.income.sort_values(), "in another order"),
    "a mean": (lambda f: f.income.mean(), "not row-wise"),
    "against the mean": (lambda f: f.income < f.income.mean(), "not row-wise"),
    "the row's number": (lambda f: f.index, "not row-wise"),
    "the previous row": (lambda f: f.income.shift(), "not row-wise"),
    "a rank": (lambda f: f.income.rank(), "not row-wise"),
    "values from elsewhere": (lambda f: np.random.default_rng(0).normal(size=len(f)), "not row-wise"),
    "an unknown column": (lambda f: f.incom, "stopped with AttributeError; the file has .*income"),
    "lists": (lambda f: [[x] for x in f.income], "one value a record|lists"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_row_wise_function_is_refused(plain, case):
    function, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        plain.assign(new=function)
    with pytest.raises(InputError, match=message):
        make_design().assign(new=function)


@pytest.mark.parametrize("name", ["income", "gender", "wt", "field", "poor"])
def test_a_name_that_is_taken_is_refused(release, name):
    with pytest.raises(InputError, match=f"a column '{name}' already"):
        release.assign(**{name: poor})


def test_messages_hold_no_value(release):
    with pytest.raises(InputError) as error:
        release.datasets[0].assign(x=lambda f: f.gender.astype(float))
    assert "'f'" not in str(error.value) and "ValueError" in str(error.value)
    assert error.value.__context__ is None


def test_a_copy_has_the_columns_without_their_functions(release):
    for other in (pickle.loads(pickle.dumps(release)), copy.deepcopy(release)):
        assert other.derived == dict.fromkeys(["poor", "thousands", "one"])
        pd.testing.assert_frame_equal(other.tables("gender", outcome="poor"), release.tables("gender", outcome="poor"))


def test_totals_of_derived_columns_are_refused(release):
    with pytest.raises(InputError, match="'poor' was derived: calibrate before assign"):
        release.calibrate({"poor": {True: 10.0, False: 20.0}})


def test_categories_that_differ_between_data_sets_are_refused(plain):
    top = sorted(design.frame.income.max() for design in plain.datasets)[-2] + 1
    with pytest.raises(InputError, match="has other categories in some of the data sets"):
        plain.assign(a=lambda f: pd.Categorical(np.where(f.income > top, "top", "rest")))


def test_a_design_with_replicates_keeps_them():
    design = make_design(strata=None).replicates(R=20, seed=1)
    made = design.assign(thousands=lambda f: f.income / 1000)
    one, other = ss.estimate(design, "income"), ss.estimate(made, "thousands")
    assert other["se"][0] == pytest.approx(one["se"][0] / 1000) and other.attrs["estimator"] == "replicates"
