"""Long work of the page, in a thread: the check of a plan, the release, its comparison, its dossier."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError, SurveySynthError
from ..plan.plan import Plan
from ..plan.preview import Preview
from ..plan.strict import expected_arguments, is_strict
from ..plan.words_of_plans import in_words_of_plans
from ..progress import progress_to
from ..release.dossier.dossier import dossier
from ..release.release import read_release
from ..synthesis.strict_request import check_contradictions, strict_request

CHECK, RELEASE, COMPARE, DOSSIER = "check", "release", "compare", "dossier"
AT_FAULT = "surveysynth is at fault: {}. Its message is withheld, because it may quote the file."


@dataclass(frozen=True)
class Made:
    """A release that was made, with the plan that it was made by, whatever the page says since.

    Attributes
    ----------
    plan : Plan
    text : str
        The plan's file at that time.
    place : Path
        Folder of the release.
    privacy : str
        The report on its guarantee.
    files : list
        Sizes and times of the confidential files at that time.
    """

    plan: Plan
    text: str
    place: Path
    privacy: str
    files: list[tuple[int, int]]


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
        Results: the preview of a check, what was made, the comparison, the folder of the dossier.
    faults : dict of str to str
        Messages of work that failed.
    of : dict of str to str
        The plan's file for which each task was begun last.
    version : int
        Number of changes of all this.
    """

    def __init__(self) -> None:
        self.doing, self.stage, self.version = "", "", 0
        self.found: dict[str, Any] = {}
        self.faults: dict[str, str] = {}
        self.of: dict[str, str] = {}
        self._lock = threading.Lock()

    def check(self, plan: Plan) -> None:
        """Check a plan, and whether the confidential file contradicts it.  No budget is spent."""

        def check() -> Preview:
            preview = plan.check()
            if is_strict(plan.settings):
                design = plan.public_facts(plan.settings).design
                given = expected_arguments(plan.settings, design)
                check_contradictions(strict_request(design, given.pop("formula"), **given))
            return preview

        self._begin(CHECK, check, plan)

    def release(self, plan: Plan, *, overwrite: bool) -> None:
        """Make the release of a plan and write it.  Its epsilon is spent."""

        def make() -> Made:
            plan.check_place(overwrite=overwrite)
            files = _state_of(plan.files)
            release = plan.release(enter=False)
            return Made(plan, plan.to_toml(), plan.write(release, overwrite=overwrite), str(release.privacy), files)

        self._begin(RELEASE, make, plan)

    def adopt(self, plan: Plan) -> None:
        """Take the release that is in the plan's folder, made by an earlier run of the page or by the command line."""

        def adopted() -> Made:
            privacy = str(read_release(plan.place()).privacy)
            return Made(plan, plan.to_toml(), plan.place(), privacy, _state_of(plan.files))

        self._begin(RELEASE, adopted, plan)

    def compare(self) -> None:
        """Compare the release with the confidential file.  The result is confidential."""
        made: Made = self.found[RELEASE]
        self._begin(COMPARE, lambda: made.plan.compare(read_release(made.place)), made.plan)

    def dossier(self, plan_file: Path) -> None:
        """Make the dossier for the review board, next to the release."""
        made: Made = self.found[RELEASE]

        def make() -> Path:
            if _state_of(made.plan.files) != made.files:
                raise InputError("the confidential file has changed since the release, so a dossier would be wrong")
            names = [f"{made.place.name}-dossier{end}" for end in ("", *(f"-{i}" for i in range(2, 100)))]
            folder = next(each for name in names if not (each := made.place.with_name(name)).exists())
            same = plan_file.exists() and plan_file.read_text(encoding="utf-8") == made.text
            return dossier(
                made.place, made.plan.design, folder, ledger=made.plan.ledger, by=made.plan.settings.tables.by,
                files=[*([plan_file] if same else []), *made.plan.files],
            )  # fmt: skip

        self._begin(DOSSIER, make, made.plan)

    def fault(self, name: str, plan_text: str) -> str:
        """Return why a task failed, if it did so for this plan; otherwise an empty text."""
        return self.faults.get(name, "") if self.of.get(name) == plan_text else ""

    def _begin(self, name: str, task: Callable[[], object], plan: Plan) -> None:
        """Begin a task for a plan, unless another one is being done."""
        with self._lock:
            if self.doing:
                return
            self.doing, self.stage = name, ""
            self.faults.pop(name, None)
            self.of[name] = plan.to_toml()
            if name == CHECK:
                self.found.pop(CHECK, None)
            self.version += 1
        # the process ends when the thread has: a release is never left half-made
        threading.Thread(target=self._work, args=(name, task)).start()

    def _work(self, name: str, task: Callable[[], object]) -> None:
        try:
            with progress_to(self._hear, internal=lambda text: None):
                found = task()
            if name == RELEASE:  # what was found out about an earlier release
                self.found.pop(COMPARE, None)
                self.found.pop(DOSSIER, None)
            self.found[name] = found
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


def _state_of(files: list[Path]) -> list[tuple[int, int]]:
    """Return size and time of the last change of each file."""
    return [(each.stat().st_size, each.stat().st_mtime_ns) for each in files]
