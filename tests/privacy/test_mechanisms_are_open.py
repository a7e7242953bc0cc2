"""A mechanism is one class and one line in the list: the one of docs/extending.md is added and goes the whole way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import surveysynth as ss
from surveysynth.cli.app import app
from surveysynth.plan.words_of_plans import in_words_of_plans
from surveysynth.privacy.mechanisms import MECHANISMS, RecordMechanism
from surveysynth.r import words_of_r
from tests import guide

R_EXPORTS = (Path(__file__).parents[2] / "r_bridge" / "NAMESPACE").read_text(encoding="utf-8")


EvenWeights = guide.made_by("even_weights.py")["EvenWeights"]


@pytest.fixture(autouse=True)
def listed(monkeypatch) -> Iterator[None]:
    """The one line."""
    monkeypatch.setitem(MECHANISMS, EvenWeights.name, EvenWeights)
    caches = words_of_r._functions, words_of_r._words
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


MODEL = ss.FBS("salary ~ field + gender", prior="flat")


def test_it_releases_prints_writes_and_reads_back(tmp_path):
    release = ss.synthesize(ss.datasets.sdr_sample(seed=1), MODEL, epsilon=30, mechanism=EvenWeights(), seed=2)
    assert np.ptp(release.internal["records"]["alpha"]) == 0
    assert "All weights are even, for every record." in str(release.privacy)
    assert release.privacy.neighbours.keys() == {"add or remove one record", "replace one record"}
    assert "even weights" in str(release.privacy.public())
    release.write(tmp_path / "release")
    back = ss.read_release(tmp_path / "release")
    assert str(back.privacy) == str(release.privacy) and back.privacy.mechanism == "even weights"
    again = CliRunner().invoke(app, ["tables", str(tmp_path / "release"), "--by", "gender"])
    assert again.exit_code == 0, again.output


def test_a_plan_names_it_checks_it_and_gives_it_options(tmp_path):
    design = ss.datasets.sdr_sample(seed=1)
    plan = ss.Plan(
        design, "salary ~ field + gender", epsilon=30, mechanism="even-weights", options={"most": 0.25},
        population_total=100_000, accept=["information"], transform="log", prior="flat",
    )  # fmt: skip
    assert "even-weights (asymptotic)" in str(plan.check())
    release = plan.release(seed=3)
    alpha = release.internal["records"]["alpha"]
    assert np.ptp(alpha) == 0 and alpha.iloc[0] <= 0.25
    with pytest.raises(ss.InputError, match=r"privacy\.options"):
        plan.set(options={"least": 0.1}).check()
    with pytest.raises(ss.InputError, match=r"privacy\.c1: not with privacy\.mechanism = 'even-weights'"):
        plan.set(c1=0.5).check()
    design.frame.to_csv(tmp_path / "file.csv", index=False)
    drafted = ss.Plan.draft(
        tmp_path / "file.csv", formula="salary ~ field + gender", weights="weight", set={"privacy.epsilon": 9.0},
        mechanism="even-weights", options={"most": 0.5}, guess=False,
    )  # fmt: skip
    drafted.save(tmp_path / "plan.toml")
    read = ss.Plan.read(tmp_path / "plan.toml").settings.privacy
    assert read.mechanism == "even-weights" and read.options == {"most": 0.5}


def test_without_the_line_its_name_is_refused_with_the_names_there_are(monkeypatch):
    monkeypatch.delitem(MECHANISMS, EvenWeights.name)
    with pytest.raises(ss.InputError, match=r"should be 'strict', 'pseudo-posterior'.* not 'even-weights'"):
        ss.Plan(ss.datasets.sdr_sample(seed=1), "salary ~ field", mechanism="even-weights")


def test_command_line_and_r_have_it_in_their_lists():
    assert in_words_of_plans("mechanism=EvenWeights()") == "mechanism = 'even-weights' in [privacy]"
    assert words_of_r.in_words_of_r("mechanism=EvenWeights(most=0.5)") == "mechanism = even_weights(most = 0.5)"
    listed = CliRunner().invoke(app, ["plan", "--entries"])
    assert listed.exit_code == 0 and "even-weights" in listed.output


def test_every_mechanism_of_the_package_is_a_function_of_the_r_package():
    for mechanism in MECHANISMS.values():
        if mechanism is not EvenWeights:
            assert f"export({mechanism.in_r})" in R_EXPORTS, mechanism


def test_a_class_that_says_too_little_or_is_not_listed_is_refused_before_any_fit(monkeypatch):
    monkeypatch.delitem(MECHANISMS, EvenWeights.name)
    monkeypatch.setattr(ss.FBS, "fit", lambda *_: pytest.fail("there was a fit"))
    design = ss.datasets.sdr_sample(seed=1)
    with pytest.raises(ss.InputError, match=r"in no list.* MECHANISMS\[EvenWeights.name\] = EvenWeights"):
        ss.synthesize(design, MODEL, epsilon=30, mechanism=EvenWeights())
    bare = type("Bare", (RecordMechanism,), {"fit": EvenWeights.fit})
    with pytest.raises(ss.InputError, match="the mechanism Bare lacks name, in_r, guarantees;"):
        ss.synthesize(design, MODEL, epsilon=30, mechanism=bare())


def test_a_subclass_of_strict_is_not_taken_for_strict():
    class Louder(ss.Strict):
        pass

    design = ss.datasets.census_sample(200, seed=1)
    asked = {"epsilon": 5, "population_total": 29_501, "bounds": (0, 20_000)}
    with pytest.raises(ss.InputError, match="Louder is in no list"):
        ss.synthesize(design, "income ~ education", mechanism=Louder(), **asked)
