"""Terms of confidential columns are functions of a record's own values; what looks at other records is refused."""

import formulaic
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surveysynth as ss
from surveysynth.design.formula import is_row_wise
from tests.models.test_sequential import FIRST, make_design, make_frame

# value of a term at a record moves with another record: checked by brute force below
OF_ALL = [
    "log(income / income.mean())", "I(income / income.max())", "I(income.rank())", "I(income - income.mean())",
    "center(income)", "scale(income)", "standardize(income)", "poly(income, 2)", "bs(income, df=4)", "cs(income, df=4)",
    "lag(income)", "I(income.cumsum())", "income.shift(1)", "np.mean(income) + income", "np.cumsum(income)",
    "I(income @ income)", "np.matmul(income, income) + 0 * income", "np.add.accumulate(income)", "np.sort(income)",
    "I(income > np.median(income))", "{income - income.mean()}", "np.add(income, income.max())", "C(income)",
    "C(visits, contr.sum)", "np.where(income > income.mean(), 1, 0)", "center(log(income))",
]  # fmt: skip
OWN = [
    "income", "log(income)", "I(income ** 2)", "np.sqrt(income)", "np.log1p(income)", "I(income > 20000)",
    "I((income > 20000) * visits)", "np.where(income > 20000, 1, 0)", "np.clip(income, 0, 50000)", "log(income + 1)",
    "np.maximum(income, 1000)", "log(income):region", "{income / 20000}", "C(visits, levels=[0, 1, 2, 3])",
    "exp(-visits)",
]  # fmt: skip


def values(term, frame):
    """The columns that formulaic makes of a term."""
    matrix = formulaic.model_matrix(f"0 + {term}", frame, na_action="ignore")
    return np.asarray(matrix, dtype=float)


def moves(term, frame):
    """Whether the values of the first ten records move with those of the others, or so do their columns."""
    other = frame.copy()
    other.loc[other.index[10:], "income"] *= 3.7
    other.loc[other.index[10:], "visits"] += 50
    here, there = values(term, frame), values(term, other)
    return here.shape != there.shape or not np.allclose(here[:10], there[:10], equal_nan=True)


@pytest.fixture
def frame():
    return make_frame(60)[["income", "visits", "region"]]


@pytest.mark.parametrize("term", OF_ALL)
def test_a_term_that_looks_at_other_records_is_refused_where_they_are_confidential(term, frame):
    """Before any file is read: the model cannot be made."""
    if "lag" not in term and "shift" not in term and "cum" not in term and "accumulate" not in term:
        assert moves(term, frame)
    else:
        assert not np.allclose(values(term, frame)[3:], values(term, frame.iloc[3:]), equal_nan=True)
    visits = ss.NegativeBinomialRegression("visits ~ region")
    with pytest.raises(ss.InputError, match=r"may look at other records|takes its levels from a confidential column"):
        ss.Sequential([FIRST, visits, ss.FBS(f"rent ~ region + {term}", prior="flat")])


@pytest.mark.parametrize("term", OWN)
def test_a_term_of_the_record_alone_is_taken(term, frame):
    assert term.startswith("C(") or not moves(term, frame)
    visits = ss.NegativeBinomialRegression("visits ~ region")
    model = ss.Sequential([FIRST, visits, ss.FBS(f"rent ~ region + {term}", prior="flat")])
    design = make_design(300)
    if term.startswith("C("):  # a count without a level has no value
        design = ss.SurveyDesign(make_frame(300).query("visits <= 3").reset_index(drop=True), weights="w")
    assert model.prepare(design, "ignore").n == design.n


LEAVES = st.sampled_from(["income", "visits", "3", "0.5", "income.mean()", "np.pi"])
SHAPES = [
    "({0} + {1})", "({0} * {1})", "({0} @ {1})", "np.sqrt({0})", "np.maximum({0}, {1})", "log({0})", "np.cumsum({0})",
    "np.where({0} > {1}, {0}, {1})", "({0} > {1})", "np.sort({0})", "np.mean({0})", "abs({0})", "np.add.reduce({0})",
    "np.vecdot({0}, {1})", "I({0})", "({0} in {1})", "center({0})", "np.clip({0}, {1}, 9)", "np.divmod({0}, {1})[0]",
]  # fmt: skip
TERMS = st.recursive(
    LEAVES, lambda inner: st.builds(lambda shape, a, b: shape.format(a, b), st.sampled_from(SHAPES), inner, inner)
)


@settings(max_examples=150, deadline=None)
@given(term=TERMS)
def test_what_is_taken_for_a_function_of_one_record_has_the_same_value_alone(term):
    """By brute force: evaluated on all records, and on each by itself."""
    if not is_row_wise(term):
        return
    frame = make_frame(8)[["income", "visits"]]

    def value(rows):
        with np.errstate(all="ignore"):
            made = eval(term, {"np": np, "log": np.log, "I": lambda x: x}, {c: rows[c] for c in rows})
        return np.broadcast_to(np.asarray(made, dtype=float), len(rows))

    try:
        everybody = value(frame)
    except TypeError:  # no sum of these
        return
    np.testing.assert_allclose(everybody, [value(frame.iloc[[i]])[0] for i in range(len(frame))], rtol=1e-12)


def test_a_first_model_may_look_at_the_whole_of_a_public_column():
    """It is published; a synthesized category beside it is not."""
    rng = np.random.default_rng(0)
    frame = make_frame(300).assign(age=rng.integers(18, 80, 300), works=rng.integers(0, 2, 300))
    design = ss.SurveyDesign(frame.astype({"works": pd.CategoricalDtype([0, 1])}), weights="w")
    for formula in ("income ~ region + I(age - age.mean())", "income + C(works) ~ region + center(age)"):
        assert ss.FBS(formula, prior="flat").prepare(design, "ignore").n == 300
    for term in ("center(works)", "I(works - works.mean())", "I(works == works.max())"):
        with pytest.raises(ss.InputError, match="may look at other records"):
            ss.FBS(f"income + C(works) ~ region + {term}", prior="flat")


def test_an_amount_that_the_file_has_as_text_is_a_number_in_later_formulas():
    """Of text a formula would make a level of each amount."""
    frame = make_frame(200)
    text = ss.SurveyDesign(frame.assign(income=frame["income"].map(repr)), weights="w")
    model = ss.Sequential([FIRST, ss.FBS("rent ~ region + income", prior="flat")])
    of_text, of_numbers = (model.prepare(each, "ignore") for each in (text, ss.SurveyDesign(frame, weights="w")))
    np.testing.assert_allclose(of_text.others[0].X, of_numbers.others[0].X)


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [(ss.Strict(), "is no column: a strict release"), (ss.PseudoPosterior(), "may look at other records")],
)
def test_nothing_is_spent_on_a_formula_that_is_refused(tmp_path, mechanism, said):
    ledger = ss.Ledger(tmp_path / "ledger.json", "s", cap=9, create=True)
    with pytest.raises(ss.InputError, match=said):
        ss.synthesize(
            make_design(200), ["income ~ region", "rent ~ log(income / income.mean())"], epsilon=3,
            population_total=10_000, mechanism=mechanism, ledger=ledger,
        )  # fmt: skip
    assert ledger.entries().empty


@pytest.mark.parametrize("rule", ["rent in income", "rent not in income", "rent in [income, 3]"])
def test_whom_a_question_is_asked_hangs_on_the_record_alone(rule):
    """pandas looks for the value among those of all records."""
    with pytest.raises(ss.InputError, match="looks for a value in a column"):
        ss.Sequential(
            [ss.FBS("income ~ region"), ss.FBS("rent ~ region"), ss.FBS("cost ~ region")], applies={"cost": rule}
        )


@pytest.mark.parametrize("last", ["max", "min", "mean", "nunique"])
@pytest.mark.parametrize("at", [0, 1])
def test_a_derived_column_that_looks_at_one_other_record_is_refused(last, at):
    """Wherever the largest value is, and where the least one is there many times."""
    frame = make_frame(101).assign(zero=0.0)
    frame.loc[at, "zero"] = 1.0
    with pytest.raises(ss.InputError, match="not row-wise"):
        ss.SurveyDesign(frame, weights="w").assign(share=lambda f: f.zero - getattr(f.zero, last)() + (f.zero > 9))
