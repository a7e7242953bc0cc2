"""Messages reach R in its own words: its functions, arguments and values."""

import re
from pathlib import Path

import pytest

import surveysynth as ss
from surveysynth import errors
from surveysynth.r.words_of_r import MADE_IN_R, _functions, in_words_of_r

R_PACKAGE = Path(__file__).parents[1] / "r_bridge"


@pytest.mark.parametrize(
    ("python", "r"),
    [
        ("one of surveysynth.LogTransform(), AsinhTransform(scale=...)", 'one of "log", asinh_transform(scale = ...)'),
        ("accept_diagnostics=['rhat', 'ess_bulk']", 'accept_diagnostics = c("rhat", "ess_bulk")'),
        ("by name: accept_diagnostics=['information'] (--accept information)",
         'by name: accept_diagnostics = c("information")'),
        ("bands={'age': [25, 45, 65]}", "bands = list(age = c(25, 45, 65))"),
        ("bounds={'weight': (low, high), ...}", "bounds = list(weight = c(low, high), ...)"),
        ("or choose lonely_psu='remove'", 'or choose options(survey.lonely.psu = "remove")'),
        ("or use prior='flat'; missing='drop'", 'or use prior = "flat"; missing = "drop"'),
        ("Give combined=False, and they", "Give svrepdesign(combined.weights = FALSE), and they"),
        ("symbols='us' is not one of statcan, uk", 'symbols = "us" is not one of statcan, uk'),
        ("how much: epsilon=, or a larger epsilon= here", "how much: epsilon, or a larger epsilon here"),
        ("more draws (draws=, warmup=)", "more draws (draws, warmup)"),
        ("or overwrite=True for a release", "or overwrite = TRUE for a release"),
        ("bounds=(lowest, highest) of pay, or mechanism=PseudoPosterior()",
         "bounds = c(lowest, highest) of pay, or mechanism = pseudo_posterior()"),
        ("the levels of 'job', outcomes={'job': Outcome(levels=[...])}",
         "the levels of 'job', outcomes = list(job = outcome(levels = c(...)))"),
        ('say outcomes={"pay": Outcome(..., missing="category")}, or',
         'say outcomes = list(pay = outcome(..., missing = "category")), or'),
        ("write outcomes={'pay': Outcome(bounds=(0, 1e6), whole=True), ...}",
         "write outcomes = list(pay = outcome(bounds = c(0, 1e6), whole = TRUE), ...)"),
        ("bounds=(0, 1_000_000)", "bounds = c(0, 1000000)"),
        ("of PseudoPosterior() or the clamp of Censored(weighted=False)",
         "of pseudo_posterior() or the clamp of censored(weighted = FALSE)"),
        ("say FBS(..., weight='public')", 'say fbs(..., weight = "public")'),
        ("weight: use FBS, or put", "weight: use fbs(), or put"),
        ("use PseudoPosterior or WeightedE", "use pseudo_posterior() or weighted_e()"),
        ("NegativeBinomial has no debias for it", "negbin() has no debias for it"),
        ("and Beta models the outcome alone", "and beta_regression() models the outcome alone"),
        ("rows 1, 2; Poisson is a model of counts", "rows 1, 2; poisson_counts() is a model of counts"),
        ("Poisson selection", "Poisson selection"),
        ("the paper's prior of FBP is for one; use surveysynth.FBS('y', 'x')",
         "the paper's prior of fbp() is for one; use fbs('y', 'x')"),
        ("outcome 'FBS' is missing, and 'a=True'", "outcome 'FBS' is missing, and 'a=True'"),
        ("CountRisk(radius=2) or LipschitzRisk()", "count_risk(radius = 2) or lipschitz_risk()"),
        ("IdentificationRule looks at", "identification_rule() looks at"),
        ("relative must be True or False", "relative must be TRUE or FALSE"),
        ("epsilon must be None for kind='none'", 'epsilon must be NULL for kind = "none"'),
        ("None of the records", "None of the records"),
        ("for example [0.25, 0.5]", "for example c(0.25, 0.5)"),
        ("write C(employed)", "write factor(employed)"),
        ("levels={'job': ['...', '...']}, or", 'levels = list(job = c("...", "...")), or'),
        ("column 'ok' is of type bool, not a number", "column 'ok' is of type logical, not a number"),
        ("column 'day' is of type date32[day][pyarrow], not", "column 'day' is of type Date, not"),
        ('missing="maybe" is not one of None, category', 'missing = "maybe" is not one of NULL, category'),
        ("debias='yes' is not one of False, True", 'debias = "yes" is not one of FALSE, TRUE'),
        ("of their own: frame['sex'].fillna('missing'), or in a plan [columns.sex] missing = 'category'",
         'of their own: design <- update(design, sex = ifelse(is.na(sex), "missing", as.character(sex)))'),
        ("or make the column categorical with them. job", "or make the column a factor with them. job"),
        ("design.frame['job'].value_counts() lists", "table(design$variables$job) lists"),
    ],
)  # fmt: skip
def test_messages_are_in_words_of_r(python, r):
    assert in_words_of_r(python) == r


def test_every_function_that_messages_name_is_one_of_the_r_package():
    exported = set(re.findall(r"export\((\w+)\)", (R_PACKAGE / "NAMESPACE").read_text()))
    assert set(_functions().values()) <= exported
    assert set(MADE_IN_R) <= set(ss.__all__)


def test_errors_have_codes_that_r_makes_classes_of():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {kind.__name__: kind.code for kind in kinds if issubclass(kind, ss.SurveySynthError)}
    assert codes == {
        "SurveySynthError": "error", "InputError": "input", "ModelError": "model", "PrivacyError": "privacy",
        "EngineError": "engine", "NotFitForRelease": "diagnostics",
    }  # fmt: skip
    page = (R_PACKAGE / "man" / "surveysynth_conditions.Rd").read_text()
    assert all(f"surveysynth_{code}_error" in page for name, code in codes.items() if name != "SurveySynthError")
