"""The pseudo posterior of a file in parts: sums over records part by part, and their largest log densities.

    sum over parts of the statistics under alpha -> draws -> max_s |log p_i| of each record -> alpha, and again

Privacy weights and bounds, eight bytes a record each, are all that comes together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..models.draws import Draws
from ..models.normal.cluster_effects import likelihood_of
from ..models.normal.fbs import FBS
from ..models.normal.records import JointRecords
from ..models.shared.sufficient_statistics import SufficientStatistics
from ..privacy.budget import Budget
from ..privacy.mechanisms import Assessment, PseudoPosterior
from ..privacy.protected_fit import ProtectedFit, PseudoLikelihood
from ..storage import whole_file
from ..tasks import Workers
from .file_in_parts import Scale

Floats = NDArray[np.float64]
R = TypeVar("R")

WEIGHTS = "privacy_weights.npy"


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Pass:
    """What a pass over the parts needs.

    Attributes
    ----------
    scale : Scale
    model : FBS
    some : JointRecords
        Some records, with all rows of the model matrix.
    weights : Path
        Where the privacy weights of all records are.
    draws : Draws or None
        Whose densities are looked at.
    """

    scale: Scale
    model: FBS
    some: JointRecords
    weights: Path
    draws: Draws | None = None

    def records(self, part: int) -> JointRecords:
        """Those of a part."""
        Y, row, _ = self.scale.read(part)
        return replace(self.some, row=row, y=Y[:, :-1], log_w=Y[:, -1])

    def alpha(self, part: int) -> Floats:
        """Their privacy weights."""
        parts = self.scale.file.roles.parts
        return np.array(np.load(self.weights, mmap_mode="r")[parts.first(part) : parts.first(part + 1)])


def sums(of: Pass, part: int) -> SufficientStatistics:
    """What the pseudo likelihood uses of the records of a part."""
    return of.model.sufficient_statistics(of.records(part), of.alpha(part))


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
        return np.concatenate(list(self._each(largest, posterior)))

    def log_ratio(self, before: Floats, after: Floats, posterior: Draws) -> Floats:
        """Log pseudo likelihood under weights ``after`` less that under ``before``: (S,)."""
        return likelihood_of(self._statistics(after - before), posterior["B"], posterior["L"])

    def _statistics(self, alpha: Floats) -> SufficientStatistics:
        """Added up in the order of the parts."""
        with whole_file(self.folder / WEIGHTS) as stream:
            np.save(stream, alpha)
        return reduce(add, self._each(sums))

    def _each(self, task: Callable[[Pass, int], R], draws: Draws | None = None) -> Iterator[R]:
        """What a task finds in each part, in their order."""
        assert isinstance(self.model, FBS) and isinstance(self.records, JointRecords)
        of = Pass(self.scale, self.model, self.records, self.folder / WEIGHTS, draws)
        return self.team.each(task, of, len(self.scale.file.roles.parts))


def weighted_by_risk(
    mechanism: PseudoPosterior, budget: Budget, pseudo: PseudoLikelihood, present: Floats, say: Callable[[str], None]
) -> ProtectedFit:  # fmt: skip
    """What the pseudo posterior mechanism makes of a file in parts, by Lipschitz bounds; ``present`` (n,) is 1."""

    def risks(unweighted: Callable[[], Draws]) -> Floats:
        return pseudo.lipschitz(unweighted(), present)

    return mechanism.fit(pseudo, budget, Assessment(risks, None, present), tolerance=0.01, reweight=0, say=say)
