"""Step 2: what is public about each synthesized column, and on which columns it depends."""

from __future__ import annotations

from typing import Any

from htmltools import Tag, TagList, tags
from shiny import reactive, render, ui

from ...errors import InputError
from ..controls import check, checks, choice, fault_place, lines, number, pair, place_of
from ..number_text import number_in
from ..project import Project
from ..tab import Tab
from ..words import Words

FACTS = "bounds", "zeros", "missing", "whole", "round", "levels", "kind"
OF_BOTH = "missing", "applies", "elsewhere"  # facts that numbers and categories have


def panel(words: Words) -> Tag:
    """Return the HTML of step 2, with places for its outputs."""
    return ui.output_ui("outcome_cards")


def serve(tab: Tab) -> None:
    """Fill in the outputs of step 2 in a browser tab, and handle the answers."""
    project, words, input = tab.project, tab.words, tab.input
    kinds: dict[str, str] = {}  # number or category, where this is not clear from the plan

    @render.ui
    def outcome_cards() -> TagList | Tag:
        tab.shown()
        if not project.outcomes:
            return tags.p(words("outcomes.none"), class_="note")
        return TagList(*(_card(name, kinds, project, words) for name in project.outcomes))

    @reactive.effect
    @reactive.event(input.fact)
    def _() -> None:
        fact, _, outcome = input.fact()["key"].partition(":")
        if fact not in FACTS or outcome not in project.outcomes:
            return
        value, place = input.fact()["value"], place_of("fact", input.fact()["key"])

        def change(me: object) -> None:
            facts = project.declared(outcome)
            if fact == "kind":
                kinds[outcome] = value
                facts = {name: each for name, each in facts.items() if name in OF_BOTH}
            else:
                facts = changed_facts(facts, fact, value)
            project.declare(me, outcome, facts)

        tab.change(place, change, again=fact in ("kind", "bounds", "round"))

    @reactive.effect
    @reactive.event(input.depends)
    def _() -> None:
        outcome = input.depends()["key"]
        if outcome not in project.outcomes:
            return
        left_out = frozenset(project.before(outcome)) - {*input.depends()["value"]}
        place = place_of("depends", outcome)
        tab.change(place, lambda me: project.leave_out(me, outcome, left_out))


def changed_facts(declared: dict[str, Any], fact: str, value: Any) -> dict[str, Any]:
    """Return the public facts about an outcome after one answer.  Raise InputError if only one bound is given."""
    if fact == "bounds":
        ends = [end for each in value if (end := number_in(each)) is not None]
        if len(ends) == 1:
            raise InputError("give both bounds")
        return declared | {"bounds": tuple(ends) or None}
    if fact == "levels":
        return declared | {"levels": [line.strip() for line in value.splitlines() if line.strip()] or None}
    if fact == "missing":
        return declared | {"missing": "category" if value else None}
    if fact == "round":
        return declared | {"round": number_in(value)}
    return declared | {fact: value or None}


def _card(outcome: str, kinds: dict[str, str], project: Project, words: Words) -> Tag:
    """Return the HTML of the questions on one outcome."""
    facts = project.declared(outcome)
    kind = _kind(outcome, facts, kinds, project)
    named = {each: words(f"kind.{each}") for each in ("number", "category")}
    key = f"kind:{outcome}"
    place = place_of("fact", key)
    label = words("fact.kind")
    of_kind = tags.div(
        tags.label(label, {"for": place}), choice(named, kind, send="fact", key=key, help="", place=place),
        fault_place(place), class_="question",
    )  # fmt: skip
    asked = _number(outcome, facts, words) if kind == "number" else _category(outcome, facts, words)
    missing = check(words("fact.missing"), "missing" in facts, **_question(outcome, "missing", words))
    return tags.article(
        tags.h3(project.called(outcome)), of_kind, tags.div(*asked, missing, class_="grid"),
        _depends(outcome, project, words), class_="card",
    )  # fmt: skip


def _kind(outcome: str, facts: dict[str, Any], kinds: dict[str, str], project: Project) -> str:
    if "bounds" in facts or "levels" in facts:
        return "number" if "bounds" in facts else "category"
    return kinds.get(outcome) or ("number" if project.is_number(outcome) else "category")


def _number(outcome: str, facts: dict[str, Any], words: Words) -> list[Tag]:
    return [
        pair(words("fact.bounds"), facts.get("bounds"), words("fact.low"), words("fact.high"),
             **_question(outcome, "bounds", words)),
        number(words("fact.round"), facts.get("round"), **_question(outcome, "round", words)),
        check(words("fact.zeros"), facts.get("zeros", False), **_question(outcome, "zeros", words)),
        check(words("fact.whole"), facts.get("whole", False), **_question(outcome, "whole", words)),
    ]  # fmt: skip


def _category(outcome: str, facts: dict[str, Any], words: Words) -> list[Tag]:
    return [lines(words("fact.levels"), facts.get("levels", ()), **_question(outcome, "levels", words))]


def _question(outcome: str, fact: str, words: Words) -> dict[str, Any]:
    return {"send": "fact", "key": f"{fact}:{outcome}", "help": words(f"help.{fact}")}


def _depends(outcome: str, project: Project, words: Words) -> Tag:
    """Return HTML that asks on which columns an outcome depends, or a note if the page cannot change formulas."""
    if project.fixed:
        return tags.p(words("fixed"), class_="help")
    may = project.before(outcome)
    used = [column for column in may if column not in project.unused.get(outcome, frozenset())]
    return checks(
        words("depends.title"), {c: project.called(c) for c in may}, used, send="depends", key=outcome,
        help=words("depends.help") if may else words("depends.none"),
    )  # fmt: skip
