"""Several estimates together: covariance matrix, joint tests, and functions of the estimates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design.survey_design import SurveyDesign
from ..errors import InputError, guarded
from ..validation import as_list
from . import combining, inequality, taylor
from .estimators import replicated
from .intervals import Interval, nobody_or_all
from .quantities import SHARES, Missing, Quantity, quantities
from .tables import Names, Partition, check_designs, least_degf, present, records_of, shared_partitions
from .variance import covariance
from .wald import Test, wald

Floats = NDArray[np.float64]
Function = Callable[[pd.Series], object]
Contrast = Mapping[str, float] | Function

STEP = 1e-20  # imaginary step of a derivative: exact to rounding (Squire & Trapp 1998)


@dataclass(frozen=True, eq=False)
class JointEstimates:
    """Estimates of p quantities with their covariance matrix, from one design or from m synthetic data sets.

    The combined covariance matrix is the mean of the m covariance matrices, plus 1 / m times the covariance matrix of
    the estimates between data sets.  If the data sets come from noisy tables (tables of counts with noise for
    differential privacy), the covariance matrix due to the noise, which all data sets share, is added.

    Attributes
    ----------
    names : tuple of str (p,)
        Names of the quantities.
    estimates : float array (m, p)
        Estimates in each data set.
    covariances : float array (m, p, p)
        Covariance matrix of the estimates in each data set.
    degf : float
        Degrees of freedom of the design.
    redrawn : float array (R, p), optional
        Estimates from R simulations of one data set as if the noise in the noisy tables had other values.
    records : float array (p,), optional
        Number of records behind each share, and NaN for other estimates.  The interval of a share of 0 or 1 depends on
        this number, as in :func:`surveysynth.estimate`.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> proportions = ss.joint_estimates(design, "gender", statistic="proportion")
    >>> proportions.names
    ('female', 'male')
    >>> proportions.table[["name", "estimate", "se"]].round(3)
         name  estimate     se
    0  female      0.43  0.018
    1    male      0.57  0.018
    """

    names: tuple[str, ...]
    estimates: Floats = field(repr=False)
    covariances: Floats = field(repr=False)
    degf: float
    redrawn: Floats | None = field(default=None, repr=False)
    records: Floats | None = field(default=None, repr=False)

    @property
    def m(self) -> int:
        """Number of data sets."""
        return len(self.estimates)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Table of the estimates: ``name, estimate, se, df, ci_low, ci_high``, with 95% intervals."""
        return self.intervals()

    def intervals(self, level: float = 0.95, df: float | None = None) -> pd.DataFrame:
        """Return the table of estimates, with intervals of the given level and degrees of freedom (R's ``confint``).

        Parameters
        ----------
        level : float
            Confidence level between 0 and 1.
        df : float, optional
            Degrees of freedom.  By default they follow from the design and the combining rule.  ``numpy.inf`` gives
            normal intervals.

        Returns
        -------
        pandas.DataFrame
            Columns ``name, estimate, se, df, ci_low, ci_high``, with one row for each estimate.

        Raises
        ------
        InputError
            The level is not between 0 and 1, or df is not a positive number.

        Examples
        --------
        >>> design = ss.datasets.sdr_sample(seed=1)
        >>> means = ss.joint_estimates(design, "salary", by="gender")
        >>> means.intervals(0.9)[["name", "estimate", "ci_low", "ci_high"]].round()
             name  estimate    ci_low   ci_high
        0  female   97364.0   93904.0  100823.0
        1    male  127670.0  123946.0  131393.0
        """
        asked = Interval.checked(level, df)
        both = asked.known_df(combining.combine(self.estimates, self._variances, self.degf, self.redrawn))
        low, high = asked.limits(both)
        if self.records is not None:
            extreme = nobody_or_all(both.estimate) & ~np.isnan(self.records)
            least, most = asked.share_limits(both, self.records, "xlogit")
            low, high = np.where(extreme, least, low), np.where(extreme, most, high)
        numbers = {"estimate": both.estimate, "se": both.se, "df": both.df, "ci_low": low, "ci_high": high}
        return pd.DataFrame({"name": list(self.names), **numbers})

    @property
    def _variances(self) -> Floats:
        return np.asarray(np.diagonal(self.covariances, axis1=1, axis2=2))

    @property
    def covariance(self) -> pd.DataFrame:
        """Covariance matrix (p, p) of the estimates, combined over the data sets."""
        V = self.covariances.mean(axis=0)
        if self.m > 1:
            V = V + np.atleast_2d(np.cov(self.estimates, rowvar=False)) / self.m
        noise = self._noise
        return pd.DataFrame(V if noise is None else V + noise, index=list(self.names), columns=list(self.names))

    @property
    def _noise(self) -> Floats | None:
        return None if self.redrawn is None else np.atleast_2d(np.cov(self.redrawn, rowvar=False))

    def test(self, names: str | Sequence[str] | None = None, null: float | Sequence[float] = 0.0) -> Test:
        """Test the hypothesis that estimates have given values (Wald's test).

        Parameters
        ----------
        names : str or list of str, optional
            Names of the estimates to test.  By default all are tested.
        null : float or list of float
            Values under the hypothesis.

        Returns
        -------
        Test
            F, its degrees of freedom, and p.  The denominator degrees of freedom are those of the design, or follow
            Reiter's (2005) rule for synthetic data sets.

        Raises
        ------
        InputError
            A name is unknown, or the estimates determine each other, as all proportions of one variable do.

        Examples
        --------
        >>> design = ss.datasets.sdr_sample(seed=1)
        >>> gap = ss.joint_estimates(design, "salary", by="gender").contrast(gap=lambda q: q["male"] - q["female"])
        >>> print(gap.test("gap", null=25_000))
        Wald test: F(1, 992) = 2.926, p = 0.0875
        """
        at = [self._position(name) for name in (self.names if names is None else as_list(names))]
        noise = self._noise
        return wald(
            self.estimates[:, at] - np.asarray(null, dtype=np.float64),
            self.covariances[np.ix_(range(self.m), at, at)],
            self.degf,
            None if noise is None else noise[np.ix_(at, at)],
        )

    def contrast(self, contrast: Contrast | None = None, /, **contrasts: Contrast) -> JointEstimates:
        """Estimate functions of the estimates, with standard errors by the delta method (R's ``svycontrast``).

        The function is applied to the estimates of every data set, and the results are combined.

        Parameters
        ----------
        contrast : mapping of name to coefficient, or function
            ``{"E": 1, "H": -1}`` is a difference, and ``lambda q: q["E"] / q["H"]`` is a ratio.  A function takes a
            Series of the estimates and uses arithmetic and numpy's functions.  It is differentiated by an imaginary
            step, so it must not use absolute values or comparisons.
        **contrasts
            Further contrasts, by name.

        Returns
        -------
        JointEstimates
            Values of the functions, by name.  The first argument has the name "contrast".

        Raises
        ------
        InputError
            No contrast is given, a name is unknown, a function fails, or its value or derivative is not one finite
            number.

        Examples
        --------
        >>> design = ss.datasets.sdr_sample(seed=1)
        >>> means = ss.joint_estimates(design, "salary", by="gender")
        >>> means.contrast({"male": 1, "female": -1}).table[["name", "estimate", "se"]].round()
               name  estimate      se
        0  contrast   30306.0  3102.0
        """
        asked = ({"contrast": contrast} if contrast is not None else {}) | contrasts
        if not asked:
            raise InputError("give a contrast: a mapping of names to coefficients, or a function of the estimates")
        functions = [self._function(given) for given in asked.values()]
        sets = [np.array([_derivatives(f, q, self.names) for f in functions]) for q in self.estimates]
        values, J = np.array([s[:, 0] for s in sets]), np.array([s[:, 1:] for s in sets])
        again = None
        if self.redrawn is not None:
            again = np.array([[_derivatives(f, q, self.names)[0] for f in functions] for q in self.redrawn])
        return JointEstimates(tuple(asked), values, J @ self.covariances @ J.transpose(0, 2, 1), self.degf, again)

    def _function(self, given: Contrast) -> Function:
        if callable(given):
            return given
        if not isinstance(given, Mapping) or not given:
            raise InputError("a contrast is a mapping of names to coefficients, or a function of the estimates")
        at = [self._position(name) for name in given]
        coefficients = np.array([*given.values()], dtype=np.float64)
        return lambda q: q.to_numpy()[at] @ coefficients

    def _position(self, name: object) -> int:
        if name not in self.names:
            raise InputError(f"there is no estimate {name!r}; there are {', '.join(self.names[:12])}")
        return self.names.index(str(name))

    def __repr__(self) -> str:
        return f"JointEstimates of {len(self.names):,} quantities\n{self.table.to_string(index=False)}"


def _derivatives(function: Function, q: Floats, names: tuple[str, ...]) -> Floats:
    """Return the value and the p derivatives of a function of p estimates.  Raise InputError if the function fails."""

    def at(values: NDArray[np.complex128] | Floats) -> complex:
        found = np.asarray(function(pd.Series(values, index=list(names))))
        return complex(found.reshape(()).item())

    def derivatives() -> Floats:
        with np.errstate(all="ignore"):
            slopes = [at(q + 1j * STEP * unit).imag / STEP for unit in np.eye(q.size)]
            return np.array([at(q).real, *slopes])

    def explain(kind: str) -> InputError:
        return InputError(f"the function of a contrast failed ({kind}); it takes a Series with {', '.join(names[:12])}")

    found = guarded(derivatives, Exception, explain)
    if not np.isfinite(found).all():
        raise InputError("the function of a contrast, or its derivative, is not finite at the estimates")
    return found


def joint_estimates(
    design: SurveyDesign,
    outcome: Names = None,
    by: Names = None,
    statistic: str | Sequence[str] = "mean",
    *,
    denominator: str | None = None,
    missing: Missing = "fail",
) -> JointEstimates:
    """Estimate statistics in all cells of a table, with the covariance matrix of the estimates.

    The covariances come from linearized values or from replicate weights (R's ``svyby(covmat=TRUE)``).

    Parameters
    ----------
    design, outcome, by, statistic, denominator, missing
        See :func:`surveysynth.estimate`.  There are estimates for cells, not for margins, and all statistics except
        quantiles.  The poverty line is always estimated.

    Returns
    -------
    JointEstimates
        The name of an estimate joins statistic, outcome, category and categories of ``by`` with colons.  Statistic,
        outcome and category are left out if all estimates have the same.  Examples: "api00", "E", "api00:E:Yes".

    Raises
    ------
    InputError
        An error of :func:`surveysynth.estimate`; the statistic is a quantile; a cell has no record, but the statistic
        needs one.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> means = ss.joint_estimates(design, "salary", by="gender")
    >>> means.names
    ('female', 'male')
    >>> means.contrast(ratio=lambda q: q["female"] / q["male"]).table[["name", "estimate", "se"]].round(3)
        name  estimate     se
    0  ratio     0.763  0.021
    """
    return jointly([design], outcome, by, statistic, denominator=denominator, missing=missing)


def jointly(
    designs: Sequence[SurveyDesign],
    outcome: Names,
    by: Names,
    statistic: str | Sequence[str],
    *,
    denominator: str | None = None,
    missing: str = "fail",
    synthesized: Sequence[str] = (),
    redrawn: Sequence[SurveyDesign] = (),
) -> JointEstimates:
    """Estimate statistics in all cells of a table, with covariance matrices, in m synthetic data sets.

    ``synthesized`` and ``redrawn`` are as in :func:`.tables.tabulate`, other arguments as in :func:`joint_estimates`.
    """
    check_designs(designs)
    statistics, outcomes, names = as_list(statistic), as_list(outcome), as_list(by)
    if "quantile" in statistics:
        raise InputError("quantiles have no linearized values, so no covariances; use estimate()")
    every = [*designs, *redrawn]
    asked = quantities(every, outcomes, statistics, denominator=denominator, missing=missing)
    cells = shared_partitions(every, names, synthesized=synthesized, missing=missing)[0]
    found = [with_covariance(*each) for each in zip(every, asked, cells, strict=True)]
    labels = tuple(name for quantity in asked[0] for name in _names(quantity, asked[0], cells[0]))
    q = np.array([estimate for estimate, _ in found])
    if np.isnan(q).any():
        absent = [labels[i] for i in np.flatnonzero(np.isnan(q).any(axis=0))]
        raise InputError(f"there is no estimate of {', '.join(absent[:12])}: no record has a value there")
    domain = [np.where(present(quantity, cell) < 0, -1, 0) for quantity, cell in zip(asked[0], cells, strict=False)]
    degf = min(float(least_degf([design], [inside], 1)[0]) for design, inside in zip(designs, domain, strict=False))
    m, domains = len(designs), len(cells[0].labels)
    records = [
        np.min([
            records_of(present(quantity, cell), domains) for quantity, cell in zip(same[:m], cells[:m], strict=True)
        ], axis=0) if same[0].statistic in SHARES else np.full(domains, np.nan)
        for same in zip(*asked, strict=True)
    ]  # fmt: skip
    return JointEstimates(
        labels, q[:m], np.array([U for _, U in found[:m]]), degf, q[m:] if redrawn else None, np.concatenate(records)
    )


def with_covariance(design: SurveyDesign, asked: Sequence[Quantity], cells: Partition) -> tuple[Floats, Floats]:
    """Return the p estimates from one design, and their covariance matrix (p, p).

    The estimates are the first quantity in each cell, then the second quantity in each cell, and so on.
    """
    domains, parts, estimates = len(cells.labels), [], []
    for quantity in asked:
        domain = present(quantity, cells)
        estimate, z = taylor.linearize(design.weights, quantity, domain, domains)
        estimates.append(estimate)
        if design.replication is not None:
            parts.append(replicated(design, quantity, domain, domains))
        else:
            Z = np.zeros((design.n, domains))
            inside = np.flatnonzero(domain >= 0)
            Z[inside, domain[inside]] = z[inside]
            shared = inequality.by_the_line(design.weights, quantity, domain, domains)
            parts.append(Z if shared is None else Z + shared[1][:, None] * shared[0])
    theta, values = np.concatenate(estimates), np.hstack(parts)
    if design.replication is not None:
        return theta, design.replication.covariance(values, theta)
    return theta, covariance(design, values)


def _names(quantity: Quantity, every: Sequence[Quantity], cells: Partition) -> list[str]:
    """Return a name for the estimate of a quantity in each cell, different from the names for other quantities."""
    parts = [("statistic", quantity.statistic), ("outcome", quantity.outcome), ("category", quantity.category)]
    own = [value for name, value in parts if len({getattr(other, name) for other in every}) > 1]
    rows = cells.labels.itertuples(index=False, name=None)
    return [":".join([*own, *map(str, row)]) or quantity.outcome or quantity.statistic for row in rows]


def with_replicates(
    design: SurveyDesign,
    function: Callable[[pd.DataFrame, Floats], object],
    names: str | Sequence[str] | None = None,
) -> JointEstimates:
    """Estimate a function of records and weights, with its variance from replicate weights (R's ``withReplicates``).

    Parameters
    ----------
    design : SurveyDesign
        A design with replicate weights, from the file or from :meth:`SurveyDesign.replicates`.
    function : function of (frame, weights)
        The function takes the records and their weights, (n,), and returns one number or several.  A replicate is left
        out if the function returns NaN.
    names : str or list of str, optional
        Names of these numbers, by default "theta", or "theta1", "theta2", ...

    Returns
    -------
    JointEstimates
        The numbers, by name.

    Raises
    ------
    InputError
        The design has no replicate weights.  The function fails, is not finite under the weights of the design, or does
        not give as many numbers as there are names.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1).replicates(R=50, seed=1)
    >>> def women_over_men(frame, weights):
    ...     women = (frame["gender"] == "female").to_numpy()
    ...     return np.divide(*(np.average(frame["salary"][one], weights=weights[one]) for one in (women, ~women)))
    >>> ss.with_replicates(design, women_over_men, names="ratio").table[["name", "estimate", "se"]].round(3)
        name  estimate     se
    0  ratio     0.763  0.018
    """
    if not isinstance(design, SurveyDesign):
        raise InputError("the first argument is a SurveyDesign with replicate weights")
    if design.replication is None:
        raise InputError("the design has no replicate weights; make them by design.replicates(...)")

    def explain(kind: str) -> InputError:
        return InputError(f"the function of with_replicates() failed ({kind}); it takes the frame and the weights")

    def theta(weights: Floats) -> Floats:
        def evaluate() -> Floats:
            return np.atleast_1d(np.asarray(function(design.frame, weights), dtype=np.float64))

        found = guarded(evaluate, Exception, explain)
        if found.ndim != 1:
            raise InputError("the function of with_replicates() must give a number, or an array of one dimension")
        return found

    whole = theta(design.weights.copy())
    if not np.isfinite(whole).all():
        raise InputError("the function of with_replicates() is not finite under the weights of the design")
    factors = (design.replication.factors(r, r + 1)[:, 0] for r in range(design.replication.R))
    theta_r = np.array([theta(design.multiplicand * factor) for factor in factors])
    default = ["theta"] if whole.size == 1 else [f"theta{i + 1}" for i in range(whole.size)]
    listed = default if names is None else as_list(names)
    if len(listed) != whole.size:
        raise InputError(f"{len(listed):,} names for {whole.size:,} estimates of with_replicates()")
    U = design.replication.covariance(theta_r, whole)
    return JointEstimates(tuple(listed), whole[None], U[None], design.degf)
