"""Tables with Laplace noise: the form of Hu, Savitsky & Williams (2022a, section 2.4), and a strictly private form.

A table by p variables has 2^p levels: the interior cells, each margin, and the total.  Each level divides the records
into domains, so that a record is in one domain of each level.  In every domain, each statistic is released once as a
point estimate and R times as a replicate estimate, all with noise.  Each released number is a query, which spends a
part of epsilon.  In the paper, p = 2 and the statistics are counts and means, so that 2 x 4 point estimates depend on
a record, and epsilon = 8 eps_pc + 8 eps_vc: eps_pc is spent on a point estimate, and eps_vc / R on a replicate
estimate.

``kind="local"`` is the form of the paper, without a guarantee.  ``kind="strict"`` is epsilon-differentially private
within public bounds; its means are noisy totals over noisy counts.  :mod:`surveysynth.release.sensitivity` has the
sensitivities of the two forms, to which the noise is scaled.

The noise comes from OpenDP, whose Laplace mechanism is exact for floating-point numbers.  A plain floating-point
Laplace draw would reveal digits of the number to which it is added (Mironov 2012).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import pinvh
from scipy.sparse import csr_array

from ..design.replicates.base import Replicates
from ..design.replicates.levels import LevelReplicates
from ..design.replicates.preston import preston
from ..design.survey_design import SurveyDesign
from ..design.to_synthesize import to_synthesize
from ..errors import InputError
from ..estimation.combining import Combined, interval
from ..estimation.tables import FIXED, TOTAL, Partition, headings, partitions_of
from ..noise import laplace
from ..privacy.accounting.ledger import Ledger, check_ledger
from ..validation import as_list, one_of, positive, rows, truth
from .sensitivity import Bounds, Exact, local, strict
from .suppression import additions

NoiseKind = Literal["local", "strict"]
Floats = NDArray[np.float64]

LOCAL = (
    "Local, for comparison: this is not differential privacy, and no guarantee is given. The noise is scaled to "
    "sensitivities that were computed from this file (Hu, Savitsky & Williams 2022a, eq. 8 and 9), so that its size "
    "depends on the confidential values. Equation 9 is not a bound for replacing one record: it can be 0 while the "
    "mean moves. The replicates double weights, which doubles the sensitivity, and are given the same noise. epsilon "
    "says how the noise was divided, not what it protects."
)
STRICT = (
    "Pure differential privacy, epsilon = {epsilon}, for two files that differ in the survey weight and the outcome "
    "({outcomes}) of one record. Public, and not protected: how many records there are; each record's {by}stratum and "
    "sampling units, and so the cell sizes n; sampling fractions; the bounds ({bounds}), to which values are clipped. "
    "{blanking} A record added, removed or moved to another cell is not covered; k records that change together have k "
    "times epsilon. Each further call spends its own epsilon."
)
BLANKED = "A record whose values are taken out is one of weight 0, which the bounds allow: it has the same epsilon."
NOT_BLANKED = "A record whose values are taken out is not covered: its weight would be 0, outside the bounds."
NO_NOISE = "Some sensitivities are 0 in this file: the numbers that use them carry no noise at all."
CONSISTENT = (
    "Counts, and means times counts, were made to add up to their margins by weighted least squares, with weights "
    "1 / noise variance. This uses the noisy numbers alone and spends nothing."
)


@dataclass(frozen=True, eq=False)
class LaplaceTables:
    """Counts and means with Laplace noise, and the privacy budget spent on them.

    Attributes
    ----------
    table : pandas.DataFrame
        The columns of :func:`surveysynth.estimate`, counts first, then means.
    budget : pandas.DataFrame
        One row for each combination of level, statistic, outcome and part: ``level, statistic, outcome, part,
        epsilon_each, queries``.  ``level`` has the names of the variables that define the domains, or "total".
        ``part`` is "point" or "replicate".  ``epsilon_each`` is the epsilon of one estimate.  ``queries`` is the number
        of these estimates to which one record contributes: 1 or R.  The sum of ``epsilon_each * queries`` is epsilon.
        Strict tables also have the column ``sensitivity``.  Local tables lack it, because there it is computed from
        the confidential file.
    kind : {"local", "strict"}
    epsilon : float
        Privacy budget of all counts and means together.
    guarantee : str
        A text on what is protected, and what is not.
    postprocessing : str
        A text on how the noisy numbers were changed afterwards.  It is empty if they were not changed.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> noisy = ss.laplace_tables(design, "salary", by="gender", epsilon=5)
    >>> float((noisy.budget["epsilon_each"] * noisy.budget["queries"]).sum().round(6))
    5.0
    """

    table: pd.DataFrame
    budget: pd.DataFrame
    kind: NoiseKind
    epsilon: float
    guarantee: str
    postprocessing: str = ""

    def __str__(self) -> str:
        lines = [
            f"Tables with Laplace noise: {self.kind}, epsilon = {self.epsilon}",
            self.guarantee,
            *([self.postprocessing] if self.postprocessing else []),
            "",
            "Budget of a record:",
            self.budget.to_string(index=False, max_rows=40),
            "",
            self.table.to_string(index=False, max_rows=40),
        ]
        return "\n".join(lines)

    __repr__ = __str__


@dataclass(frozen=True)
class Noisy:
    """A statistic with Laplace noise in all domains of a table: cells, margins and the total.

    Each of the D domains has a point estimate and R replicate estimates, all with noise.
    """

    point: Floats  # (D,)
    replicated: Floats  # (R, D)
    point_noise: Floats  # (D,), variances of the noise in ``point``


def laplace_tables(
    design: SurveyDesign,
    outcome: str | Sequence[str],
    by: str | Sequence[str] | None,
    epsilon: float,
    *,
    kind: NoiseKind = "local",
    point_share: float = 0.5,
    replicates: int = 10,
    bounds: Mapping[str, Bounds] | None = None,
    consistent: bool = False,
    ledger: Ledger | None = None,
) -> LaplaceTables:
    """Estimate counts and means of cells and margins with Laplace noise (Hu, Savitsky & Williams 2022a, section 2.4).

    Parameters
    ----------
    design : SurveyDesign
    outcome : str or list of str
        Numeric columns without missing values.
    by : str or list of str, or None
        See :func:`surveysynth.estimate`.
    epsilon : float
        Privacy budget of all counts and means together.  Every level of every table gets an equal part.
    kind : {"local", "strict"}
        ``local`` is the form in the paper, without a guarantee; ``strict`` is epsilon-differentially
        private within public bounds.
    point_share : float
        Share of the budget, between 0 and 1, that goes to the point estimates; the rest goes to the replicates.
    replicates : int
        R, the number of replicate weights of :func:`surveysynth.design.replicates.preston`.  Replicate weights are
        drawn anew in every call, independently of the outcomes and weights.
    bounds : dict of str to (float, float)
        Only for ``strict``: the lowest and the highest value of "weight" and of every outcome.  Bounds must be chosen
        without looking at the file.
    consistent : bool
        True to adjust counts and totals (mean times count), so that cells add up to margins, and margins to the total.
    ledger : Ledger, optional
        The ledger that is charged, as the last step.  The strict form is entered with epsilon for replacing the values
        of a record.  If the lower bound of the weight is 0, the same epsilon is also entered for blanking a record
        (taking out its values), because a blanked record is one of weight 0.  The cap of the ledger refers to blanking.
        The local form is entered without an epsilon, because it has no guarantee.

    Returns
    -------
    LaplaceTables
        The noisy tables.  The degrees of freedom, ``df``, are the smaller of R and those of the design.  A mean has
        fewer if some replicates have no record of its domain.  Noisy counts can be negative; truncation at 0 would
        cause bias.

        As in the paper, a variance is computed from the deviations of the noisy replicate estimates from the noisy
        point estimate.  The variance includes the noise of the point estimate, as it should, and also the noise of the
        replicate estimates.  If the latter noise is large, intervals are too long, but never too short.  (Subtracting
        the known noise variance would give 0 about half of the time, and intervals that undercover.)

        The variance of a strict mean is computed by the delta method: it is the variance of total - mean * count,
        divided by count^2.  The mean is NaN if the noisy count is not larger than the standard deviation of its noise.
        With ``consistent``, mean and count in this formula are the adjusted ones.  Otherwise ``consistent`` does not
        change variances.

    Raises
    ------
    InputError
        Unknown columns or kinds; outcomes that are missing or infinite; bounds for the local form, which computes its
        sensitivities from the file; for the strict form, bounds that are missing, reversed, or for other columns;
        numbers out of range; a design for which there are no replicates.
    PrivacyError
        The cap of the ledger would be exceeded, or the ledger cannot be written.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> bounds = {"weight": (0, 500), "salary": (10_000, 1_000_000)}
    >>> noisy = ss.laplace_tables(design, "salary", by="gender", epsilon=5, kind="strict", bounds=bounds)
    >>> noisy.table[["gender", "statistic", "n"]]
       gender statistic     n
    0  female     count   375
    1    male     count   625
    2     all     count  1000
    3  female      mean   375
    4    male      mean   625
    5     all      mean  1000
    """
    if not isinstance(design, SurveyDesign):
        raise InputError(f"laplace_tables needs a SurveyDesign, not {type(design).__name__}")
    design, _, left_out = to_synthesize(design)
    for note in left_out:
        warnings.warn(note, stacklevel=2)
    outcomes, names = as_list(outcome), as_list(by)
    epsilon, point_share = positive(epsilon, "epsilon"), positive(point_share, "point_share")
    _check(outcomes, kind, point_share, bounds, consistent=consistent)
    check_ledger(ledger)
    box = _box(bounds, outcomes) if kind == "strict" else {}
    y = {name: finite_outcome(design, name) for name in outcomes}
    partitions = list(partitions_of(design, names))
    boot = preston(design.stages, replicates, np.random.default_rng(), design.lonely_psu)
    noisy, budget = _query(design, y, partitions, boot, box, epsilon, point_share)

    labels = pd.concat([partition.labels for partition in partitions], ignore_index=True)
    n = np.concatenate([np.bincount(partition.domain) for partition in partitions])
    A = additions(labels, names) if consistent and names else None
    estimates = (_strict_estimates if box else _local_estimates)(noisy, A, boot)
    table = _table(labels, n, estimates, noisy, design.degf)
    table.attrs["labels"] = headings(design.labels, outcomes, names, None)
    if box:
        guarantee = _strict_guarantee(epsilon, outcomes, names, box)
    else:
        guarantee = LOCAL if budget["sensitivity"].all() else f"{LOCAL} {NO_NOISE}"
        budget = budget.drop(columns="sensitivity")
    guarantee = " ".join([guarantee, *(f"{note[0].upper()}{note[1:]}." for note in left_out)])
    if ledger is not None:
        what = f"Laplace tables of {', '.join(outcomes)} by {', '.join(names) or 'nothing'}"
        blank, replace = (epsilon if may_be_blank(box) else None, epsilon) if box else (None, None)
        ledger.spend(blank, replace, kind="strict" if box else "none", what=what)
    return LaplaceTables(table, budget, kind, epsilon, guarantee, CONSISTENT if consistent else "")


def _check(
    outcomes: list[str], kind: NoiseKind, point_share: float, bounds: Mapping[str, Bounds] | None, *, consistent: bool
) -> None:
    one_of(kind, get_args(NoiseKind), "kind")
    truth(consistent, "consistent")
    if point_share >= 1:
        raise InputError("point_share must be between 0 and 1: points and replicates both need a part of epsilon")
    if not outcomes or len(set(outcomes)) < len(outcomes):
        raise InputError("outcome must name one column, or several different ones")
    if kind == "local" and bounds is not None:
        raise InputError("bounds are for kind='strict'; the local form computes its sensitivities from the file")


def _table(
    labels: pd.DataFrame, n: NDArray[np.intp], estimates: dict[str, tuple[Floats, Floats]], noisy: dict[str, Noisy],
    degf: int,
) -> pd.DataFrame:  # fmt: skip
    """Make the table of noisy counts and means, with intervals.

    ``estimates`` has pairs (estimates, variances).  The keys of ``estimates`` and ``noisy`` are the outcomes, for their
    means, and "" for counts.  ``n`` is the number of records in each domain, and ``degf`` are the degrees of freedom of
    the design.
    """
    parts = []
    for name, (estimate, v) in estimates.items():
        df = np.minimum((~np.isnan(noisy[name].replicated)).sum(axis=0), degf).astype(np.float64)
        se = np.sqrt(v)
        both = Combined(estimate, np.where(se <= FIXED * np.abs(estimate), 0.0, se), df)  # less is rounding error
        low, high = interval(both)
        part = labels.assign(statistic="mean" if name else "count", outcome=name)
        parts.append(part.assign(estimate=estimate, se=both.se, df=df, ci_low=low, ci_high=high, n=n))
    return pd.concat(parts, ignore_index=True)


def _query(
    design: SurveyDesign,
    y: dict[str, Floats],
    partitions: list[Partition],
    boot: LevelReplicates,
    box: dict[str, Bounds],
    epsilon: float,
    point_share: float,
) -> tuple[dict[str, Noisy], pd.DataFrame]:
    """Compute counts, and means or totals of each outcome, with Laplace noise in all cells and margins.

    Return the noisy statistics, a dictionary with the outcomes and "" (for counts) as keys, and the table
    ``LaplaceTables.budget``.  ``y`` has the values of each outcome.  ``box`` has the public bounds of the strict form,
    which computes totals.  It is empty for the local form, which computes means.
    """
    w, R = design.weights, boot.R
    shares = iter(_shares(epsilon, (1 + len(y)) * len(partitions), point_share, R))
    noisy: dict[str, Noisy] = {}
    budget = []
    for name in ["", *y]:
        levels = []
        for partition in partitions:
            if box:
                exact = strict(w, y.get(name), partition, boot, box["weight"], box.get(name, (1.0, 1.0)))
            else:
                exact = local(w, y.get(name), partition, boot)
            eps_point, eps_replicate = next(shares)
            levels.append(_with_noise(exact, eps_point, eps_replicate))
            group = (_level(partition), ("total" if box else "mean") if name else "count", name)
            budget.append((*group, "point", eps_point, 1, exact.sensitivity))
            budget.append((*group, "replicate", eps_replicate, R, exact.replicate_sensitivity))
        noisy[name] = Noisy(*(np.concatenate(arrays, axis=-1) for arrays in zip(*levels, strict=True)))
    columns = ["level", "statistic", "outcome", "part", "epsilon_each", "queries", "sensitivity"]
    return noisy, pd.DataFrame(budget, columns=columns)


def may_be_blank(box: dict[str, Bounds]) -> bool:
    """Return True if the public bounds ``box`` allow a weight of 0, so that the guarantee covers blanking a record."""
    return box["weight"][0] == 0


def _strict_guarantee(epsilon: float, outcomes: list[str], names: list[str], box: dict[str, Bounds]) -> str:
    return STRICT.format(
        epsilon=epsilon,
        outcomes=", ".join(outcomes),
        by="".join(f"{name}, " for name in names),
        bounds=", ".join(f"{name} {low:.15g} to {high:.15g}" for name, (low, high) in box.items()),
        blanking=BLANKED if may_be_blank(box) else NOT_BLANKED,
    )


def add_up(x: Floats, noise: Floats, A: csr_array) -> tuple[Floats, Floats]:
    """Adjust noisy values x by weighted least squares, so that the parts of a table add up to its totals.

    The adjusted values z minimize sum (z - x)^2 / noise, given A z = 0.  The solution is z = x - V A^T K^+ A x, with
    V = diag(noise) and K = A V A^T.  K^+ is the pseudo-inverse of K, which is singular because some equations follow
    from others.  Return z and the variances of the noise in z, two arrays (D,).

    Parameters
    ----------
    x, noise : float arrays (D,)
        Noisy values in D domains, and the variances of their noise.  A value whose variance is 0 is not changed.
    A : sparse array (E, D)
        E equations "total - parts = 0".
    """
    V_A = A.multiply(noise[None, :]).tocsr()  # A V
    K = (V_A @ A.T).toarray()
    scale = np.sqrt(K.diagonal())
    scale = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    solve = scale[:, None] * pinvh(scale[:, None] * K * scale) * scale
    for _ in range(2):  # the second step removes the rounding error of the first
        x = x - V_A.T @ (solve @ (A @ x))
    gain = (V_A.T @ solve).T  # columns of K^+ A V
    return x, np.maximum(noise - np.asarray(V_A.multiply(gain).sum(axis=0)).ravel(), 0.0)


def _with_noise(exact: Exact, eps_point: float, eps_replicate: float) -> tuple[Floats, Floats, Floats]:
    """Add Laplace noise to exact point and replicate estimates, and return the fields of :class:`Noisy`.

    ``eps_point`` is the epsilon of a point estimate, and ``eps_replicate`` of one replicate estimate.
    """
    point, point_noise = laplace(exact.point, exact.sensitivity, eps_point)
    exists = ~np.isnan(exact.replicated)
    filled = np.where(exists, exact.replicated, 0.0)
    replicated, _ = laplace(filled, exact.replicate_sensitivity, eps_replicate)
    return point, np.where(exists, replicated, np.nan), np.full(point.shape, point_noise)


def _local_estimates(
    noisy: dict[str, Noisy], A: csr_array | None, boot: Replicates
) -> dict[str, tuple[Floats, Floats]]:
    """Compute pairs (estimates, variances) of counts (key "") and means from noisy counts and means.

    With ``A``, the equations of :func:`surveysynth.release.suppression.additions`, the estimates are adjusted so that
    counts and totals add up.
    """
    found = {name: (x.point, boot.variance(x.replicated, x.point)) for name, x in noisy.items()}
    if A is None:
        return found
    count, _ = add_up(noisy[""].point, noisy[""].point_noise, A)
    for name, (mean, v) in found.items():
        if name:
            total, _ = add_up(mean * count, count**2 * noisy[name].point_noise, A)
            found[name] = np.divide(total, count, out=mean.copy(), where=count != 0), v
    return found | {"": (count, found[""][1])}


def _strict_estimates(
    noisy: dict[str, Noisy], A: csr_array | None, boot: Replicates
) -> dict[str, tuple[Floats, Floats]]:
    """Compute pairs (estimates, variances) of counts (key "") and means from noisy counts and totals.

    With ``A``, the equations of :func:`surveysynth.release.suppression.additions`, counts and totals are first adjusted
    so that they add up.
    """
    added = {name: (x.point, x.point_noise) for name, x in noisy.items()}
    if A is not None:
        added = {name: add_up(*known, A) for name, known in added.items()}
    counts, (count, count_noise) = noisy[""], added[""]
    deviation = counts.replicated - counts.point
    found = {"": (count, boot.variance(counts.replicated, counts.point))}
    denominator = np.where(count > np.sqrt(count_noise), count, np.nan)
    for name, totals in noisy.items():
        if name:
            mean = added[name][0] / denominator
            v = boot.variance(totals.replicated - mean * deviation, totals.point)
            found[name] = mean, v / denominator**2
    return found


def _shares(epsilon: float, pairs: int, point_share: float, replicates: int) -> list[tuple[float, float]]:
    """Divide epsilon into equal parts.  Return, for each part, the epsilons of the point and of a replicate estimate.

    A pair is for one statistic in one level: the cells, one margin, or the total.  It spends the first number plus
    ``replicates`` times the second.  All numbers are multiples of the last binary digit of epsilon, so that the pairs
    add up to epsilon exactly.  The remainder of the division goes to the point estimates.  Raise InputError if epsilon
    is too small for the division.
    """
    unit = math.ulp(epsilon)
    each, left = divmod(round(epsilon / unit), pairs)
    shares = []
    for i in range(pairs):
        pair = each + (i < left)
        replicate = int(pair * (1 - point_share)) // replicates
        if replicate == 0:
            raise InputError("epsilon cannot be divided further: fewer replicates, or a smaller point_share")
        shares.append(((pair - replicates * replicate) * unit, replicate * unit))
    return shares


def _level(partition: Partition) -> str:
    """List the variables that form the domains of a partition, as "region, sex"; "total" without variables."""
    first = partition.labels.iloc[0]
    return ", ".join(str(name) for name in first.index if first[name] != TOTAL) or "total"


def finite_outcome(design: SurveyDesign, name: str) -> Floats:
    """Return the values of a numeric outcome.  Raise InputError if a value is missing or infinite."""
    y = design.numeric(name)
    bad = ~np.isfinite(y)
    if bad.any():
        raise InputError(
            f"outcome {name!r} is missing or infinite in {rows(bad)}; fill it in, or leave these records out"
        )
    return y


def _box(bounds: Mapping[str, Bounds] | None, outcomes: list[str]) -> dict[str, Bounds]:
    """Return the bounds of the weight and of every outcome.  Raise InputError if they are missing or wrong."""
    if "weight" in outcomes:
        raise InputError("bounds cannot tell an outcome 'weight' from the survey weight; rename the column")
    wanted = ["weight", *outcomes]
    if not isinstance(bounds, Mapping) or set(bounds) != set(wanted):
        raise InputError(
            f"kind='strict' needs bounds for {', '.join(map(repr, wanted))} and for nothing else, chosen without "
            "looking at the file: bounds={'weight': (low, high), ...}"
        )
    box = {}
    for name in wanted:
        pair = bounds[name]
        values = list(pair) if isinstance(pair, Iterable) and not isinstance(pair, str) else []
        if len(values) != 2 or not all(isinstance(v, (int, float, np.number)) and np.isfinite(v) for v in values):
            raise InputError(f"the bounds of {name!r} must be two numbers, lowest and highest")
        low, high = float(values[0]), float(values[1])
        if low >= high:
            raise InputError(f"the bounds of {name!r} are upside down or equal: the lowest value comes first")
        box[name] = (low, high)
    if box["weight"][0] < 0:
        raise InputError("the bounds of 'weight' must not be negative: survey weights are positive")
    return box
