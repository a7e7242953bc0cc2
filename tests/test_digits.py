"""Numbers of tables, rounded to their standard errors."""

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
    """12,433 workers give or take 427; 513.27 dollars give or take 9.6; a share of .3471 give or take .0123."""
    counts = ("count", 12_433.4, 427.2), ("count", 7_423.1, 1_340.0)
    out = shown(table(*counts, ("mean", 513.268, 9.61), ("share", 0.34712, 0.0123)))
    assert out["estimate"].tolist() == ["12,430", "7,420", "513.3", "0.347"]
    assert out["se"].tolist() == ["430", "1,340", "9.6", "0.012"]


def test_what_the_design_fixes_does_not_ask_for_digits() -> None:
    rows = [("count", 29_501.0, 3e-12), ("count", 1_596.0, 61.0), ("other", 4_000.0, 0.0)]
    assert shown(table(*rows))["estimate"].tolist() == ["29,501", "1,596", "4,000"]
    assert shown(table(("count", math.nan, math.nan)))["estimate"].tolist() == [""]


def test_a_share_of_nobody_shows_how_far_its_interval_goes() -> None:
    """Nobody of 25 is 0 to .1372, and not 0 to 0; two digits of a quarter of that."""
    nobody = table(("poverty_rate", 0.0, 0.0)).assign(ci_high=0.1372)
    assert shown(nobody)[["estimate", "ci_low", "ci_high"]].to_numpy().tolist() == [["0.000", "0.000", "0.137"]]


def test_one_tiny_standard_error_does_not_make_the_others_long() -> None:
    assert decimals(table(("mean", 51_234.5, 0.0002), ("mean", 48_000.0, 900.0))) == 1


def test_a_plan_says_decimals_itself() -> None:
    frame = table(("mean", -1_234.56, 9.61))
    frame.attrs["digits"] = -2
    assert shown(frame)["estimate"].tolist() == ["-1,200"]
    assert (written(-0.4, 0), written(-40, -2)) == ("0", "0")


@given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(1e-3, 1e6)), min_size=1, max_size=8))
def test_what_is_rounded_away_is_a_twentieth_of_a_standard_error(rows: list[tuple[float, float]]) -> None:
    frame = table(*(("mean", estimate, se) for estimate, se in rows))
    capped = 5 - math.floor(math.log10(max(1.0, *(abs(estimate) for estimate, _ in rows))))
    if decimals(frame) == capped:  # six digits of the largest number are enough
        return
    back = [float(text.replace(",", "")) for text in shown(frame)["estimate"]]
    real = frame["se"] > 1e-9 * frame["estimate"].abs()
    assert (np.abs(back - frame["estimate"])[real] <= 0.0500001 * frame["se"][real].min()).all()


def test_rescaling_by_a_power_of_ten_moves_the_point() -> None:
    frame = table(("mean", 512.34, 9.61), ("mean", 487.0, 12.0))
    assert decimals(frame) - decimals(frame.assign(estimate=frame["estimate"] * 100, se=frame["se"] * 100)) == 2


@pytest.mark.parametrize("places", [-3, 0, 2])
def test_rounding_is_that_of_numpy(places: int) -> None:
    x = np.random.default_rng(3).normal(0, 5_000, 50)
    assert [float(written(each, places).replace(",", "")) for each in x] == pytest.approx(np.round(x, places).tolist())


def test_a_total_that_is_fixed_has_no_error_to_show() -> None:
    """A population of 29,501 that was given, beside the standard error that a formula has for it."""
    rows = table(("count", 29_501.0, 278.0), ("count", 12_433.4, 427.2))
    out = shown(rows.assign(flag=["calibrated total: fixed by construction, without a standard error", ""]))
    assert out[["estimate", "se", "ci_low", "ci_high"]].to_numpy().tolist()[0] == ["29,500", "", "", ""]
    assert (out.iloc[1][["se", "ci_low", "ci_high"]] != "").all()
