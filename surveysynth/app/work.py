"""Jobs of the page that take long: the check of a plan, its release, and the comparison and dossier of the release.

A job runs in a thread, so that the page can be used in the meantime.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
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

CHECK, RELEASE, ADOPT, COMPARE, DOSSIER = "check", "release", "adopt", "compare", "dossier"


@dataclass(frozen=True)
class Made:
    """A finished release, with the plan by which it was made.  The plan on the page may have changed since then.

    Attributes
    ----------
    plan : Plan
        The plan.
    ours : bool
        True if this page made the release by this plan, False if the release was found in the plan's folder.
    place : Path
        Folder of the release.
    privacy : str
        The privacy report of the release.
    files : list of (int, int)
        Size, and time of the last change, of each confidential file when the release began.
    internal : tuple of str
        Messages for the agency alone, such as how much information the privacy weights keep.
    """

    plan: Plan
    ours: bool
    place: Path
    privacy: str
    files: list[tuple[int, int]]
    internal: tuple[str, ...] = ()


class Work:
    """The job that is running for a plan, and the results of finished jobs.

    Only one job runs at a time, even if several browser tabs are open: a request during a job is ignored.  A job goes
    on when a tab is closed or loaded again, because it runs in the process of the server.

    Checks and releases read the plan again from its file, with the confidential file as it is now, as the command
    ``surveysynth release`` does.

    Parameters
    ----------
    plan_file : Path
        The plan's file.

    Attributes
    ----------
    doing : str
        Name of the running job: "check", "release", "adopt", "compare" or "dossier".  It is empty if no job is running.
    stage : str
        Seconds and stage of the running job, as in "3 s  2 of 3: draws".
    found : dict of str to object
        For each job that has succeeded, by name, its last result: a Preview for "check", :class:`Made` for "release", a
        Comparison for "compare", and the Path of the folder for "dossier".  A new release removes the results and
        errors of "compare" and "dossier".
    faults : dict of str to str
        For each job whose last run failed, by name, the error message.
    texts : dict of str to str
        For each result, by name, the text of the plan's file for which its job was begun last.
    releases : int
        Number of releases that were begun.
    version : int
        A counter that increases with every change of the other attributes.  Tabs are drawn anew when it changes.
    """

    def __init__(self, plan_file: Path) -> None:
        self.plan_file = plan_file
        self.doing, self.stage, self.version = "", "", 0
        self.found: dict[str, Any] = {}
        self.faults: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.releases = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def check(self, text: str) -> None:
        """Begin to check the plan, and whether the confidential file contradicts it.  No budget is spent.

        ``text`` is the text of the plan's file that the page shows.
        """

        def check() -> Preview:
            plan = self._plan(text)
            preview = plan.check()
            if is_strict(plan.settings):
                design = plan.public_facts(plan.settings).design
                given = expected_arguments(plan.settings, design)
                check_contradictions(strict_request(design, given.pop("formula"), **given))
            return preview

        self._begin(CHECK, check, text)

    def release(self, text: str, *, overwrite: bool) -> None:
        """Begin to make and write the release of the plan, which spends its epsilon.

        ``text`` is the text of the plan's file that was agreed to.
        """

        def make() -> Made:
            plan = self._plan(text)
            plan.check_place(overwrite=overwrite)
            files = _state_of(plan.files)
            release = plan.release(enter=False)
            return Made(plan, True, plan.write(release, overwrite=overwrite), str(release.privacy), files)

        self.releases += self._begin(RELEASE, make, text)

    def adopt(self, text: str) -> None:
        """Begin to read the release in the plan's folder, made by an earlier run of the page or by the command line."""

        def adopted() -> Made:
            plan = self._plan(text)
            privacy = str(read_release(plan.place()).privacy)
            return Made(plan, False, plan.place(), privacy, _state_of(plan.files))

        self._begin(ADOPT, adopted, text)

    def _plan(self, text: str) -> Plan:
        """Read the plan from its file.  Raise InputError if the file differs from ``text``, which the page showed."""
        if not self.plan_file.exists() or self.plan_file.read_text(encoding="utf-8") != text:
            raise InputError(f"{self.plan_file.name} was changed meanwhile: look at the plan, and begin again")
        return Plan.read(self.plan_file)

    def wait(self) -> None:
        """Wait until the running job is done."""
        if self._thread is not None:
            self._thread.join()

    def compare(self) -> None:
        """Begin to compare the release with the confidential file.  The result is confidential."""
        made: Made = self.found[RELEASE]
        self._begin(COMPARE, lambda: made.plan.compare(read_release(made.place)))

    def dossier(self) -> None:
        """Begin to write the dossier for the review board, in a folder next to the release.

        It fails if the confidential files have changed since the release.  The plan's file is added to the dossier if
        this page made the release and the file still has its plan.
        """
        made: Made = self.found[RELEASE]

        def make() -> Path:
            if _state_of(made.plan.files) != made.files:
                raise InputError("the confidential file has changed since the release, so a dossier would be wrong")
            names = [f"{made.place.name}-dossier{end}" for end in ("", *(f"-{i}" for i in range(2, 100)))]
            folder = next(each for name in names if not (each := made.place.with_name(name)).exists())
            mine = self.plan_file
            same = made.ours and mine.exists() and Plan.read(mine).settings == made.plan.settings
            return dossier(
                made.place, made.plan.design, folder, ledger=made.plan.ledger, by=made.plan.settings.tables.by,
                files=[*([mine] if same else []), *made.plan.files],
            )  # fmt: skip

        self._begin(DOSSIER, make)

    def _begin(self, name: str, task: Callable[[], object], text: str = "") -> bool:
        """Run ``task`` as the job ``name`` in a thread.  Return False, and do nothing, if another job is running."""
        with self._lock:
            if self.doing:
                return False
            self.doing, self.stage = name, ""
            result = RELEASE if name == ADOPT else name
            self.texts[result] = text
            self.faults.pop(result, None)
            if name == CHECK:
                self.found.pop(CHECK, None)
            self.version += 1
            self._thread = threading.Thread(target=self._work, args=(result, task))
            self._thread.start()
            return True

    def _work(self, result: str, task: Callable[[], object]) -> None:
        internal: list[str] = []
        try:
            with progress_to(self._hear, internal=internal.append):
                found = task()
            if isinstance(found, Made):
                for job in (COMPARE, DOSSIER):  # what was found out about an earlier release
                    self.found.pop(job, None)
                    self.faults.pop(job, None)
                found = replace(found, internal=tuple(internal))
            self.found[result] = found
        except Exception as error:
            self.faults[result] = without_values(error)
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
