"""The published epsilon and the privacy report (method 6, honest labels; 11.6)."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from surveysynth.privacy.report import PrivacyReport, public_epsilon


@settings(derandomize=True)
@given(exact=st.floats(1e-4, 1e4))
@example(exact=1.1)  # 1.1 * 100 is above 110 in floating point
@example(exact=0.29)  # and 0.29 * 100 below 29
@example(exact=math.nextafter(10.8, 11))
@example(exact=math.nextafter(0.57, 1))
def test_public_epsilon_is_the_next_hundredth_and_never_below_the_exact_one(exact):
    public = public_epsilon(exact, None)
    assert public == math.ceil(Fraction(repr(exact)) * 100) / 100 >= exact


@settings(derandomize=True)
@given(exact=st.floats(1e-4, 1e4), room=st.floats(0, 0.02))
def test_public_epsilon_is_never_above_the_request(exact, room):
    requested = exact * (1 + room)
    public = public_epsilon(exact, requested)
    assert exact <= public <= requested
    assert public in (requested, public_epsilon(exact, None))


REPORT = PrivacyReport(
    kind="asymptotic", epsilon=10.79, epsilon_requested=10.8, m=3, draws=4000, verdict="Sampler diagnostics passed.",
    assumptions=["predictors are public", "population total is public"], data_dependent=["the privacy weights"],
    publishable=True, internal={"epsilon_exact": 10.78123456},
)  # fmt: skip


def test_report_says_every_item_of_the_honest_label():
    """Kind, both neighbour relations, draws behind the maximum, verdict, what was public, what was computed."""
    text = str(REPORT)
    for item in [
        "asymptotic", "epsilon = 10.79 (asked for: 10.8)", "m = 3", "not a strict", "local to this file",
        "add or remove one record: epsilon = 10.79", "replace one record: epsilon = 21.58", "4,000 posterior draws",
        "Sampler diagnostics passed.", "predictors are public", "population total is public", "the privacy weights",
        "fit for publication",
    ]:  # fmt: skip
        assert item in text, item
    assert "10.78123456" not in text


def test_public_report_is_json_without_internal_numbers():
    said = json.loads(json.dumps(REPORT.public()))
    assert "10.78123456" not in json.dumps(said) and "internal" not in said
    assert said["neighbours"] == {"add or remove one record": 10.79, "replace one record": 21.58}
    assert {said[k] for k in ("kind", "epsilon", "epsilon_requested", "m")} == {"asymptotic", 10.79, 10.8, 3}
    assert said["diagnostics"] == "Sampler diagnostics passed." and said["draws_behind_the_maximum"] == 4000
    assert said["assumptions"] == REPORT.assumptions and said["data_dependent"] == REPORT.data_dependent
    assert said["guarantee"].startswith("Asymptotic differential privacy: 2 * Delta * m is at most epsilon")


@pytest.mark.parametrize("publishable", [True, False])
def test_seeded_runs_are_marked(publishable):
    report = replace(REPORT, publishable=publishable)
    assert ("reproducible, not for publication" in str(report)) is not publishable
    assert report.public()["publication"] == report.publication


@pytest.mark.parametrize("mechanism", ["censored", "perturbed histogram"])
def test_a_strict_report_is_for_values_that_are_blanked_or_replaced(mechanism):
    """n is public there, so that no record is added or removed; replacing is two steps of blanking."""
    report = replace(REPORT, kind="strict", mechanism=mechanism)
    said = {"blank one record's confidential values": 10.79, "replace one record's confidential values": 21.58}
    assert report.neighbours == report.public()["neighbours"] == said
    text = str(report)
    assert all(f"  - {name}: epsilon = {value:g}" in text for name, value in said.items())
    assert "add or remove" not in text and "added or removed" not in text and "2 epsilon" in report.guarantee
    households = replace(report, unit="household").neighbours
    assert next(iter(households)) == "blank the confidential values of all records of one 'household'"
