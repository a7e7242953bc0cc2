"""Messages in the words of plans: what they ask for can be typed."""

import pytest

from surveysynth.plan.words_of_plans import in_words_of_plans


@pytest.mark.parametrize(
    ("python", "plan"),
    [
        ("declare it, FBS(..., weight='public')", "declare it, weight = 'public' in [model]"),
        ("another place, or overwrite=True", "another place, or --overwrite"),
        ("say so: missing_codes={'pay': [-9, -8]}", "say so: missing_codes = {pay = [-9, -8]} in [survey]"),
        ("use mechanism=PseudoPosterior(), whose", "use mechanism = 'pseudo-posterior' in [privacy], whose"),
        ("Strict() has no bound for categories", "the strict mechanism has no bound for categories"),
        ("say mechanism=WeightedE()", "say mechanism = 'weighted-e' in [privacy]"),
        ("under Strict() say zeros=True", "under the strict mechanism say zeros = true in [model]"),
        ("prior='flat' is not one of paper", "prior='flat' is not one of paper"),  # that was given
        ("resume 'runs/epsilon=10/r' publishes it", "resume 'runs/epsilon=10/r' publishes it"),
        ("'weights=True.csv' is not a file", "'weights=True.csv' is not a file"),
        ("m=125 is not one of", "m=125 is not one of"),
        ("-8 = \"don't know\": say missing_codes={'pay': [-8]}",
         "-8 = \"don't know\": say missing_codes = {pay = [-8]} in [survey]"),
        ('declare outcomes={"HI CHOL": Outcome(..., missing="category")}',
         "declare missing = 'category' in [outcomes.\"HI CHOL\"]"),
        ("the levels of 'job', outcomes={'job': Outcome(levels=[...])}",
         "the levels of 'job', levels = [...] in [outcomes.job]"),
        ("say m=3", "say m = 3 in [release]"),
        ("column 'Strict()' and 'Foo(..., bar)'", "column 'Strict()' and 'Foo(..., bar)'"),
        ("C(x)=3, and size=3 too", "C(x)=3, and size=3 too"),
        ("transform=surveysynth.AsinhTransform(scale=...)", "transform=surveysynth.AsinhTransform(scale=...)"),
    ],
)
def test_arguments_are_entries(python, plan):
    assert in_words_of_plans(python) == plan
