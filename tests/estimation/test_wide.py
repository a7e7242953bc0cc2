"""Wide tables, against R's reshape, and what they refuse."""

import numpy as np
import pandas as pd
import pytest
from surveys import PSEUDO, make_design, model

import surveysynth as ss
from surveysynth import InputError, difference, estimate, wide


def test_a_wide_table_is_that_of_rs_reshape(r, r_frame, to_r):
    table = estimate(make_design(), "income", ["field", "gender"], ["count", "mean"], where=lambda f: f.field != "NA")
    to_r("long", table[["field", "gender", "statistic", "estimate", "se"]])
    expected = r_frame("""reshape(long, direction = "wide", idvar = c("field", "statistic"), timevar = "gender",
                                  v.names = c("estimate", "se"), sep = "_")""")
    found = wide(table, "gender")
    cells = [f"{number}_{gender}" for gender in ("f", "m", "all") for number in ("estimate", "se")]
    assert [*found] == ["field", "statistic", "outcome", *cells]
    merged = found.merge(expected, on=["field", "statistic"], suffixes=("", "_r"), validate="one_to_one")
    assert len(merged) == len(found) == 8
    for column in cells:
        np.testing.assert_allclose(merged[column], merged[f"{column}_r"], rtol=1e-12)


def test_every_variable_can_go_across():
    design = make_design().assign(old=lambda f: f.hours > 40)
    table = estimate(design, "income", "old", ["mean", "quantile"], quantiles=[0.25, 0.5])
    by_statistic = wide(table[table["statistic"] == "mean"], "old", "estimate")
    assert [*by_statistic][-3:] == ["estimate_False", "estimate_True", "estimate_all"]
    by_prob = wide(table, "prob", ["estimate", "n"])
    assert [*by_prob][-4:] == ["estimate_0.25", "n_0.25", "estimate_0.5", "n_0.5"]
    means = by_prob["statistic"] == "mean"
    assert by_prob.loc[means, "estimate_0.5"].isna().all() and by_prob.loc[~means, "estimate_0.5"].notna().all()
    assert by_prob["old"].tolist() == [False, True, "all"] * 2
    gaps = wide(difference(design, "income", "field", between={"gender": ("m", "f")}), "field")
    assert len(gaps) == 1 and gaps["contrast"][0] == "m - f" and "se_ökonomie" in gaps


def test_a_table_of_a_release_keeps_flags_and_labels():
    release = ss.synthesize(make_design(), model(), epsilon=10.8, m=2, seed=1, mechanism=PSEUDO)
    table = release.tables(["field", "gender"], statistic="mean", min_cell=48)
    found = wide(table, "gender", ["estimate", "flag"])
    for gender in ("f", "m", "all"):
        part = table[table["gender"] == gender].reset_index(drop=True)
        pd.testing.assert_series_equal(found[f"flag_{gender}"], part["flag"], check_names=False)
        pd.testing.assert_series_equal(found[f"estimate_{gender}"], part["estimate"], check_names=False)
    assert found.attrs == table.attrs


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (lambda t: t, ("sex",), "across='sex' is not a variable of the table, which has gender, statistic"),
        (lambda t: t, ("estimate",), "across='estimate' is not a variable"),
        (lambda t: t, ("gender", "deff"), "show='deff' is not a column of the table's cells, which have estimate, se"),
        (lambda t: t, ("gender", "statistic"), "show='statistic' is not"),
        (lambda t: pd.concat([t, t]), ("gender",), "a cell of 'gender' twice"),
        (lambda t: t.assign(estimate_f=1.0), ("gender",), "a column 'estimate_f' twice"),
    ],
)
def test_what_cannot_be_made_wide(change, arguments, message):
    table = change(estimate(make_design(), "income", "gender"))
    with pytest.raises(InputError, match=message):
        wide(table, *arguments)
