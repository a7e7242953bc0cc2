"""Regressions on one design or on synthetic data sets: coefficients, tests and predictions (R's ``svyglm``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

from ..design.survey_design import SurveyDesign
from ..errors import InputError
from ..validation import as_list, one_of
from . import combining
from .families import Family, mean
from .glm import Fit, deviance, fit_glm
from .intervals import Interval
from .joint import JointEstimates
from .model_frame import Model, data_of, names_of_spec, offset_columns, parsed, refuse_different
from .wald import Test, rao_scott

Floats = NDArray[np.float64]
Names = str | Sequence[str] | None


@dataclass(frozen=True, eq=False)
class Regression:
    """A fitted regression: p coefficients, with standard errors by the design.

    Attributes
    ----------
    table : pandas.DataFrame
        Columns ``term, estimate, se, df, t, p, ci_low, ci_high``, with one row for each coefficient.  The intervals are
        95% t intervals, and the p values are for the hypothesis that the coefficient is 0.  Terms have formulaic's
        names: "Intercept" and "stype[T.H]" are R's "(Intercept)" and "stypeH".
    covariance : pandas.DataFrame (p, p)
        Covariance matrix of the coefficients, by term.
    family : {"gaussian", "binomial", "probit", "cloglog", "poisson", "gamma"}
        Family of the model (see :func:`regression`).
    formula : str
        Formula of the model.
    n : int
        Number of fitted records.  If data sets differ, the smallest number.
    coefficients : JointEstimates
        Coefficients of every data set, for other intervals and for functions of the coefficients.

    Examples
    --------
    >>> fit = ss.regression(ss.datasets.sdr_sample(seed=1), "np.log(salary) ~ gender")
    >>> fit.covariance.round(6)
                    Intercept  gender[T.male]
    Intercept        0.000505       -0.000508
    gender[T.male]  -0.000508        0.000891
    >>> fit.coefficients.intervals(0.9)[["name", "ci_low", "ci_high"]].round(3)
                 name  ci_low  ci_high
    0       Intercept  11.377   11.451
    1  gender[T.male]   0.208    0.306
    """

    table: pd.DataFrame
    covariance: pd.DataFrame
    family: Family
    formula: str
    n: int
    coefficients: JointEstimates
    _model: Model

    def __repr__(self) -> str:
        shown: dict[str, Any] = dict.fromkeys(("estimate", "se", "df", "ci_low", "ci_high"), "{:.4g}".format)
        shown |= {"t": "{:.2f}".format, "p": lambda p: "<0.0001" if p < 1e-4 else f"{p:.4f}"}
        table = self.table.to_string(index=False, formatters=shown)
        return f"Regression: {self.formula} ({self.family}), {self.n:,} records\n{table}"

    def test(self, terms: Names = None, *, working: bool = False) -> Test:
        """Test that the coefficients of some terms of the formula are all 0 (R's ``regTermTest``).

        Parameters
        ----------
        terms : str or list of str, optional
            Terms of the formula, such as "stype" or "ell:meals".  By default all but the intercept.
        working : bool
            Use Rao and Scott's test instead of Wald's.  The statistic uses the model's covariance for independent
            records, and the distribution of the statistic comes from the design (Lumley & Scott 2014; R's
            ``method="WorkingWald"``).  This test is more stable for many coefficients on few degrees of freedom.

        Returns
        -------
        Test
            The test, with the residual degrees of freedom of the regression.  For synthetic data sets, the test and
            the degrees of freedom follow Reiter's (2005) rule.

        Raises
        ------
        InputError
            A term is unknown, or there is no term but the intercept; the covariance matrix of the coefficients is
            singular; ``working`` is set for several data sets.

        Examples
        --------
        >>> fit = ss.regression(ss.datasets.sdr_sample(seed=1), "np.log(salary) ~ gender + field")
        >>> print(fit.test("field"))
        Wald test: F(7, 984) = 4.978, p < 0.0001
        """
        at = self._positions(terms)
        if not working:
            return self.coefficients.test([self.coefficients.names[i] for i in at])
        if self._model.naive is None:
            raise InputError("working=True is for one data set: no rule combines the test over several")
        b, effects = self.coefficients.estimates[0][at], self._design_effects(at)
        statistic = float(b @ np.linalg.solve(self._model.naive[np.ix_(at, at)], b))
        return rao_scott(statistic, effects, self.coefficients.degf, "Rao-Scott working Wald test")

    def _positions(self, terms: Names) -> list[int]:
        """Return the positions of the coefficients of some terms, by default of all terms but the intercept."""
        fitted = self._model.terms
        asked = [term for term in dict.fromkeys(fitted) if term != "Intercept"] if terms is None else as_list(terms)
        wanted = [_term(term, fitted) for term in asked]
        at = [i for i, term in enumerate(fitted) if term in wanted]
        if not at:
            raise InputError(f"{self.formula!r} has no coefficients to test but the intercept")
        return at

    def _design_effects(self, at: list[int]) -> Floats:
        """Compute generalized design effects of some coefficients, which :func:`likelihood_ratio_test` defines."""
        assert self._model.naive is not None
        V, V0 = (matrix[np.ix_(at, at)] for matrix in (self.covariance.to_numpy(), self._model.naive))
        return np.asarray(np.linalg.eigvals(np.linalg.solve(V0, V)).real)

    def predict(self, frame: pd.DataFrame, *, linear: bool = False, level: float = 0.95) -> pd.DataFrame:
        """Predict the mean outcome of records, with the standard error of this mean (R's ``predict.svyglm``).

        Parameters
        ----------
        frame : pandas.DataFrame
            Records with the columns of the formula's right-hand side and of the offset.
        linear : bool
            Predict the linear predictor (``type="link"``, R's default), not the mean (``type="response"``).
        level : float
            Confidence level.  The intervals are t intervals of the linear predictor, transformed if means are
            predicted.

        Returns
        -------
        pandas.DataFrame
            Columns ``estimate, se, df, ci_low, ci_high``, with the index of the frame.

        Raises
        ------
        InputError
            A column is not in the frame, values are missing or infinite, or a category was not in the fit.

        Examples
        --------
        >>> fit = ss.regression(ss.datasets.sdr_sample(seed=1), "salary ~ gender")
        >>> fit.predict(pd.DataFrame({"gender": ["female", "male"]}))[["estimate", "se"]].round()
           estimate      se
        0   97364.0  2101.0
        1  127670.0  2261.0
        """
        asked = Interval.checked(level)
        X, offset = self._model.rows(frame)
        joint = self.coefficients
        q = joint.estimates @ X.T
        u = np.array([((X @ U) * X).sum(axis=1) for U in joint.covariances])
        again = None if joint.redrawn is None else joint.redrawn @ X.T
        both = combining.combine(q, u, joint.degf, again)
        low, high = (limit + offset for limit in asked.limits(both))
        eta, se = both.estimate + offset, both.se
        if not linear:
            low, high = (mean(limit, self.family)[0] for limit in (low, high))
            eta, slope, _ = mean(eta, self.family)
            se = se * slope
        numbers = {"estimate": eta, "se": se, "df": both.df, "ci_low": low, "ci_high": high}
        return pd.DataFrame(numbers, index=frame.index)


def likelihood_ratio_test(
    design: SurveyDesign,
    formula: str,
    terms: Names = None,
    family: Family = "gaussian",
    *,
    offset: str | None = None,
    missing: str = "fail",
) -> Test:
    """Test terms of a regression by Rao and Scott's likelihood ratio test (R's ``regTermTest(method="LRT")``).

    The statistic is the weighted deviance without the terms minus the weighted deviance with the terms.  The statistic
    is distributed as sum_j lambda_j chi2_1, where the lambda_j are the eigenvalues of V0^-1 V.  V is the design-based
    covariance matrix of the coefficients of the terms, and V0 is their inverse information matrix.

    Source: Lumley & Scott 2014, eq. 5.

    Parameters
    ----------
    design, formula, family, offset, missing
        See :func:`regression`.
    terms : str or list of str, optional
        See :meth:`Regression.test`.

    Returns
    -------
    Test
        Satterthwaite's F, with the residual degrees of freedom of the regression.  The p value is from a saddlepoint
        approximation to the distribution of sum_j lambda_j chi2_1 (Kuonen 1999).

    Raises
    ------
    InputError
        See :func:`regression` and :meth:`Regression.test`.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> test = ss.likelihood_ratio_test(design, "np.log(salary) ~ gender + field", "field")
    >>> print(test)
    Rao-Scott likelihood ratio test: F(6.459, 984) = 4.125, p = 0.0004
    """
    fitted = regression(design, formula, family, offset=offset, missing=missing)
    at = fitted._positions(terms)
    outcome, names = parsed(formula)
    data = data_of(design, formula, outcome, [*names, *offset_columns(offset)], family, offset, missing)
    kept = np.ones(len(data.columns), dtype=bool)
    whole = deviance(design, data, family, kept)
    kept[at] = False
    gain = deviance(design, data, family, kept) - whole
    return rao_scott(gain, fitted._design_effects(at), fitted.coefficients.degf, "Rao-Scott likelihood ratio test")


def _term(term: str, terms: Sequence[str]) -> str:
    """Return a term as the formula spells it, such as a:b for "b:a".  Raise InputError for an unknown term."""
    for known in terms:
        if sorted(term.replace(" ", "").split(":")) == sorted(known.replace(" ", "").split(":")):
            return known
    raise InputError(f"the formula has no term {term!r}; its terms are {', '.join(dict.fromkeys(terms))}")


def regression(
    design: SurveyDesign,
    formula: str,
    family: Family = "gaussian",
    *,
    offset: str | None = None,
    missing: str = "fail",
) -> Regression:
    """Fit a generalized linear model to a survey (R's ``svyglm``; Binder 1983).

    Parameters
    ----------
    design : SurveyDesign
    formula : str
        "outcome ~ predictors" in the notation of formulaic, for example ``"api00 ~ ell + C(stype)"``.  All names in the
        formula must be columns of the design.
    family : {"gaussian", "binomial", "probit", "cloglog", "poisson", "gamma"}
        "gaussian" is linear regression.  "binomial" (with a logit link), "probit" and "cloglog" are for outcomes of two
        values, as R's ``quasibinomial`` with these links.  "poisson" is for counts, with a log link, as
        ``quasipoisson``.  "gamma" is for positive amounts, as ``Gamma(link="log")``.  An outcome of two values is 0/1,
        bool, or has two categories, and then the second category in sorted order is 1.  The dispersion is not modelled:
        standard errors come from the design.
    offset : str, optional
        Column, or expression such as "log(exposure)", that is added to the linear predictor with the coefficient 1.
    missing : {"fail", "drop"}
        Treatment of missing values in the columns of the formula.  "drop" fits the domain of records that have a value
        in all these columns (R's ``na.omit``).

    Returns
    -------
    Regression
        With p coefficients, the residual degrees of freedom are the degrees of freedom of the design + 1 - p.  The
        degrees of freedom of the design are the number of PSUs minus the number of strata of the fitted records, or the
        rank of the replicate weights minus 1.  There are no p values and no intervals if the residual degrees of
        freedom are not positive.

    Raises
    ------
    InputError
        The formula or the offset cannot be read or evaluated; a column is unknown; values are missing or infinite; the
        outcome does not suit the family; predictors are collinear; coefficients would be infinite, because predictors
        separate the two values of the outcome, or zeros from other counts; there are more coefficients than records.

    Examples
    --------
    >>> design = ss.datasets.sdr_sample(seed=1)
    >>> fit = ss.regression(design, "np.log(salary) ~ gender")
    >>> fit.table[["term", "estimate", "se", "df"]].round(3)
                 term  estimate     se     df
    0       Intercept    11.414  0.022  991.0
    1  gender[T.male]     0.257  0.030  991.0
    >>> logistic = ss.regression(design.assign(high=lambda f: f.salary > 150_000), "high ~ gender", family="binomial")
    >>> logistic.table[["term", "estimate", "se"]].round(2)
                 term  estimate    se
    0       Intercept     -2.18  0.15
    1  gender[T.male]      1.23  0.17
    """
    return regressions([design], formula, family, offset=offset, missing=missing)


def regressions(
    designs: Sequence[SurveyDesign], formula: str, family: Family = "gaussian", *, offset: str | None = None,
    missing: str = "fail", redrawn: Sequence[SurveyDesign] = (),
) -> Regression:  # fmt: skip
    """Fit a regression (:func:`regression`) to m synthetic designs, and combine the coefficients.

    Data set l gives estimates b_l with covariance U_l.  The combined covariance is the mean of the U_l plus 1 / m times
    the covariance of the b_l (Hu, Savitsky & Williams 2022a, appendix A, coefficient by coefficient; Reiter &
    Raghunathan 2007).  ``redrawn`` holds versions of the first data set, simulated again as if the noise in the noisy
    tables had other values.  The covariance of the coefficients over these versions is added.

    Raises
    ------
    InputError
        An error of :func:`regression`; there is no data set; data sets have different coefficients, which cannot be
        averaged.
    """
    one_of(family, get_args(Family), "family")
    one_of(missing, ("fail", "drop"), "missing")
    if not designs:
        raise InputError("a regression needs at least one data set")
    for design in designs:
        if not isinstance(design, SurveyDesign):
            raise InputError(f"a regression needs a SurveyDesign, not {type(design).__name__}")
    outcome, names = parsed(formula)
    names = list(dict.fromkeys([*names, *offset_columns(offset)]))
    fits: list[Fit] = []
    for design in (*designs, *redrawn):
        data = data_of(design, formula, outcome, names, family, offset, missing)
        if fits:
            refuse_different(data, fits[0].data, outcome)
        fits.append(fit_glm(design, data, family))
    return _combined(fits[: len(designs)], fits[len(designs) :], formula, family, offset)


def _combined(
    fits: Sequence[Fit], noisy: Sequence[Fit], formula: str, family: Family, offset: str | None
) -> Regression:
    data = fits[0].data
    joint = JointEstimates(
        data.columns,
        np.array([fit.estimate for fit in fits]),
        np.array([fit.covariance for fit in fits]),
        min(fit.df for fit in fits),
        np.array([fit.estimate for fit in noisy]) if noisy else None,
    )
    table = joint.table.rename(columns={"name": "term"})
    with np.errstate(divide="ignore", invalid="ignore"):  # a perfect fit has standard error 0
        t = table["estimate"].to_numpy() / table["se"].to_numpy()
    table.insert(4, "t", t)
    table.insert(5, "p", 2 * student.sf(np.abs(t), table["df"].to_numpy()))
    columns = tuple(sorted(data.levels.keys() | names_of_spec(data.spec) | set(offset_columns(offset))))
    naive = fits[0].naive if len(fits) == 1 else None
    model = Model(data.spec, data.terms, columns, data.levels, offset, naive)
    return Regression(table, joint.covariance, family, formula, min(fit.data.y.size for fit in fits), joint, model)
