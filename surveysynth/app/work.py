"""Jobs of the page that take long: the check of a plan, its release, and the comparison and dossier of the release.

A job runs in a thread, so that the page can be used in the meantime.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import AT_FAULT, InputError, SurveySynthError
from ..plan.plan import Plan
from ..plan.preview import Preview
from ..plan.strict import expected_arguments, is_strict
from ..plan.words_of_plans import in_words_of_plans
from ..progress import progress_to
from ..release.dossier.dossier import dossier
from ..release.release import read_release
from ..synthesis.strict_request import check_contradictions, strict_request

CHECK, RELEASE, COMPARE, DOSSIER = "check", "release", "compare", "dossier"


@dataclass(frozen=True)
class Made:
    """A finished release, with the plan by which it was made.  The plan on the page may have changed since then.

    Attributes
    ----------
    plan : Plan
        The plan.
    text : str
        The plan as the text of a TOML file.
    place : Path
        Folder of the release.
    privacy : str
        The privacy report of the release.
    files : list of (int, int)
        Size, and time of the last change, of each confidential file when the release began.
    """

    plan: Plan
    text: str
    place: Path
    privacy: str
    files: list[tuple[int, int]]


class Work:
    """The job that is running for a plan, and the results of finished jobs.

    Only one job runs at a time, even if several browser tabs are open: a request during a job is ignored.  A job goes
    on when a tab is closed or loaded again, because it runs in the process of the server.

    Attributes
    ----------
    doing : str
        Name of the running job: "check", "release", "compare" or "dossier".  It is empty if no job is running.
    stage : str
        Seconds and stage of the running job, as in "3 s  2 of 3: draws".
    found : dict of str to object
        For each job that has succeeded, by name, its last result: a Preview for "check", :class:`Made` for "release", a
        Comparison for "compare", and the Path of the folder for "dossier".  A new release removes the results of
        "compare" and "dossier".
    faults : dict of str to str
        For each job whose last run failed, by name, the error message.
    of : dict of str to str
        For each job, by name, the text of the plan's file for which it was begun last.
    version : int
        A counter that increases with every change of the other attributes.  Tabs are drawn anew when it changes.
    """

    def __init__(self) -> None:
        self.doing, self.stage, self.version = "", "", 0
        self.found: dict[str, Any] = {}
        self.faults: dict[str, str] = {}
        self.of: dict[str, str] = {}
        self._lock = threading.Lock()

    def check(self, plan: Plan) -> None:
        """Begin to check a plan, and whether the confidential file contradicts it.  No budget is spent."""

        def check() -> Preview:
            preview = plan.check()
            if is_strict(plan.settings):
                design = plan.public_facts(plan.settings).design
                given = expected_arguments(plan.settings, design)
                check_contradictions(strict_request(design, given.pop("formula"), **given))
            return preview

        self._begin(CHECK, check, plan)

    def release(self, plan: Plan, *, overwrite: bool) -> None:
        """Begin to make and write the release of a plan, which spends its epsilon."""

        def make() -> Made:
            plan.check_place(overwrite=overwrite)
            files = _state_of(plan.files)
            release = plan.release(enter=False)
            return Made(plan, plan.to_toml(), plan.write(release, overwrite=overwrite), str(release.privacy), files)

        self._begin(RELEASE, make, plan)

    def adopt(self, plan: Plan) -> None:
        """Begin to read the release in the plan's folder, made by an earlier run of the page or by the command line."""

        def adopted() -> Made:
            privacy = str(read_release(plan.place()).privacy)
            return Made(plan, plan.to_toml(), plan.place(), privacy, _state_of(plan.files))

        self._begin(RELEASE, adopted, plan)

    def compare(self) -> None:
        """Begin to compare the release with the confidential file.  The result is confidential."""
        made: Made = self.found[RELEASE]
        self._begin(COMPARE, lambda: made.plan.compare(read_release(made.place)), made.plan)

    def dossier(self, plan_file: Path) -> None:
        """Begin to write the dossier for the review board, in a folder next to the release.

        It fails if the confidential files have changed since the release.  ``plan_file`` is added to the dossier if it
        still has the plan of the release.
        """
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
        """Return the error message of a job.  It is empty if the job had no error, or last ran for another plan."""
        return self.faults.get(name, "") if self.of.get(name) == plan_text else ""

    def _begin(self, name: str, task: Callable[[], object], plan: Plan) -> None:
        """Run ``task`` as the job ``name`` in a thread.  Do nothing if another job is running."""
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
    """Return the message of an error, or a general text if another library raised the error.

    The message of another library may quote confidential values.
    """
    if isinstance(error, SurveySynthError | OSError):
        return in_words_of_plans(str(error))
    return AT_FAULT.format(type(error).__name__)


def _state_of(files: list[Path]) -> list[tuple[int, int]]:
    """Return the size and the modification time of each file."""
    return [(each.stat().st_size, each.stat().st_mtime_ns) for each in files]
