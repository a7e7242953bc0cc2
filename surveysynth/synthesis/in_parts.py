"""A release of a file that is larger than memory: every pass is over parts of 2^20 records, by any workers.

    levels and histograms -> records of a first draw -> points of a public grid -> draws -> simulated parts -> shuffled

What is summed up over records are whole numbers, or sums of blocks in their order; random numbers of a part are counted
from its number and that of the data set (Salmon et al. 2011: Philox).  So a release is the same, to the last bit,
whatever files the records are in, and whoever computes: processes of this machine or a Dask cluster, on processors of
one kind.
"""

from __future__ import annotations

import math
import os
import pickle
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.checks import labels_of
from ..design.parts import Combinations, Parts, find, levels_together
from ..design.scan import Source
from ..design.survey_design import SurveyDesign
from ..engines import get_engine
from ..errors import InputError, told_if_it_breaks_down
from ..estimation.in_parts import ONE
from ..models.draws import Draws, Sampler, Streams
from ..models.normal.fbs import FBS
from ..models.normal.records import JointPublic
from ..models.shared.levels import FEWEST
from ..models.shared.normal_scores import NormalScores, scores_of_counts
from ..models.shared.predictors import predictor_rows
from ..models.shared.transforms import Transform
from ..privacy.budget import Budget
from ..privacy.mechanisms import Mechanism, PseudoPosterior, Strict
from ..privacy.mechanisms.strict import scores_epsilon
from ..privacy.protected_fit import PseudoLikelihood, WholeFile
from ..privacy.release_rule import IdentificationRule
from ..privacy.risks.lipschitz import LipschitzRisk
from ..privacy.units import Unit
from ..progress import stages, tell
from ..release.in_files import ReleaseInFiles, head_of
from ..storage import as_path
from ..tasks import Workers
from ..validation import check_seed, positive, whole
from .assemble import check_enough, check_public, roles_of, warn_if_far
from .data_sets_in_parts import STATE, Simulation, Unfinished
from .draws import check_chains
from .file_in_parts import (
    File,
    Roles,
    Scale,
    Seen,
    checked_levels,
    headings_of,
    in_turn,
    levels_of_parts,
    look,
    points_of,
    predictors_of,
    prepared,
    some_records,
)
from .fit import Basis, Chosen, DataSets, Fit, Protect, check_accepted
from .fitting import INFORMATION, protected_by
from .known import Known
from .levels import with_levels
from .weighted_in_parts import PseudoLikelihoodInParts, refuse_kept, refuse_public_weight, weighted_by_risk

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass
class FitInParts(Fit):
    """A fit of a file in parts; ``design`` and ``records`` are some of its records, those of a first draw if any."""

    file: File | None = field(default=None, repr=False)

    def unfinished(self, scratch: str | Path | None, accepted: Sequence[str]) -> Unfinished:
        """One release, as :meth:`Fit.release` chooses its draws, in a folder of its own, from which it can go on."""
        about = super().release(accept_diagnostics=accepted)
        folder = Path(tempfile.mkdtemp(prefix="surveysynth-", dir=scratch)).absolute()
        of = replace(about.internal["simulation"], folder=folder)
        internal = {"draws": about.internal["draws"]}  # what is known of single records is not kept
        total = float(self.population_total)  # type: ignore[arg-type]  # a number, as synthesize_in_parts sees to
        exact, accepted = about.privacy.internal, tuple(accepted)
        unfinished = Unfinished(replace(about, internal={}), internal, exact, of, total, self.mechanism, accepted)
        unfinished.save()
        return unfinished

    def _data_sets(
        self, m: int, chosen: Chosen, rules: Sequence[str], rule: IdentificationRule | None
    ) -> DataSets:
        """What m data sets are simulated from."""
        assert self.file is not None and isinstance(self.synthesizer, FBS)
        public = self.records.public
        assert isinstance(public, JointPublic)  # as those of FBS are
        roles, frame, outcomes = self.file.roles, self.file.tabulated.frame, self.synthesizer.outcomes
        streams, draws = (self.streams.values, self.streams.order), [chosen.draws.some([s]) for s in chosen.simulated]
        values, order = (rng.integers(0, 2**64, 2, dtype=np.uint64) for rng in streams)
        sizes = [self._sizes(draw) for draw in draws]
        of = Simulation(self.file, self.synthesizer, public, draws, sizes, values, order, Path())
        published = roles_of(self.design, outcomes, self.file.combinations.frame, self.population_total)
        head = head_of(frame, [*roles.predictors, *outcomes, roles.weights], published)
        return DataSets((head,) * m, {"simulation": of})

    def _sizes(self, draw: Draws) -> Floats:
        """Records of each row of the model matrix, of those of categories by their shares in a draw: (G,)."""
        assert self.file is not None
        file, rows = self.file, np.arange(len(self.records.X))
        records = np.bincount(file.row_of, file.combinations.records, rows.size)
        if file.categories is None:
            return np.asarray(records)
        first, category = np.divmod(rows, file.each)
        share = np.exp(draw["log_shares"][0])[file.cell_of(rows), category]
        return np.asarray(records[first * file.each] * share)


def synthesize_in_parts(
    source: Source,
    synthesizer: FBS | str,
    *,
    weights: str,
    strata: str | None = None,
    epsilon: float,
    population_total: float,
    bounds: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None,
    levels: Mapping[str, Sequence[Any]] | None = None,
    mechanism: Strict | PseudoPosterior | None = None,
    m: int | None = None,
    accept_diagnostics: Sequence[str] = (),
    public: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    scratch: str | Path | None = None,
    chains: int = 4,
    warmup: int | None = None,
    draws: int | None = None,
    seed: int | None = None,
) -> ReleaseInFiles:
    """Release a file that is larger than memory, part by part.

    For amounts by :class:`FBS`, with a weight that is modelled, where every record is its own sampling unit; under
    :class:`Strict` also with zeros of their own, and categories beside them.  What else :func:`synthesize` can do it
    does in memory.

    Parameters
    ----------
    source : str, Path or list of such
        A parquet file, a folder of such, or a list of files; :func:`convert` makes one of csv, Stata, SPSS and SAS.
        Groups of rows should have no more than about a million: each is read as a whole.
    synthesizer : FBS or str
        Or a formula, ``"pay ~ region + sex"``.  Predictors and categories have up to a million combinations.
    weights : str
        Column of the survey weights.
    strata : str, optional
        A predictor.
    epsilon, population_total, m, accept_diagnostics, public
        As for :func:`synthesize`; the total is a number.
    bounds : (float, float), or dict of outcome to such
        Public lowest and highest amount, which :class:`Strict` needs.
    levels : dict of outcome to list of levels, optional
        As for :func:`synthesize`; columns that are categories in the files, or true and false, declare theirs.
    mechanism : Strict or PseudoPosterior, optional
        Default ``Strict()``; the other has :class:`LipschitzRisk` risks.
    labels : dict of str, optional
        Headings of columns; default those in the files.
    workers : int
        Processes of this machine.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers compute instead; they read the same paths.
    scratch : str or Path, optional
        Folder in which data sets are made, which all workers can write to; default the system's for temporary files.
        It needs three to four times their size.
    chains, warmup, draws, seed
        As for :func:`fit`.

    Returns
    -------
    ReleaseInFiles
        Its data sets in files; not written to its place yet.

    Raises
    ------
    InputError, ModelError, PrivacyError, EngineError, NotFitForRelease
        As :func:`synthesize`; a model or design that is not for files in parts.

    Notes
    -----
    Memory is that of a part of 2^20 records for each worker, of the points of the grid, and, where there is no grid, of
    all records' scores: where a predictor row has few records, and of three amounts
    (:mod:`surveysynth.models.shared.public_grid`).  Under :class:`PseudoPosterior` it is that of a part, and about 70
    bytes a record: risks, privacy weights and bounds, which are not kept.

    Examples
    --------
    >>> release = ss.synthesize_in_parts(
    ...     "census/", "pay ~ region + sex", weights="w", epsilon=5, bounds=(0, 1_000_000),
    ...     population_total=50_000_000, workers=2,
    ... )  # doctest: +SKIP
    >>> release.write("release/")  # doctest: +SKIP
    """
    model, roles = check_arguments(
        source, synthesizer, weights, strata, bounds, scheduler, scratch, mechanism, labels, levels
    )  # fmt: skip
    mechanism = Strict() if mechanism is None else mechanism
    check_accepted(accept_diagnostics)
    mechanism.check_accepted(accept_diagnostics)
    asked = positive(epsilon, "epsilon")
    budget = Budget(asked, mechanism.data_sets(asked) if m is None else whole(m, "m"))
    chain = [own if given is None else given for given, own in zip((warmup, draws), mechanism.chain, strict=True)]
    check_chains(chains, *chain)
    check_seed(seed)
    whole(workers, "workers")
    parts, team = roles.parts, Workers(workers, scheduler)
    total = check_enough(population_total, parts.n)
    ordered, streams = parts.ordered(roles.predictors), Streams.of(seed)
    sampler = Sampler(lambda: get_engine("auto"), streams.draws, chains, *chain)
    noise = None if seed is None else streams.draws
    passes = ExitStack()
    with told_if_it_breaks_down(), stages(mechanism.expected_seconds(parts.n)) as say:
        say("reading the file")
        seen = list(team.each(look, roles, len(parts)))
        weight = math.fsum(each.weight for each in seen)
        warn_if_far(total, weight, parts.n)
        found = Combinations.together([each.combinations for each in seen], roles.predictors, ordered)
        _refuse_lonely(found, strata)
        levels = checked_levels(roles.levels, found, parts.n)
        _check_formula(found, model, levels)
        if isinstance(mechanism, PseudoPosterior):
            refuse_public_weight(roles, team)
        model = _scored(model, roles, seen, budget, noise) if roles.bounds else model
        budget = replace(budget, parts=model.spent)
        design, code = some_records(roles, found, streams.draws, team, labels)
        check_public(design, model, public)
        mean_weight = (total if mechanism.clamps else weight) / parts.n
        records = prepared(model, design, levels, roles, mean_weight)
        scale = Scale(File.of(roles, found, records, code), tuple(model.transforms()), mean_weight)
        protect: Protect
        if isinstance(mechanism, PseudoPosterior):
            refuse_kept(records, weights)
            folder = passes.enter_context(tempfile.TemporaryDirectory(prefix="surveysynth-weights-", dir=scratch))
            pseudo: PseudoLikelihood = PseudoLikelihoodInParts(
                model, records, Unit(), sampler, noise, scale=scale, folder=Path(folder).absolute(), team=team
            )
            protect, present = partial(weighted_by_risk, mechanism, budget), np.ones(parts.n)
        else:
            whole_file = WholeFile(parts.n, partial(points_of, scale, model, records, team))
            pseudo = PseudoLikelihood(model, records, Unit(), sampler, noise, whole_file)
            protect = partial(protected_by, design, mechanism, None, budget, 0.01, 0)  # nothing is tuned
            present = np.ones(records.n)
        with passes:
            weighted = protect(pseudo, present, say)
        budget = replace(budget, parts=weighted.parts or budget.parts)
        fitted = FitInParts(
            design, np.arange(present.size), model, mechanism, None, records, Unit(), weighted, budget, total, [],
            sampler, streams, protect, seed is not None,
            Basis.of(None, ((), ()), model, weighted, budget, seeded=seed is not None), file=scale.file,
        )  # fmt: skip
        if fitted.information is not None:
            tell(INFORMATION.format(math.floor(100 * fitted.information)))
        say("data sets")
        return fitted.unfinished(scratch, accept_diagnostics).finished(team)


def resume_in_parts(folder: str | Path, *, workers: int = 1, scheduler: str | None = None) -> ReleaseInFiles:
    """Go on with a release that was killed after its draws were chosen and before it was written, with these draws.

    Parameters
    ----------
    folder : str or Path
        ``surveysynth-...`` in the run's ``scratch=``.
    workers, scheduler
        As for :func:`synthesize_in_parts`.

    Returns
    -------
    ReleaseInFiles
        As the run would have made it, to the last bit.

    Raises
    ------
    InputError
        There is nothing to go on with: the run ended, or was killed before its draws were chosen; the files of the
        survey have changed.
    EngineError
        As :func:`synthesize_in_parts`.

    Examples
    --------
    Where a run was killed while it made its data sets:

    >>> ss.resume_in_parts("scratch/surveysynth-6u1yx8d2", workers=2)  # doctest: +SKIP
    """
    whole(workers, "workers")
    return _unfinished(folder).finished(Workers(workers, scheduler))


def go_on(folder: str | Path, asked: Mapping[str, Any]) -> ReleaseInFiles:
    """As :func:`resume_in_parts`, with a run of some arguments of :func:`synthesize_in_parts`.

    Raises
    ------
    InputError
        As there; the run had other arguments.
    """
    run, (model, roles) = _unfinished(folder), check_arguments(**asked)
    was = run.of.file.roles, run.total, run.about.privacy.epsilon_requested, run.about.m, run.mechanism, run.accepted
    arguments = "population_total", "epsilon", "m", "mechanism", "accept_diagnostics"
    asks = roles, *(asked[name] for name in arguments)
    of_model = "predictors", "weight", "prior", "zeros", *(() if roles.bounds else ("transform",))
    if was != asks or any(getattr(run.of.model, name) != getattr(model, name) for name in of_model):
        raise InputError(f"the run in {str(folder)!r} was of another plan, or its files have changed")
    return run.finished(Workers(asked["workers"], asked["scheduler"]))


def check_arguments(
    source: Source, synthesizer: FBS | str, weights: str, strata: str | None, bounds: Any, scheduler: str | None,
    scratch: str | Path | None, mechanism: Mechanism | None = None, labels: Mapping[str, str] | None = None,
    levels: Mapping[str, Sequence[Any]] | None = None, **others: Any,
) -> tuple[FBS, Roles]:  # fmt: skip
    """Those arguments of :func:`synthesize_in_parts` that can be checked at once: model and roles, or InputError."""
    mechanism = Strict() if mechanism is None else mechanism
    if not isinstance(mechanism, Mechanism):
        raise InputError("mechanism must be surveysynth.Strict() or PseudoPosterior()")
    model = FBS(synthesizer) if isinstance(synthesizer, str) else synthesizer
    model = _checked(mechanism.under(model) if isinstance(model, FBS) else model)
    _check_mechanism(mechanism, model, bounds)
    _check_scratch(scratch, scheduler)
    roles = Roles.of(source, model, weights, strata, bounds, levels)
    labels_of(pd.DataFrame(columns=[*roles.parts.names]), labels)  # which checks them
    return model, roles


def _unfinished(folder: str | Path) -> Unfinished:
    """What there is to go on with in a folder (InputError: nothing; the files of the survey have changed)."""
    state = as_path(folder, "folder") / STATE
    if not state.is_file():
        raise InputError(
            f"there is nothing to go on with in {str(folder)!r}: the run ended, or was killed before its draws were "
            "chosen"
        )
    with state.open("rb") as stream:
        unfinished = pickle.load(stream)
    assert isinstance(unfinished, Unfinished)
    unfinished.of.file.roles.parts.check_unchanged()
    return unfinished


def known_of(
    source: Source, model: FBS, weights: str, strata: str | None, labels: Mapping[str, str] | None, workers: Workers,
    levels: Mapping[str, Sequence[Any]] | None = None,
) -> Known:  # fmt: skip
    """What is public of a file in parts, from a pass over its predictors.

    Raises
    ------
    InputError
        As :func:`predictors_of`; predictors with missing values, or of too many combinations; other models.
    """
    parts = Parts.of(source)
    names = predictors_of(parts, _checked(model), weights, strata)
    ordered = parts.ordered(names)
    seen = list(workers.each(find, (parts, names, model.categorical), len(parts)))
    found = Combinations.together([each for each, _ in seen], names, ordered)
    frame = found.frame.assign(**dict.fromkeys(model.numeric, 1.0), **{weights: found.records.astype(np.float64)})
    declared = levels_of_parts(parts, model, levels)
    own = checked_levels({**levels_together([each for _, each in seen]), **declared}, found, parts.n)
    if own:  # made-up columns, each level in so many records that it is no identifier
        times = -(-FEWEST * max(map(len, own.values())) // len(frame))
        frame = frame.assign(**{weights: frame[weights] / times}).take(np.tile(np.arange(len(frame)), times))
        frame = frame.reset_index(drop=True)
        frame = frame.assign(**{name: in_turn(each, len(frame)) for name, each in own.items()})
        frame = frame.assign(**{name: with_levels(frame[name], name, own[name]) for name in declared})
    headings = headings_of(parts, labels, frame)
    return Known(
        SurveyDesign(frame, weights=weights, strata=strata, lonely_psu="remove", labels=headings), in_parts=True,
        made_up=tuple(own),
    )  # fmt: skip


def _check_mechanism(mechanism: Mechanism, model: FBS, bounds: Any) -> None:
    """Refuse what is not for files in parts (InputError)."""
    if mechanism.epsilon is not None:
        raise InputError("epsilon is that of the release: leave it out of the mechanism")
    if bounds is not None and not model.logs:
        raise InputError("bounds= makes normal scores, and transform= is another scale: leave it out")
    if isinstance(mechanism, Strict):
        if mechanism != Strict():
            raise InputError("files in parts have no reference=, and no PSUs: synthesize() has them, in memory")
        if bounds is None:
            raise InputError("Strict() needs bounds=(lowest, highest) of the amounts, public")
    elif not isinstance(mechanism, PseudoPosterior) or type(mechanism.risk) is not LipschitzRisk:
        raise InputError("files in parts go with Strict() and with PseudoPosterior(), of Lipschitz risks")
    elif model.zeros or model.categorical or model.curved or model.prior == "reference":
        raise InputError(
            "under PseudoPosterior() files in parts have amounts alone, without zeros=, C(), a curved weight or "
            "prior='reference': synthesize() has categories, in memory"
        )
    elif any(isinstance(transform, NormalScores) for transform in model.transforms()):
        raise InputError(
            "under PseudoPosterior() files in parts have no normal scores of another file, as it is not known here "
            "that they are not of this one: give bounds=, or leave transform= out"
        )


def _check_scratch(scratch: str | Path | None, scheduler: str | None) -> None:
    """Refuse a folder that cannot be written to, and none beside a scheduler (InputError)."""
    if scheduler is not None and scratch is None:
        raise InputError("with a scheduler say scratch=, a folder that all its workers can write to")
    if scratch is not None and not (as_path(scratch, "scratch").is_dir() and os.access(scratch, os.W_OK)):
        raise InputError(f"scratch={str(scratch)!r} is not a folder that you may write to")


def _scored(
    model: FBS, roles: Roles, seen: Sequence[Seen], budget: Budget, noise: np.random.Generator | None
) -> FBS:  # fmt: skip
    """The model on private normal scores, from the histograms of all parts."""
    n, limits = roles.parts.n, roles.bounds
    share = scores_epsilon(budget, n, len(limits), len(limits) + 1)
    scores: dict[str, str | Transform] = {}
    for j, (outcome, limit) in enumerate(zip(model.numeric, limits, strict=True)):
        counts = np.sum([each.counts[j] for each in seen], axis=0)
        scores[outcome] = scores_of_counts(
            counts, None if model.zeros else n, outcome, limit, share / len(limits), noise, zeros=model.zeros, most=n
        )
    return replace(model, transform=scores)


def _checked(model: Any) -> FBS:
    """Refuse what is not for files in parts (InputError)."""
    if not isinstance(model, FBS) or model.weight == "public":
        raise InputError(
            "files in parts are for amounts and categories by FBS with a weight that is modelled, without missing= or "
            "weight='public': synthesize() has the others, in memory"
        )
    if not 1 <= len(model.numeric) <= 3 or model.missing != "fail":
        raise InputError("files in parts have one to three amounts, none of them missing")
    return model


def _check_formula(found: Combinations, model: FBS, levels: Mapping[str, Sequence[Any]]) -> None:
    """Refuse predictors that cannot be evaluated somewhere: the model itself sees some records only (InputError)."""
    if not len(found.frame.columns):
        return
    frame = found.frame.assign(**{name: in_turn(each, len(found.frame)) for name, each in levels.items()})
    design = SurveyDesign(frame.assign(**{ONE: 1.0}), weights=ONE, lonely_psu="remove")
    try:
        predictor_rows(design, model.predictors, None)
    except InputError as error:
        raise InputError(f"{error}; rows are here combinations of the predictors' values, in their order") from None


def _refuse_lonely(found: Combinations, strata: str | None) -> None:
    """Refuse strata of one record, whose variance cannot be estimated (InputError)."""
    if (alone := found.single(strata)) > 0:
        raise InputError(
            f"{alone} strata of {strata!r} have only one record, so their variance cannot be estimated: merge them"
        )
