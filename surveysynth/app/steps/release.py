"""Step 5: check the plan, make the release, compare it with the file, and write the dossier for the review board."""

from __future__ import annotations

from htmltools import Tag, TagList, tags
from shiny import reactive, render, ui

from ...errors import SurveySynthError
from ...privacy.accounting.ledger import HOW_TO_BEGIN
from ..controls import Entry, button, check, fault_place, place_of
from ..lacking import lacking_list, on_this_page
from ..project import Project
from ..tab import Tab
from ..words import Words
from ..work import ADOPT, CHECK, COMPARE, DOSSIER, RELEASE, Made, Work, without_values

ENTRIES = (
    Entry("release.folder"), Entry("release.m", "number"), Entry("privacy.ledger"), Entry("privacy.survey"),
    Entry("privacy.cap", "number"),
)  # fmt: skip
TABLES = "tables.xlsx", "tables.html", "tables.csv"


def panel(words: Words) -> Tag:
    """Return the HTML of step 5, with places for its outputs."""
    return tags.div(
        ui.output_ui("release_progress"), ui.output_ui("release_entries"), ui.output_ui("release_ledger"),
        ui.output_ui("release_check"), ui.output_ui("release_make"), ui.output_ui("release_made"),
        ui.output_ui("release_compared"), ui.output_ui("release_dossier"),
    )  # fmt: skip


def serve(tab: Tab) -> None:
    """Fill in the outputs of step 5 in a browser tab, and handle the answers."""
    project, words, input, work = tab.project, tab.words, tab.input, tab.work
    agreed: reactive.Value[dict[str, object]] = reactive.Value({})  # what was agreed to, by question
    planned = reactive.Value((project.text, work.releases))  # the plan that is shown; an agreement is for one release

    @reactive.effect
    def _planned() -> None:
        """Ask again for agreement to the plan when it was changed in any tab."""
        tab.changed()
        with reactive.isolate():
            if planned() != (project.text, work.releases):
                planned.set((project.text, work.releases))

    def agrees(question: str) -> bool:
        return agreed().get(question) == (project.text, work.releases)

    @render.ui
    def release_entries() -> Tag:
        tab.shown()
        return tags.div(*(entry.shown(project, words) for entry in ENTRIES), class_="grid")

    @render.ui
    def release_ledger() -> Tag | None:
        tab.changed()
        return _ledger(project, words)

    @render.ui
    def release_check() -> TagList:
        tab.changed()
        return _check(project, work, words)

    @render.ui
    def release_make() -> TagList | None:
        tab.shown(), planned()
        return _agreement(project, words)

    @render.ui
    def release_button() -> Tag:
        tab.changed()
        ready = agrees("spent") and not work.doing and project.plan is not None and not project.plan.lacking
        return button(words("release.button"), send="do", key=RELEASE, main=True, disabled=not ready)

    @render.ui
    def release_progress() -> Tag | None:
        tab.changed()
        doing = words(f"doing.{work.doing}") if work.doing else ""
        return tags.p(f"{doing} {work.stage}", class_="note busy", role="status") if doing else None

    @render.ui
    def release_made() -> Tag | None:
        tab.changed()
        return _made(project, work, words)

    @render.ui
    def release_compared() -> Tag | None:
        tab.changed()
        return _compared(work, words)

    @render.ui
    def release_dossier() -> Tag | None:
        tab.changed()
        if DOSSIER in work.faults:
            return _confidential_fault(work.faults[DOSSIER], words)
        if DOSSIER not in work.found:
            return None
        return tags.p(words("dossier.made", place=work.found[DOSSIER]), class_="confidential")

    @reactive.effect
    @reactive.event(input.agree)
    def _() -> None:
        question, yes = input.agree()["key"], bool(input.agree()["value"])
        agreed.set(agreed() | {question: planned() if yes else None})

    @reactive.effect
    @reactive.event(input.create)
    def _() -> None:
        tab.change(place_of("create", ""), project.create_ledger)

    @reactive.effect
    @reactive.event(input.do)
    def _() -> None:
        what = input.do()["key"]
        tab.change(place_of("other", ""), lambda me: project.read_again())
        if place_of("other", "") in tab.faults:  # the file was edited elsewhere, and is no plan now
            return
        if project.plan is None:
            return
        if what == CHECK:
            work.check(project.text)
        elif what == RELEASE and agrees("spent"):
            work.release(project.text, overwrite=agrees("overwrite"))
        elif what == ADOPT:
            work.adopt(project.text)
        elif what == COMPARE and RELEASE in work.found:
            work.compare()
        elif what == DOSSIER and RELEASE in work.found:
            work.dossier()


def _ledger(project: Project, words: Words) -> Tag | None:
    """Return the epsilons that the survey has spent, as HTML, or a button that makes the ledger if there is none."""
    privacy = project.settings.privacy
    if project.plan is None or privacy.ledger is None or privacy.survey is None:
        return None
    offer = tags.div(button(words("ledger.create"), send="create"), fault_place(place_of("create", "")))
    if not (project.path.parent / privacy.ledger).exists():
        return offer
    try:
        return tags.pre(str(project.plan.ledger), lang="en")
    except SurveySynthError as error:
        text, lacks, _ = str(error).partition(HOW_TO_BEGIN)
        fault = tags.p(text if lacks else without_values(error), class_="fault", role="alert", lang="en")
        return tags.div(fault, offer if lacks else None)


def _agreement(project: Project, words: Words) -> TagList | None:
    """Return the questions that ask for agreement to the plan, or a list of the entries that the plan lacks."""
    plan = project.plan
    if plan is None:
        return None
    head = tags.h3(words("release.make"))
    if plan.lacking:
        return TagList(head, tags.p(words("release.lacking")), lacking_list(plan.lacking, words))
    epsilon = project.settings.privacy.epsilon
    return TagList(
        head, tags.p("" if epsilon is None else words("release.spends", epsilon=f"{epsilon:g}")),
        check(words("release.agree"), False, send="agree", key="spent", help=""),
        check(words("release.overwrite"), False, send="agree", key="overwrite", help=""),
        ui.output_ui("release_button"),
    )  # fmt: skip


def _check(project: Project, work: Work, words: Words) -> TagList:
    """Return a button that checks the plan, and the warnings or the error of the last check of this plan."""
    offer = button(words("check.button"), send="do", key=CHECK, disabled=bool(work.doing) or project.plan is None)
    shown: list[Tag] = [tags.h3(words("check.title")), tags.p(words("check.help"), class_="help"), tags.p(offer)]
    current = work.texts.get(CHECK) == project.text
    if CHECK in work.faults and current:
        shown.append(_confidential_fault(work.faults[CHECK], words))
    elif CHECK in work.found and current:
        preview = work.found[CHECK]
        warnings = [tags.li(on_this_page(each, words), lang="en") for each in preview.warnings]
        listed = warnings or [tags.li(words("check.none"))]
        shown += [tags.p(tags.strong(words("check.warnings"))), tags.ul(*listed), _details(words, str(preview))]
    elif CHECK in work.found:
        shown.append(tags.p(words("check.earlier"), class_="note"))
    return TagList(*shown)


def _confidential(words: Words, *content: Tag) -> Tag:
    """Return a frame that marks its content as confidential."""
    return tags.div(tags.p(tags.strong(words("confidential"))), *content, class_="confidential")


def _confidential_fault(text: str, words: Words) -> Tag:
    """Return an error message marked as confidential, because it may tell how many records are concerned."""
    return _confidential(words, tags.pre(on_this_page(text, words), class_="fault", role="alert", lang="en"))


def _details(words: Words, text: str) -> Tag:
    return tags.details(tags.summary(words("check.all")), tags.pre(text, lang="en"))


def _made(project: Project, work: Work, words: Words) -> Tag | None:
    """Return the privacy report of the release, its folders and its tables, as HTML."""
    fault = _confidential_fault(work.faults[RELEASE], words) if RELEASE in work.faults else None
    if fault and work.texts.get(RELEASE) != project.text:
        fault = tags.div(tags.p(words("release.earlier"), class_="note"), fault)
    if RELEASE not in work.found:
        plan = project.plan
        there = plan is not None and (plan.place() / "public" / "manifest.json").exists()
        offer = button(words("made.adopt"), send="do", key=ADOPT, disabled=bool(work.doing))
        return tags.div(fault, tags.p(words("made.there"), " ", offer) if there else None)
    made: Made = work.found[RELEASE]
    place, idle = made.place, not work.doing
    tables = [name for name in TABLES if (place / "public" / name).exists()]
    return tags.div(
        fault, tags.h3(words("made.title")), tags.pre(made.privacy, lang="en"),
        _confidential(words, *(tags.p(text, lang="en") for text in made.internal)) if made.internal else None,
        tags.ul(
            tags.li(words("made.public"), " ", tags.code(str(place / "public"))),
            tags.li(words("made.tables"), " ", tags.code(", ".join(tables))),
            tags.li(words("made.internal"), " ", tags.code(str(place / "internal"))),
        ),
        button(words("compare.button"), send="do", key=COMPARE, disabled=not idle), " ",
        button(words("dossier.button"), send="do", key=DOSSIER, disabled=not idle), class_="public",
    )  # fmt: skip


def _compared(work: Work, words: Words) -> Tag | None:
    """Return the confidential comparison of the release with the file, as HTML, or the reason why it failed."""
    if COMPARE in work.faults:
        return _confidential_fault(work.faults[COMPARE], words)
    if COMPARE not in work.found:
        return None
    title, text = words("compare.title"), str(work.found[COMPARE])
    shown = tags.pre(text, tabindex="0", role="region", aria_label=title, lang="en")
    return _confidential(words, tags.h3(title), shown)
