"""The tidy frame: which rows, in which order, under which labels, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from surveysynth import InputError, SurveyDesign, difference, estimate
from surveysynth.estimation import estimators
from surveysynth.estimation.tables import partitions_of, tabulate

COLUMNS = ["statistic", "outcome", "estimate", "se", "df", "ci_low", "ci_high", "n"]


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "w": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            "h": [0, 0, 0, 1, 1, 1],
            "y": [10.0, 20.0, 30.0, 40.0, 50.0, 60.0],
            "z": [1, 0, 1, 0, 1, 0],
            "sex": ["m", "f", "m", "f", "m", "m"],
            "age": [30, 4, 30, 200, 30, 4],
            "pay": [71001.5, np.nan, 71003.5, 71004.5, np.nan, 71006.5],
        }
    )


def design(frame, **roles):
    return SurveyDesign(frame, **({"weights": "w", "strata": "h"} | roles))


def test_rows_columns_labels_and_order(frame):
    table = estimate(design(frame), ["y", "z"], ["sex", "age"], ["total", "count"])
    assert table.columns.tolist() == ["sex", "age", *COLUMNS]
    cells = [("f", 4), ("f", 200), ("m", 4), ("m", 30)]  # ("f", 30), ("m", 200): nobody, and so no rows
    margins = [("f", "all"), ("m", "all"), ("all", 4), ("all", 30), ("all", 200), ("all", "all")]
    domains = cells + margins
    assert list(table[["sex", "age"]].itertuples(index=False, name=None)) == domains * 3
    assert table["statistic"].tolist() == ["total"] * 20 + ["count"] * 10
    assert table["outcome"].tolist() == ["y"] * 10 + ["z"] * 10 + [""] * 10
    assert table.index.tolist() == list(range(30))
    assert table["n"].tolist() == [1, 1, 1, 3, 2, 4, 2, 3, 1, 6] * 3
    # totals of y, of z, and counts, by hand
    assert table["estimate"].tolist() == [
        40, 160, 360, 10 + 90 + 250, 200, 710, 400, 350, 160, 910,
        0, 0, 0, 9, 0, 9, 0, 9, 0, 9,
        2, 4, 6, 9, 6, 15, 8, 9, 4, 21,
    ]  # fmt: skip
    # PSUs less strata that hold somebody: two strata of three records, each its own PSU
    assert table["df"].tolist() == [0, 0, 0, 1, 0, 2, 0, 1, 0, 4] * 3
    assert table[["estimate", "se", "df", "ci_low", "ci_high"]].dtypes.eq("float64").all()


def test_cells_without_records_have_rows_on_request(frame):
    frame["size"] = pd.Categorical(["low", "high"] * 3, categories=["low", "unused", "high"], ordered=True)
    survey = design(frame)
    few = estimate(survey, "y", ["size", "sex"], ["mean", "total", "count"])
    every = estimate(survey, "y", ["size", "sex"], ["mean", "total", "count"], empty=True)
    pairs = [(a, b) for a in ("low", "unused", "high") for b in ("f", "m")]
    margins = [("low", "all"), ("unused", "all"), ("high", "all"), ("all", "f"), ("all", "m"), ("all", "all")]
    assert list(every[["size", "sex"]].itertuples(index=False, name=None)) == (pairs + margins) * 3
    there, nobody = every[every["n"] > 0].reset_index(drop=True), every[every["n"] == 0]
    pd.testing.assert_frame_equal(there, few)
    assert list(nobody[["size", "sex"]].itertuples(index=False, name=None)) == [
        ("low", "f"), ("unused", "f"), ("unused", "m"), ("unused", "all")
    ] * 3  # fmt: skip
    assert nobody.loc[nobody["statistic"] == "mean", "estimate"].isna().all()
    assert (nobody.loc[nobody["statistic"] != "mean", "estimate"] == 0).all()
    assert nobody[["ci_low", "ci_high"]].isna().all(axis=None) and (nobody["df"] == 0).all()


def test_categories_without_records_have_shares_on_request(frame):
    frame["size"] = pd.Categorical(["low", "high"] * 3, categories=["low", "unused", "high"], ordered=True)
    few, every = (estimate(design(frame), "size", "h", "proportion", empty=empty) for empty in (False, True))
    assert few["category"].unique().tolist() == ["low", "high"]
    assert every["category"].unique().tolist() == ["low", "unused", "high"]
    unused = every["category"] == "unused"
    pd.testing.assert_frame_equal(every[~unused].reset_index(drop=True), few)
    assert (every.loc[unused, "estimate"] == 0).all() and (every.loc[unused, "n"] == [3, 3, 6]).all()


@pytest.mark.parametrize("by", [None, [], ()])
def test_without_by_there_is_the_whole_population(frame, by):
    table = estimate(design(frame), "y", by)
    assert table.columns.tolist() == COLUMNS
    assert table[["statistic", "outcome", "n"]].values.tolist() == [["mean", "y", 6]]
    np.testing.assert_allclose(table["estimate"], 910 / 21, rtol=1e-15)


def test_counts_need_no_outcome(frame):
    table = estimate(design(frame), statistic="count", by="sex")
    assert table["estimate"].tolist() == [6, 15, 21] and table["outcome"].tolist() == ["", "", ""]


ORDERED = pd.CategoricalDtype(["low", "unused", "high", "top"], ordered=True)
UNORDERED = pd.CategoricalDtype(["low", "unused", "high", "top"])


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["top", "low", "high", "low", "top", "low"], ["high", "low", "top"]),
        (pd.Series(["top", "low", "high", "low", "top", "low"], dtype=object), ["high", "low", "top"]),
        (pd.Series(["top", "low", "high", "low", "top", "low"], dtype=ORDERED), ["low", "high", "top"]),
        (pd.Series(["top", "low", "high", "low", "top", "low"], dtype=UNORDERED), ["low", "high", "top"]),
        (pd.Series([True, False] * 3), [False, True]),
        (pd.Series([True, False] * 3, dtype="boolean"), [False, True]),
        (np.array([10, 9, 10, 9, -1, 9], dtype=np.int8), [-1, 9, 10]),
        (pd.Series([10, 9, 10, 9, 1, 9], dtype="Int64"), [1, 9, 10]),
        (np.array([1.5, 0.5] * 3, dtype=np.float32), [0.5, 1.5]),
        (pd.Series([1, "b", 1, "b", "a", 2], dtype=object), [1, 2, "a", "b"]),
        (pd.to_datetime(["2020-01-02", "2020-01-01"] * 3), [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02")]),
        (pd.cut(pd.Series([1, 5, 1, 5, 1, 5]), [0, 2, 6]), [pd.Interval(0, 2), pd.Interval(2, 6)]),
        (["only"] * 6, ["only"]),
    ],
)
def test_by_columns_of_every_type(frame, values, labels):
    frame["g"] = values
    table = estimate(design(frame), by="g", statistic="count")
    assert table["g"].tolist() == [*labels, "all"]
    expected = [frame.loc[(frame["g"] == label).to_numpy(dtype=bool), "w"].sum() for label in labels]
    assert table["estimate"].tolist() == [*expected, 21]


REFUSED = [
    ({"by": "region"}, ["no column 'region'", "w, h, y"]),
    ({"by": ["sex", "sex"]}, ["by names a column twice", "sex"]),
    ({"by": "late"}, ["by column 'late' is missing in 2 rows (row numbers 2, 6;", "category"]),
    ({"by": "whole"}, ["by column 'whole' has a category 'all'", "rename the category"]),
    ({"by": "estimate"}, ["name of a column of the table", "rename"]),
    ({"by": "n"}, ["name of a column of the table", "rename"]),
    ({"statistic": "median"}, ["statistic='median'", "mean, total, count"]),
    ({"statistic": ["mean", "sum"]}, ["'sum'", "mean, total, count"]),
    ({"statistic": []}, ["statistic=[]", "mean, total, count"]),
    ({"outcome": None}, ["needs an outcome"]),
    ({"outcome": None, "statistic": ["count", "mean"]}, ["needs an outcome"]),
    ({"outcome": "income"}, ["no column 'income'"]),
    ({"outcome": "sex"}, ["'sex' is not a number in 6 rows"]),
    ({"outcome": "pay"}, ["outcome 'pay' is missing in 2 rows (row numbers 2, 5;", "missing='drop'"]),
    ({"outcome": ["y", "pay"], "statistic": "total"}, ["outcome 'pay' is missing"]),
    ({"outcome": "endless"}, ["outcome 'endless' is infinite in 1 row (row numbers 3;"]),
    ({"outcome": "endless", "missing": "drop"}, ["outcome 'endless' is infinite"]),
    ({"outcome": "pay", "missing": "ignore"}, ["missing='ignore' is not one of fail, drop"]),
    ({"estimator": "sudaan"}, ["estimator='sudaan' is not one of auto, samplics, onepass, replicates, survey"]),
]


@pytest.mark.parametrize(("arguments", "says"), REFUSED)
def test_refusals(frame, arguments, says):
    frame["late"] = ["canary", None, "canary", "canary", "canary", np.nan]
    frame["whole"] = ["canary", "all", "canary", "canary", "canary", "canary"]
    frame["endless"] = [71001.5, 71002.5, np.inf, 71004.5, 71005.5, 71006.5]
    frame["estimate"] = frame["n"] = frame["sex"]
    with pytest.raises(InputError) as caught:
        estimate(design(frame), **({"outcome": "y"} | arguments))
    message = str(caught.value)
    assert [part for part in says if part not in message] == []
    assert "canary" not in message and "710" not in message


def test_missing_outcomes_can_be_left_out_by_outcome(frame):
    table = estimate(design(frame), ["pay", "y"], None, ["mean", "count"], missing="available")
    assert table["n"].tolist() == [4, 6, 6]  # each outcome by itself; counts are of all records
    with_outcome = frame.dropna()
    np.testing.assert_allclose(table["estimate"][0], np.average(with_outcome["pay"], weights=with_outcome["w"]))
    assert table["df"].tolist() == [2, 4, 4]  # four records in two strata have an amount of pay


@pytest.mark.parametrize(
    ("roles", "lacks"),
    [
        ({}, ""),
        ({"strata": "age", "lonely_psu": "adjust"}, "one PSU (here lonely_psu='adjust')"),
        ({"strata": None, "psu": ["h", "sex"], "fpc": "half"}, "several-stage"),
        ({"strata": None, "psu": ["h", "sex"]}, ""),
    ],
)
def test_auto_takes_onepass_where_samplics_lacks_the_feature(frame, roles, lacks):
    made = design(frame.assign(half=0.5), **roles)
    auto, onepass = (estimate(made, "y", "sex", estimator=e) for e in ("auto", "onepass"))
    assert auto.attrs["estimator"] == ("onepass" if lacks else "samplics")
    assert onepass.attrs["estimator"] == "onepass"
    pd.testing.assert_frame_equal(auto, onepass, rtol=1e-10)
    if lacks:
        with pytest.raises(InputError, match=r"samplics has no .*; use estimator='onepass' or 'auto'") as caught:
            estimate(made, "y", "sex", estimator="samplics")
        assert lacks in str(caught.value)
    else:
        assert estimate(made, "y", "sex", estimator="samplics").attrs["estimator"] == "samplics"


def test_auto_takes_onepass_for_large_work(frame, monkeypatch):
    assert estimate(design(frame), "y", "sex").attrs["estimator"] == "samplics"
    monkeypatch.setattr(estimators, "SAMPLICS_SECONDS", 1e-9)
    assert estimate(design(frame), "y", "sex").attrs["estimator"] == "onepass"


def test_several_data_sets_are_combined(frame):
    made = [frame, frame.assign(y=frame["y"] + 3), frame.assign(y=frame["y"] - 6)]
    one = estimate(design(frame), "y", "sex")
    table = tabulate([design(f) for f in made], "y", "sex", "mean")
    # shifts 0, 3, -6: q_bar moves by -1, b = (1 + 16 + 25)/2 = 21, and every u is the same
    np.testing.assert_allclose(table["estimate"], one["estimate"] - 1, rtol=1e-12)
    np.testing.assert_allclose(table["se"] ** 2, one["se"] ** 2 + 21 / 3, rtol=1e-12)
    np.testing.assert_allclose(table["df"], np.minimum(2 * (1 + one["se"] ** 2 / 7) ** 2, [0, 2, 4]), rtol=1e-12)


@pytest.mark.parametrize("sex", [["m"] * 6, ["m", "x", "m", "x", "m", "m"]])
def test_data_sets_of_different_categories_are_not_combined(frame, sex):
    with pytest.raises(InputError, match="do not have the same categories of sex"):
        tabulate([design(frame), design(frame.assign(sex=sex))], "y", "sex", "mean")


def test_many_variables_of_many_categories():
    """Products of their numbers of categories go beyond 64 bits; the domains do not."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({c: rng.permutation(3000) for c in "abcdef"}).assign(w=1.0)
    (cells, *_) = partitions_of(design(frame, strata=None), list("abcdef"))
    assert len(cells.labels) == 3000
    again = cells.labels.iloc[cells.domain].reset_index(drop=True).astype(int)
    pd.testing.assert_frame_equal(again, frame[list("abcdef")])


@pytest.mark.slow
def test_intervals_of_a_domain_in_few_psus_hold_what_they_should():
    """Domains in 2 to 8 of 30 PSUs: 95% within Monte Carlo error and a percent; the whole design's df give 83%."""
    rng, hits, short, samples = np.random.default_rng(1), 0, 0, 0
    for _ in range(1500):
        here = rng.random(30) < 0.15
        if here.sum() < 2:
            continue
        frame = pd.DataFrame({"psu": np.repeat(np.arange(30), 8), "w": 1.0, "here": np.repeat(here, 8)})
        frame["y"] = np.repeat(rng.standard_normal(30), 8) + rng.standard_normal(240)
        row = estimate(design(frame, strata=None, psu="psu"), "y", "here", estimator="onepass").iloc[1]
        hits += row["ci_low"] < 0 < row["ci_high"]
        short += abs(row["estimate"]) < student.ppf(0.975, 29) * row["se"]
        samples += 1
    assert samples > 1_300
    assert hits / samples > 0.95 - 0.01 - 3 * (0.95 * 0.05 / samples) ** 0.5
    assert short / samples < 0.86


LABELS = {"y": "Income, gross", "sex": "Sex of the person", "h": "Region", "pay": "Pay"}


def test_a_table_has_the_labels_of_what_it_names(frame):
    labelled = design(frame, labels=LABELS)
    assert estimate(labelled, ["y", "z"], ["sex", "age"]).attrs["labels"] == {
        "y": "Income, gross", "sex": "Sex of the person"
    }  # fmt: skip
    assert estimate(labelled, by="h", statistic="count").attrs["labels"] == {"h": "Region"}
    assert estimate(design(frame), "y", "sex").attrs["labels"] == {}
    ratio = estimate(labelled, ["y", "z"], statistic="ratio", denominator="z")
    assert ratio["outcome"].tolist() == ["y / z", "z / z"]
    assert ratio.attrs["labels"] == {"y": "Income, gross", "y / z": "Income, gross / z"}
    other = estimate(labelled, "z", statistic="ratio", denominator="y").attrs["labels"]
    assert other == {"z / y": "z / Income, gross"}


def test_differences_have_the_labels_too(frame):
    labelled = design(frame, labels=LABELS)
    within = difference(labelled, "y", "h", between={"sex": ("m", "f")})
    assert within.attrs["labels"] == {"y": "Income, gross", "h": "Region"}
    between = difference({"now": design(frame, labels={"y": "Income"}), "then": labelled}, "y", "h")
    assert between.attrs["labels"] == {"y": "Income", "h": "Region"}


def test_a_mean_of_one_record_has_no_standard_error_from_the_data_sets_alone(frame):
    frame["one"] = ["it", *["others"] * 5]
    made = [frame, frame.assign(y=frame["y"] + 3), frame.assign(y=frame["y"] - 6)]
    table = tabulate([design(f) for f in made], "y", "one", "mean").set_index("one")
    assert table.loc["it", "df"] == 0 and np.isnan(table.loc["it", "se"]) and table.loc["others", "se"] > 0
