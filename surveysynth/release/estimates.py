"""What else is estimated of a release: regressions, tests, covariances, and estimators of the user's own."""

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
    """What is estimated, in domains and beyond: part of :class:`surveysynth.Release`."""

    def regression(self, formula: str, family: Family = "gaussian", *, offset: str | None = None) -> Regression:
        """Generalized linear regression, combined over the m data sets.

        Parameters
        ----------
        formula, family, offset
            As for :func:`surveysynth.regression`; columns of the synthetic files.

        Returns
        -------
        Regression
            Of the m data sets together.

        Raises
        ------
        InputError
            As :func:`surveysynth.regression`.

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
        """Any estimator of one data set, combined over the m data sets.

        The estimate is the mean of the m estimates, its variance T = mean(u) + b / m (Hu, Savitsky & Williams 2022a,
        appendix A; Reiter & Raghunathan 2007), as in :meth:`tables`, with that of the noise in the tables where they
        were measured.

        Parameters
        ----------
        function : function of a SurveyDesign
            It gives the pair (estimate, variance): an estimate as a number, an array (D,) or a Series, whose index
            names the terms; and its variance likewise, or as covariance matrix (D, D).  Contrasts of several
            estimates are made within the function, which has their covariance.

        Returns
        -------
        pandas.DataFrame
            ``term, estimate, se, df, ci_low, ci_high``, a row an estimate: 95% t intervals, with degrees of freedom
            that never exceed those of the design.  Without names the terms are 1, 2, ...

        Raises
        ------
        InputError
            A function that gives no such pair, or other terms in some of the data sets.

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
        """Test that two categorical columns are independent in the population, combined over the m data sets.

        Wald's test; Pearson's statistic, and Rao and Scott's corrections of it, have no combining rule.

        Parameters
        ----------
        row, column : str
            Predictors, outcomes that are categories, or derived columns.

        Returns
        -------
        Test
            F, by Reiter's (2005, section 2) rule for partially synthetic data.

        Raises
        ------
        InputError
            As :meth:`tables`; a column with one category; too few records or PSUs for the cells.

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
        """Means by group, were the groups alike in the predictors, combined over the m data sets.

        Parameters
        ----------
        formula, group, family, offset
            As for :func:`surveysynth.predictive_margins`; columns of the synthetic files.

        Returns
        -------
        JointEstimates
            Of the m data sets together.

        Raises
        ------
        InputError
            As :func:`surveysynth.predictive_margins`.
        """
        return margins(self.datasets, formula, group, family, offset=offset, redrawn=self.redrawn)

    def population_covariances(self, outcome: str | Sequence[str]) -> JointEstimates:
        """Variances and covariances of columns, combined; as :func:`surveysynth.population_covariances`.

        Parameters
        ----------
        outcome : str or sequence of str
            Numeric outcomes of this release.

        Returns
        -------
        JointEstimates
            Of the m data sets together.

        Raises
        ------
        InputError
            As :func:`surveysynth.population_covariances`.
        """
        self._check_functions(as_list(outcome))
        return covariances(self.datasets, outcome, redrawn=self.redrawn)

    def correlations(self, outcome: Sequence[str]) -> JointEstimates:
        """Correlations of columns, combined over the m data sets; as :func:`surveysynth.correlations`.

        Parameters
        ----------
        outcome : sequence of str
            Numeric outcomes of this release.

        Returns
        -------
        JointEstimates
            Of the m data sets together.

        Raises
        ------
        InputError
            As :func:`surveysynth.correlations`.
        """
        return correlations_of(self.population_covariances(outcome))

    def standard_deviations(self, outcome: str | Sequence[str]) -> JointEstimates:
        """Standard deviations of columns, combined; as :func:`surveysynth.standard_deviations`.

        Parameters
        ----------
        outcome : str or sequence of str
            Numeric outcomes of this release.

        Returns
        -------
        JointEstimates
            Of the m data sets together.

        Raises
        ------
        InputError
            As :func:`surveysynth.standard_deviations`.
        """
        return deviations_of(self.population_covariances(outcome))
