"""The pseudo posterior of a file in parts: sums over records part by part, and their largest log densities.

    sums over parts under alpha -> draws -> max_s |log p_i| of each record -> alpha, and again

What comes together is sums by predictor row, and risks, privacy weights and bounds of all records.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.parts import values_of
from ..errors import InputError
from ..models.draws import Draws
from ..models.normal.cluster_effects import likelihood_of
from ..models.normal.fbs import FBS
from ..models.normal.records import JointRecords
from ..models.shared.public_weights import EXACT
from ..models.shared.sufficient_statistics import SufficientStatistics, SumsByRow
from ..privacy.budget import Budget
from ..privacy.mechanisms import Assessment, PseudoPosterior
from ..privacy.protected_fit import ProtectedFit, PseudoLikelihood
from ..storage import whole_file
from ..tasks import Workers
from .file_in_parts import Roles, Scale

Floats = NDArray[np.float64]
R = TypeVar("R")

KEPT = "weights {!r} are a function of the predictors, and are kept: synthesize() does so, in memory"


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Pass:
    """What a pass over the parts needs.

    Attributes
    ----------
    scale : Scale
    model : FBS
    none : JointRecords
        No records, with all rows of the model matrix.
    weights : Path or None
        Where the privacy weights of all records are.
    draws : Draws or None
        Whose densities are looked at.
    """

    scale: Scale
    model: FBS
    none: JointRecords
    weights: Path | None = None
    draws: Draws | None = None

    def records(self, part: int) -> JointRecords:
        """Those of a part."""
        Y, row, _ = self.scale.read(part)
        return replace(self.none, row=row, y=Y[:, :-1], log_w=Y[:, -1])

    def alpha(self, part: int) -> Floats:
        """Their privacy weights."""
        assert self.weights is not None
        parts = self.scale.file.roles.parts
        return np.array(np.load(self.weights, mmap_mode="r")[parts.first(part) : parts.first(part + 1)])


def sums(of: Pass, part: int) -> SumsByRow:
    """What the pseudo likelihood uses of the records of a part."""
    records = of.records(part)
    return SumsByRow.of(len(records.X), records.pattern, records.Y, of.alpha(part))


def largest(of: Pass, part: int) -> Floats:
    """M_i = max over draws of |log p_i| of the records of a part."""
    assert of.draws is not None
    return of.model.lipschitz(of.records(part), of.draws)


@dataclass(frozen=True, repr=False, kw_only=True)
class PseudoLikelihoodInParts(PseudoLikelihood):
    """A pseudo likelihood whose records are in files; ``records`` are some of them, with all rows of the model matrix.

    Attributes
    ----------
    scale : Scale
        That the records are taken to.
    folder : Path
        Of this run, which all workers can read.
    team : Workers
    """

    scale: Scale
    folder: Path
    team: Workers

    def fit(self, alpha: Floats) -> Draws:
        """Draws under privacy weights."""
        assert isinstance(self.model, FBS) and isinstance(self.records, JointRecords)
        return self.model.fit_to(self._statistics(alpha), self.records, self.sampler)

    def lipschitz(self, posterior: Draws, alpha: Floats) -> Floats:
        """M_i = max over draws of |log p_i| (n,)."""
        return np.concatenate(list(self._each(largest, draws=posterior)))

    def log_ratio(self, before: Floats, after: Floats, posterior: Draws) -> Floats:
        """Log pseudo likelihood under weights ``after`` less that under ``before``: (S,)."""
        return likelihood_of(self._statistics(after - before), posterior["B"], posterior["L"])

    def _statistics(self, alpha: Floats) -> SufficientStatistics:
        """Added up in the order of the parts."""
        weights = self.folder / f"{secrets.token_hex(8)}.npy"  # of its own: file systems of clusters may lag
        with whole_file(weights) as stream:
            np.save(stream, alpha)
        try:
            return reduce(add, self._each(sums, weights=weights)).statistics(self.records.X)
        finally:
            weights.unlink()

    def _each(self, task: Callable[[Pass, int], R], **more: Any) -> Iterator[R]:
        """What a task finds in each part, in their order."""
        assert isinstance(self.model, FBS) and isinstance(self.records, JointRecords)
        of = Pass(self.scale, self.model, self.records.some(np.empty(0, dtype=np.intp)), **more)
        return self.team.each(task, of, len(self.scale.file.roles.parts))


def weights_by_cell(roles: Roles, part: int) -> pd.DataFrame:
    """Records, and least and largest weight, by combination of predictors in a part."""
    frame = roles.read(part)
    w = pd.Series(values_of(frame, roles.weights, roles.parts.first(part)))
    by = [frame[name].astype(object) for name in roles.predictors] or [pd.Series(0, index=frame.index)]
    return w.groupby(by, sort=False).agg(["size", "min", "max"]).reset_index()


def refuse_public_weight(roles: Roles, team: Workers) -> None:
    """Refuse weights that are a function of the predictors, and that would be kept (InputError)."""
    every = pd.concat(list(team.each(weights_by_cell, roles, len(roles.parts))), ignore_index=True)
    cells = every.groupby(list(every.columns[:-3]), sort=False).agg({"size": "sum", "min": "min", "max": "max"})
    alike = np.log(cells["max"] / cells["min"]) <= EXACT
    if (alike & (cells["size"] > 1)).all():
        raise InputError(KEPT.format(roles.weights))


def refuse_kept(records: JointRecords, weights: str) -> None:
    """Refuse weights that the model matrix determines, as some records show, and that would be kept (InputError)."""
    if records.log_w is None:
        raise InputError(KEPT.format(weights))


def weighted_by_risk(
    mechanism: PseudoPosterior, budget: Budget, pseudo: PseudoLikelihood, present: Floats, say: Callable[[str], None]
) -> ProtectedFit:  # fmt: skip
    """What the pseudo posterior mechanism makes of a file in parts, by Lipschitz bounds; ``present`` (n,) is 1."""

    def risks(unweighted: Callable[[], Draws]) -> Floats:
        return pseudo.lipschitz(unweighted(), present)

    return mechanism.fit(pseudo, budget, Assessment(risks, None, present), tolerance=0.01, reweight=0, say=say)
