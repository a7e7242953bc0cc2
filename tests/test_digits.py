"""Numbers of tables: decimals by the kind and the size of a statistic."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surveysynth.publication.digits import decimals, shown, written


def table(*rows: tuple[str, float, float]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["statistic", "estimate", "se"])
    return frame.assign(outcome="", ci_low=frame["estimate"] - frame["se"], ci_high=frame["estimate"] + frame["se"])


def test_numbers_are_rounded_as_an_office_would() -> None:
    """Whole workers; 513.27 dollars with four digits; 12.3 million dollars in total with six; shares per thousand."""
    counts = ("count", 7_423.1, 1_340.0), ("count", 12_433.4, 427.2)
    others = ("mean", 513.268, 9.61), ("total", 12_345_678.9, 60_000.0), ("proportion", 0.34712, 0.0123)
    out = shown(table(*counts, *others))
    assert out["estimate"].tolist() == ["7,423", "12,433", "513.3", "12,345,700", "0.347"]
    assert out["se"].tolist() == ["1,340", "427", "9.6", "60,000", "0.012"]
    assert decimals(table(("proportion", 34.712, 1.23)), percent=True) == 1


def test_a_count_is_never_rounded_to_hundreds() -> None:
    """A population of 2,061,946 that everybody knows."""
    assert shown(table(("count", 2_061_946.0, 0.0)))["estimate"].tolist() == ["2,061,946"]
    assert shown(table(("count", math.nan, math.nan)))["estimate"].tolist() == [""]


def test_the_estimate_of_all_decides_and_not_a_cell() -> None:
    """The last row is the estimate of all records, which every table of a release has."""
    one = [("mean", 98_765.4, 7_000.0), ("mean", 512.3, 2.0)]
    other = [("mean", 3.2, 0.0004), ("mean", 512.3, 2.0)]
    assert decimals(table(*one)) == decimals(table(*other)) == 1


def test_a_small_standard_error_of_all_can_be_seen() -> None:
    assert decimals(table(("mean", 51_234.5, 0.02))) == 2 and decimals(table(("total", 51_234_567.0, 3.0))) == 0
    assert decimals(table(("mean", 51_234.5, 1e-9))) == 0  # rounding


def test_a_mean_is_never_rounded_to_tens() -> None:
    sizes = 114_629.0, 1_234.0, 973.1, 3.14159, 0.3214
    assert [decimals(table(("mean", size, 0.3 * size))) for size in sizes] == [0, 0, 1, 3, 4]


def test_a_plan_says_decimals_itself() -> None:
    frame = table(("mean", -1_234.56, 9.61))
    frame.attrs["digits"] = -2
    assert shown(frame)["estimate"].tolist() == ["-1,200"]
    assert (written(-0.4, 0), written(-40, -2)) == ("0", "0")


@given(
    st.sampled_from(["count", "mean", "total", "quantile", "gini"]), st.floats(1e-6, 1e12), st.floats(1e-4, 1.0)
)
def test_the_standard_error_of_all_is_never_rounded_to_nothing(kind: str, estimate: float, cv: float) -> None:
    frame = table((kind, estimate, cv * estimate))
    if kind == "count" and cv * estimate < 0.5:  # of less than half a person
        return
    (se,) = shown(frame)["se"]
    assert float(se.replace(",", "")) == pytest.approx(cv * estimate, rel=0.5)


@pytest.mark.parametrize("places", [-3, 0, 2])
def test_rounding_is_that_of_numpy(places: int) -> None:
    x = np.random.default_rng(3).normal(0, 5_000, 50)
    assert [float(written(each, places).replace(",", "")) for each in x] == pytest.approx(np.round(x, places).tolist())


def test_a_total_that_is_fixed_has_no_error_to_show() -> None:
    """A population of 29,501 that was given, beside the standard error that a formula has for it."""
    rows = table(("count", 29_501.0, 278.0), ("count", 12_433.4, 427.2))
    out = shown(rows.assign(flag=["calibrated total: fixed by construction, without a standard error", ""]))
    assert out[["estimate", "se", "ci_low", "ci_high"]].to_numpy().tolist()[0] == ["29,501", "", "", ""]
    assert (out.iloc[1][["se", "ci_low", "ci_high"]] != "").all()
