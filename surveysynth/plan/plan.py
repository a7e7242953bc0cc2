"""A plan: everything that a release is made of, chosen and explained before the file's values are looked at.

Plan(design, "income ~ region + sex", ...)   or   Plan.read("plan.toml")
-> check()   what is published as it is, expected standard errors, time, warnings: no budget spent
-> release() -> write()
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import pandas as pd

from ..choices import OutcomeKind
from ..design.columns import listing, nearest
from ..design.guess import guess_roles
from ..design.missing_codes import likely_missing, listing_of, with_label
from ..design.read import LABELLED, read_labelled
from ..design.recode import recoded
from ..design.replicates.given import GivenReplicates
from ..design.scan import Scan
from ..design.survey_design import SurveyDesign
from ..design.to_synthesize import REPLICATE_ROLES, to_synthesize
from ..errors import InputError, Obstacles
from ..models.base import Synthesizer
from ..models.predictors.model_matrix import numeric_predictors
from ..privacy.accounting.ledger import Ledger
from ..privacy.mechanisms import Mechanism
from ..privacy.mechanisms.censored import WEIGHTED
from ..release.comparison import Comparison, compare
from ..release.folder import check_place
from ..release.manifest import seal_of
from ..release.release import Release, read_release
from ..storage import as_path, is_free, whole_file
from ..synthesis.edits import check_derived
from ..synthesis.fit import Fit
from ..synthesis.fitting import fit, prepared
from ..synthesis.levels import having_levels, undeclared
from ..synthesis.policy import Policy
from ..synthesis.synthetic_design import checked_total, public_columns, refuse_far
from ..validation import as_list, truth
from .arguments import (
    CONFIRMED,
    OF_WEIGHTS,
    accepted_of,
    by_of,
    check_formulas,
    mechanism_of,
    policy_of,
    print_of,
    rule_of,
    synthesizer_of,
)
from .defaults import categorical_of, choose, lacking
from .preview import Preview, preview
from .privacy_cost import PrivacyCost, privacy_cost
from .public_facts import PublicFacts
from .settings import BY_NAME, Column, MechanismName, Settings, key, read_toml, to_toml
from .strict import is_strict, levels_to_fill_in, model_of, synthesis_arguments, undeclared_outcomes

SUPERSEDES = (
    "this release supersedes an earlier one of the same file, of epsilon = {:g} ({}): both together tell of a record "
    "at most what epsilon = {:g} lets through"
)
# entries of the survey that are about its file
READING = "separator", "decimal", "thousands", "text", "na", "encoding", "missing_codes"
ENTRIES = {  # of the survey, by the roles of a design; models have a scale, too
    role: "replicate_scale" if role == "scale" else role
    for role in ("weights", "probs", "strata", "psu", "fpc", "lonely_psu", *REPLICATE_ROLES)
}
# roles that no entry of a plan stands for
UNSAID = (
    "poststrata", "auxiliary", "base_weights", "calibrated_weights", "raked_weights", "earlier_calibrations", "pps",
)  # fmt: skip
ABOUT = "title", "contact", "source", "license"
GUESSED = "guessed from the column's name or label: is it that?"


@dataclass(frozen=True, repr=False)
class Asked:
    """What a plan asks for, once nothing stands in its way.

    Attributes
    ----------
    model : Synthesizer
    mechanism : Mechanism
    make : function
        Makes the release.
    derived : dict of str to rule
        Columns that follow from others.
    notes : list of str
        More for the report.
    supersedes : dict
        More for the manifest.
    """

    model: Synthesizer
    mechanism: Mechanism
    make: Callable[[], Release]
    derived: dict[str, Any]
    notes: list[str]
    supersedes: dict[str, Any]


class Plan:
    """What will be released, how it is protected and why so: made before anything of the file is spent.

    What is not given is chosen from public facts and arguments alone: the model by the declared kind of the outcome,
    the mechanism, the scale, m by the expected accuracy, the prior.  ``print(plan)`` says what was chosen and what to
    expect; nothing is released and no budget is spent before :meth:`release`.

    Parameters
    ----------
    design : SurveyDesign
        The confidential file.
    formula : str
        ``"income ~ region + sex"``: outcomes (``C(tenure)`` for categories) and public predictors.
    by : str or list of str, optional
        Variables of the published tables: predictors, or synthesized categories.
    epsilon : float, optional
        Budget of the whole release.
    population_total : float or mapping of stratum to float, optional
        Public number of population units.
    bounds : (float, float) or mapping of outcome to such, optional
        Public lowest and highest outcome.
    levels : mapping of outcome to list of levels, optional
        All levels of outcomes that are categories, which are published; a categorical column declares its own.
    kind : {"amount", "count", "share"}
        What the outcomes are.  It is declared, not found: what is found would be a fact about the file.
    m : int, optional
        Number of synthetic data sets.
    mechanism : {"strict", "pseudo-posterior", "weighted-e", "censored", "censored-weighted"}, optional
    unit : str, optional
        Column of what epsilon protects, where that is not a record.
    **entries
        Any other entry of the plan's file, by its name: ``prior="flat"``, ``title="Income 2025"``.

    Attributes
    ----------
    settings : Settings
        Every entry, as in the file.
    reasons : dict of str to str
        Why entries were chosen that nobody gave, by ``"section.entry"``.
    lacking : dict of str to str
        What only the agency can say and has not said yet.

    Raises
    ------
    InputError
        Unknown entries, or values of another kind.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> plan = ss.Plan(design, "salary ~ field + gender", epsilon=8)
    >>> list(plan.lacking)
    ['privacy.population_total', 'privacy.bounds']
    >>> plan = plan.set(population_total=100_000, bounds=(10_000, 1_000_000))
    >>> plan.lacking, plan.settings.privacy.mechanism
    ({}, 'strict')
    """

    settings: Settings
    reasons: dict[str, str]
    lacking: dict[str, str]
    _in_memory = False  # its design was given, and is of no file that the plan names

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
        settings = Settings.of({"survey": {}, "model": {}, "privacy": {}})
        further = _placed(settings, entries, Plan)
        if not isinstance(design, SurveyDesign):
            raise InputError("the first argument is a SurveyDesign: SurveyDesign.read('silc.csv', weights=...)")
        given: dict[str, Any] = {
            "model.formula": formula, "model.kind": kind, "tables.by": as_list(by) or None, "privacy.epsilon": epsilon,
            "privacy.population_total": population_total, "privacy.bounds": bounds, "privacy.levels": levels,
            "release.m": m, "privacy.mechanism": mechanism, "privacy.unit": unit,
        }  # fmt: skip
        survey = {f"survey.{name}": value for name, value in _survey_of(design).items()}
        given |= {"tables.labels": (design.source or {}).get("labels")} | further
        self._in_memory = True
        self._refuse_of_files(further)
        labels = given["tables.labels"]
        self._begin(settings.set(survey | given), design.labelled(labels) if labels else design, Path())

    def _begin(self, settings: Settings, design: SurveyDesign | None, folder: Path) -> None:
        self._design, self._folder, self.reasons = design, folder, {}
        self._columns: tuple[str, ...] = ()
        self._policy = policy_of(settings, folder)
        facts = None
        if settings.model.formula is not None and (design is not None or _readable(settings)):
            facts = self._public_facts(settings)
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
        """Read a plan's file.

        Parameters
        ----------
        path : str or Path
            TOML; the paths in it are seen from its folder.
        set : mapping of "section.entry" to value, optional
            Entries to override, as ``--set privacy.epsilon=3`` does.

        Raises
        ------
        InputError
            No such file; entries that are unknown or wrong.
        """
        settings = read_toml(as_path(path)).set(set or {})
        return cls._made(settings, None, Path(path).absolute().parent)

    @classmethod
    def draft(
        cls, file: str | Path, *, set: Mapping[str, Any] | None = None, guess: bool = True, **entries: Any
    ) -> Self:
        """A first plan for a file: the roles of its columns guessed from names and labels, the rest to be filled in.

        Parameters
        ----------
        file : str or Path
            The confidential file.
        set : mapping of "section.entry" to value, optional
        guess : bool
            Guess the roles of columns that are not named, for somebody to review.
        **entries
            What is known, by the names that entries have in the plan's file: ``formula="income ~ region"``, ...

        Raises
        ------
        InputError
            A file that cannot be read; unknown entries.

        Examples
        --------
        >>> ss.datasets.sdr_sample(seed=1).frame.to_csv("survey.csv", index=False)
        >>> plan = ss.Plan.draft("survey.csv", formula="salary ~ field + gender", strata="field", guess=False)
        >>> list(plan.lacking)
        ['survey.weights', 'privacy.epsilon', 'privacy.population_total', 'privacy.bounds']
        """
        settings = Settings.of({"survey": {}, "model": {}, "privacy": {}})
        further = _placed(settings, entries, cls.draft)
        if not isinstance(set, Mapping | None):
            raise InputError("set must map entries to values: set={'privacy.epsilon': 3}")
        truth(guess, "guess")
        settings = settings.set({"survey.file": str(as_path(file, "file"))} | further | dict(set or {}))
        survey, (columns, labels, design_of) = settings.survey, _opened(as_path(file, "file"), settings)
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
        if _readable(settings):
            settings, design = _drafted(settings, design_of, guessed="replicate_weights" in free)
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
    def _made(cls, settings: Settings, design: SurveyDesign | None, folder: Path, like: Plan | None = None) -> Self:
        plan = cls.__new__(cls)
        if like is not None:
            plan._in_memory = like._in_memory
        plan._begin(settings, design, folder)
        return plan

    def set(self, **entries: Any) -> Plan:
        """The plan with other values at some entries, by their names: ``plan.set(epsilon=3)``.

        What was chosen is chosen again; what was said stays.

        Parameters
        ----------
        **entries
            Entries by the names that they have in the plan's file.

        Returns
        -------
        Plan
            Another one; this one stays as it is.

        Raises
        ------
        InputError
            Unknown entries, or values of another kind.

        Examples
        --------
        >>> design = ss.datasets.sdr_sample(seed=1)
        >>> plan = ss.Plan(design, "salary ~ field + gender", epsilon=8)
        >>> plan.set(epsilon=3).settings.privacy.epsilon
        3.0
        """
        guessed = {entry: why for entry, why in self.reasons.items() if why == GUESSED}
        said = self.settings.set(dict.fromkeys(entry for entry in self.reasons if entry not in guessed))
        asked = _placed(said, entries, Plan.set)
        self._refuse_of_files(asked)
        settings = said.set(asked)
        plan = self._made(settings, self._design_under(settings), self._folder, self)
        plan.reasons |= {entry: why for entry, why in guessed.items() if entry not in asked}
        return plan

    def _refuse_of_files(self, asked: Mapping[str, Any]) -> None:
        """Refuse entries that are about reading a file, where the design is in memory (InputError)."""
        stray = [entry for entry in asked if entry.startswith(("survey.", "columns"))]
        if self._in_memory and stray:
            raise InputError(
                f"{', '.join(stray)}: the design is in memory, and a plan reads no file for it. Make another design; "
                "levels are merged by design.frame['sex'].replace({'x': 'other', 'y': 'other'}).fillna('missing')"
            )

    def _design_under(self, settings: Settings) -> SurveyDesign | None:
        """The design under other settings; None where the file is to be read again for them."""
        if self._in_memory and self._design is not None:
            return self._design.labelled(settings.tables.labels or {})
        before, after = ((s.survey, s.columns, s.tables.labels) for s in (self.settings, settings))
        return self._design if before == after else None

    @property
    def design(self) -> SurveyDesign:
        """The confidential file, which is read when it is first needed.

        Raises
        ------
        InputError
            The plan names no file, or it cannot be read.
        """
        return self._of(self.settings)

    def _of(self, settings: Settings) -> SurveyDesign:
        if self._design is None:
            survey = settings.survey
            if survey.file is None:
                raise InputError("the plan names no file: fill in survey.file")
            *_, design_of = _opened(self._folder / survey.file, settings)
            self._design = design_of(**_roles_of(settings)).labelled(settings.tables.labels or {})
        return self._design

    def _public_facts(self, settings: Settings) -> PublicFacts:
        """What is public of the file."""
        declared = having_levels(self._of(settings), settings.privacy.levels or {})
        design, _, left_out = to_synthesize(declared)
        return PublicFacts(design, tuple(left_out))

    def check(self, *, inside: bool = False) -> Preview:
        """What to expect of the release: no budget is spent.

        Parameters
        ----------
        inside : bool
            Look at the confidential values, too: heaps, the shape of residuals, expected standard errors in their own
            unit, sizes of PSUs that go with the outcome.  What it says is for the agency alone.

        Returns
        -------
        Preview
            Its text is the plan's, with the accuracy to expect.

        Raises
        ------
        InputError
            Something is not filled in, or the arguments do not suit the file.
        PrivacyError
            The release would be refused.

        Examples
        --------
        >>> design = ss.datasets.sdr_sample(seed=1)
        >>> plan = ss.Plan(design, "salary ~ field + gender", epsilon=8)
        >>> preview = plan.set(population_total=100_000, bounds=(10_000, 1_000_000)).check()
        >>> preview.expected.columns.tolist()
        ['records', 'se_ratio']
        """
        self._refuse_unfinished()
        asked = self._checked(self.ledger, None)
        settings, policy = self.settings, self._policy
        if policy is not None:
            settings = settings.set(
                {"privacy.epsilon": policy.epsilon, "privacy.mechanism": WEIGHTED, "release.m": policy.m}
            )
        facts = self._public_facts(settings)
        found = preview(settings, facts, asked.model, asked.mechanism, self._folder, self.reasons, inside=inside)
        taken = [] if is_free(self.place()) else [
            f"{str(self.place())!r} is there: --overwrite replaces a release, or say another folder in [release]"
        ]  # fmt: skip
        return replace(found, warnings=[*found.warnings, *taken])

    def release(self, *, enter: bool = True, seed: int | None = None) -> Release:
        """Fit, and make the release.

        Parameters
        ----------
        enter : bool
            Enter it in the plan's ledger now.  If not, :meth:`write` does, when all its files are on the disk: do not
            look at the release before.  A strict release is entered when the file is measured, whatever is said here.
        seed : int, optional
            For tests only: the release is marked "not for publication".

        Returns
        -------
        Release
            As :func:`surveysynth.synthesize` makes it.

        Raises
        ------
        InputError, ModelError, PrivacyError, EngineError, NotFitForRelease
            As there; something is not filled in.
        """
        self._refuse_unfinished()
        strict, ledger = is_strict(self.settings), self.ledger
        # what is measured is charged before anything else happens; other releases when they are made or written
        asked = self._checked(ledger, seed, charged=strict)
        made = asked.make()
        finished = _with_more(made.assign(**asked.derived), asked.notes, self._about() | asked.supersedes)
        return finished if strict else finished.entered(ledger if enter else None)

    def _checked(self, ledger: Ledger | None, seed: int | None, *, charged: bool = False) -> Asked:
        """Everything that the plan asks for, once nothing stands in its way; ``charged``: the ledger is charged."""
        wrong, settings = Obstacles(), self.settings
        others = wrong.check(self._superseded)
        parts = wrong.check(self._parts)
        wrong.check(self._refuse_far_total)
        derived: dict[str, Any] | None = None
        make = None
        if parts is not None:
            model = parts[0]
            wrong.check(self._refuse_labelled, model)
            wrong.check(by_of, settings, model)
            wrong.check(print_of, settings, model, self._folder)
            derived = wrong.check(self._derived, model)
            make = wrong.check(self._prepared, ledger if charged else None, seed)
        epsilon = settings.privacy.epsilon if self._policy is None else self._policy.epsilon
        if ledger is not None and epsilon is not None and not charged:
            wrong.check(ledger.check, epsilon)
        wrong.refuse()
        assert parts is not None and make is not None and others is not None
        return Asked(*parts, make, derived or {}, *others)

    def _derived(self, model: Synthesizer) -> dict[str, Any]:
        columns = [*public_columns(self.design, model), *model.outcomes]
        rules = self.settings.edits.derive
        return dict(check_derived(rules, self.design.select(columns).reset_index(drop=True)))

    def _prepared(self, ledger: Ledger | None, seed: int | None) -> Callable[[], Release]:
        """What makes the release."""
        settings = self.settings
        given = synthesis_arguments(settings, self.design, self._folder) if is_strict(settings) else self._fitting() | {
            "debias": bool(settings.release.debias), "accept_diagnostics": accepted_of(settings),
            "rule": rule_of(settings), "edits": settings.edits.rules,
        }  # fmt: skip
        return prepared(self.design, given.pop("synthesizer", None), **given, ledger=ledger, seed=seed)

    def _about(self) -> dict[str, Any]:
        """What the plan says of the release to its readers."""
        of = {name: getattr(self.settings.release, name) for name in ABOUT}
        of |= {name: getattr(self.settings.tables, name) for name in ("digits", "units")}
        return {name: value for name, value in of.items() if value is not None}

    def fit(self, *, seed: int | None = None) -> Fit:
        """Fit as a release would, for a look inside: nothing is released, and no budget is spent.

        Parameters
        ----------
        seed : int, optional
            For tests only.

        Returns
        -------
        Fit
            Confidential.

        Raises
        ------
        InputError, ModelError, PrivacyError, EngineError
            As :func:`surveysynth.fit`; something is not filled in; a strict release, for which no records are fitted.
        """
        self._refuse_unfinished()
        self._refuse_far_total()
        if is_strict(self.settings):
            raise InputError("a strict release is drawn from noisy tables: there is no fit to records to look at")
        return fit(self.design, **self._fitting(), seed=seed)

    def _fitting(self) -> dict[str, Any]:
        """The arguments of the fit."""
        privacy, model = self.settings.privacy, self.settings.model
        chosen: dict[str, Any] = {"policy": self._policy}
        if self._policy is None:
            synthesizer, mechanism = self._parts()
            chosen = {"synthesizer": synthesizer, "mechanism": mechanism, "epsilon": privacy.epsilon}
            chosen["m"] = self.settings.release.m
        return chosen | {
            "population_total": privacy.population_total, "levels": privacy.levels, "public": privacy.public,
            "clusters": model.clusters or "model", "unit": privacy.unit, "reweight": privacy.reweight or 0,
            "engine": model.engine or "auto",
        }  # fmt: skip

    @property
    def files(self) -> list[Path]:
        """The confidential file that the plan names."""
        file = self.settings.survey.file
        return [] if file is None else [self._folder / file]

    @property
    def ledger(self) -> Ledger | None:
        """The ledger in which the release is entered, if the plan names one.

        Raises
        ------
        InputError
            No such ledger; a survey or a cap without one.
        """
        privacy = self.settings.privacy
        stray = [f"privacy.{name}" for name in ("survey", "cap") if getattr(privacy, name) is not None]
        if privacy.ledger is None:
            if stray:
                raise InputError(f"{', '.join(stray)}: only with privacy.ledger")
            return None
        if privacy.survey is None:
            raise InputError(
                "privacy.ledger needs privacy.survey, the name under which the epsilons of the survey add up"
            )
        return Ledger(self._folder / privacy.ledger, privacy.survey, privacy.cap)

    def privacy_cost(self, *, seed: int | None = None) -> PrivacyCost | pd.DataFrame:
        """What epsilons and numbers of data sets buy: a table; or what the plan's epsilon or c1 means on this file.

        The table without an epsilon.  Nothing is released.

        Parameters
        ----------
        seed : int, optional
            For tests only.

        Returns
        -------
        PrivacyCost or pandas.DataFrame
            As of :func:`surveysynth.privacy_cost`.

        Raises
        ------
        InputError, ModelError, PrivacyError, EngineError
            As :func:`surveysynth.privacy_cost`; there is no formula yet; a strict release, which :meth:`check`
            foretells.
        """
        self._refuse_unfinished("survey.file", "survey.weights", "model.formula")
        privacy, model = self.settings.privacy, self.settings.model
        if self._policy is not None:
            raise InputError("a policy says itself what it costs: Policy.load(...), or print it")
        synthesizer, mechanism = self._parts()
        if not mechanism.fits_records:
            raise InputError(
                "a strict release has no privacy weights to price: check() says what its epsilon buys. Say mechanism = "
                "'pseudo-posterior' in [privacy] for a dry run of a fit to records"
            )
        m = None if privacy.epsilon is None and "release.m" in self.reasons else self.settings.release.m
        return privacy_cost(
            self.design, synthesizer, epsilon=privacy.epsilon, m=m, mechanism=mechanism,
            clusters=model.clusters or "model", unit=privacy.unit, reweight=privacy.reweight or 0,
            engine=model.engine or "auto", seed=seed, levels=privacy.levels,
        )  # fmt: skip

    def policy(self, source: str, *, seed: int | None = None) -> Policy:
        """Fix everything that protects later releases on this plan's file, which is a historical one.

        Parameters
        ----------
        source : str
            What to call the historical file; published.
        seed : int, optional
            For tests only.

        Returns
        -------
        Policy
            Confidential; :meth:`Policy.save` writes it.

        Raises
        ------
        InputError, ModelError, PrivacyError, EngineError
            As :meth:`Policy.from_historical`; a plan of another mechanism than "censored-weighted".
        """
        self._refuse_unfinished()
        privacy, model = self.settings.privacy, self.settings.model
        if privacy.mechanism != WEIGHTED or self._policy is not None:
            raise InputError(f"a policy is of privacy.mechanism = {WEIGHTED!r}: the plan says another")
        if privacy.epsilon is None:
            raise InputError("a policy needs privacy.epsilon, whatever c1")
        assert privacy.population_total is not None  # or else the plan is not filled in
        synthesizer = self._parts()[0]
        of_map = {name: value for name in OF_WEIGHTS if (value := getattr(privacy, name)) is not None}
        return Policy.from_historical(
            self.design, synthesizer, epsilon=privacy.epsilon, source=source,
            population_total=privacy.population_total, m=self.settings.release.m or 3, **of_map,
            clusters=model.clusters or "model", engine=model.engine or "auto", seed=seed,
        )  # fmt: skip

    def write(self, release: Release, folder: str | Path | None = None, *, overwrite: bool = False) -> Path:
        """Write a release as the plan says: where, by which variables, in which format.

        A release that is not in the plan's ledger yet is entered there last.

        Parameters
        ----------
        release : Release
            Made by :meth:`release`.
        folder : str or Path, optional
            Another place than that of the plan.
        overwrite : bool
            Replace a release that is there.

        Returns
        -------
        Path
            The folder of the release.

        Raises
        ------
        InputError, PrivacyError
            As :meth:`Release.write`.
        """
        tables = self.settings.tables
        return release.write(
            self.place(folder), by=tables.by, **self.statistics, min_cell=tables.min_cell, cv_limit=tables.cv_limit,
            symbols=tables.symbols, wording=self._folder / tables.wording if tables.wording else None,
            overwrite=overwrite, ledger=None if release.entered_before else self.ledger,
            format=self.settings.release.format,
        )  # fmt: skip

    @property
    def statistics(self) -> dict[str, Any]:
        """What the tables show, as arguments of :meth:`Release.tables`."""
        tables = self.settings.tables
        said = {"quantiles": tables.quantiles, "poverty_line": tables.poverty_line}
        return {"statistic": tables.statistic} | {name: value for name, value in said.items() if value}

    def place(self, folder: str | Path | None = None) -> Path:
        """The folder of the release.

        Parameters
        ----------
        folder : str or Path, optional
            Another place than that of the plan.

        Returns
        -------
        Path
            The folder.
        """
        return self._folder / self.settings.release.folder if folder is None else as_path(folder, "folder")

    def check_place(self, folder: str | Path | None = None, *, overwrite: bool = False) -> None:
        """Refuse a place where the release could not be written, before anything is spent.

        Parameters
        ----------
        folder : str or Path, optional
            Another place than that of the plan.
        overwrite : bool
            Whether a release that is there may be replaced.

        Raises
        ------
        InputError
            A release could not be written there.
        """
        check_place(self.place(folder), overwrite=overwrite)

    def compare(self, release: Release) -> Comparison:
        """A release beside the confidential file, by the variables and statistics of the plan: for the agency alone.

        Parameters
        ----------
        release : Release
            Made by this plan.

        Returns
        -------
        Comparison
            Internal.

        Raises
        ------
        InputError
            As :func:`surveysynth.compare`.
        """
        return compare(self.design, release, self.settings.tables.by, **self.statistics)

    def to_toml(self) -> str:
        """The plan as a file: every entry with a comment, what was chosen with its reason, what is to be filled in.

        Returns
        -------
        str
            TOML, with a comment on what was chosen.

        Examples
        --------
        >>> design = ss.datasets.sdr_sample(seed=1)
        >>> plan = ss.Plan(design, "salary ~ field + gender", epsilon=8)
        >>> "formula" in plan.to_toml()
        True
        """
        return to_toml(self.settings, self.reasons, self.lacking, self._columns)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the plan's file, whole or not at all.

        Parameters
        ----------
        path : str or Path
            Of the TOML file.
        overwrite : bool
            Replace a file that is there.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            The file exists and ``overwrite`` is False; the design has what no entry of a plan says.
        """
        path = as_path(path)
        if path.exists() and not overwrite:
            raise InputError(f"{str(path)!r} exists; choose another name, or overwrite=True")
        beyond = [] if self._design is None else [role for role in UNSAID if self._design.roles().get(role)]
        if beyond:
            raise InputError(f"a plan's file cannot say {', '.join(beyond)} of the design: release from this session")
        with whole_file(path) as stream:
            stream.write(self.to_toml().encode())
        return path

    def __repr__(self) -> str:
        if self.lacking:
            said = "\n".join(f"  {entry}: {what}" for entry, what in self.lacking.items())
            return f"Plan of {self.settings.model.formula}, to be filled in:\n{said}"
        return str(self.check())

    def _parts(self) -> tuple[Synthesizer, Mechanism]:
        """Model and mechanism."""
        if self._policy is not None:
            return self._policy.synthesizer, self._policy.mechanism
        strict = is_strict(self.settings)
        model = model_of(self.settings, self.design) if strict else synthesizer_of(self.settings, self._folder)
        return model, mechanism_of(self.settings)

    def _refuse_unfinished(self, *needed: str) -> None:
        lacks = {entry: what for entry, what in self.lacking.items() if entry in needed or not needed}
        if lacks:
            said = "".join(f"\n  {entry}: {what}" for entry, what in lacks.items())
            raise InputError(f"the plan is not filled in; it lacks{said}")

    def _refuse_labelled(self, model: Synthesizer) -> None:
        """Refuse numbers with labels, such as -9 for "refused", about which nothing is said, as amounts of the model.

        Columns of other uses keep their labelled numbers, and reading the file warns of them.
        """
        labelled = self.design.select([]).attrs.get(LABELLED, {})
        used = [*model.numeric, *numeric_predictors(self.design, model.predictors, model.outcomes)]
        asked = {column: labelled[column] for column in used if column in labelled}
        if not asked:
            return
        listed = "; ".join(f"{column}: {with_label(labels)}" for column, labels in asked.items())
        answered = self.settings.survey.missing_codes
        codes = dict(answered) if isinstance(answered, dict) else {}
        codes |= {column: likely_missing(labels) for column, labels in asked.items()}
        if self._in_memory:
            line = ", ".join(f"{column!r}: {listing_of(each)}" for column, each in codes.items())
            answer = f"read the file with missing_codes={{{line}}}"
        else:
            line = ", ".join(f"{key(column)} = {listing_of(each)}" for column, each in codes.items())
            answer = f"say missing_codes = {{{line}}} in [survey]"
        raise InputError(
            f"some numbers have labels, as codes for 'refused' have ({listed}). Which of these stand for a missing "
            f"value: {answer}, with [] for a column whose numbers are all amounts"
        )

    def _refuse_far_total(self) -> None:
        """Refuse a population total that the survey weights contradict, unless the plan says that both are right."""
        total, accepted = self.settings.privacy.population_total, self.settings.release.accept or ()
        if CONFIRMED not in accepted:
            refuse_far(checked_total(total, self.design), self.design)

    def _superseded(self) -> tuple[list[str], dict[str, Any]]:
        """Notes and facts on the release that this one supersedes, whose epsilon adds up with its own."""
        superseded = self.settings.release.supersedes
        if superseded is None:
            return [], {}
        folder = self._folder / superseded
        earlier = read_release(folder).privacy
        together = earlier.epsilon + (self.settings.privacy.epsilon or 0.0)
        facts = {"epsilon": earlier.epsilon, "kind": earlier.kind, "together": together, "manifest": seal_of(folder)}
        return [SUPERSEDES.format(earlier.epsilon, earlier.kind, together)], {"supersedes": facts}


def _with_more(release: Release, notes: Sequence[str], facts: Mapping[str, Any]) -> Release:
    """The release with more in its report and its manifest."""
    report = replace(release.privacy, assumptions=[*release.privacy.assumptions, *notes])
    return replace(release, method=release.method | dict(facts), privacy=report)


def _opened(file: Path, settings: Settings) -> tuple[list[str], dict[str, str], Callable[..., SurveyDesign]]:
    """Columns of a file and their labels, and what makes a design of it, given roles.

    Of parquet of whose reading nothing is said, columns are read when they are asked for.
    """
    how = {name: getattr(settings.survey, name) for name in READING}
    unweighted, recodes = settings.survey.unweighted, settings.columns
    if (file.is_dir() or file.suffix.lower() == ".parquet") and not any(how.values()):
        scan = Scan(file)
        if not unweighted and not recodes:
            return list(scan.names), scan.headings, partial(SurveyDesign.scan, file)
        frame, labels = scan.frame(scan.names), scan.headings
    else:
        frame, labels = read_labelled(file, **how)
    make = SurveyDesign.unweighted if unweighted else SurveyDesign
    return [str(c) for c in frame.columns], labels, partial(make, _recoded(frame, recodes), labels=labels)


def _recoded(frame: pd.DataFrame, recodes: Mapping[str, Column]) -> pd.DataFrame:
    """The file with merged levels, and missing values as levels, as the plan says it of columns."""
    for name in recodes:
        if name not in frame.columns:
            raise InputError(
                f"columns.{name}: there is no column {name!r}{nearest(name, frame.columns)}; the file has "
                f"{listing(frame.columns)}"
            )
    made = {
        name: recoded(frame[name], said.merge or {}, missing=said.missing == "category")
        for name, said in recodes.items()
    }
    attrs = {LABELLED: {n: labels for n, labels in frame.attrs.get(LABELLED, {}).items() if n not in made}}
    out = frame.assign(**made)
    out.attrs = frame.attrs | attrs
    return out


def _drafted(
    settings: Settings, design_of: Callable[..., SurveyDesign], *, guessed: bool
) -> tuple[Settings, SurveyDesign]:
    """The design of a draft whose replicate weights may be a guess: full weights, else factors, else none at all."""
    if guessed:
        for further in ({}, {"survey.combined": False}):
            asked = settings.set(further)
            try:
                return asked, design_of(**_roles_of(asked))
            except InputError:
                continue
        settings = settings.set({"survey.replicate_weights": None})
    return settings, design_of(**_roles_of(settings))


def _survey_of(design: SurveyDesign) -> dict[str, Any]:
    """What the section on the survey says of a design."""
    roles = design.roles()
    if isinstance(design.replication, GivenReplicates):
        usual = design.replication.usual
        roles = {role: value for role, value in roles.items() if role not in usual or value != usual[role]}
    said = {entry: roles.get(role) for role, entry in ENTRIES.items()}
    said |= {k: v for k, v in (design.source or {}).items() if k != "labels"}
    return said | ({"lonely_psu": None} if roles["lonely_psu"] == "fail" else {})


def _placed(settings: Settings, entries: Mapping[str, Any], called: Callable[..., Any]) -> dict[str, Any]:
    """Entries by "section.entry", from their names alone, as ``called`` was given them."""
    places = {entry.partition(".")[2]: entry for entry, _ in settings.items() if entry.partition(".")[0] not in BY_NAME}
    places |= {name: name for name in BY_NAME}
    known = [*places, *inspect.signature(called).parameters]
    unknown = [f"{name}{nearest(name, known)}" for name in entries if name not in places]
    if unknown:
        listed = f"{', '.join(unknown)}: no entry of a plan; these are {', '.join(places)}"
        raise InputError(f"{called.__qualname__}(): {listed}")
    return {places[name]: value for name, value in entries.items()}


def _roles_of(settings: Settings) -> dict[str, Any]:
    """The roles of columns that the plan names."""
    roles = {role: getattr(settings.survey, entry) for role, entry in ENTRIES.items()}
    return {role: column for role, column in roles.items() if column is not None}


def _readable(settings: Settings) -> bool:
    """Whether the file of a plan can be read as a design."""
    survey = settings.survey
    return survey.file is not None and survey.weighted
