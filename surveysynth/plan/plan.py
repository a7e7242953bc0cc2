"""A plan: all entries that define a release, chosen and explained before confidential values are read.

An entry is a named value in a section of the plan, such as epsilon in the section [privacy]; its full name is
"privacy.epsilon".  ``Plan(design, "income ~ region + sex", ...)`` or ``Plan.read("plan.toml")`` makes a plan.
``check()`` reports what is published unchanged, expected standard errors, time and warnings, and spends no budget.
``release()`` makes the release, and ``write()`` writes its files.  A plan may name a ledger, which is a file that adds
up the epsilon spent on a survey.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ..choices import PRINTED
from ..errors import InputError, Obstacles
from ..models.base import Synthesizer
from ..privacy.accounting.ledger import Ledger
from ..privacy.mechanisms import Mechanism
from ..privacy.mechanisms.censored import WEIGHTED
from ..release.comparison import Comparison, compare
from ..release.folder import check_place
from ..release.release import Release
from ..storage import as_path, is_free
from ..synthesis.edits import check_derived
from ..synthesis.fit import Fit
from ..synthesis.fitting import fit, prepared
from ..synthesis.policy import Policy
from ..synthesis.synthetic_design import public_columns
from .arguments import MAP_ENTRIES, accepted_of, mechanism_of, rule_of, synthesizer_of
from .checks import refuse_far_total, refuse_labelled, superseded, with_earlier
from .entries import PlanEntries
from .preview import Preview, preview
from .privacy_cost import PrivacyCost, privacy_cost
from .strict import is_strict, model_of, synthesis_arguments
from .tables import check_tables


@dataclass(frozen=True, repr=False)
class Asked:
    """Result of the checks of a plan: the model, the mechanism, and a function that makes the release.

    Attributes
    ----------
    model : Synthesizer
    mechanism : Mechanism
    make : function
        Makes the release.
    derived : dict of str to function
        For each derived column, a function that computes the column from a frame.
    earlier : dict
        Facts on the earlier release that this release replaces; empty if there is none.
    """

    model: Synthesizer
    mechanism: Mechanism
    make: Callable[[], Release]
    derived: dict[str, Any]
    earlier: dict[str, Any]


class Plan(PlanEntries):
    """A plan of a release: what will be released, how it is protected, and what accuracy to expect.

    Some entries that are not given are chosen: the model (by the declared kind of the outcome), the mechanism, the
    scale, m and the prior.  They are chosen from public facts and other entries, so that the choice reveals nothing
    confidential.  ``print(plan)`` shows the choices and what to expect.  Nothing is released and no budget is spent
    before :meth:`release`.

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
    bounds : (float, float) or mapping of outcome to (float, float), optional
        Public lowest and highest value of the outcomes.
    levels : mapping of outcome to list of levels, optional
        All levels of categorical outcomes.  Levels are published.  The levels of a column of pandas' categorical type
        need not be given.
    kind : {"amount", "count", "share"}
        Kind of the outcomes.  It is declared and not guessed, because a guess would depend on confidential values.
    m : int, optional
        Number of synthetic data sets.
    mechanism : {"strict", "pseudo-posterior", "weighted-e", "censored", "censored-weighted"}, optional
        How records are protected.
    unit : str, optional
        Column of the units that epsilon protects, if these are not single records.
    **entries
        Any other entry of the plan's file, by its name: ``prior="flat"``, ``title="Income 2025"``.

    Attributes
    ----------
    settings : Settings
        All entries, as in the plan's file.
    reasons : dict of str to str
        Reasons for the defaults that were chosen, by ``"section.entry"``.
    lacking : dict of str to str
        The entries that the agency must still fill in, each with a text on what to enter.

    Raises
    ------
    InputError
        An entry is unknown, its value is of the wrong kind, or it cannot be used with the model or the mechanism.

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

    def check(self, *, inside: bool = False) -> Preview:
        """Check the plan and predict the accuracy of its release.  No budget is spent.

        Parameters
        ----------
        inside : bool
            True if confidential values are examined as well: frequent single values, the shape of residuals, expected
            coefficients of variation, and PSUs whose size is correlated with the outcome.  The findings are for the
            agency alone.

        Returns
        -------
        Preview
            The plan in sentences, with the expected accuracy.

        Raises
        ------
        InputError
            An entry is not filled in, or entries do not fit the file.  One error lists everything that is wrong.
        PrivacyError
            Epsilon would exceed the ledger's cap, or the ledger is damaged.

        Examples
        --------
        >>> design = ss.datasets.sdr_sample(seed=1)
        >>> plan = ss.Plan(design, "salary ~ field + gender", epsilon=8)
        >>> preview = plan.set(population_total=100_000, bounds=(10_000, 1_000_000)).check()
        >>> preview.expected.columns.tolist()
        ['field', 'gender', 'records', 'se_ratio']
        """
        self._refuse_unfinished()
        asked = self._checked(self.ledger, None)
        settings, policy = self.settings, self._policy
        if policy is not None:
            settings = settings.set(
                {"privacy.epsilon": policy.epsilon, "privacy.mechanism": WEIGHTED, "release.m": policy.m}
            )
        facts = self.public_facts(settings)
        found = preview(settings, facts, asked.model, asked.mechanism, self._folder, self.reasons, inside=inside)
        taken = [] if is_free(self.place()) else [
            f"{str(self.place())!r} is there: --overwrite replaces a release, or set another folder in [release]"
        ]  # fmt: skip
        return replace(found, warnings=[*found.warnings, *taken])

    def release(self, *, enter: bool = True, seed: int | None = None) -> Release:
        """Make the synthetic data sets and the privacy report of the planned release, in memory.

        Parameters
        ----------
        enter : bool
            True if the release is entered in the plan's ledger now.  Otherwise :meth:`write` enters the release when
            all files are on the disk.  Do not look at the release before it is entered: once it is seen, its epsilon is
            spent.  A strict release, which is drawn from noisy tables, is always entered when noise is added.
        seed : int, optional
            Seed for tests only.  A seeded release is marked "not for publication".

        Returns
        -------
        Release
            The release in memory, as from :func:`surveysynth.synthesize`.

        Raises
        ------
        InputError, ModelError, PrivacyError, EngineError, NotFitForRelease
            See :func:`surveysynth.synthesize`.  InputError is also raised if an entry is not filled in.
        """
        self._refuse_unfinished()
        strict, ledger = is_strict(self.settings), self.ledger
        # measuring charges the ledger at once, other releases charge it when they are made or written
        asked = self._checked(ledger, seed, charged=strict)
        made = asked.make()
        notes, facts = with_earlier(asked.earlier, made.privacy.epsilon)
        finished = _with_more(made.assign(**asked.derived), notes, self._about() | facts)
        if strict or not enter or ledger is None:
            return finished
        self._tables(finished)  # what write() would refuse is refused before the charge
        return finished.entered(ledger)

    def _tables(self, release: Release) -> pd.DataFrame:
        tables = self.settings.tables
        by = release.table_predictors() if tables.by is None else tables.by
        return release.tables(by, **self.statistics, min_cell=tables.min_cell, cv_limit=tables.cv_limit)

    def _checked(self, ledger: Ledger | None, seed: int | None, *, charged: bool = False) -> Asked:
        """Check the plan, and return what is needed to make the release.  One error lists everything that is wrong.

        If ``charged``, the release's epsilon is entered in the ledger as soon as the release is made.
        """
        wrong, settings = Obstacles(), self.settings
        earlier = wrong.check(superseded, settings, self._folder)
        parts = wrong.check(self._parts)
        wrong.check(refuse_far_total, self.design, settings)
        derived: dict[str, Any] | None = None
        make = None
        if parts is not None:
            model = parts[0]
            wrong.check(refuse_labelled, self.design, settings, model, in_memory=self._in_memory)
            m = settings.release.m if self._policy is None else self._policy.m
            wrong.check(check_tables, settings, self.design, model, m, self._folder)
            derived = wrong.check(self._derived, model)
            make = wrong.check(self._prepared, ledger if charged else None, seed)
        epsilon = settings.privacy.epsilon if self._policy is None else self._policy.epsilon
        if ledger is not None and epsilon is not None and not charged:
            wrong.check(ledger.check, epsilon)
        wrong.refuse()
        assert parts is not None and make is not None and earlier is not None
        return Asked(*parts, make, derived or {}, earlier)

    def _derived(self, model: Synthesizer) -> dict[str, Any]:
        columns = [*public_columns(self.design, model), *model.outcomes]
        rules = self.settings.edits.derive
        return dict(check_derived(rules, self.design.select(columns).reset_index(drop=True)))

    def _prepared(self, ledger: Ledger | None, seed: int | None) -> Callable[[], Release]:
        """Check the arguments of the release, and return a function that makes the release.

        That function enters the release's epsilon in ``ledger``, if this is not None.
        """
        settings = self.settings
        given = synthesis_arguments(settings, self.design, self._folder) if is_strict(settings) else self._fitting() | {
            "debias": bool(settings.release.debias), "accept_diagnostics": accepted_of(settings),
            "rule": rule_of(settings), "edits": settings.edits.rules,
        }  # fmt: skip
        return prepared(self.design, given.pop("synthesizer", None), **given, ledger=ledger, seed=seed)

    def _about(self) -> dict[str, Any]:
        """Return the plan's facts for readers of the release, such as title and contact."""
        facts = {name: getattr(self.settings.release, name) for name in PRINTED}
        facts |= {name: getattr(self.settings.tables, name) for name in ("digits", "units")}
        return {name: value for name, value in facts.items() if value is not None}

    def fit(self, *, seed: int | None = None) -> Fit:
        """Fit the model as for a release, to look at the fit.  Nothing is released and no budget is spent.

        Parameters
        ----------
        seed : int, optional
            Seed for tests only.

        Returns
        -------
        Fit
            The confidential fit.

        Raises
        ------
        InputError, ModelError, PrivacyError, EngineError
            See :func:`surveysynth.fit`.  InputError is also raised if an entry is not filled in, or if the release is
            strict and has no fit to records.
        """
        self._refuse_unfinished()
        refuse_far_total(self.design, self.settings)
        if is_strict(self.settings):
            raise InputError("a strict release is drawn from noisy tables: there is no fit to records to look at")
        return fit(self.design, **self._fitting(), seed=seed)

    def _fitting(self) -> dict[str, Any]:
        """Return the arguments of :func:`surveysynth.fit` that the plan gives."""
        privacy, model = self.settings.privacy, self.settings.model
        arguments: dict[str, Any] = {"policy": self._policy}
        if self._policy is None:
            synthesizer, mechanism = self._parts()
            arguments = {"synthesizer": synthesizer, "mechanism": mechanism, "epsilon": privacy.epsilon}
            arguments["m"] = self.settings.release.m
        return arguments | {
            "population_total": privacy.population_total, "levels": privacy.levels, "public": privacy.public,
            "clusters": model.clusters or "model", "unit": privacy.unit, "reweight": privacy.reweight or 0,
            "engine": model.engine or "auto",
        }  # fmt: skip

    @property
    def files(self) -> list[Path]:
        """The path of the confidential file, as a list; empty if the plan names no file."""
        file = self.settings.survey.file
        return [] if file is None else [self._folder / file]

    @property
    def ledger(self) -> Ledger | None:
        """The ledger that the plan names, or None.

        The cap of the plan applies.  It is recorded with the first entry, so that nothing is written before a release.

        Raises
        ------
        InputError
            The ledger does not exist, does not have the survey or has another cap than the plan; or the plan has a
            survey or a cap without a ledger, or a ledger without a survey.
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
        ledger = Ledger(self._folder / privacy.ledger, privacy.survey)
        return ledger if privacy.cap is None else ledger.with_cap(privacy.cap)

    def privacy_cost(self, *, seed: int | None = None) -> PrivacyCost | pd.DataFrame:
        """Compute the privacy cost of the planned release by a dry run of the fit.  Nothing is released.

        If the plan has neither epsilon nor c1 (the scale of the privacy weights), the result is a table for
        several values of epsilon and m.

        Parameters
        ----------
        seed : int, optional
            Seed for tests only.

        Returns
        -------
        PrivacyCost or pandas.DataFrame
            As from :func:`surveysynth.privacy_cost`.

        Raises
        ------
        InputError, ModelError, PrivacyError, EngineError
            See :func:`surveysynth.privacy_cost`.  InputError is also raised if file, weights or formula are not filled
            in, if the plan has a policy, or if the release is strict (:meth:`check` predicts the accuracy of strict
            releases).
        """
        self._refuse_unfinished("survey.file", "survey.weights", "model.formula")
        privacy, model = self.settings.privacy, self.settings.model
        if self._policy is not None:
            raise InputError("a policy states its own cost: print Policy.load(...)")
        synthesizer, mechanism = self._parts()
        if not mechanism.fits_records:
            raise InputError(
                "a strict release has no privacy weights to price: check() predicts its accuracy. Write mechanism = "
                "'pseudo-posterior' in [privacy] for a dry run of a fit to records"
            )
        m = None if privacy.epsilon is None and "release.m" in self.reasons else self.settings.release.m
        return privacy_cost(
            self.design, synthesizer, epsilon=privacy.epsilon, m=m, mechanism=mechanism,
            clusters=model.clusters or "model", unit=privacy.unit, reweight=privacy.reweight or 0,
            engine=model.engine or "auto", seed=seed, levels=privacy.levels,
        )  # fmt: skip

    def policy(self, source: str, *, seed: int | None = None) -> Policy:
        """Make a policy for releases of later files, from this plan and the plan's file, which is a historical file.

        A policy fixes the model, epsilon, the mechanism and m before a later file is read.

        Parameters
        ----------
        source : str
            Published name of the historical file.
        seed : int, optional
            Seed for tests only.

        Returns
        -------
        Policy
            The confidential policy, which :meth:`Policy.save` writes.

        Raises
        ------
        InputError, ModelError, PrivacyError, EngineError
            See :meth:`Policy.from_historical`.  InputError is also raised if an entry is not filled in, if the
            mechanism is not "censored-weighted", or if the plan has a policy or no epsilon.
        """
        self._refuse_unfinished()
        privacy, model = self.settings.privacy, self.settings.model
        if privacy.mechanism != WEIGHTED or self._policy is not None:
            raise InputError(f"a policy needs privacy.mechanism = {WEIGHTED!r}, and the plan has another")
        if privacy.epsilon is None:
            raise InputError("a policy needs privacy.epsilon, with c1 or without")
        assert privacy.population_total is not None  # ensured by _refuse_unfinished
        synthesizer = self._parts()[0]
        map_entries = {name: value for name in MAP_ENTRIES if (value := getattr(privacy, name)) is not None}
        return Policy.from_historical(
            self.design, synthesizer, epsilon=privacy.epsilon, source=source,
            population_total=privacy.population_total, m=self.settings.release.m or 3, **map_entries,
            clusters=model.clusters or "model", engine=model.engine or "auto", seed=seed,
        )  # fmt: skip

    def write(self, release: Release, folder: str | Path | None = None, *, overwrite: bool = False) -> Path:
        """Write a release to the plan's folder, with the plan's tables and format.

        The release is also entered in the plan's ledger, unless it was entered before.

        Parameters
        ----------
        release : Release
            A release made by :meth:`release`.
        folder : str or Path, optional
            Another folder than the plan's.
        overwrite : bool
            True if an existing release in the folder is replaced.

        Returns
        -------
        Path
            The folder of the release.

        Raises
        ------
        InputError, PrivacyError
            See :meth:`Release.write`.
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
        """The statistics of the published tables, as keyword arguments of :meth:`Release.tables`."""
        tables = self.settings.tables
        options = {"quantiles": tables.quantiles, "poverty_line": tables.poverty_line}
        return {"statistic": tables.statistic} | {name: value for name, value in options.items() if value}

    def place(self, folder: str | Path | None = None) -> Path:
        """Return the folder of the release.

        Parameters
        ----------
        folder : str or Path, optional
            Another folder than the plan's.

        Returns
        -------
        Path
            The folder.
        """
        return self._folder / self.settings.release.folder if folder is None else as_path(folder, "folder")

    def check_place(self, folder: str | Path | None = None, *, overwrite: bool = False) -> None:
        """Raise an error if the release could not be written to the folder, before any epsilon is spent.

        Parameters
        ----------
        folder : str or Path, optional
            Another folder than the plan's.
        overwrite : bool
            True if an existing release in the folder may be replaced.

        Raises
        ------
        InputError
            The folder exists and may not be replaced or is no release, it cannot be written, or an earlier run for this
            folder was entered in the ledger and not finished.
        PrivacyError
            The ledger of an earlier run is damaged.
        """
        check_place(self.place(folder), overwrite=overwrite)

    def compare(self, release: Release) -> Comparison:
        """Compare the tables of a release with tables of the confidential file, for the agency alone.

        Parameters
        ----------
        release : Release
            A release made by this plan.

        Returns
        -------
        Comparison
            The comparison, which is confidential.

        Raises
        ------
        InputError
            See :func:`surveysynth.compare`.
        """
        return compare(self.design, release, self.settings.tables.by, **self.statistics)

    def __repr__(self) -> str:
        if self.lacking:
            lines = "\n".join(f"  {entry}: {what}" for entry, what in self.lacking.items())
            return f"Plan of {self.settings.model.formula}, to be filled in:\n{lines}"
        return str(self.check())

    def _parts(self) -> tuple[Synthesizer, Mechanism]:
        """Return the model and the mechanism of the plan, or of its policy if it has one."""
        if self._policy is not None:
            return self._policy.synthesizer, self._policy.mechanism
        strict = is_strict(self.settings)
        model = model_of(self.settings, self.design) if strict else synthesizer_of(self.settings, self._folder)
        return model, mechanism_of(self.settings)

    def _refuse_unfinished(self, *needed: str) -> None:
        lacks = {entry: what for entry, what in self.lacking.items() if entry in needed or not needed}
        if lacks:
            lines = "".join(f"\n  {entry}: {what}" for entry, what in lacks.items())
            raise InputError(f"the plan is not filled in; it lacks{lines}")


def _with_more(release: Release, notes: Sequence[str], facts: Mapping[str, Any]) -> Release:
    """Return a release with further sentences in the privacy report and further facts in the manifest."""
    report = replace(release.privacy, assumptions=[*release.privacy.assumptions, *notes])
    return replace(release, method=release.method | dict(facts), privacy=report)
