"""Step 4: the expected errors of tables at each epsilon, and the probability that an intruder guesses right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd
from htmltools import HTML, Tag, TagList, tags
from shiny import reactive, render, ui

from ...errors import InputError
from ...estimation.tables import TOTAL
from ...plan.expected_errors import WORTH_LITTLE
from ...plan.strict import epsilon_before, is_strict
from ...publication.footnotes import most_guessed
from ..controls import Entry, lines, number, place_of, plain
from ..forecast import BUDGETS
from ..lacking import lacking_list
from ..number_text import number_in
from ..project import Project
from ..tab import Tab
from ..words import Words

ENTRIES = (Entry("privacy.epsilon", "number"), Entry("privacy.delta", "number"))
USUAL = 0.2  # threshold that is drawn if the plan has no limit of coefficients of variation
START = 3.0  # place of the slider while no epsilon is chosen
MOST = 200  # largest number of cells that are drawn
MOST_LEVELS = 40  # largest number of levels whose public totals are asked for
WIDTH, HIGH = 320, 26  # size of a bar in pixels


def panel(words: Words) -> Tag:
    """Return the HTML of step 4, with places for its outputs."""
    return tags.div(
        ui.output_ui("budget_slider"), ui.output_ui("budget_guess"), ui.output_ui("budget_state"),
        ui.output_ui("budget_cells"), ui.output_ui("budget_shares"), ui.output_ui("budget_importance"),
        ui.output_ui("budget_savings"), ui.output_ui("budget_totals"),
    )  # fmt: skip


def serve(tab: Tab) -> None:
    """Fill in the outputs of step 4 in a browser tab, and handle the answers."""
    project, words, input, forecast = tab.project, tab.words, tab.input, tab.forecast

    def epsilon() -> float:
        return project.settings.privacy.epsilon or START

    @render.ui
    def budget_slider() -> Tag:
        tab.shown()
        return _slider(project.settings.privacy.epsilon, project, words)

    @reactive.effect
    def _ask() -> None:
        """Compute expected errors as soon as somebody looks at this step."""
        tab.changed()
        plan = project.plan
        if input.step() == "budget" and plan is not None and not _unforeseen(project, words):
            forecast.ask(plan, epsilon())

    @render.ui
    def budget_guess() -> Tag | None:
        tab.changed()
        return None if project.plan is None else _guess(project, epsilon(), words)

    @render.ui
    def budget_state() -> Tag | None:
        tab.changed()
        if unforeseen := _unforeseen(project, words):
            return unforeseen
        if forecast.fault:
            return tags.p(forecast.fault, class_="fault", role="alert", lang="en")
        return tags.p(words("budget.done" if forecast.finished else "budget.busy"), class_="note", role="status")

    @render.ui
    def budget_cells() -> Tag | TagList | None:
        tab.changed()
        errors = None if _unforeseen(project, words) else forecast.errors(epsilon())
        return None if errors is None else _cells(errors, project, words)

    @render.ui
    def budget_shares() -> Tag | None:
        tab.changed()
        shares = None if _unforeseen(project, words) else forecast.shares(epsilon())
        return None if shares is None else _shares(shares, words)

    @render.ui
    def budget_importance() -> Tag | None:
        tab.shown()
        if len(project.outcomes) < 2:
            return None
        given = project.settings.privacy.importance or {}
        asked = [
            number(name, given.get(name, 1.0), send="importance", key=name, help="") for name in project.outcomes
        ]
        return tags.div(
            tags.h3(words("importance.title")), tags.p(words("importance.help"), class_="help"),
            tags.div(*asked, class_="grid"),
        )  # fmt: skip

    @render.ui
    def budget_savings() -> Tag | None:
        tab.changed()
        return None if _unforeseen(project, words) else _savings(forecast.savings(epsilon()), words)

    @render.ui
    def budget_totals() -> Tag | None:
        tab.shown()
        return _totals(project, words)

    @reactive.effect
    @reactive.event(input.budget)
    def _() -> None:
        place, first = place_of("entry", "privacy.epsilon"), project.settings.privacy.epsilon is None
        with suppress(ValueError):  # what is no number does not come from the slider
            value = float(input.budget()["value"])
            tab.change(place, lambda me: project.set(me, epsilon=value), again=first)

    @reactive.effect
    @reactive.event(input.importance)
    def _() -> None:
        name, value = input.importance()["key"], input.importance()["value"]

        def change(me: object) -> None:
            given = {**(project.settings.privacy.importance or {}), name: number_in(value)}
            kept = {name: each for name, each in given.items() if each not in (None, 1)}
            project.set(me, importance=kept or None)

        tab.change(place_of("importance", name), change)

    @reactive.effect
    @reactive.event(input.totals)
    def _() -> None:
        column, written = input.totals()["key"], input.totals()["value"]
        tab.change(place_of("totals", column), lambda me: project.set_totals(me, column, written), again=True)


def _unforeseen(project: Project, words: Words) -> Tag | None:
    """Return the reason why expected errors cannot be computed, or None.  A missing epsilon is not a reason."""
    if project.plan is None:
        return tags.p(words("plan.none"), class_="note")
    if not is_strict(project.settings):
        return tags.p(words("budget.strict", file=project.path.name), class_="note")
    lacking = {entry: what for entry, what in project.plan.lacking.items() if entry != "privacy.epsilon"}
    listed = tags.div(tags.p(words("budget.lacking")), lacking_list(lacking, words), class_="note")
    return listed if lacking else None


def _guess(project: Project, epsilon: float, words: Words) -> Tag | None:
    """Return an intruder's highest probability of right guesses, as HTML, or None without a strict guarantee."""
    settings = project.settings
    if not is_strict(settings):
        return None
    with suppress(InputError):  # where the earlier year's folder is not there, the check says so
        epsilon += epsilon_before(settings, project.path.parent)
    (most, weak), delta = most_guessed(epsilon), settings.privacy.delta
    text = words("guess.text", most=most, epsilon=f"{epsilon:g}", unit=settings.privacy.unit or words("guess.record"))
    more = [words("guess.weak")] if weak else []
    more += [words("guess.delta", delta=f"{delta:g}")] if delta else []
    return tags.div(
        tags.h3(words("guess.title")), tags.p(text), _guess_bar(float(most), words), *(tags.p(each) for each in more),
        class_="public",
    )  # fmt: skip


def _budgets(chosen: float | None) -> list[float]:
    """Return the values of epsilon on the slider."""
    return sorted({*BUDGETS, *([chosen] if chosen else [])})


def _slider(chosen: float | None, project: Project, words: Words) -> Tag:
    values, place = _budgets(chosen), place_of("budget", "")
    at = values.index(chosen or START)
    marks = [tags.span(f"{value:g}") for value in values]
    return tags.div(
        tags.label(words("budget.slider"), {"for": place}),
        tags.input(
            type="range", id=place, min="0", max=str(len(values) - 1), step="1", value=str(at), data_send="budget",
            data_key="", aria_describedby="budget-marks", data_values=" ".join(map(plain, values)),
            aria_valuetext=plain(values[at]), data_shows=place_of("entry", "privacy.epsilon"),
        ),
        tags.div(*marks, class_="marks", id="budget-marks"),
        tags.p(words("budget.undecided", epsilon=f"{START:g}"), class_="note") if chosen is None else None,
        tags.div(*(entry.shown(project, words) for entry in ENTRIES), class_="grid"),
        class_="slider",
    )  # fmt: skip


def _guess_bar(most: float, words: Words) -> HTML:
    """Draw a bar: an intruder guesses right in 50% of cases before the release, and at most ``most``% after it."""
    return HTML(
        f'<svg class="guess" viewBox="0 0 400 34" role="img" aria-label="{words("guess.bar", most=f"{most:g}")}">'
        f'<rect x="0" y="8" width="400" height="18" class="back"/><rect x="0" y="8" width="{4 * most:.1f}" height="18" '
        'class="after"/><line x1="200" x2="200" y1="2" y2="32" class="limit"/></svg>'
    )


def _cells(errors: pd.DataFrame, project: Project, words: Words) -> TagList:
    """Draw the expected coefficient of variation of every cell of the release, next to that of the sample."""
    limit = project.settings.tables.cv_limit or USUAL
    by = [str(c) for c in errors if c not in ("outcome", "statistic", "category", "ratio", "cv")]
    kinds = [str(c) for c in ("outcome", "statistic") if c in errors]
    if "outcome" in errors:  # counts are the same for all outcomes
        errors = errors[(errors["statistic"] != "count") | ~errors.duplicated([*by, "statistic"])]
    above, worthless = int((errors["cv"] > limit).sum()), int((errors["ratio"] > WORTH_LITTLE).sum())
    line = f"{100 * limit:g}%"
    summary = words("cells.summary", cells=len(errors), above=above, limit=line, worthless=worthless,
                    times=f"{WORTH_LITTLE:g}")  # fmt: skip
    most, blocks = max(min(float(errors["cv"].max()), 1.0), 1.25 * limit), []
    for names, rows in errors.head(MOST).groupby(kinds, sort=False):
        *outcome, statistic = names
        of = f": {outcome[0]}" if outcome and statistic != "count" else ""
        blocks.append(_block(f"{words(f'statistic.{statistic}')}{of}", rows, by, limit, most, words))
    given = project.settings.tables.cv_limit is not None
    unset = None if given else tags.p(words("cells.usual", limit=line), class_="help")
    more = tags.p(words("cells.more", most=MOST), class_="help") if len(errors) > MOST else None
    legend = tags.p(words("cells.legend", limit=line), " ", words("cells.only"), class_="help")
    return TagList(tags.h3(words("cells.title")), tags.p(summary, class_="note"), legend, unset, *blocks, more)


def _block(
    title: str, rows: pd.DataFrame, by: Sequence[str], limit: float, most: float, words: Words
) -> Tag:  # fmt: skip
    """Return an HTML table with a bar for each cell of one statistic.  Bars are cut off at the value ``most``."""
    categories, made = "category" in rows and rows["category"].notna().any(), []
    for row in rows.to_dict("records"):
        names = [words("cells.all") if row[c] == TOTAL else str(row[c]) for c in by]
        names += [str(row["category"])] if categories else []
        own, cv = row["cv"] / row["ratio"] if row["ratio"] else math.nan, row["cv"]
        mark = words("cells.above") if cv > limit else ""
        text = words("cells.known") if math.isnan(own) else words("cells.row", cv=f"{cv:.1%}", own=f"{own:.1%}")
        made.append(tags.tr(
            *(tags.th(name, scope="row") for name in names or [words("cells.all")]),
            tags.td(_bar(cv, own, limit, most)), tags.td(text),
            tags.td(tags.strong(mark)),
        ))  # fmt: skip
    heads = [*by, *([words("kind.category")] if categories else [])] or [""]
    head = tags.tr(*(tags.th(each, scope="col") for each in heads), tags.td(), tags.td(), tags.td())
    return tags.table(tags.caption(title), tags.thead(head), tags.tbody(*made), class_="bars")


def _bar(cv: float, own: float, limit: float, most: float) -> HTML:
    """Draw the CV of the release as a bar, the CV of the sample as a narrow bar in it, and the CV limit as a line."""
    scale = WIDTH / most
    wide, narrow = min(cv, most) * scale, 0.0 if math.isnan(own) else min(own, most) * scale
    return HTML(
        f'<svg class="bar" viewBox="0 0 {WIDTH} {HIGH}" aria-hidden="true">'
        f'<rect x="0" y="4" width="{wide:.1f}" height="18" class="{"over" if cv > limit else "within"}"/>'
        f'<rect x="0" y="9" width="{narrow:.1f}" height="8" class="own"/>'
        f'<line x1="{limit * scale:.1f}" x2="{limit * scale:.1f}" y1="0" y2="{HIGH}" class="limit"/></svg>'
    )


def _shares(shares: pd.DataFrame, words: Words) -> Tag:
    """Return an HTML table of the share of the budget that each noisy table gets."""
    rows = [
        tags.tr(tags.th(row["variable"], scope="row"), tags.td(row["by"] or words("cells.all")), tags.td(row["kind"]),
                tags.td(f"{row['share']:.1%}"))
        for row in shares.to_dict("records")
    ]  # fmt: skip
    head = tags.tr(*(tags.th(words(f"shares.{c}"), scope="col") for c in ("variable", "by", "kind", "share")))
    by_variable = shares.groupby("variable", sort=False)["share"].sum()
    summary = ", ".join(f"{name} {share:.0%}" for name, share in by_variable.items())
    return tags.details(
        tags.summary(words("shares.title", summary=summary)), tags.p(words("shares.help"), class_="help"),
        tags.table(tags.thead(head), tags.tbody(*rows), class_="plain"),
    )  # fmt: skip


def _savings(savings: Mapping[str, Mapping[str, tuple[float, float, bool]]], words: Words) -> Tag | None:
    """Return an HTML list of columns, with standard errors without and with public totals of their levels."""
    if not savings:
        return None
    items = []
    for column, by_statistic in savings.items():
        parts = [
            words("savings.part" if clear else "savings.unclear", statistic=words(f"statistic.{statistic}"),
                  before=f"{before:.2f}", after=f"{after:.2f}")
            for statistic, (before, after, clear) in by_statistic.items()
        ]  # fmt: skip
        items.append(tags.li(tags.strong(column), ": ", "; ".join(parts)))
    return tags.div(tags.h3(words("savings.title")), tags.p(words("savings.help"), class_="help"), tags.ul(*items))


def _totals(project: Project, words: Words) -> Tag | None:
    """Return the HTML fields for the public totals of each predictor's levels, or None if no predictor has levels."""
    levels = project.levels_of_public(MOST_LEVELS)
    if not levels:
        return None
    given = project.settings.privacy.population_totals or {}
    asked = [
        lines(words("totals.of", column=column),
              [f"{level} = {plain(given[column][level]) if level in given.get(column, {}) else ''}" for level in names],
              send="totals", key=column, help=words("totals.help"), rows=min(len(names), 8) + 1)
        for column, names in levels.items()
    ]  # fmt: skip
    opened: dict[str, Any] = {"open": ""} if given else {}
    return tags.details(opened, tags.summary(words("totals.title")), tags.div(*asked, class_="grid"))
