"""Arguments that have no effect are refused, and a wrong name is told by the function that was called."""

import difflib
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from surveys import PSEUDO, make_design, model

import surveysynth as ss
from surveysynth import InputError


@pytest.fixture(scope="module")
def release():
    return ss.synthesize(make_design(), model(), epsilon=10.8, m=2, seed=1, mechanism=PSEUDO)


@pytest.fixture(scope="module")
def design():
    return make_design()


# without effect

IDLE = {  # arguments that have no effect on a mean, and what the message says
    "quantiles": ([0.25, 0.75], "quantiles= goes with statistic='quantile': it has no effect on statistic='mean'"),
    "poverty_line": (9.0, "poverty_line= goes with statistic='poverty_rate': it has no effect on statistic='mean'"),
    "denominator": ("hours", "statistic='ratio' and denominator= go together"),
    "interval": ("beta", "interval= goes with statistic='proportion' or statistic='poverty_rate' or"),
}


@pytest.mark.parametrize("name", IDLE)
def test_of_a_mean(name, design, release):
    value, message = IDLE[name]
    given, gap = {name: value}, {"between": {"gender": ("f", "m")}}
    calls: list[Callable[[], Any]] = [
        lambda: ss.estimate(design, "income", **given),
        lambda: release.tables(outcome="income", statistic="mean", **given),
        lambda: release.write_tables("t.html", statistic="mean", **given),
        lambda: release.plot("t.svg", statistic="mean", **given),
    ]
    if name != "interval":
        calls += [
            lambda: ss.difference(design, "income", **gap, **given),
            lambda: ss.difference({"a": design, "b": design}, "income", **given),
            lambda: release.differences(**gap, **given),
        ]
    if name in ("quantiles", "poverty_line"):
        calls += [
            lambda: release.write("folder", statistic="mean", **given),
            lambda: ss.compare(design, release, statistic="mean", **given),
        ]
    if name == "denominator":
        calls += [lambda: ss.joint_estimates(design, "income", **given)]
    for call in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert message in str(caught.value)


@pytest.mark.parametrize("quantiles", [0.5, [0.25], []])
def test_beside_the_statistics_by_default(release, tmp_path, quantiles):
    """Which are counts, and means or proportions by what outcomes are: never quantiles."""
    for call in (release.tables, lambda **given: release.write(tmp_path / "folder", **given)):
        with pytest.raises(InputError, match=r"goes with statistic='quantile': .* statistic=\['count', 'mean'\]"):
            call(quantiles=quantiles)
    assert not (tmp_path / "folder").exists()


def test_other_arguments(design, release, tmp_path):
    counts = "has no effect on statistic='count', which counts population units"
    for call, message in [
        (lambda: ss.estimate(design, "income", statistic="count"), f"outcome= {counts}"),
        (lambda: release.tables(outcome="income", statistic="count"), f"outcome= {counts}"),
        (lambda: release.joint_estimates("income", statistic="count"), f"outcome= {counts}"),
        (lambda: ss.joint_estimates(design, "income", statistic="count"), f"outcome= {counts}"),
        (lambda: ss.estimate(design, "income", statistic="gini", deff=True), "deff= goes with statistic='mean' or"),
        (lambda: release.tables(statistic="count", deff="replace"), "deff= goes with statistic='mean' or"),
        (lambda: release.write_tables(tmp_path / "t.csv", symbols="uk"), "a csv has full numbers, without marks"),
        (lambda: release.write_tables(tmp_path / "t.html", deff=True), "printed tables and figures have no design eff"),
        (lambda: design.replicates("JKn", R=50), "R= goes with method='preston' or 'rao_wu' or 'successive_diff"),
        (lambda: design.replicates("JKn", seed=1), "seed= goes with method='preston' or 'rao_wu'"),
        (lambda: design.replicates(rho=0.3), "rho= goes with method='Fay': it has no effect on 'preston'"),
    ]:
        with pytest.raises(InputError) as caught:
            call()
        assert message in str(caught.value)


def test_an_argument_goes_to_the_statistics_that_it_has_an_effect_on(release):
    """Numbers and categories are tables of their own."""
    two = ss.FBS(["income", "C(gender)"], "field", prior="flat")
    made = ss.synthesize(
        make_design(), two, epsilon=30, m=2, seed=1, mechanism=PSEUDO, accept_diagnostics=["information"],
        levels={"gender": ["f", "m"]},
    )  # fmt: skip
    asked = {"statistic": ["quantile", "proportion", "ratio"], "denominator": "income", "quantiles": 0.25}
    table = made.tables("field", **asked, interval="beta", deff=True)
    assert set(table["statistic"]) == {"ratio", "quantile", "proportion"}
    assert set(table.loc[table["statistic"] == "quantile", "prob"]) == {0.25}
    alone = made.tables("field", outcome="gender", statistic="proportion", interval="beta")
    assert table.loc[table["statistic"] == "proportion", "ci_low"].tolist() == alone["ci_low"].tolist()


def test_entries_of_a_plan(design):
    given = {"by": ["gender"], "epsilon": 9, "population_total": design.weights.sum(), "bounds": (1, 1e6)}
    for entries, message in [
        ({"quantiles": [0.25]}, r"\[tables\]: quantiles= goes with statistic='quantile': it has no effect on"),
        ({"statistic": ["mean"], "quantiles": [0.25]}, r"\[tables\]: quantiles= .* on statistic='mean'"),
        ({"statistic": ["mean"], "poverty_line": 9.0}, r"\[tables\]: poverty_line= goes with statistic='poverty_rate'"),
        ({"statistic": ["average"]}, r"\[tables\]: statistic='average' is not one of mean, total"),
    ]:
        with pytest.raises(InputError, match=message):
            ss.Plan(design, "income ~ field + gender", **given, **entries).check()


def test_options_of_the_command_line(release, tmp_path, run):
    folder = str(release.write(tmp_path / "release"))
    code, _, err = run("tables", folder, "--statistic", "mean", "--quantiles", "0.25")
    assert code != 0 and "quantiles= goes with statistic='quantile'" in " ".join(err.split())
    assert run("tables", folder, "--statistic", "quantile", "--quantiles", "0.25,0.75")[0] == 0


# wrong names


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All that users call: functions, classes and their methods."""
    for name in ss.__all__:
        there = getattr(ss, name)
        if isinstance(there, types.ModuleType):
            members = ((each, getattr(there, each)) for each in there.__all__)
            yield from (
                (f"{name}.{each}", member) for each, member in members
                if inspect.isfunction(member) or (inspect.isclass(member) and not inspect.isabstract(member))
            )  # fmt: skip
        elif callable(there):
            yield name, there
        if inspect.isclass(there):
            methods = inspect.getmembers(there, lambda member: inspect.isfunction(member) or inspect.ismethod(member))
            yield from ((f"{name}.{each}", method) for each, method in methods if not each.startswith("_"))


FREE = {  # their keywords are names that the user gives
    "SurveyDesign.assign", "Release.assign", "JointEstimates.contrast", "r.call", "r.evaluate",
    "Plan.set",  # which knows them from the plan that it is of: below
}  # fmt: skip
NEVER_CALLED = {"Synthesizer"}  # a base for the user's own models
ALL = {
    name: function for name, function in public()
    if name not in FREE | NEVER_CALLED and not (inspect.isclass(function) and issubclass(function, Exception))
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_a_wrong_keyword_is_told_of_the_function_that_was_called(name):
    """Where a function hands keywords on, it says the nearest of its own and of those that it hands on."""
    function = ALL[name]
    parameters = inspect.signature(function).parameters.values()
    keywords = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "self"]
    hands_on = any(p.kind is p.VAR_KEYWORD for p in parameters)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [None for p in positional if p.default is p.empty]
    wrong = f"{keywords[-1]}x" if keywords else "wrong"
    with pytest.raises((TypeError, InputError)) as caught:
        function(*needed, **{wrong: 1})
    said, called = str(caught.value), name.rpartition(".")[2]
    assert wrong in said
    assert called in said.split("(")[0] or f"{called}.__init__()" in said
    if hands_on:
        assert repr(difflib.get_close_matches(wrong, keywords, 1)[0]) in said


@pytest.mark.parametrize(("call", "said"), [
    (lambda: ss.Release.write_tables(None, "t.html", statistik="mean"),
     "Release.write_tables() got an unexpected keyword argument 'statistik'; did you mean 'statistic'?"),
    (lambda: ss.Release.write_tables(None, "t.html", symbol="uk"),
     "Release.write_tables() got an unexpected keyword argument 'symbol'; did you mean 'symbols'?"),
    (lambda: ss.Release.plot(None, "t.svg", quantile=0.5),
     "Release.plot() got an unexpected keyword argument 'quantile'; did you mean 'quantiles'?"),
    (lambda: ss.SurveyDesign.read("f.csv", frame=1), "SurveyDesign.read() got an unexpected keyword argument 'frame'"),
    (lambda: ss.FBP.paper("y", "x", weights="full"), "FBP.paper() got an unexpected keyword argument 'weights'"),
])  # fmt: skip
def test_names_that_are_handed_on(call, said):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).startswith(said)


def test_entries_that_plans_do_not_have():
    plan = ss.Plan(make_design(), "income ~ field")
    for call, said in [
        (lambda: ss.Plan(make_design(), "income ~ field", epsilonn=1), "Plan(): epsilonn (did you mean 'epsilon'?)"),
        (lambda: plan.set(min_cel=3), "Plan.set(): min_cel (did you mean 'min_cell'?)"),
        (lambda: ss.Plan.draft("f.csv", formular="y ~ x"), "Plan.draft(): formular (did you mean 'formula'?)"),
    ]:
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value).startswith(said)
