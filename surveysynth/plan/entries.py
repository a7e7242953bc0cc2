"""The entries of a plan: given in a call, read from a file, drafted or chosen, and written to a file.

An entry is a named value in a section of the plan, such as epsilon in the section [privacy]; its full name is
"privacy.epsilon".  A role is what a column stands for in the survey design, such as weights or strata.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ..choices import OutcomeKind
from ..design.columns import nearest
from ..design.guess import guess_roles
from ..design.survey_design import SurveyDesign
from ..design.to_synthesize import to_synthesize
from ..errors import InputError
from ..storage import as_path, whole_file
from ..synthesis.levels import having_levels, undeclared
from ..validation import as_list, truth
from .arguments import check_formulas, policy_of
from .defaults import categorical_of, choose, lacking
from .public_facts import PublicFacts
from .reading import is_readable, opened, planned_roles, survey_entries
from .sections import BY_NAME, MechanismName
from .settings import Settings
from .strict import is_strict, levels_to_fill_in, undeclared_outcomes
from .toml_file import read_toml, to_toml

NOT_IN_PLANS = (  # roles of columns in a design for which plans have no entry
    "poststrata", "auxiliary", "base_weights", "calibrated_weights", "raked_weights", "earlier_calibrations", "pps",
)  # fmt: skip
GUESSED = "guessed from the column's name or label: is it that?"


class PlanEntries:
    """The entries of a plan, with methods to read, change and write them: the base of :class:`surveysynth.Plan`."""

    settings: Settings
    reasons: dict[str, str]
    lacking: dict[str, str]
    _in_memory = False  # whether the design was given, rather than read from a file that the plan names

    def __init__(
        self,
        design: SurveyDesign,
        formula: str,
        *,
        by: str | Sequence[str] | None = None,
        epsilon: float | None = None,
        population_total: float | Mapping[str, float] | None = None,
        bounds: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None,
        levels: Mapping[str, Sequence[Any]] | None = None,
        kind: OutcomeKind = "amount",
        m: int | None = None,
        mechanism: MechanismName | None = None,
        unit: str | None = None,
        **entries: Any,
    ) -> None:
        settings = Settings.empty()
        further = _full_names(settings, entries, type(self), type(self).__name__)
        if not isinstance(design, SurveyDesign):
            raise InputError("the first argument is a SurveyDesign: SurveyDesign.read('silc.csv', weights=...)")
        given: dict[str, Any] = {
            "model.formula": formula, "model.kind": kind, "tables.by": as_list(by) or None, "privacy.epsilon": epsilon,
            "privacy.population_total": population_total, "privacy.bounds": bounds, "privacy.levels": levels,
            "release.m": m, "privacy.mechanism": mechanism, "privacy.unit": unit,
        }  # fmt: skip
        survey = {f"survey.{name}": value for name, value in survey_entries(design).items()}
        given |= {"tables.labels": (design.source or {}).get("labels")} | further
        self._in_memory = True
        self._refuse_file_entries(further)
        labels = given["tables.labels"]
        self._begin(settings.set(survey | given), design.labelled(labels) if labels else design, Path())

    def _begin(self, settings: Settings, design: SurveyDesign | None, folder: Path) -> None:
        self._design, self._folder, self.reasons = design, folder, {}
        self._columns: tuple[str, ...] = ()
        self._policy = policy_of(settings, folder)
        facts = None
        if settings.model.formula is not None and (design is not None or is_readable(settings)):
            facts = self.public_facts(settings)
            settings, self.reasons = choose(settings, facts, folder)
        self.settings = settings
        self.lacking = lacking(settings, at_hand=design is not None)
        if facts is not None and is_strict(settings):
            self.lacking.pop("privacy.bounds", None)
            self.lacking |= undeclared_outcomes(settings, facts.design)
        elif facts is not None and (names := undeclared(facts.design, categorical_of(settings, folder))):
            self.lacking["privacy.levels"] = levels_to_fill_in(names)

    @classmethod
    def read(cls, path: str | Path, set: Mapping[str, Any] | None = None) -> Self:
        """Read a plan from a file.

        Parameters
        ----------
        path : str or Path
            The TOML file.  Paths in the file are relative to the folder of the file.
        set : mapping of "section.entry" to value, optional
            Values that replace the values in the file: ``{"privacy.epsilon": 3}``.

        Raises
        ------
        InputError
            The file does not exist, is not a plan, or has unknown or wrong entries.
        """
        settings = read_toml(as_path(path)).set(set or {})
        return cls._made(settings, None, Path(path).absolute().parent)

    @classmethod
    def draft(
        cls, file: str | Path, *, set: Mapping[str, Any] | None = None, guess: bool = True, **entries: Any
    ) -> Self:
        """Draft a plan for a file, with the roles of columns guessed from their names and labels.

        Parameters
        ----------
        file : str or Path
            The confidential file.
        set : mapping of "section.entry" to value, optional
            Entries by their full names: ``{"privacy.epsilon": 3}``.
        guess : bool
            True if the roles that are not given are guessed.  Guesses need to be reviewed.
        **entries
            Entries by their names in the plan's file: ``formula="income ~ region"``.  The entries that must still be
            filled in are in ``lacking``.

        Raises
        ------
        InputError
            The file cannot be read, an entry is unknown or wrong, or a formula or table names an unknown column.

        Examples
        --------
        >>> ss.datasets.sdr_sample(seed=1).frame.to_csv("survey.csv", index=False)
        >>> plan = ss.Plan.draft("survey.csv", formula="salary ~ field + gender", strata="field", guess=False)
        >>> list(plan.lacking)
        ['survey.weights', 'privacy.epsilon', 'privacy.population_total', 'privacy.bounds']
        """
        settings = Settings.empty()
        further = _full_names(settings, entries, cls.draft, f"{cls.__name__}.draft")
        if not isinstance(set, Mapping | None):
            raise InputError("set must map entries to values: set={'privacy.epsilon': 3}")
        truth(guess, "guess")
        settings = settings.set({"survey.file": str(as_path(file, "file"))} | further | dict(set or {}))
        survey, (columns, labels, design_of) = settings.survey, opened(as_path(file, "file"), settings)
        check_formulas(settings, columns)
        guessed: dict[str, Any] = guess_roles(columns, labels) if guess else {}
        free = {role: c for role, c in guessed.items() if getattr(survey, role) is None}
        if survey.weighted:
            free.pop("weights", None)
        listed = {role: [c] if role == "replicate_weights" else c for role, c in free.items()}
        settings = settings.set({f"survey.{role}": column for role, column in listed.items()})
        if guess and settings.release.folder == "release":
            settings = settings.set({"release.folder": f"{Path(file).name.split('.')[0]}-release"})
        design = None
        if is_readable(settings):
            settings, design = _drafted_design(settings, design_of, guessed="replicate_weights" in free)
            design = design.labelled(settings.tables.labels or {})
        free = {role: column for role, column in free.items() if getattr(settings.survey, role) is not None}
        plan = cls._made(settings, design, Path())
        for column in plan.settings.tables.by or ():
            if str(column) not in columns:
                raise InputError(f"there is no column {column!r}{nearest(column, columns)} for tables.by")
        plan._columns = tuple(f"{c} ({labels[c]})" if c in labels else c for c in columns)
        plan.reasons = {f"survey.{role}": GUESSED for role in free} | plan.reasons
        return plan

    @classmethod
    def _made(
        cls, settings: Settings, design: SurveyDesign | None, folder: Path, like: PlanEntries | None = None
    ) -> Self:
        plan = cls.__new__(cls)
        if like is not None:
            plan._in_memory = like._in_memory
        plan._begin(settings, design, folder)
        return plan

    def set(self, **entries: Any) -> Self:
        """Return a plan with other values of some entries: ``plan.set(epsilon=3)``.

        Entries that were chosen and not given are chosen again.  All other entries keep their values.

        Parameters
        ----------
        **entries
            Entries by their names in the plan's file.

        Returns
        -------
        Plan
            A new plan.  The plan on which the method is called does not change.

        Raises
        ------
        InputError
            An entry is unknown, its value is of the wrong kind, or the entry is about reading a file although the
            design was given in memory.

        Examples
        --------
        >>> design = ss.datasets.sdr_sample(seed=1)
        >>> plan = ss.Plan(design, "salary ~ field + gender", epsilon=8)
        >>> plan.set(epsilon=3).settings.privacy.epsilon
        3.0
        """
        guessed = {entry: why for entry, why in self.reasons.items() if why == GUESSED}
        given = self.settings.set(dict.fromkeys(entry for entry in self.reasons if entry not in guessed))
        asked = _full_names(given, entries, type(self).set, f"{type(self).__name__}.set")
        self._refuse_file_entries(asked)
        settings = given.set(asked)
        plan = self._made(settings, self._design_under(settings), self._folder, self)
        plan.reasons |= {entry: why for entry, why in guessed.items() if entry not in asked}
        return plan

    def _refuse_file_entries(self, asked: Mapping[str, Any]) -> None:
        """Raise InputError for entries on how a file is read, if the design was given and no file is read."""
        stray = [entry for entry in asked if entry.startswith(("survey.", "columns"))]
        if self._in_memory and stray:
            raise InputError(
                f"{', '.join(stray)}: the design is in memory, and a plan reads no file for it. Make another design; "
                "levels are merged by design.frame['sex'].replace({'x': 'other', 'y': 'other'}).fillna('missing')"
            )

    def _design_under(self, settings: Settings) -> SurveyDesign | None:
        """Return the design for other settings, or None if the file must be read again under these settings."""
        if self._in_memory and self._design is not None:
            return self._design.labelled(settings.tables.labels or {})
        before, after = ((s.survey, s.columns, s.tables.labels) for s in (self.settings, settings))
        return self._design if before == after else None

    @property
    def design(self) -> SurveyDesign:
        """The confidential file as a design.  The file is read at the first use.

        Raises
        ------
        InputError
            The plan names no file, or the file cannot be read.
        """
        return self._read_design(self.settings)

    def _read_design(self, settings: Settings) -> SurveyDesign:
        if self._design is None:
            survey = settings.survey
            if survey.file is None:
                raise InputError("the plan names no file: fill in survey.file")
            *_, design_of = opened(self._folder / survey.file, settings)
            self._design = design_of(**planned_roles(settings)).labelled(settings.tables.labels or {})
        return self._design

    def public_facts(self, settings: Settings) -> PublicFacts:
        """Return the public facts about the file.

        Parameters
        ----------
        settings : Settings
            Entries of a plan of this file.  They may declare levels of categorical columns.

        Returns
        -------
        PublicFacts
            The design, and sentences on records that are not synthesized.

        Raises
        ------
        InputError
            The plan names no file, or the file cannot be read.
        """
        declared = having_levels(self._read_design(settings), settings.privacy.levels or {})
        design, _, left_out = to_synthesize(declared)
        return PublicFacts(design, tuple(left_out))

    def to_toml(self) -> str:
        """Return the plan as a TOML text with comments: descriptions, reasons for defaults, and entries to fill in.

        Returns
        -------
        str
            The text of the plan's file.

        Examples
        --------
        >>> design = ss.datasets.sdr_sample(seed=1)
        >>> plan = ss.Plan(design, "salary ~ field + gender", epsilon=8)
        >>> "formula" in plan.to_toml()
        True
        """
        return to_toml(self.settings, self.reasons, self.lacking, self._columns)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the plan to a file, completely or not at all.

        Parameters
        ----------
        path : str or Path
            The TOML file.
        overwrite : bool
            True if an existing file is replaced.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            The file exists and ``overwrite`` is False, or the design has roles for which plans have no entry.
        """
        path = as_path(path)
        if path.exists() and not overwrite:
            raise InputError(f"{str(path)!r} exists; choose another name, or overwrite=True")
        beyond = [] if self._design is None else [role for role in NOT_IN_PLANS if self._design.roles().get(role)]
        if beyond:
            raise InputError(f"a plan's file has no entry for {', '.join(beyond)}: release from this session")
        with whole_file(path) as stream:
            stream.write(self.to_toml().encode())
        return path


def _drafted_design(
    settings: Settings, design_of: Callable[..., SurveyDesign], *, guessed: bool
) -> tuple[Settings, SurveyDesign]:
    """Return the settings and the design of a draft.  ``design_of`` makes the design from roles of columns.

    If the replicate weights were ``guessed``, they are tried as full weights, and then as factors by which the survey
    weight is multiplied.  If both fail, they are left out.
    """
    if guessed:
        for further in ({}, {"survey.combined": False}):
            asked = settings.set(further)
            try:
                return asked, design_of(**planned_roles(asked))
            except InputError:
                continue
        settings = settings.set({"survey.replicate_weights": None})
    return settings, design_of(**planned_roles(settings))


def _full_names(
    settings: Settings, entries: Mapping[str, Any], called: Callable[..., Any], name: str
) -> dict[str, Any]:
    """Replace short names of entries, such as "epsilon", by full names, such as "privacy.epsilon".

    Raise InputError if a name is unknown.  The message begins with the name of the function that the user called,
    ``name``, and suggests entries and arguments of this function, ``called``.
    """
    places = {entry.partition(".")[2]: entry for entry, _ in settings.items() if entry.partition(".")[0] not in BY_NAME}
    places |= {name: name for name in BY_NAME}
    known = [*places, *inspect.signature(called).parameters]
    unknown = [f"{entry}{nearest(entry, known)}" for entry in entries if entry not in places]
    if unknown:
        listed = f"{', '.join(unknown)}: no entry of a plan; these are {', '.join(places)}"
        raise InputError(f"{name}(): {listed}")
    return {places[name]: value for name, value in entries.items()}


