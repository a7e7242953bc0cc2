"""Tests that two categorical variables are independent, on one survey design (R's ``svychisq``) or on m data sets.

Let p be the estimated proportions of the cells of a table, V the covariance matrix of p, p_r and p_c the proportions of
row and column of a cell, and C contrasts of the interaction.  For n records, Pearson's statistic
X2 = n sum (p - p_r p_c)^2 / (p_r p_c) is distributed as sum_j delta_j chi2_1.  The delta_j are the eigenvalues of

    Delta = (C' D^-1 C / n)^-1 C' D^-1 V D^-1 C,    D = diag(p)

(Rao & Scott 1981, section 3; Rao & Scott 1984, eq. 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.stats import chi2

from ..design.columns import check_cells
from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..validation import one_of, rows
from .joint import with_covariance
from .quantities import Quantity
from .tables import Partition, check_designs
from .variance import degrees_of_freedom
from .wald import Test, f_test, wald

Statistic = Literal["F", "chi-square", "Wald", "adjusted Wald"]
Floats = NDArray[np.float64]


def independence_test(
    design: SurveyDesign, row: str, column: str, statistic: Statistic = "F", *, missing: str = "fail"
) -> Test:
    """Test that two categorical columns are independent in the population (R's ``svychisq``).

    Parameters
    ----------
    design : SurveyDesign
    row, column : str
        Columns of categories.
    statistic : {"F", "chi-square", "Wald", "adjusted Wald"}
        "F" is Pearson's statistic with Rao & Scott's (1984) second-order correction.  "chi-square" is Pearson's
        statistic with their first-order correction.  "Wald" is Wald's statistic of the differences between observed
        and expected cells (Koch, Freeman & Freeman 1975).  "adjusted Wald" is Wald's statistic with Fellegi's (1980)
        correction for few degrees of freedom.
    missing : {"fail", "drop"}
        "drop" uses the domain of records with a value in both columns.

    Returns
    -------
    Test
        For "chi-square", ``statistic`` is Pearson's statistic without the correction, as in R, and ``p`` is corrected.

    Raises
    ------
    InputError
        A column or the statistic is unknown; values are missing; a column has only one category.  For Wald's
        statistics: the covariance matrix of the cells is singular.  For Pearson's statistic: Delta (module docstring)
        does not exist or is 0, because too many cells are empty, or because the estimated proportions hardly vary.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> print(ss.independence_test(design, "field", "gender"))
    Rao-Scott test of independence: F(6.941, 6885) = 10.48, p < 0.0001
    """
    check_designs([design])
    one_of(statistic, get_args(Statistic), "statistic")
    one_of(missing, ("fail", "drop"), "missing")
    levels = _levels([design], row, missing), _levels([design], column, missing)
    if "Wald" in statistic:
        N, V, _, nu = _table(design, (row, column), levels, "total")
        Y, covariance = _interaction(N, V)
        _refuse_singular(covariance, N, "use statistic='F'")
        return _wald(Y, covariance, nu, statistic)
    p, V, n, nu = _table(design, (row, column), levels, "mean")
    return _pearson(p, V, n, nu, statistic)


def independence_tests(
    designs: Sequence[SurveyDesign], row: str, column: str, *, missing: str = "fail",
    redrawn: Sequence[SurveyDesign] = (),
) -> Test:  # fmt: skip
    """Test that two categorical columns are independent, on m synthetic data sets.

    Wald's test of the differences between observed and expected cells (Koch, Freeman & Freeman 1975) is combined by the
    rule of Reiter (2005, section 2).  For Pearson's statistic there is no such rule.

    Parameters
    ----------
    designs : sequence of SurveyDesign
        The m data sets.  A category need not occur in all of them.
    row, column : str
        Columns of categories.
    missing : {"fail", "drop"}
        See :func:`independence_test`.
    redrawn : sequence of SurveyDesign
        Versions of the first data set, simulated again as if the noise in the noisy tables had other values.  The
        covariance over these versions is added, because the noise affects all data sets alike.

    Raises
    ------
    InputError
        See :func:`independence_test`.
    """
    levels = _levels(designs, row, missing), _levels(designs, column, missing)
    tables = [_table(design, (row, column), levels, "total") for design in designs]
    Y, U = (np.array(part) for part in zip(*(_interaction(N, V) for N, V, _, _ in tables), strict=True))
    _refuse_singular(U.mean(axis=0), tables[0][0], "merge categories")
    again = [_table(design, (row, column), levels, "total")[:2] for design in redrawn]
    noise = np.atleast_2d(np.cov([_interaction(N, V)[0] for N, V in again], rowvar=False)) if again else None
    test = wald(Y, U, min(nu for _, _, _, nu in tables), noise)
    return replace(test, method="Wald test of independence in synthetic data sets")


ROUNDING = 1e-9  # a standard error below this share of the largest cell is rounding


def _refuse_singular(covariance: Floats, N: Floats, advice: str) -> None:
    tiny = (ROUNDING * N.max()) ** 2
    if np.linalg.matrix_rank(covariance, hermitian=True) < len(covariance) or covariance.diagonal().min() < tiny:
        raise InputError(
            "the covariance matrix of the table is singular: there are too few PSUs for its cells, or empty cells; "
            + advice
        )


def _levels(designs: Sequence[SurveyDesign], name: str, missing: str) -> pd.Index:
    """Return the sorted categories that occur in some data set.  Raise InputError if there are fewer than two."""
    for design in designs:
        absent = design.column(name).isna().to_numpy()
        if missing == "fail" and absent.any():
            raise InputError(f"column {name!r} is missing in {rows(absent)}; fill it in, or set missing='drop'")
    for design in designs:
        check_cells(design.column(name), name)
    levels = pd.factorize(pd.concat([design.column(name).astype(object) for design in designs]), sort=True)[1]
    if len(levels) < 2:
        raise InputError(f"column {name!r} has one category in all records; independence needs two or more")
    return pd.Index(levels)


def _table(
    design: SurveyDesign, names: tuple[str, str], levels: tuple[pd.Index, pd.Index], kind: Literal["total", "mean"]
) -> tuple[Floats, Floats, int, float]:  # fmt: skip
    """Estimate totals or proportions ("mean") of all cells of a two-way table, with their covariance matrix.

    For r rows and c columns, return the estimates (r, c), their covariance matrix (r c, r c), the number of records,
    and the degrees of freedom.
    """
    i, j = (
        np.asarray(known.get_indexer(pd.Index(design.column(name).astype(object))), dtype=np.intp)
        for name, known in zip(names, levels, strict=True)
    )
    present = (i >= 0) & (j >= 0) & design.entering
    r, c = (len(known) for known in levels)
    cell = np.where(present, i * c + j, -1)
    values = [np.where(present, cell == k, np.nan).astype(np.float64) for k in range(r * c)]
    inside = np.where(present, 0, -1)
    partition = Partition(pd.DataFrame(index=[0]), inside)
    estimate, V = with_covariance(design, [Quantity(kind, names[0], y) for y in values], partition)
    nu = float(degrees_of_freedom(design, inside, 1)[0]) if not present.all() else float(design.degf)
    return estimate.reshape(r, c), V, int(present.sum()), nu


def _pearson(p: Floats, V: Floats, n: int, nu: float, statistic: Statistic) -> Test:
    expected = np.outer(p.sum(axis=1), p.sum(axis=0))
    X2 = n * float(((p - expected) ** 2 / expected).sum())
    C = np.kron(helmert(p.shape[0]).T, helmert(p.shape[1]).T)
    flat = p.ravel()
    DC = np.divide(C, flat[:, None], out=np.zeros_like(C), where=flat[:, None] > 0)
    try:
        delta = np.linalg.solve(C.T @ DC / n, DC.T @ V @ DC)
    except np.linalg.LinAlgError:
        raise InputError("too many cells of the table have no record for a test of independence") from None
    trace, squared = float(np.trace(delta)), float(np.trace(delta @ delta))
    if not (np.isfinite(squared) and squared > 0 and trace > 0):
        raise InputError(
            "the cells of the table hardly vary, for example since one weight dominates: there is no test of "
            "independence, so check the weights"
        )
    if statistic == "chi-square":
        df = len(delta)
        return Test(X2, df, np.inf, float(chi2.sf(X2 * df / trace, df)), "Rao-Scott test of independence")
    d = trace**2 / squared
    return f_test(X2 / trace, d, d * nu, "Rao-Scott test of independence")


def _interaction(N: Floats, V: Floats) -> tuple[Floats, Floats]:
    """Compute observed minus expected totals of the cells of a table, and the covariance matrix of these differences.

    N are the observed totals, and V is their covariance matrix.  The first row and column of the table are left out.
    """
    r, c = N.shape
    whole, i, j = N.sum(), *np.divmod(np.arange(r * c), c)
    R, S = N.sum(axis=1), N.sum(axis=0)
    # derivatives of N_ij - R_i S_j / N with respect to every cell
    J = np.eye(r * c) - ((i[:, None] == i) * S[j][:, None] + (j[:, None] == j) * R[i][:, None]) / whole
    J += (R[i] * S[j])[:, None] / whole**2
    Y = (N - np.outer(R, S) / whole).ravel()
    use = (i > 0) & (j > 0)
    return Y[use], (J @ V @ J.T)[np.ix_(use, use)]


def _wald(Y: Floats, covariance: Floats, nu: float, statistic: Statistic) -> Test:
    k = float(Y.size)
    W = float(Y @ np.linalg.solve(covariance, Y))
    if statistic == "Wald":
        return f_test(W / k, k, nu, "Wald test of independence")
    return f_test(W * (nu - k + 1) / (k * nu), k, nu - k + 1, "adjusted Wald test of independence")
