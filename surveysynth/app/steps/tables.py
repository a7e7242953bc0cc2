"""Step 3: the tables that will be published, and what is printed with them."""

from __future__ import annotations

from htmltools import Tag, tags
from shiny import reactive, render, ui

from ...choices import PRINTED, STATISTICS
from ...plan.arguments import OWN_NAMES
from ...plan.preview import FEW
from ..controls import Entry, checks, place_of
from ..tab import Tab
from ..words import Words

QUALITY = (
    Entry("tables.min_cell", "number"), Entry("tables.cv_limit", "percent"), Entry("tables.poverty_line", "number"),
)
ENTRIES = (*QUALITY, *(Entry(f"release.{name}") for name in PRINTED))


def panel(words: Words) -> Tag:
    """Return the HTML of step 3, with places for its outputs."""
    return tags.div(ui.output_ui("tables_by"), ui.output_ui("tables_cells"), ui.output_ui("tables_print"))


def serve(tab: Tab) -> None:
    """Fill in the outputs of step 3 in a browser tab, and handle the answers."""
    project, words, input = tab.project, tab.words, tab.input

    @render.ui
    def tables_by() -> Tag:
        tab.shown()
        settings = project.settings
        categories = [name for name in project.outcomes if "levels" in project.declared(name)]
        named = {c: project.called(c) for c in (*project.public, *categories)}
        statistics = {name: words(f"statistic.{name}") for name in STATISTICS}
        return tags.div(
            checks(words("tables.by"), named, settings.tables.by or (), send="list", key="by",
                   help=words("help.by") if named else words("outcomes.none")),
            checks(words("tables.statistic"), statistics, settings.tables.statistic or (), send="list", key="statistic",
                   help=words("help.statistic")),
        )  # fmt: skip

    @render.ui
    def tables_cells() -> Tag | None:
        tab.changed()
        if project.plan is None or not project.readable:
            return None
        by = [name for name in project.by if name in project.public and name not in OWN_NAMES]
        records = project.plan.public_facts(project.settings).cells(by)["records"]
        few = int((records < FEW).sum())
        return tags.p(words("tables.cells", cells=len(records), few=few, least=FEW), class_="note")

    @render.ui
    def tables_print() -> Tag:
        tab.shown()
        return tags.div(*(entry.shown(project, words) for entry in ENTRIES), class_="grid")

    @reactive.effect
    @reactive.event(input.list)
    def _() -> None:
        name, chosen = input.list()["key"], input.list()["value"]
        if name in ("by", "statistic"):
            tab.change(place_of("list", name), lambda me: project.set(me, **{name: chosen or None}))
