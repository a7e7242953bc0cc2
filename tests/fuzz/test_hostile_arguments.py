"""Any value in the place of any argument of any public function: it is used, or refused with a sentence of ours."""

import inspect
import random
import re

import pytest

import surveysynth as ss
from tests.fuzz.hostile import calls, hostile_calls
from tests.fuzz.strategies import PLANTED, TIMES

pytestmark = pytest.mark.filterwarnings("ignore")

QUICK = 1500  # of some 28,000 cases
NO_CALLS = {  # what is made by others, or is a namespace or an error
    "Changes", "Comparison", "EngineError", "Fit", "InputError", "JointEstimates", "LaplaceTables", "LogTransform",
    "Measurements", "MembershipAttack", "ModelError", "NormalScores", "NotFitForRelease", "Policy", "PrivacyCost",
    "PrivacyError", "Regression", "Release", "StanModel", "SurveySynthError",
    "Synthesizer", "__version__", "datasets", "r", "sampling", "studies",
}  # fmt: skip
OURS = re.compile("got an unexpected keyword argument")  # a TypeError of check_keywords


def faults(cases):
    """Exceptions that are not the package's, and sentences with a confidential value, by case."""
    found = []
    for name, function, arguments in cases:
        try:
            function(**arguments)
        except ss.SurveySynthError as error:
            if PLANTED.search(str(error)) or not str(error).strip():
                found.append(f"{name}: a confidential value, or nothing, in: {error}")
        except Exception as error:
            if not (isinstance(error, TypeError) and OURS.search(str(error))):
                found.append(f"{name}: {type(error).__name__}")
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where what a call writes goes."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def test_some_hostile_arguments_are_refused_in_our_words(folder):
    cases = list(hostile_calls(folder))
    assert faults(random.Random(1).sample(cases, QUICK)) == []


@pytest.mark.slow
def test_every_hostile_argument_is_refused_in_our_words(folder):
    for again in range(TIMES):
        place = folder / str(again)
        place.mkdir()
        cases = list(hostile_calls(place))
        random.Random(again).shuffle(cases)  # what one call leaves behind is what the next one finds
        assert faults(cases) == []


def test_every_public_function_is_among_the_calls(folder):
    called = {name.partition(".")[0] for name in calls(folder)}
    public = {name for name in ss.__all__ if callable(getattr(ss, name)) or inspect.ismodule(getattr(ss, name))}
    assert public - NO_CALLS <= called
