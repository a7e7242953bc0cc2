"""Every setting has one name, in Python, in a plan and in R."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import pytest

import surveysynth as ss
from surveysynth.plan.sections import SECTIONS, OutcomeSettings
from surveysynth.plan.settings import Settings

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("settings_page", ROOT / "docs" / "site" / "settings.py")
settings_page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(settings_page)

# how long, how exactly and where it is computed is no part of what is released; seeds are for tests
NOT_IN_PLANS = {"design", "chains", "warmup", "draws", "tolerance", "seed", "scheduler"}
# where a cluster computes: R counts in memory
NOT_IN_R = {"scheduler"}


def keywords(*called):
    return {name for each in called for name in settings_page.keywords(each)}


def test_synthesize_has_fourteen_keywords():
    assert len(set(settings_page.keywords(ss.synthesize)) - {"design", "synthesizer"}) == 14


@pytest.mark.parametrize("called", [ss.synthesize, ss.measure, ss.fit, ss.Fit.release], ids=lambda f: f.__qualname__)
def test_every_argument_is_an_entry_of_a_plan_by_its_name(called):
    entries = {entry for kind in SECTIONS.values() for entry in kind.model_fields} | {"outcomes"}
    others = {*settings_page.PLACES}
    assert keywords(called) - entries - others - NOT_IN_PLANS == set()


def test_r_and_python_have_the_same_arguments():
    of_python = keywords(ss.synthesize, ss.measure, ss.fit, ss.Fit.release) - {"formula", "delta"}
    assert {*settings_page.in_r("synthesize")} == of_python - NOT_IN_R


def test_settings_have_every_section():
    assert {name: SECTIONS[name] for name in Settings.model_fields} == SECTIONS


def test_an_outcome_has_the_same_fields_everywhere():
    fields = [field.name for field in dataclasses.fields(ss.Outcome)]
    assert [*OutcomeSettings.model_fields] == fields == settings_page.in_r("outcome")


def test_the_page_of_settings_is_what_the_package_says():
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == settings_page.page(), "run python docs/site/settings.py"


def test_the_documentation_of_synthesize_names_every_further_setting():
    further = keywords(ss.measure, ss.fit, ss.Fit.release) - keywords(ss.synthesize) - {"formula", "delta"}
    text = ss.synthesize.__doc__.partition("**settings")[2]
    assert {name for name in further if f"``{name}``" not in text} == set()
