"""Further estimates from a release: regressions, tests, covariances, and any estimator that the user defines."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ..estimation.any_estimator import Estimator, combined
from ..estimation.association import independence_tests
from ..estimation.families import Family
from ..estimation.joint import JointEstimates
from ..estimation.margins import margins
from ..estimation.moments import correlations_of, covariances, deviations_of
from ..estimation.regression import Regression, regressions
from ..estimation.wald import Test
from ..validation import as_list
from .domains import DomainEstimates


class Estimates(DomainEstimates):
    """The methods of :class:`surveysynth.Release` for regressions, tests, covariances and user-defined estimators."""

    def regression(self, formula: str, family: Family = "gaussian", *, offset: str | None = None) -> Regression:
        """Fit a generalized linear regression to each data set, and combine the coefficients over the m data sets.

        Parameters
        ----------
        formula, family, offset
            See :func:`surveysynth.regression`.  Columns are those of the synthetic files.

        Returns
        -------
        Regression
            The coefficients, combined over the m data sets.

        Raises
        ------
        InputError
            See :func:`surveysynth.regression`.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> release.regression("np.log(salary) ~ gender").table["term"].tolist()
        ['Intercept', 'gender[T.male]']
        """
        return regressions(
            self.datasets, formula, family, offset=offset, missing=self._missing, redrawn=self.redrawn
        )  # fmt: skip

    def combine(self, function: Estimator) -> pd.DataFrame:
        """Apply a function to each data set, and combine its estimates over the m data sets.

        The combined estimate is the mean of the m estimates.  As in :meth:`tables`, its variance is mean(u) + b / m,
        where u is the variance within a data set and b the variance between the data sets (Hu, Savitsky & Williams
        2022a, appendix A; Reiter & Raghunathan 2007).  If the data sets were drawn from noisy tables, the variance due
        to the noise in the tables is added.

        Parameters
        ----------
        function : function of a SurveyDesign
            It returns the pair (estimate, variance).  The estimate is a number, an array of D numbers or a Series,
            whose index names the terms.  The variance has the same form, or is a covariance matrix (D, D).  Compute
            contrasts of several estimates within the function, where their covariance is known.

        Returns
        -------
        pandas.DataFrame
            ``term, estimate, se, df, ci_low, ci_high``, one row for each estimate.  The intervals are 95% t intervals;
            df is at most the degrees of freedom of the design.  Without names the terms are 1, 2, ...

        Raises
        ------
        InputError
            The function does not return such a pair, or returns different terms in some data sets.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, the mean of log salaries:

        >>> def log_mean(design):
        ...     logs = design.assign(log_salary=lambda f: np.log(f.salary))
        ...     table = ss.estimate(logs, "log_salary")
        ...     return table["estimate"][0], table["se"][0] ** 2
        >>> release.combine(log_mean).columns.tolist()
        ['term', 'estimate', 'se', 'df', 'ci_low', 'ci_high']
        """
        return combined(self.datasets, function, redrawn=self.redrawn)

    def independence_test(self, row: str, column: str) -> Test:
        """Test the independence of two categorical columns in the population, combined over the m data sets.

        The test is Wald's, because there is no combining rule for Pearson's statistic and its Rao-Scott corrections.

        Parameters
        ----------
        row, column : str
            Predictors, outcomes that are categories, or derived columns.

        Returns
        -------
        Test
            An F test, by the rule of Reiter (2005, section 2) for partially synthetic data.

        Raises
        ------
        InputError
            See :meth:`tables`; also, if a column has only one category, or there are too few records or PSUs.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> release.independence_test("field", "gender").method
        'Wald test of independence in synthetic data sets'
        """
        names = self._preserved([row, column])
        self._check_functions(names)
        return independence_tests(self.count_designs(), row, column, missing=self._missing, redrawn=self.redrawn)

    def predictive_margins(
        self, formula: str, group: str, family: Family = "gaussian", *, offset: str | None = None
    ) -> JointEstimates:
        """Estimate predictive margins: means by group, adjusted for the other predictors, combined over the data sets.

        Parameters
        ----------
        formula, group, family, offset
            See :func:`surveysynth.predictive_margins`.  Columns are those of the synthetic files.

        Returns
        -------
        JointEstimates
            The margins, combined over the m data sets.

        Raises
        ------
        InputError
            See :func:`surveysynth.predictive_margins`.
        """
        return margins(self.datasets, formula, group, family, offset=offset, redrawn=self.redrawn)

    def population_covariances(self, outcome: str | Sequence[str]) -> JointEstimates:
        """Estimate variances and covariances in the population (:func:`surveysynth.population_covariances`).

        Parameters
        ----------
        outcome : str or sequence of str
            Numeric outcomes of this release.

        Returns
        -------
        JointEstimates
            The variances and covariances, combined over the m data sets.

        Raises
        ------
        InputError
            See :func:`surveysynth.population_covariances`.
        """
        self._check_functions(as_list(outcome))
        return covariances(self.datasets, outcome, redrawn=self.redrawn)

    def correlations(self, outcome: Sequence[str]) -> JointEstimates:
        """Estimate correlations between outcomes in the population (:func:`surveysynth.correlations`).

        Parameters
        ----------
        outcome : sequence of str
            Numeric outcomes of this release.

        Returns
        -------
        JointEstimates
            The correlations, combined over the m data sets.

        Raises
        ------
        InputError
            See :func:`surveysynth.correlations`.
        """
        return correlations_of(self.population_covariances(outcome))

    def standard_deviations(self, outcome: str | Sequence[str]) -> JointEstimates:
        """Estimate standard deviations in the population (:func:`surveysynth.standard_deviations`).

        Parameters
        ----------
        outcome : str or sequence of str
            Numeric outcomes of this release.

        Returns
        -------
        JointEstimates
            The standard deviations, combined over the m data sets.

        Raises
        ------
        InputError
            See :func:`surveysynth.standard_deviations`.
        """
        return deviations_of(self.population_covariances(outcome))
