"""The rule that no record may be too likely to be identified: against the definition, and what it leaves untouched."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from surveys import make_design, make_frame, model, population_model

import surveysynth as ss
from surveysynth.synthesis import fitting as synthesis
from tests.surveys import PSEUDO

ASKED = {"epsilon": 10.8, "m": 3, "seed": 1}


def risks(y, pattern, files, near):
    """Eq. 8 of Hu, Savitsky & Williams (2022b), over the files; ``near(value, i)``: who is in the ball of record i."""
    found = np.zeros(len(y))
    for file in files:
        for i in range(len(y)):
            alike = [h for h in range(len(y)) if pattern[h] == pattern[i]]
            outside = sum(not near(file[h], i) for h in alike)
            found[i] += near(file[i], i) * outside / len(alike) / len(files)
    return found


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(2, 25), st.booleans(), st.sampled_from([0, 0.3, 0.5]))
def test_a_release_is_stopped_if_and_only_if_a_record_is_above(seed, n, relative, most):
    """Integers and quarters, so that values lie on the edges of balls and risks on the limit itself."""
    rng = np.random.default_rng(seed)
    y, pattern = rng.integers(-5, 20, n).astype(float), rng.integers(0, 2, n)
    files = [rng.integers(-5, 20, (n, 1)).astype(float) for _ in range(2)]
    radius = 0.25 if relative else 3.0

    def near(value, i):
        return abs(value[0] - y[i]) <= max(radius * abs(y[i]) if relative else radius, 1)

    expected = risks(y, pattern, files, near)
    design = ss.SurveyDesign(pd.DataFrame({"y": y, "p": pattern, "w": 1.0}), weights="w")
    outcomes = SimpleNamespace(outcomes=("y",), numeric=("y",), categorical=())
    above = int((expected > most + 1e-9).sum())
    rule = ss.IdentificationRule("p", most, radius, relative, floor=1)
    if not above:
        rule.enforce(design, outcomes, files)
        return
    with pytest.raises(ss.PrivacyError, match=rf"^{above} of {n} records have .* above {most:g} in these") as stopped:
        rule.enforce(design, outcomes, files)
    assert "nothing is released" in str(stopped.value) and "Do not publish that" in str(stopped.value)


def test_a_mean_that_is_the_limit_is_not_above_it():
    """(1/3 + 2/3 + 1/2) / 3 = 1/2, which floating-point numbers may miss."""
    y = np.full(6, 100.0)
    files = [np.where(np.arange(6) < inside, 100.0, 900.0)[:, None] for inside in (4, 2, 3)]
    design = ss.SurveyDesign(pd.DataFrame({"y": y, "w": 1.0}), weights="w")
    outcomes = SimpleNamespace(outcomes=("y",), numeric=("y",), categorical=())
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        ss.IdentificationRule([], 0.5).enforce(design, outcomes, [files[k] for k in order])
    with pytest.raises(ss.PrivacyError, match=r"^2 of 6 records"):
        ss.IdentificationRule([], 0.4999999).enforce(design, outcomes, files)


@pytest.mark.slow
@pytest.mark.parametrize("synthesizer", [model(), population_model()], ids=lambda s: s.name)
@pytest.mark.parametrize("debias", [False, True])
def test_the_rule_is_about_the_data_sets_that_are_released(synthesizer, debias):
    """As many are above as in the release of the same seed that no rule looked at, whose values it leaves alone."""
    free = ss.synthesize(make_design(), synthesizer, debias=debias, **({"mechanism": PSEUDO} | ASKED))
    frame = make_frame()
    orders = zip(free.datasets, free.internal["rows"], strict=True)
    back = [data.frame["income"].to_numpy()[np.argsort(rows)] for data, rows in orders]
    y, known = frame["income"].to_numpy(), frame["field"] + frame["gender"]
    risk = risks(y, known.to_numpy(), back, lambda value, i: abs(value - y[i]) <= 0.2 * y[i])
    most = float(np.quantile(risk, 0.9))
    with pytest.raises(ss.PrivacyError, match=rf"^{(risk > most + 1e-9).sum()} of 400 records"):
        rule = ss.IdentificationRule(["field", "gender"], most)
        ss.synthesize(make_design(), synthesizer, debias=debias, rule=rule, **({"mechanism": PSEUDO} | ASKED))
    lax = ss.IdentificationRule(["field", "gender"], float(risk.max()) + 1e-9)
    passed = ss.synthesize(make_design(), synthesizer, debias=debias, rule=lax, **({"mechanism": PSEUDO} | ASKED))
    for ours, theirs in zip(passed.datasets, free.datasets, strict=True):
        pd.testing.assert_frame_equal(ours.frame, theirs.frame, check_exact=True)
    assert passed.privacy.data_dependent[:-1] == free.privacy.data_dependent
    said = passed.privacy.data_dependent[-1]
    assert said.startswith("that these data sets passed a rule: the probability of identification by an intruder who ")
    ball = "within a radius (0.2 times the record's value), averaged over the data sets"
    assert f"knows field, gender and its value, {ball}, is at most {lax.max_risk:g}" in said
    assert said in str(passed.privacy) and "rule" not in str(free.privacy)


def test_a_release_that_is_stopped_spends_nothing_and_leaves_no_trace(tmp_path):
    ledger = ss.Ledger(tmp_path / "ledger.jsonl", "income survey", cap=12, create=True)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    fit = ss.fit(make_design(), model(), **({"mechanism": PSEUDO} | ASKED))
    with pytest.raises(ss.PrivacyError, match="no epsilon is spent"):
        fit.release(rule=ss.IdentificationRule("field", 0), ledger=ledger)
    assert fit.used == [] and fit.epsilon_spent == 0 and (tmp_path / "ledger.jsonl").read_bytes() == before
    with pytest.raises(ss.PrivacyError, match="no epsilon is spent"):
        ss.synthesize(
            make_design(),
            model(),
            rule=ss.IdentificationRule("field", 0),
            ledger=ledger,
            **({"mechanism": PSEUDO} | ASKED),
        )
    assert (tmp_path / "ledger.jsonl").read_bytes() == before
    release = fit.release(rule=ss.IdentificationRule("field", 0.99), ledger=ledger)
    assert "released from the same fit before" not in str(release.privacy)
    assert len(fit.used) == 3 and float(ledger.spent.blank) == release.privacy.epsilon
    fit.used.clear()
    with pytest.raises(ss.PrivacyError, match="cap"):  # asked before the rule
        fit.release(rule=ss.IdentificationRule("field", 0), ledger=ledger)


def test_an_interruption_is_no_refusal(monkeypatch):
    """Draws of a release that was interrupted are not used again; those of one that the rule stopped may be."""
    fit = ss.fit(make_design(), model(), **({"mechanism": PSEUDO} | ASKED))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ss.IdentificationRule, "enforce", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit.release(rule=ss.IdentificationRule([]))
    assert len(fit.used) == 3


def test_records_without_an_outcome_are_in_no_pattern():
    """Neither they nor what they lack of the known columns count."""
    frame = make_frame(80)
    frame.loc[[0, 7, 50], "income"] = np.nan
    frame.loc[7, "gender"] = None
    release = ss.synthesize(
        ss.SurveyDesign(frame, weights="wt"), model("field", missing="drop"), epsilon=40, m=2, seed=1,
        rule=ss.IdentificationRule("gender", 0.99), mechanism=PSEUDO
    )  # fmt: skip
    assert release.datasets[0].n == 77
    frame.loc[8, "gender"] = None
    with pytest.raises(ss.InputError, match=r"known column 'gender' is missing in 1 row "):
        ss.synthesize(
            ss.SurveyDesign(frame, weights="wt"), model("field", missing="drop"), epsilon=40, m=2, seed=1,
            rule=ss.IdentificationRule("gender", 0.99), mechanism=PSEUDO
        )  # fmt: skip


def test_a_rule_and_a_strict_guarantee_do_not_go_together():
    rule = ss.IdentificationRule([], 0.999, radius=0.1, floor=5)
    fit = replace(
        ss.fit(make_design(), model(), **({"mechanism": PSEUDO} | ASKED)), mechanism=ss.Censored()
    )  # spares a censored fit
    with pytest.raises(ss.InputError, match="no longer strictly private: leave the rule out"):
        fit.release(rule=rule)
    with pytest.raises(ss.InputError, match="no longer strictly private"):  # before the fit
        ss.synthesize(make_design(), model(), mechanism=ss.Censored(epsilon=10), population_total=1e4, rule=rule)


def made(rule, synthesizer=None, frame=None, **levels):
    design = ss.SurveyDesign(make_frame() if frame is None else frame, weights="wt")
    ss.synthesize(design, synthesizer or model(), rule=rule, **({"mechanism": PSEUDO} | ASKED | levels))


@pytest.mark.parametrize(
    ("make", "match"),
    [(lambda: ss.IdentificationRule("a", 1.0), "max_risk must be a number from 0 to below 1"),
     (lambda: ss.IdentificationRule("a", -0.1), "max_risk must be a number"),
     (lambda: ss.IdentificationRule("a", np.nan), "max_risk must be a number"),
     (lambda: ss.IdentificationRule("a", "half"), "max_risk must be a number"),
     (lambda: ss.IdentificationRule("a", True), "max_risk must be a number"),
     (lambda: ss.IdentificationRule(1), "a name was expected"),
     (lambda: ss.IdentificationRule("a", radius=-1), "radius must be a finite number, not negative"),
     (lambda: ss.IdentificationRule("a", relative=1), "relative must be True or False"),
     (lambda: made(0.5), r"rule must be a surveysynth.IdentificationRule\(known, max_risk=0.5\)"),
     (lambda: made(ss.IdentificationRule("income")), "known column 'income' is synthesized"),
     (lambda: made(ss.IdentificationRule(["field", "none"])), "'none'"),
     (lambda: made(ss.IdentificationRule([], radius=(1, 2))), r"IdentificationRule\(\): radius has 2 numbers"),
     (lambda: made(ss.IdentificationRule([]), ss.FBS("C(gender)", "field"), levels={"gender": ["f", "m"]}),
      "there are none: release without a rule"),
     (lambda: made(ss.IdentificationRule("hours"), frame=make_frame().assign(hours=[np.nan] + [1.0] * 399)),
      r"known column 'hours' is missing in 1 row \(row numbers 1;")],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_the_fit(make, match, monkeypatch):
    monkeypatch.setattr(synthesis, "fitted", lambda *_, **__: pytest.fail("there was a fit"))
    with pytest.raises(ss.InputError, match=match):
        make()


def test_the_message_holds_no_value():
    frame = make_frame()
    with pytest.raises(ss.PrivacyError) as stopped:
        made(ss.IdentificationRule(["field", "gender"], 0))
    numbers = {float(x) for x in re.findall(r"\d+(?:\.\d+)?", str(stopped.value))}
    assert not numbers & set(frame["income"]) and "ökonomie" not in str(stopped.value)
