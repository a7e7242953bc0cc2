"""The web page in a browser tab: its steps, the plan's file next to them, and the functions that handle answers."""

from __future__ import annotations

from pathlib import Path

from htmltools import Tag, TagList, tags
from shiny import App, reactive, render, ui
from shiny.session import Inputs, Outputs, Session
from starlette.requests import Request

from .controls import text
from .forecast import Forecast
from .project import Project
from .steps import budget, file, outcomes, release, tables
from .tab import Tab
from .words import LANGUAGES, Words, language_of
from .work import Work

HERE = Path(__file__).parent
STEPS = {"file": file, "outcomes": outcomes, "tables": tables, "budget": budget, "release": release}
ENTRIES = {entry.name: entry for module in STEPS.values() for entry in getattr(module, "ENTRIES", ())}


def app_of(project: Project, work: Work) -> App:
    """Return the web page for a plan as a Shiny application.  All browser tabs share the plan and the running job."""
    forecast = Forecast()

    def page(request: Request) -> Tag:
        accepted = request.headers.get("accept-language", "")
        return _page(project, Words(language_of(request.query_params, accepted)))

    def serve(input: Inputs, output: Outputs, session: Session) -> None:
        @reactive.effect
        @reactive.event(input.language)
        def _() -> None:
            words = Words(language_of({"lang": input.language()}, ""))
            _serve(Tab(input, session, words, project, forecast, work))

    app = App(page, serve, static_assets={"/page": HERE / "static"})
    app.sanitize_errors = True  # a message of another library may quote the file
    return app


def _page(project: Project, words: Words) -> Tag:
    step = project.step
    buttons = [
        tags.button(
            {"aria-current": "step"} if name == step else {}, tags.span(str(i), class_="number"), " ",
            words(f"{name}.title"), type="button", data_step=name,
        )
        for i, name in enumerate(STEPS, 1)
    ]  # fmt: skip
    names = [*STEPS]
    panels = [
        tags.section(
            {} if name == step else {"hidden": ""},
            tags.h2(words(f"{name}.title"), tabindex="-1"), tags.p(words(f"{name}.about")),
            module.panel(words), _next(names[i : i + 1], words), id=f"step-{name}",
        )
        for i, (name, module) in enumerate(STEPS.items(), 1)
    ]  # fmt: skip
    languages = [
        tags.a({"aria-current": "true"} if each == words.language else {}, name, href=f"?lang={each}", lang=each)
        for each, name in LANGUAGES.items()
    ]
    return ui.page_fluid(
        tags.head(
            tags.link(rel="icon", href="data:,"), tags.link(rel="stylesheet", href="page/page.css"),
            tags.script(src="page/page.js", defer=""),
        ),
        tags.header(tags.h1(words("title")), tags.div(*languages, class_="languages")),
        tags.p(words("gone"), id="gone", class_="fault", role="alert", hidden=""),
        tags.nav(*buttons, aria_label=words("steps")),
        tags.main(
            tags.div(*panels),
            tags.aside(
                tags.h2(words("plan.title")), ui.output_ui("saved"), ui.output_ui("plan_text"),
                text(words("other.label"), "", send="other", key="", help=words("other.help")),
            ),
        ),
        title=words("title"), lang=words.language,
    )  # fmt: skip


def _next(names: list[str], words: Words) -> Tag | None:
    if not names:
        return None
    label = words("next", step=words(f"{names[0]}.title"))
    return tags.p(tags.button(label, type="button", data_step=names[0], class_="btn btn-primary"), class_="next")


def _serve(tab: Tab) -> None:
    project, words, input = tab.project, tab.words, tab.input

    @reactive.effect
    def _other_tabs() -> None:
        """Show the questions again when another tab has changed the plan."""
        tab.changed()
        tab.notice()

    @reactive.effect
    async def _faults() -> None:
        tab.answered(), tab.shown()
        await tab.session.send_custom_message("faults", {**tab.faults})

    @reactive.effect
    @reactive.event(input.step)
    def _step() -> None:
        project.step = input.step() if input.step() in STEPS else project.step

    @reactive.effect
    @reactive.event(input.entry)
    def _entry() -> None:
        tab.answer(ENTRIES, input.entry())

    @reactive.effect
    @reactive.event(input.other)
    def _other() -> None:
        tab.change_any(input.other()["value"])

    @render.ui
    def saved() -> TagList | Tag:
        tab.changed()
        if project.plan is None:
            return tags.p(words("plan.none"))
        return tags.p(words("plan.saved", file=project.path.name))

    @render.ui
    def plan_text() -> Tag:
        tab.changed()
        return tags.pre(project.text, tabindex="0", role="region", aria_label=words("plan.title"), lang="en")

    for module in STEPS.values():
        module.serve(tab)
