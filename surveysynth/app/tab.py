"""One browser tab of the web page: it shows the questions, and changes the plan that all tabs share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from shiny import reactive
from shiny.session import Inputs, Session

from ..errors import InputError
from .controls import Entry, place_of
from .forecast import Forecast
from .project import ROLES, Project
from .words import Words
from .work import Work

EVERY = 0.3  # seconds between two looks at what another tab, or a thread, has changed
SHOWN_ELSEWHERE = "epsilon", *ROLES  # entries that other questions show, too


class Tab:
    """A browser tab of the web page, with its language and the plan that it shares with other tabs.

    Attributes
    ----------
    input : Inputs
        The answers that Shiny receives: ``input.entry()`` is ``{"key": "survey.weights", "value": "wt"}``.
    session : Session
        The connection to the browser.
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
        self, input: Inputs, session: Session, words: Words, project: Project, forecast: Forecast, work: Work
    ) -> None:
        self.input, self.session, self.words = input, session, words
        self.project, self.forecast, self.work = project, forecast, work
        self.changed = reactive.poll(self._versions, EVERY, session=session)(self._versions)
        self.faults: dict[str, str] = {}
        self.shown, self.answered = reactive.Value(0), reactive.Value(0)
        self._me, self._seen = object(), project.version

    def _versions(self) -> tuple[int, int, int]:
        with suppress(InputError):  # a file that is being written is read at the next look
            self.project.read_again()
        return self.project.version, self.forecast.version, self.work.version

    def notice(self) -> None:
        """Show the questions again if another tab has changed the plan since the last call."""
        new = self.project.changed_by[self._seen :]
        self._seen += len(new)
        if any(who is not self._me for who in new):
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
        name, equals, value = (part.strip() for part in line.partition("="))

        def change(me: object) -> None:
            if not equals:
                raise InputError("write section.entry = value, such as: columns.age.missing = category")
            self.project.set_any(me, name, value)

        if line.strip():
            self.change(place_of("other", ""), change, again=True)
