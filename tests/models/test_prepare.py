"""What FBS makes of a file, and what it refuses; formulas and transforms."""

import numpy as np
import pandas as pd
import pytest

from surveysynth import (
    FBS,
    AsinhTransform,
    GammaRegression,
    IdentityTransform,
    InputError,
    LogTransform,
    ModelError,
    SurveyDesign,
)
from surveysynth.models.scales.transforms import as_transform

N = 60
RNG = np.random.default_rng(20)
FIELD = np.array(list("abc"))[np.arange(N) % 3]
FRAME = pd.DataFrame({
    "field": FIELD, "gender": np.array(["f", "m"])[np.arange(N) // 3 % 2], "code": np.arange(N) % 3,
    "a b": np.arange(N) // 3 % 2, "a.b": FIELD, "x": RNG.normal(size=N),
    "y": RNG.lognormal(10, 0.5, N), "h": RNG.lognormal(3, 0.2, N), "w": RNG.lognormal(2, 0.6, N),
})  # fmt: skip
B, C = (FIELD == "b").astype(float), (FIELD == "c").astype(float)
ONE, X, M = np.ones(N), FRAME["x"].to_numpy(), (FRAME["gender"] == "m").to_numpy(dtype=float)


def prepare(predictors="field", outcome="y", frame=FRAME, **columns):
    model = predictors if isinstance(predictors, FBS) else FBS(outcome, predictors)
    return model.prepare(SurveyDesign(frame.assign(**columns), weights="w"))


# ---- formulas


@pytest.mark.parametrize(
    ("predictors", "columns", "reads"),
    [
        ("1", [ONE], ()),
        ("field", [ONE, B, C], ("field",)),
        ("0 + field", [1 - B - C, B, C], ("field",)),
        ("x + field", [ONE, X, B, C], ("field", "x")),
        ("C(code)", [ONE, B, C], ("code",)),
        ("field * x", [ONE, B, C, X, B * X, C * X], ("field", "x")),
        ("center(x)", [ONE, X - X.mean()], ("x",)),
        ("scale(x) + gender", [ONE, (X - X.mean()) / X.std(ddof=1), M], ("gender", "x")),
        ("C(field, contr.sum)", [ONE, 1 - B - 2 * C, B - C], ("field",)),
        ("C(center) + x", [ONE, B, C, X], ("center", "x")),
        ("np.exp(x) + I(x**2)", [ONE, np.exp(X), X**2], ("x",)),
        ("`a b` + C(`a.b`)", [ONE, M, B, C], ("a b", "a.b")),
    ],
)
def test_predictor_rows_are_those_of_the_formula(predictors, columns, reads):
    """All records make the formula's constants (a mean, knots), and every column that it reads is known."""
    data = prepare(predictors, **({"center": FIELD} if "center" in reads else {}))
    expected = np.column_stack(columns)
    np.testing.assert_allclose(data.X[data.pattern], expected, atol=1e-12)
    assert len(data.X) == len(FRAME[[r for r in reads if r in FRAME]].drop_duplicates() if reads else [1])
    assert FBS("y", predictors).predictor_columns == reads
    assert len(data.columns) == expected.shape[1]


@pytest.mark.parametrize(
    ("formula", "outcome", "predictors"),
    [
        ("y ~ field + x", "y", "field + x"),
        ("y ~ 1", "y", "1"),
        ("`y ~ in euro` ~ `a b`", "y ~ in euro", "`a b`"),
        ("y + C(gender) ~ field", ["y", "C(gender)"], "field"),
        ("`a + b` + h~field*x", ["a + b", "h"], "field*x"),
    ],
)
def test_one_formula_holds_outcomes_and_predictors(formula, outcome, predictors):
    assert FBS(formula) == FBS(outcome, predictors)
    assert FBS(formula, transform="log", prior="flat").predictors == predictors
    if isinstance(outcome, str):
        assert GammaRegression(formula) == GammaRegression(outcome, predictors)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: FBS("y"), r"there must be a formula: FBS\('income ~ region \+ sex'\)"),
        (lambda: FBS("y ~ "), "'y ~ ' is not a formula: write outcome ~ predictors"),
        (lambda: FBS("~ x"), "is not a formula"),
        (lambda: FBS("y ~ x ~ field"), "is not a formula"),
        (lambda: FBS("y ~ x + y"), "y: an outcome cannot be a predictor"),
        (lambda: GammaRegression("y + h ~ x"), "gamma regression synthesizes one outcome"),
        (lambda: FBS("y ~ x, field"), r"'y ~ x, field' lists columns by commas, .*: write y ~ x \+ field$"),
        (lambda: FBS("y, C(h) ~ x,field,"), r"write y \+ C\(h\) ~ x \+ field$"),
        (lambda: FBS("y", "x, C(field, contr.sum), `a, b`"), r"write x \+ C\(field, contr.sum\) \+ `a, b`$"),
        (lambda: FBS("y ~ C(field, levels=['(', 'b']), x"), r"levels=\['\(', 'b'\]\) \+ x$"),
        (lambda: GammaRegression("y", "x, field"), r"write x \+ field$"),
        (lambda: FBS("y", "~"), "there must be a formula"),
        (lambda: FBS("y", "~ x ~ field"), "right-hand side|is not a formula"),
    ],
)
def test_what_is_no_formula_of_both_is_refused(make, says):
    with pytest.raises(InputError, match=says):
        make()


@pytest.mark.parametrize("given", ["~ x + field", "~x + field", "  ~ x + field"])
def test_predictors_may_begin_with_a_tilde(given):
    """As R's one-sided formulas."""
    assert FBS("y", given) == FBS("y", "x + field") and FBS("y", given).predictor_columns == ("field", "x")
    assert FBS(["y", "h"], given) == FBS(["y", "h"], "x + field")
    assert GammaRegression("y", given) == GammaRegression("y ~ x + field")
    assert FBS("y", "~ 1") == FBS("y ~ 1") == FBS("y", "1")


@pytest.mark.parametrize("predictors", ["bs(x, df=4)", "poly(x, 2)"])
def test_splines_and_polynomials_span_what_they_should(predictors):
    """Both contain the straight line, and have the columns that were asked for."""
    assert FBS("y", predictors).predictor_columns == ("x",)
    matrix = prepare(predictors)
    rows = matrix.X[matrix.pattern]
    assert rows.shape[1] == np.linalg.matrix_rank(rows) == 5 - 2 * (predictors[0] == "p")
    assert np.abs(rows @ np.linalg.lstsq(rows, X)[0] - X).max() < 1e-10


@pytest.mark.parametrize("kind", ["str", "string", "object", "category"])
def test_text_predictors_are_categories_whatever_their_type(kind):
    data = prepare(frame=FRAME.astype({"field": kind}))
    np.testing.assert_array_equal(data.X[data.pattern], np.column_stack([ONE, B, C]))


def test_unused_category_is_harmless():
    data = prepare(field=pd.Categorical(FIELD, categories=["a", "b", "c", "empty"]))
    np.testing.assert_array_equal(data.X[data.pattern], np.column_stack([ONE, B, C, 0 * ONE]))
    assert FBS("y", "field", prior="flat").sufficient_statistics(data, ONE).reduced()[0].shape == (3, 4)


@pytest.mark.parametrize(
    ("predictors", "message"),
    [
        ("field +", r"'field \+' is not a formula"), ("", "must be a formula"), (None, "must be a formula"),
        ("y ~ field", "right-hand side"), ("field | gender", "right-hand side"), ("0", "right-hand side"),
        (".", "is not a formula"), ("y + field", "y: an outcome cannot be a predictor"),
        ("center(y)", "y: an outcome cannot be a predictor"), ("nowhere", "no column 'nowhere'; the file has field"),
        ("log(field)", "cannot be evaluated on this file"), ("lag(x)", r"not finite in 1 row \(row numbers 1;"),
        ("{code.cumsum()}", "depend on the order of the records"),
        ("holes", r"'holes' is missing in 1 row \(row numbers 5;"), ("far", r"not finite in 1 row \(row numbers 2;"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_formulas_that_cannot_be_used(predictors, message):
    holes = pd.Series(FIELD).where(np.arange(N) != 4)
    with pytest.raises(InputError, match=message):
        prepare(predictors, holes=holes, far=np.where(np.arange(N) == 1, np.inf, X))


# ---- outcomes and weights


def test_working_scale_is_log_outcome_and_log_of_weight_over_mean_weight():
    data = prepare(FBS(["y", "h"], "field", transform={"y": "log", "h": IdentityTransform(scale=4)}))
    log_weight = np.log(FRAME["w"] / FRAME["w"].mean())
    np.testing.assert_allclose(data.Y, np.column_stack([np.log(FRAME["y"]), FRAME["h"] / 4, log_weight]), rtol=1e-12)
    assert data.public_weights is None


STRATIFIED = 10.0 + 5 * B + 20 * C


def test_public_weights_are_values_of_their_cells():
    """The last digits of a weight would be a record's own; a cell of one record shows nothing about its weight."""
    data = prepare("field", w=STRATIFIED * (1 + 1e-9 * RNG.normal(size=N)))
    assert len(np.unique(data.public_weights)) == 3
    alone = np.where(np.arange(N) == 0, "alone", FRAME["field"])
    with pytest.raises(ModelError, match="cells of one record"):
        FBS("y", "field").prepare(
            SurveyDesign(FRAME.assign(field=alone, w=np.where(alone == "alone", 12.345, STRATIFIED)), weights="w")
        )


@pytest.mark.parametrize(
    ("w", "predictors"),
    [
        (7 * ONE, "field"), (7 * ONE, "x"), (STRATIFIED, "field + x"), (STRATIFIED + 3 * M, "field + gender"),
        (np.exp(X), "x"), (STRATIFIED * (1 + 1e-9 * RNG.normal(size=N)), "field"), (STRATIFIED, "C(code)"),
    ],
)  # fmt: skip
def test_a_weight_that_the_predictors_determine_is_public_and_kept(w, predictors):
    data = prepare(predictors, w=w)
    np.testing.assert_allclose(data.public_weights, w, rtol=1e-8)
    assert (data.public_weights == w).all() or not (w == np.round(w)).all()  # 10 stays 10, not 9.999999999999998
    np.testing.assert_allclose(data.Y, np.log(FRAME[["y"]]))
    said = FBS("y", predictors).assumptions(data)
    assert any("weight is a function of the public predictors" in line for line in said)
    assert FBS("y", predictors).describe(data)["weights"] == "public"


@pytest.mark.parametrize(("w", "predictors"), [(STRATIFIED, "x"), (STRATIFIED, "gender"), (FRAME["w"], "field")])
def test_other_weights_are_modelled(w, predictors):
    data = prepare(predictors, w=w)
    assert data.public_weights is None and data.Y.shape == (N, 2)
    assert FBS("y", predictors).describe(data)["weights"] == "synthesized (smoothed)"


@pytest.mark.parametrize("spread", [1e-6, 3e-4])
def test_a_weight_that_the_predictors_nearly_determine_is_refused(spread):
    with pytest.raises(ModelError, match="nearly, but not quite, a function of the predictors"):
        prepare(w=STRATIFIED * np.exp(spread * RNG.normal(size=N)))


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"y": FRAME["y"].where(np.arange(N) % 20 != 3)}, InputError,
         r"'y' is missing in 3 rows \(row numbers 4, 24, 44; .* say missing='drop'"),
        ({"y": FRAME["y"] - 20_000}, InputError, r"'y' has no log in \d+ rows .*Asinh"),
        ({"y": FRAME["y"] * (np.arange(N) != 9)}, InputError, r"'y' has no log in 1 row \(row numbers 10;"),
        ({"y": np.where(np.arange(N) == 7, np.inf, FRAME["y"])}, InputError, r"'y' has no log in 1 row \(.* 8;"),
        ({"y": FIELD}, InputError, r"'y' is not a number in 60 rows"),
        ({"y": 31_234.5 * ONE}, ModelError, "y is constant"),
        ({"y": 100.0 + 50 * B}, ModelError, r"predictors determine y \(nearly\) completely"),
        ({"y": (100.0 + 50 * B) * (1 + 1e-6 * X)}, ModelError, r"predictors determine y \(nearly\) completely"),
        ({"w": 1e6 / FRAME["y"]}, ModelError, "'y' is nearly proportional to the inclusion probability"),
        ({"w": 1e6 * FRAME["y"] ** 2 * STRATIFIED}, ModelError, "y and the survey weight determine one another"),
    ],
)  # fmt: skip
def test_outcomes_that_cannot_be_synthesized(columns, error, message):
    with pytest.raises(error, match=message) as caught:
        prepare(**columns)
    shown = str(caught.value)
    assert not any(str(v)[:6] in shown for v in pd.DataFrame(columns).select_dtypes("number").to_numpy().flat if v == v)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"outcome": []}, "outcome must name"), ({"outcome": ["y", "y"]}, "outcome must name"),
        ({"prior": "wide"}, "prior='wide' is not one of paper, independent, normal, flat"),
        ({"missing": "ignore"}, "is not one of fail, drop"),
        ({"transform": "sqrt"}, "is not one of log, identity, asinh"),
        ({"transform": "identity"}, r"identity needs a public scale.*surveysynth.IdentityTransform\(scale=\.\.\.\)"),
        ({"transform": "asinh"}, r"asinh needs a public scale.*surveysynth.AsinhTransform\(scale=\.\.\.\)"),
        ({"transform": {"h": "log"}}, "transform names other columns"),
    ],
)  # fmt: skip
def test_options_that_mean_nothing(arguments, message):
    with pytest.raises(InputError, match=message):
        FBS(**({"outcome": "y", "predictors": "field"} | arguments))


# ---- transforms


@pytest.mark.parametrize(
    ("transform", "forward", "said"),
    [
        (LogTransform(), lambda y: np.log(np.where(y > 0, y, np.nan)), "outcome's own unit does not matter"),
        (IdentityTransform(scale=1000), lambda y: y / 1000, "per 1000 units of the outcome"),
        (
            AsinhTransform(scale=50),
            lambda y: np.sign(y) * np.log(np.abs(y) / 50 + np.sqrt((y / 50) ** 2 + 1)),
            "outcome / 50",
        ),
    ],
)
def test_transforms_go_to_the_working_scale_and_back(transform, forward, said):
    y = np.array([-3e5, -40.0, -1e-3, 0.0, 1e-3, 1.0, 49.0, 1e6])
    z = transform.forward(y)
    np.testing.assert_allclose(z, forward(y), rtol=1e-9)
    np.testing.assert_allclose(transform.inverse(z)[np.isfinite(z)], y[np.isfinite(z)], rtol=1e-9)
    assert said in transform.describe()


@pytest.mark.parametrize("scale", [0, -1, np.nan, np.inf])
@pytest.mark.parametrize("kind", [IdentityTransform, AsinhTransform])
def test_scales_are_positive_numbers(kind, scale):
    with pytest.raises(InputError, match="public and not computed from the file, must be a positive number"):
        kind(scale=scale)


def test_transforms_by_name():
    assert as_transform("log") == LogTransform()
    assert as_transform("identity", 3.0) == IdentityTransform(3.0)
    assert as_transform("asinh", 3.0) == AsinhTransform(3.0) == as_transform(AsinhTransform(3.0))
    with pytest.raises(InputError, match="no scale"):
        as_transform("log", 3.0)
