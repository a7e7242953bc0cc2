"""Long work of the page, in a thread: the check of a plan, the release, its comparison, its dossier."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import SurveySynthError
from ..plan.plan import Plan
from ..plan.words_of_plans import in_words_of_plans
from ..progress import progress_to
from ..release.comparison import Comparison
from ..release.dossier.dossier import dossier
from ..release.release import Release, read_release

CHECK, RELEASE, COMPARE, DOSSIER = "check", "release", "compare", "dossier"
AT_FAULT = "surveysynth is at fault: {}. Its message is withheld, because it may quote the file."


class Work:
    """What is being done for a plan, and what came of it.  One thing is done at a time, whatever tabs ask.

    A release goes on when a browser is closed or a page is loaded again, because it belongs to the process.

    Attributes
    ----------
    doing : str
        The work that is being done: "check", "release", "compare" or "dossier"; empty if there is none.
    stage : str
        Seconds so far and the stage, as in "3 s  2 of 3: draws".
    found : dict of str to object
        Results: the preview of a check, the folder of the release, the comparison, the folder of the dossier.
    faults : dict of str to str
        Messages of work that failed.
    version : int
        Number of changes of all this.
    """

    def __init__(self) -> None:
        self.doing, self.stage, self.version = "", "", 0
        self.found: dict[str, Any] = {}
        self.faults: dict[str, str] = {}
        self._lock = threading.Lock()

    def check(self, plan: Plan) -> None:
        """Check a plan.  No budget is spent."""
        self._begin(CHECK, plan.check)

    def release(self, plan: Plan, *, overwrite: bool) -> None:
        """Make the release of a plan and write it.  Its epsilon is spent."""

        def make() -> Path:
            plan.check_place(overwrite=overwrite)
            return plan.write(plan.release(enter=False), overwrite=overwrite)

        if self._begin(RELEASE, make):
            for name in (COMPARE, DOSSIER):
                self.found.pop(name, None)

    def compare(self, plan: Plan) -> None:
        """Compare the release with the confidential file.  The result is confidential."""

        def comparison() -> Comparison:
            return plan.compare(self.released)

        self._begin(COMPARE, comparison)

    def dossier(self, plan: Plan, plan_file: Path) -> None:
        """Make the dossier for the review board, next to the release."""
        place: Path = self.found[RELEASE]
        folder = place.with_name(f"{place.name}-dossier")

        def make() -> Path:
            return dossier(
                place, plan.design, folder, ledger=plan.ledger, by=plan.settings.tables.by,
                files=[plan_file, *plan.files],
            )  # fmt: skip

        self._begin(DOSSIER, make)

    @property
    def released(self) -> Release:
        """The release, read from its folder."""
        return read_release(self.found[RELEASE])

    def _begin(self, name: str, task: Callable[[], object]) -> bool:
        """Begin a task, and return True, unless another one is being done."""
        with self._lock:
            if self.doing:
                return False
            self.doing, self.stage = name, ""
            self.faults.pop(name, None)
            self.found.pop(name, None)
            self.version += 1
        # the process ends when the thread has: a release is never left half-made
        threading.Thread(target=self._work, args=(name, task)).start()
        return True

    def _work(self, name: str, task: Callable[[], object]) -> None:
        try:
            with progress_to(self._hear, internal=lambda text: None):
                self.found[name] = task()
        except Exception as error:
            self.faults[name] = without_values(error)
        finally:
            self.doing, self.stage = "", ""
            self.version += 1

    def _hear(self, text: str) -> None:
        with suppress(Exception):
            self.stage = text
            self.version += 1


def without_values(error: Exception) -> str:
    """Return the message of an error, unless it is an error of another library, which may quote the file."""
    if isinstance(error, SurveySynthError | OSError):
        return in_words_of_plans(str(error))
    return AT_FAULT.format(type(error).__name__)
