"""Frames, formulas and arguments of every kind: what cannot be used is refused with a sentence that quotes no value."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surveysynth as ss
from tests.fuzz.strategies import COLUMNS, EXTREME, NAMES, NUMBER, TEXT, cases, frames, only_our_errors, role

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]


@cases(3000)
@given(st.data())
def test_designs_of_any_frame(data):
    frame = data.draw(frames())
    draw = data.draw
    given_roles = {name: role(frame, draw) for name in ("weights", "strata", "psu", "fpc", "probs")}
    kept = {name: value for name, value in given_roles.items() if draw(st.integers(0, 3)) == 0 or name == "weights"}
    with only_our_errors():
        design = ss.SurveyDesign(frame, **kept)
        outcome, by = (role(frame, draw) for _ in range(2))
        with only_our_errors():
            ss.estimate(design, outcome, by, draw(st.sampled_from(["mean", "total", "quantile", "proportion", "x"])))


FORMULAS = [
    "1",
    "0",
    "",
    "x",
    "x + g",
    "x:g",
    "x*g",
    "C(g)",
    "C(x)",
    "y ~ x",
    "y + y ~ x",
    "C(g) ~ x",
    "log(x)",
    "bs(x, 4)",
    "poly(x, 2)",
    "center(x)",
    "I(x**2)",
    "x +",
    "~",
    "~ x",
    "((",
    "x % g",
    "open('f')",
    "__import__('os').system('true')",
    "x.mean()",
    "lambda: 1",
    "np.log(x)",
    "`a b`",
    "`größe`",
    "x | g",
    "x^2",
    "y ~ y",
    "y ~ w",
    "nowhere",
    "1e400",
    "x" * 2000,
    "\ud800",
    "x\ny",
    "exp(x)",
    "x/0",
    "scale(x)",
    "C(x, levels=[1])",
    "hashed(x)",
    "y:x ~ g",
    ".",
    "x - 1",
    "-1",
    "y ~ .",
    "(x + g)**3",
    "x ~ y ~ g",
]


MODELS = {
    "FBS": ss.FBS,
    "FBP": ss.FBP,
    "counts": ss.NegativeBinomialRegression,
    "shares": partial(ss.BetaRegression, bounds=(0, 2e6)),
    "mixture": ss.Mixture,
}


@cases(1500)
@given(
    st.sampled_from(FORMULAS),
    frames(most=12, odd_names=False),
    st.sampled_from(sorted(MODELS)),
    st.data(),
)
def test_formulas_of_any_frame(formula, frame, name, data):
    plain = pd.DataFrame(
        {
            "y": np.linspace(1, 2, 12),
            "x": np.tile([0.0, 1, NUMBER], 4),
            "g": np.repeat(["a", TEXT], 6),
            "w": np.arange(1.0, 13),
        }
    )
    odd = data.draw(data.draw(st.sampled_from(COLUMNS))(12))
    changed = plain.assign(**{data.draw(st.sampled_from(["x", "g", "y"])): odd})
    for table in (plain, frame, changed):
        with only_our_errors():
            outcome, _, predictors = formula.rpartition("~")
            model = MODELS[name](outcome.strip() or "y", predictors)
            model.prepare(ss.SurveyDesign(table, weights="w"), "ignore", None)


ANYTHING = st.sampled_from(
    [
        *(x for x in EXTREME if x != NUMBER),
        *NAMES,
        None,
        True,
        [],
        [1],
        [1, 2],
        [2, 1],
        (0, 1e6),
        {},
        {"a": 1},
        10**9,
        2**64,
        10**400,
        "3",
        b"3",
        object,
        1j,
        np.array([0.0, 1e6]),
        pd.Series([1.0]),
        range(3),
        float,
        5,
        3,
        2,
        1,
        -1,
        0,
    ]
)
SMALL = pd.DataFrame(
    {
        "y": np.linspace(1, 2, 30),
        "x": np.tile(["a", "b", "c"], 10),
        "w": np.full(30, 10.0),
        "s": np.repeat([1, 2], 15),
    }
)


@cases(1000)
@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("epsilon", "bounds", "bins", "m", "weight_bound", "population_total", "outcome", "ledger"), ANYTHING
        ),
    )
)
def test_arguments_of_the_histogram(changed):
    design = ss.SurveyDesign(SMALL, weights="w")
    sane = {"outcome": "y", "epsilon": 1.0, "bounds": (0, 10), "population_total": 300, "m": 1}
    with only_our_errors():
        ss.perturbed_histogram(design, **sane | changed)


@cases(700)
@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            (
                "epsilon",
                "m",
                "population_total",
                "bounds",
                "public",
                "clusters",
                "unit",
                "reweight",
                "debias",
                "seed",
                "engine",
                "accept_diagnostics",
                "mechanism",
                "policy",
                "rule",
                "chains",
                "warmup",
                "draws",
                "tolerance",
            ),
            ANYTHING,
        ),
    )
)
def test_arguments_of_synthesize(changed):
    design = ss.SurveyDesign(SMALL, weights="w")
    sane = {"epsilon": 9.0, "m": 1, "mechanism": ss.PseudoPosterior(c1=0.5), "accept_diagnostics": ["information"]}
    with only_our_errors():
        ss.synthesize(design, ss.FBS("y", "x", prior="flat"), **sane | {"epsilon": None} | changed)


RELEASE = ss.synthesize(
    ss.SurveyDesign(SMALL, weights="w", strata="s"),
    ss.FBS("y", "x", prior="flat"),
    epsilon=30,
    m=2,
    seed=1,
    mechanism=ss.PseudoPosterior(),
    accept_diagnostics=["information"],
)


@cases(1000)
@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("by", "outcome", "statistic", "denominator", "quantiles", "estimator", "min_cell", "cv_limit"),
            ANYTHING,
        ),
    )
)
def test_arguments_of_tables(changed):
    with only_our_errors(), warnings.catch_warnings():
        RELEASE.tables(**changed)
