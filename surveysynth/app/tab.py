"""One browser tab of the web page: it shows the questions, and changes the plan that all tabs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shiny import reactive
from shiny.session import Inputs, Session

from ..errors import InputError
from .controls import Entry, place_of
from .forecast import Forecast
from .project import ROLES, Project
from .words import Words
from .work import Work

SHOWN_ELSEWHERE = "epsilon", *ROLES  # entries that other questions show, too


class Tab:
    """A browser tab of the web page, with its language and the plan that it shares with other tabs.

    Attributes
    ----------
    input : Inputs
        The answers that Shiny receives: ``input.entry()`` is ``{"key": "survey.weights", "value": "wt"}``.
    words : Words
        The texts of the page in the tab's language.
    project, forecast, work
        The plan, the expected errors, and the work that is being done.  All tabs share these three.
    faults : dict of str to str
        Messages about answers that were refused, by the HTML id of the question.
    changed : function
        A reactive function that calls ``changed()`` runs again whenever the plan, the expected errors or the work
        change.
    shown : reactive.Value of int
        Number of times that the questions were shown again.  A reactive function that reads it runs again then.
    answered : reactive.Value of int
        Number of answers.  A reactive function that reads it runs again after every answer.
    """

    def __init__(
        self, input: Inputs, session: Session, words: Words, project: Project, forecast: Forecast, work: Work,
        changed: Callable[[], object],
    ) -> None:  # fmt: skip
        self.input, self.words, self.changed = input, words, changed
        self.project, self.forecast, self.work = project, forecast, work
        self.faults: dict[str, str] = {}
        self.shown, self.answered = reactive.Value(0), reactive.Value(0)
        self._me, self._seen = session, project.version

    def notice(self) -> None:
        """Show the questions again if another tab has changed the plan since the last call."""
        if self.project.version != self._seen:
            self._seen = self.project.version
            if self.project.changed_by is not self._me:
                self.show_again()

    def show_again(self) -> None:
        """Show all questions again, filled with the answers in the plan."""
        self.faults.clear()
        with reactive.isolate():
            self.shown.set(self.shown() + 1)

    def change(self, place: str, task: Callable[[object], None], *, again: bool = False) -> None:
        """Change the plan by calling ``task`` with an object that identifies this tab.

        If the task raises InputError, the message is shown under the question with the HTML id ``place``.  Otherwise,
        if ``again``, all questions are shown again, because others depend on the answer.
        """
        self.faults.pop(place, None)
        try:
            task(self._me)
        except InputError as error:
            self.faults[place] = str(error)
        else:
            if again:
                self.show_again()
        with reactive.isolate():
            self.answered.set(self.answered() + 1)

    def answer(self, entries: dict[str, Entry], asked: dict[str, Any]) -> None:
        """Set the entry of the plan whose question was answered."""
        entry = entries.get(asked["key"])
        if entry is None:
            return

        def change(me: object) -> None:
            self.project.set(me, **{entry.short: entry.entered(asked["value"])})

        again = entry.short in SHOWN_ELSEWHERE or entry.kind in ("number", "percent")  # numbers are shown as understood
        self.change(place_of("entry", entry.name), change, again=again)

    def change_any(self, line: str) -> None:
        """Set any entry of the plan, given as ``section.entry = value``."""
        name, _, value = (part.strip() for part in line.partition("="))
        if name:
            self.change(place_of("other", ""), lambda me: self.project.set_any(me, name, value), again=True)
