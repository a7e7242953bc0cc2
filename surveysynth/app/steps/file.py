"""Step 1: the confidential file, the roles of its columns, and how each column is published."""

from __future__ import annotations

from typing import get_args

from htmltools import Tag, TagList, tags
from shiny import reactive, render, ui

from ...choices import LonelyPSU
from ..controls import Entry, choice, fault_place, place_of, text
from ..project import Project
from ..tab import Tab
from ..words import Words

ENTRIES = (
    Entry("survey.weights", "column"), Entry("survey.unweighted", "yes"), Entry("survey.strata", "column"),
    Entry("survey.psu", "columns"), Entry("survey.fpc", "columns"),
    Entry("survey.lonely_psu", "choice", get_args(LonelyPSU)), Entry("survey.replicate_weights", "list"),
    Entry("privacy.unit", "column"),
    Entry("privacy.population_total", "number"), Entry("model.weight", "choice", ("public",)),
)  # fmt: skip
USES = "out", "public", "codes", "synthesized"
MANY = 12  # number of columns from which on a filter helps


def panel(words: Words) -> Tag:
    """Return the HTML of step 1, with places for its outputs."""
    return tags.div(
        ui.output_ui("file_named"), ui.output_ui("file_roles"), ui.output_ui("file_columns"),
        ui.output_ui("file_published"),
    )  # fmt: skip


def serve(tab: Tab) -> None:
    """Fill in the outputs of step 1 in a browser tab, and handle the answers."""
    project, words, input = tab.project, tab.words, tab.input

    @render.ui
    def file_named() -> Tag:
        tab.shown()
        named = project.settings.survey.file or ""
        return text(words("file.path"), named, send="file", key="", help=words("file.path.help"))

    @render.ui
    def file_roles() -> Tag | None:
        tab.shown()
        if project.plan is None:
            return None
        return tags.div(*(entry.shown(project, words) for entry in ENTRIES), class_="grid")

    @render.ui
    def file_columns() -> TagList | None:
        tab.shown()
        return None if project.plan is None else _columns(project, words)

    @render.ui
    def file_published() -> Tag | None:
        tab.changed()
        return None if project.plan is None else _published(project, words)

    @reactive.effect
    @reactive.event(input.file)
    def _() -> None:
        path = str(input.file()["value"]).strip()
        if path and path != project.settings.survey.file:
            tab.change(place_of("file", ""), lambda me: project.open(me, path), again=True)

    @reactive.effect
    @reactive.event(input.use)
    def _() -> None:
        column, what = input.use()["key"], input.use()["value"]
        if column in project.columns and what in USES:
            tab.change(place_of("use", column), lambda me: project.use(me, column, what), again=True)


def _columns(project: Project, words: Words) -> TagList:
    rows = [_row(column, project, words) for column in project.columns]
    head = tags.tr(*(tags.th(words(f"columns.{each}"), scope="col") for each in ("name", "use")))
    search = tags.label(
        words("columns.filter"), " ", tags.input(type="search", id="filter"), class_="filter"
    ) if len(rows) >= MANY else None  # fmt: skip
    return TagList(
        tags.h3(words("columns.title")), tags.p(words("columns.help"), class_="help"), *_fixed(project, words), search,
        tags.div(
            tags.table(tags.thead(head), tags.tbody(*rows)), class_="scroll", tabindex="0", role="region",
            aria_label=words("columns.title"),
        ),
    )  # fmt: skip


def _fixed(project: Project, words: Words) -> list[Tag]:
    """Return the plan's formulas as HTML if the page cannot change them, else an empty list."""
    if not project.fixed:
        return []
    return [tags.p(words("fixed"), class_="note"), tags.pre("\n".join(project.formulas), lang="en")]


def _row(column: str, project: Project, words: Words) -> Tag:
    role = project.role(column)
    public = "codes" if column in project.codes else "public"
    chosen = public if column in project.public else "synthesized" if column in project.outcomes else "out"
    if role == "weight":
        cell = TagList(words("role.weight"))
    elif project.fixed:
        cell = TagList(words(f"role.{role}" if role and chosen == "out" else f"use.{chosen}"))
    else:
        number = column in project.codes or project.is_number(column)
        unfit = {"synthesized"} if role else set()
        unfit |= set() if number else {"codes"}
        named = {use: words(f"use.{use}") for use in USES if use not in unfit}
        named |= {"public": words("use.amount")} if number else {}
        named |= {"out": words(f"role.{role}")} if role else {}
        place = place_of("use", column)
        cell = TagList(
            choice(named, chosen, send="use", key=column, help="", place=place, label=column), fault_place(place)
        )
    label = TagList(tags.br(), tags.small(project.labels[column])) if column in project.labels else None
    return tags.tr(tags.th(column, label, scope="row"), tags.td(cell), data_column=project.called(column))


def _published(project: Project, words: Words) -> Tag:
    """Return an HTML list of the columns that are published as they are, relabelled, synthesized, or left out."""
    weight = project.settings.survey.weights or project.settings.survey.probs
    drawn, predictors = project.settings.model.weight is None, project.predictors
    design, sizes = (
        [c for c in project.columns if project.role(c) == role and c not in predictors] for role in ("design", "fpc")
    )
    synthetic = [*project.outcomes, *([weight] if weight and drawn else []), *(project.settings.edits.derive or ())]
    as_is = [*predictors, *sizes, *([weight] if weight and not drawn else [])]
    rest = len({*project.columns} - {*as_is, *design, *synthetic})
    listed = {"as_is": as_is, "recoded": design, "synthetic": synthetic}
    items = [
        tags.li(tags.strong(words(f"published.{name}")), " ", ", ".join(columns) or words("published.none"))
        for name, columns in listed.items()
    ]
    return tags.div(
        tags.h3(words("published.title")), tags.ul(*items, tags.li(words("published.rest", many=rest))), class_="public"
    )  # fmt: skip
