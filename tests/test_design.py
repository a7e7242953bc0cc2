"""SurveyDesign: one door, where every bad file is refused without a word about its values."""

import copy
import pickle
import re
import traceback

import numpy as np
import pandas as pd
import pytest

from surveysynth import InputError, SurveyDesign, SurveySynthError
from surveysynth.validation import rows


def frame(**changes):
    """Six records in two strata of three; every cell can be recognised in a message."""
    columns = {
        "wt": [81234.5, 82345.5, 83456.5, 84567.5, 85678.5, 86789.5],
        "pi": [0.71231, 0.72342, 0.73453, 0.74564, 0.75675, 0.76786],
        "area": ["canary-K"] * 3 + ["canary-L"] * 3,
        "school": ["canary-1", "canary-2", "canary-3"] * 2,
        "N": [93001.0] * 3 + [93002.0] * 3,
        "salary": [71001.0, 71002.0, 71003.0, 71004.0, 71005.0, 71006.0],
    }
    return pd.DataFrame(columns | changes)


def cells(table):
    return {str(value) for column in table for value in table[column] if len(str(value)) > 4}


def replaced(name, *row_values, dtype=object):
    """The column with some cells replaced: (row, value), ..."""
    column = frame()[name].astype(dtype)
    for row, value in row_values:
        column[row] = value
    return {name: column}


def refusal(table, *, read=None, **roles):
    """The message of the InputError, which names no value of the table."""
    with pytest.raises(InputError) as caught:
        design = SurveyDesign(table, **roles)
        read(design)
    assert isinstance(caught.value, SurveySynthError) and isinstance(caught.value, ValueError)
    report = "".join(traceback.format_exception_only(caught.value))
    assert caught.value.__context__ is None
    if isinstance(table, pd.DataFrame):
        assert not [value for value in cells(table) if value in report]
    return str(caught.value)


FIRST_IS_1 = "the first row is 1"
BAD_CELLS = [
    # column, role, bad cells (row from 0, value), what the message says
    (
        "wt",
        "weights",
        [(1, np.nan), (4, None)],
        ["'wt'", "2 rows", "numbers 2, 5;", "missing", "leave these records out"],
    ),
    ("wt", "weights", [(1, pd.NA)], ["'wt'", "1 row ", "numbers 2;", "missing"]),
    ("wt", "weights", [(0, np.inf), (5, -np.inf)], ["'wt'", "2 rows", "numbers 1, 6;", "not finite", "correct it"]),
    ("wt", "weights", [(2, -87654.25), (3, -1)], ["'wt'", "2 rows", "numbers 3, 4;", "negative", "from 0 on"]),
    ("wt", "weights", [(0, "many-9"), (3, ""), (4, [87654])], ["'wt'", "3 rows", "numbers 1, 4, 5;", "not a number"]),
    ("pi", "probs", [(4, 98765.25), (5, 1.0000001)], ["'pi'", "2 rows", "numbers 5, 6;", "above 1", "pass weights="]),
    ("pi", "probs", [(4, 0)], ["'pi'", "1 row ", "numbers 5;", "zero or negative", "correct it"]),
    ("pi", "probs", [(4, np.nan)], ["'pi'", "1 row ", "numbers 5;", "missing"]),
    ("area", "strata", [(0, None)], ["strata column 'area'", "1 row ", "numbers 1;", "missing", "fill it in"]),
    ("school", "psu", [(3, np.nan)], ["psu (stage 1) column 'school'", "1 row ", "numbers 4;", "missing"]),
    ("school", "poststrata", [(3, None)], ["poststrata column 'school'", "1 row ", "numbers 4;", "missing"]),
    ("N", "fpc", [(2, np.nan)], ["fpc (stage 1) column 'N'", "1 row ", "numbers 3;", "missing"]),
    ("N", "fpc", [(2, "big-9")], ["'N'", "1 row ", "numbers 3;", "not a number"]),
    ("N", "fpc", [(2, -93001.0)], ["'N'", "1 row ", "numbers 3;", "zero or negative"]),
    ("N", "fpc", [(4, 93003.0)], ["fpc column 'N' varies within its stratum", "3 rows", "numbers 4, 5, 6;"]),
    ("N", "fpc", [(i, 2.0) for i in (0, 1, 2)], ["'N'", "3 rows", "numbers 1, 2, 3;", "smaller than the sample"]),
    ("N", "fpc", [(i, 0.25) for i in (0, 1, 2)], ["'N'", "3 rows", "numbers 1, 2, 3;", "mix", "use fractions"]),
]


@pytest.mark.parametrize(("column", "role", "bad", "says"), BAD_CELLS)
def test_bad_cells_are_named_by_column_and_row_but_not_shown(column, role, bad, says):
    roles = {"strata": "area"} | ({} if role in ("weights", "probs") else {"weights": "wt"}) | {role: column}
    message = refusal(frame(**replaced(column, *bad)), **roles)
    assert [part for part in [*says, FIRST_IS_1] if part not in message] == []


@pytest.mark.parametrize(
    "dtype", ["bool", "boolean", "datetime64[s]", "timedelta64[s]", "complex", "period[D]"]
)  # fmt: skip
def test_weights_of_a_type_that_is_no_number(dtype):
    wt = pd.period_range("2020", periods=6) if dtype == "period[D]" else pd.Series([1] * 6).astype(dtype)
    assert "'wt' is of type" in refusal(frame(wt=wt), weights="wt")


@pytest.mark.parametrize("dtype", ["Int64", "float32", "Float64", "double[pyarrow]", "category", "object", "str"])
def test_weights_of_any_numeric_type(dtype):
    wt = pd.Series([1, 2, 3, 4, 5, 6]).astype(dtype)
    np.testing.assert_array_equal(SurveyDesign(frame(wt=wt), weights="wt").weights, [1, 2, 3, 4, 5, 6])


BAD_ROLES = [
    ({}, ["one of weights=, probs="]),
    ({"weights": "wt", "probs": "pi"}, ["one of weights=, probs="]),
    ({"weights": "wgt"}, ["weights", "'wgt'", "wt, pi, area"]),
    ({"weights": "wt", "strata": "county"}, ["strata", "'county'", "wt, pi, area"]),
    ({"weights": "wt", "psu": ["school", "class"]}, ["psu (stage 2)", "'class'"]),
    ({"weights": "wt", "fpc": "popsize"}, ["fpc (stage 1)", "'popsize'"]),
    ({"weights": "wt", "strata": "wt"}, ["'wt'", "two roles", "weights", "strata"]),
    ({"weights": "wt", "strata": "area", "psu": "area"}, ["'area'", "two roles", "strata", "psu (stage 1)"]),
    ({"weights": "wt", "psu": ["school", "school"]}, ["'school'", "two roles", "psu (stage 1)", "psu (stage 2)"]),
    ({"weights": "wt", "fpc": ["N", "N"]}, ["fpc names 2 stages but psu names 0"]),
    ({"weights": "wt", "psu": "school", "fpc": ["N", "pi"]}, ["fpc names 2 stages but psu names 1"]),
    ({"weights": "wt", "lonely_psu": "ignore"}, ["lonely_psu='ignore'", "fail, remove, adjust, average"]),
    ({"weights": ["wt"]}, ["weights must be the name of one column"]),
    ({"probs": 3}, ["probs must be the name of one column"]),
    ({"weights": "wt", "strata": ["area"]}, ["strata must be the name of one column"]),
    ({"weights": "wt", "poststrata": 7}, ["poststrata must be a column name or a list"]),
    ({"weights": "wt", "poststrata": [3]}, ["poststrata must be a column name or a list"]),
    ({"weights": "wt", "poststrata": [["area", None]]}, ["poststrata must be a column name or a list"]),
    ({"weights": "wt", "base_weights": ["wt"]}, ["base_weights must be the name of one column"]),
    ({"weights": "wt", "base_weights": "wt"}, ["'wt'", "two roles", "weights", "base_weights"]),
    ({"weights": "wt", "poststrata": "county"}, ["poststrata", "'county'", "wt, pi, area"]),
    ({"weights": "wt", "psu": 7}, ["psu must be a column name or a list"]),
    ({"weights": "wt", "fpc": [7]}, ["fpc must be a column name or a list"]),
]


@pytest.mark.parametrize(("roles", "says"), BAD_ROLES)
def test_bad_roles(roles, says):
    message = refusal(frame(), **roles)
    assert [part for part in says if part not in message] == []


def test_long_lists_of_columns_are_cut_short():
    wide = pd.DataFrame(np.ones((2, 40)), columns=[f"c{i}" for i in range(40)])
    assert "c11, ... (40 columns)" in refusal(wide, weights="wt")


HEADERLESS = [  # first records that were taken for headers, as pandas reads them
    ["d", "m", "23.764247068640294", "26357.53013103927"],
    ["7", "7.1", "north", "female"],  # a 7 twice
    ["north", "female", "carpenter", "Jane Smith", "-0.5", "yes"],
    ["1e5", "+3", "north"],
    ["1961-04-02", "02.04.1961", "isle", "02-Apr-1961"],
    ["$ 1,250.00", "Jane Smith", "female", "north"],
    ["X23.764247068640294", "X1961.04.02", "Jane.Smith", "X26357", "X.5"],  # by way of R
]


@pytest.mark.parametrize("first", HEADERLESS)
def test_a_file_without_a_header_line_is_told_so_and_its_first_record_is_not_quoted(first):
    message = refusal(pd.DataFrame([[1] * len(first)] * 3, columns=first), weights="wt")
    assert f"weights: there is no column 'wt'; the frame has {len(first)} columns, " in message
    assert "where there is no header line, give the file a first line with the column names" in message
    assert [name for name in first if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message)] == []


def test_names_are_counted_where_one_looks_like_a_value():
    def said(columns, **roles):
        return refusal(pd.DataFrame(np.ones((3, len(columns))), columns=columns), **({"weights": "wt"} | roles))

    assert said(["id", "w", "x1", "X1", "X12"]).endswith("the frame has id, w, x1, X1, X12")
    assert said([f"c{i}" for i in range(41)]).endswith("c11, ... (41 columns)")
    one = said(["Smith", "43", "North", "F", "yes"])
    assert one.endswith(
        "the frame has 5 columns, 1 whose name looks like a value: where there is no header line, give the file a "
        "first line with the column names"
    )
    twice = said(["Jane", "Jane", "26357.5"], weights="Jane")
    assert "several columns of the same name" in twice and ": 3 columns, 1 whose" in twice and "26357" not in twice
    design = SurveyDesign(pd.DataFrame(np.ones((3, 3)), columns=["id", "w", "2019"]), weights="w")
    with pytest.raises(InputError, match=r"no column 'y'; the file has 3 columns, 1 whose name looks like a value: "):
        design.column("y")


@pytest.mark.parametrize("not_a_frame", [None, {"wt": [1.0]}, np.ones((3, 2)), pd.Series([1.0], name="wt"), "file.csv"])
def test_what_is_not_a_frame(not_a_frame):
    message = refusal(not_a_frame, weights="wt")
    assert "frame must be a pandas DataFrame" in message and type(not_a_frame).__name__ in message


def test_empty_frame_and_repeated_column_names():
    assert "empty" in refusal(frame().iloc[:0], weights="wt")
    twice = frame().rename(columns={"salary": "wt"})
    assert "several columns of the same name: wt" in refusal(twice, weights="wt")


@pytest.mark.parametrize("cells", [1.0, np.float16(1), "a"])
def test_column_names_that_are_no_unicode(cells):
    odd = frame(a=cells)
    odd.columns = pd.Index([*odd.columns[:-1], "a\ud800"], dtype=object)
    assert "1 of the column names of the frame are no Unicode" in refusal(odd, weights="wt")


LONELY = frame(area=["canary-K"] * 5 + ["canary-L"], N=[93001.0] * 5 + [1.0])


@pytest.mark.parametrize(
    ("roles", "says"),
    [
        ({"strata": "area"}, ["a stratum of 'area'", "stage 1", "1 row ", "numbers 6;"]),
        ({"strata": "school", "psu": "area"}, ["a stratum of 'school'", "4 rows", "numbers 1, 2, 4, 5;"]),
        ({"strata": "area", "psu": ["school", "salary"], "fpc": ["half"]}, ["a stratum of 'area'", "numbers 6;"]),
        ({"psu": ["area", "salary"], "fpc": "half"}, ["a unit of 'area'", "stage 2", "1 row ", "numbers 6;"]),
    ],
)
def test_a_lonely_psu_fails_unless_told_otherwise(roles, says):
    table = LONELY.assign(half=0.5)
    message = refusal(table, weights="wt", **roles)
    says = [*says, "only one sampling unit", "merge strata", "'remove', 'adjust' or 'average'", FIRST_IS_1]
    assert [part for part in says if part not in message] == []
    for option in ("remove", "adjust", "average"):
        assert SurveyDesign(table, weights="wt", lonely_psu=option, **roles).lonely_psu == option


def test_one_record_is_lonely():
    assert "the sample has only one sampling unit" in refusal(frame().iloc[:1], weights="wt")


@pytest.mark.parametrize("fpc", [[93001.0] * 5 + [1.0], [1 / 93001.0] * 5 + [1.0], [5 / 5] * 5 + [1 / 49 * 49]])
def test_a_stratum_sampled_completely_is_not_lonely(fpc):
    design = SurveyDesign(LONELY.assign(N=fpc), weights="wt", strata="area", fpc="N")
    assert design.stages[0].fraction[1] == 1


def test_rows_lists_the_first_five():
    assert rows([False, True]) == "1 row (row numbers 2; the first row is 1)"
    assert rows(np.arange(4000) % 2) == "2,000 rows (row numbers 2, 4, 6, 8, 10, ...; the first row is 1)"


@pytest.mark.parametrize(("name", "says"), [("area", "not a number"), ("nothing", "there is no column 'nothing'")])
def test_numeric_refuses_in_words(name, says):
    assert says in refusal(frame(), weights="wt", read=lambda design: design.numeric(name))


@pytest.mark.parametrize("known", [True, False])
def test_truth_values_are_no_numbers_if_some_are_missing_either(known):
    truth = pd.Series([True, False, None if not known else True, True, False, True], dtype=object)
    for column in (truth, truth.astype("category")):
        design = SurveyDesign(frame(age=column), weights="wt")
        with pytest.raises(InputError, match="'age' is of type bool"):
            design.numeric("age")


def test_numeric_gives_floats_and_nan():
    design = SurveyDesign(frame(age=pd.array([1, 2, None, 4, 5, 6], dtype="Int64")), weights="wt")
    np.testing.assert_array_equal(design.numeric("age"), [1, 2, np.nan, 4, 5, 6])


def test_immutable():
    table = frame()
    design = SurveyDesign(table, weights="wt", strata="area", psu="school", fpc="N")
    for name in ("weights", "frame", "lonely_psu", "new"):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(design, name, 1)
    with pytest.raises(AttributeError, match="cannot be changed"):
        del design.weights
    stage = design.stages[0]
    arrays = [design.weights, design.probs, *vars(stage).values(), design.frame["wt"].to_numpy()]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    table.loc[0, ["wt", "salary"]] = 1.0
    table["new"] = 1
    taken = design.frame
    taken.loc[1, ["wt", "salary"]] = 2.0
    del taken["area"]
    column = design.column("salary")
    column.iloc[2] = 3.0
    pd.testing.assert_frame_equal(design.frame, frame())
    np.testing.assert_array_equal(design.weights, frame()["wt"])


ROLES = [
    {"weights": "wt"},
    {"probs": "pi", "strata": "area", "fpc": "N"},
    {"weights": "wt", "strata": "area", "psu": ["school", "salary"], "fpc": ["N"], "lonely_psu": "average"},
    {"weights": "wt", "strata": "area", "poststrata": "area"},  # one column may be both
    {"weights": "wt", "strata": "area", "poststrata": "school"},
]


@pytest.mark.parametrize("roles", ROLES)
@pytest.mark.parametrize("again", [lambda d: pickle.loads(pickle.dumps(d)), copy.copy, copy.deepcopy])
def test_a_copy_is_the_same_and_as_immutable(roles, again):
    design = SurveyDesign(frame(), **roles)
    other = again(design)
    pd.testing.assert_frame_equal(other.frame, design.frame)
    assert other.roles() == design.roles() and repr(other) == repr(design)
    for stage, same in zip(design.stages, other.stages, strict=True):
        for name, array in vars(stage).items():
            np.testing.assert_array_equal(getattr(same, name), array)
            assert not getattr(same, name).flags.writeable
    assert not other.weights.flags.writeable and not other.probs.flags.writeable
    with pytest.raises(AttributeError, match="cannot be changed"):
        other.weights = 1


@pytest.mark.parametrize("roles", ROLES)
def test_roles_make_the_same_design_again(roles):
    design = SurveyDesign(frame(), **roles)
    assert SurveyDesign(design.frame, **design.roles()).roles() == design.roles()
    assert {k: v for k, v in design.roles().items() if k in roles} == roles | ({"fpc": ["N"]} if "fpc" in roles else {})


LABELS = {"salary": "Gross salary, a year", "area": "Region of work"}


@pytest.mark.parametrize("roles", ROLES)
def test_labels_stay_with_whatever_is_made_of_a_design(roles):
    design = SurveyDesign(frame(), **roles, labels=LABELS)
    assert design.labels == LABELS and SurveyDesign(frame(), **roles).labels == {}
    assert design.roles() == SurveyDesign(frame(), **roles).roles()  # which may go to a frame without these columns
    same = [copy.copy(design), copy.deepcopy(design), pickle.loads(pickle.dumps(design))]
    if not design.calibrated and not design.clustered and len(design.stages) == 1:
        same += [design.replicates(R=4, seed=1), design.calibrate({"area": {"canary-K": 60.0, "canary-L": 70.0}})]
    assert [made.labels for made in same] == [LABELS] * len(same)
    taken = design.labels
    taken["wt"] = "Weight"
    assert design.labels == LABELS


def test_labels_are_one_line_of_text_each():
    given = {"salary": "Gross\tsalary,\n a\xa0year\x1b[31m", "area": " ", "wt": ""}
    assert SurveyDesign(frame(), weights="wt", labels=given).labels == {"salary": "Gross salary, a year [31m"}


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({"salery": "Salary"}, "labels: there is no column 'salery' (did you mean 'salary'?); the frame has wt, pi, "),
        ({"salary": 3}, "labels must map columns to headings"),
        ({"salary": None}, "labels must map columns to headings"),
        (["Salary"], "labels must map columns to headings"),
    ],
)
def test_bad_labels(labels, says):
    assert says in refusal(frame(), weights="wt", labels=labels)


@pytest.mark.parametrize(
    ("name", "meant"), [("SALARY", "salary"), ("sallary", "salary"), ("shcool", "school"), ("household", None)]
)
def test_a_name_that_is_nearly_right(name, meant):
    said = f"there is no column {name!r}" + (f" (did you mean {meant!r}?); " if meant else "; ")
    assert said in refusal(frame(), weights="wt", strata=name)
    assert said in refusal(frame(), weights="wt", read=lambda design: design.column(name))
    assert "mean" not in refusal(frame().rename(columns={"pi": "12.5"}), weights="wt", strata="sallary")


def test_weights_and_probs_are_two_views_of_one_thing():
    by_weight = SurveyDesign(frame(), weights="wt")
    np.testing.assert_array_equal(by_weight.weights, frame()["wt"])
    np.testing.assert_array_equal(by_weight.probs, 1 / frame()["wt"])
    by_prob = SurveyDesign(frame(), probs="pi")
    np.testing.assert_array_equal(by_prob.probs, frame()["pi"])
    np.testing.assert_array_equal(by_prob.weights, 1 / frame()["pi"])
    certain = SurveyDesign(frame(pi=[1, 1, 0.5, 0.5, 0.5, 0.5]), probs="pi")  # 1 is an inclusion probability
    np.testing.assert_array_equal(certain.weights, [1, 1, 2, 2, 2, 2])


def test_weights_below_one_are_weights():
    np.testing.assert_array_equal(SurveyDesign(frame(wt=0.5), weights="wt").weights, np.full(6, 0.5))


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", "b", "a", "b", "c"],  # begin again in each stratum
        ["K1", "K2", "K2", "L1", "L2", "L3"],  # nested
        [1, 2, 2, 1, 2, 3],
        [1.0, 2.0, 2.0, 11.0, 12.0, 13.0],
        pd.Categorical(["x", "y", "y", "x", "y", "z"], categories=["unused", "x", "y", "z"]),
    ],
)
def test_psu_labels_count_within_their_stratum(labels):
    design = SurveyDesign(frame(school=labels), weights="wt", strata="area", psu="school")
    (stage,) = design.stages
    np.testing.assert_array_equal(stage.stratum, [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(stage.unit, [0, 1, 1, 2, 3, 4])
    np.testing.assert_array_equal(stage.stratum_of_unit, [0, 0, 1, 1, 1])
    np.testing.assert_array_equal(stage.sampled, [2, 3])
    assert design.degf == 3 and design.clustered and design.n == len(design) == 6


def test_later_units_count_within_their_parent_and_only_under_an_fpc():
    table = frame(flat=["a", "b", "a", "b", "a", "b"], rate=0.5)
    roles = {"weights": "wt", "psu": ["school", "flat"]}
    assert len(SurveyDesign(table, **roles).stages) == 1  # with replacement: the first stage has it all
    _, second = SurveyDesign(table, fpc="rate", **roles).stages
    np.testing.assert_array_equal(second.sampled, [2, 2, 2])
    np.testing.assert_array_equal(second.stratum, [0, 1, 2, 0, 1, 2])
    np.testing.assert_array_equal(second.fraction, [0, 0, 0])
    assert len(set(second.unit)) == 6


@pytest.mark.parametrize(("fpc", "expected"), [([12.0, 30.0], [0.25, 0.1]), ([0.25, 0.1], [0.25, 0.1])])
def test_fpc_as_sizes_or_fractions(fpc, expected):
    design = SurveyDesign(frame(N=np.repeat(fpc, 3)), weights="wt", strata="area", fpc="N")
    np.testing.assert_allclose(design.stages[0].fraction, expected, rtol=1e-15)


@pytest.mark.parametrize("labels", [["b", "a", "a", "b", "c", "c"], [2, 1, 1, 2, 9, 9]])
def test_poststrata_are_numbered_and_cannot_be_changed(labels):
    design = SurveyDesign(frame(school=labels), weights="wt", strata="area", poststrata="school")
    (groups,) = design.calibration.margins
    assert pd.crosstab(groups, pd.Series(labels)).to_numpy().astype(bool).sum(axis=0).tolist() == [1, 1, 1]
    assert sorted(set(groups)) == [0, 1, 2] and design.degf == 4
    with pytest.raises(ValueError, match="read-only"):
        groups[0] = 5
    assert design.design_columns == ("area", "school")
    assert repr(design).endswith("weights calibrated to totals of 'school'")
    assert SurveyDesign(frame(), weights="wt").calibration.margins == ()


@pytest.mark.parametrize("roles", ROLES)
def test_repr_shows_names_and_numbers_but_no_values(roles):
    design = SurveyDesign(frame(), **roles)
    for text in (repr(design), str(design), f"{design}"):
        assert "6 records" in text and "canary" not in text
        assert not [value for value in cells(frame()) if value in text]


def test_the_index_is_ignored():
    table = frame()
    design = SurveyDesign(table.set_index(pd.Index(list("qwerty"))), weights="wt", strata="area")
    pd.testing.assert_frame_equal(design.frame, table)
    assert "numbers 2;" in refusal(table.assign(wt=[1, -1, 1, 1, 1, 1]).set_index("area"), weights="wt")
