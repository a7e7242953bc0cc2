"""One tab of a browser: what it shares with the others, and when its questions are drawn anew."""

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

REDRAWS = "epsilon", *ROLES  # entries that other questions show, too


class Tab:
    """A tab of a browser.

    Attributes
    ----------
    input : Inputs
        Answers, as ``{"key": ..., "value": ...}``, by the name of the question.
    words : Words
        The words in the tab's language.
    project, forecast, work
        What all tabs share.
    faults : dict of str to str
        Why answers were refused, by the place of the question.
    changed : function
        Called within a reactive function, it makes the function run again after every change of what is shared.
    drawn : reactive.Value of int
        Read within a reactive function that draws questions, it makes the function run again when answers have changed
        elsewhere: in another tab, or in a question on which these questions depend.
    """

    def __init__(
        self, input: Inputs, session: Session, words: Words, project: Project, forecast: Forecast, work: Work,
        changed: Callable[[], object],
    ) -> None:  # fmt: skip
        self.input, self.words, self.changed = input, words, changed
        self.project, self.forecast, self.work = project, forecast, work
        self.faults: dict[str, str] = {}
        self.drawn, self.answered = reactive.Value(0), reactive.Value(0)
        self._me, self._seen = session, project.version

    def notice(self) -> None:
        """Draw the questions anew if another tab has changed the plan since the last look."""
        if self.project.version != self._seen:
            self._seen = self.project.version
            if self.project.changed_by is not self._me:
                self.redraw()

    def redraw(self) -> None:
        """Draw all questions anew, with the answers of the plan."""
        self.faults.clear()
        with reactive.isolate():
            self.drawn.set(self.drawn() + 1)

    def change(self, place: str, task: Callable[[object], None], *, anew: bool = False) -> None:
        """Make a change.  A refusal is shown at ``place``.  Draw questions ``anew`` if others depend on the answer."""
        self.faults.pop(place, None)
        try:
            task(self._me)
        except InputError as error:
            self.faults[place] = str(error)
        else:
            if anew:
                self.redraw()
        with reactive.isolate():
            self.answered.set(self.answered() + 1)

    def answer(self, entries: dict[str, Entry], asked: dict[str, Any]) -> None:
        """Set the entry of the plan whose question was answered."""
        entry = entries.get(asked["key"])
        if entry is None:
            return

        def change(me: object) -> None:
            self.project.set(me, **{entry.short: entry.entered(asked["value"])})

        self.change(place_of("entry", entry.name), change, anew=entry.short in REDRAWS)

    def change_any(self, line: str) -> None:
        """Set any entry of the plan, given as ``section.entry = value``."""
        name, _, value = (part.strip() for part in line.partition("="))
        if name:
            self.change(place_of("other", ""), lambda me: self.project.set_any(me, name, value), anew=True)
