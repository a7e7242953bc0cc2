"""Methods of SurveyDesign that return a changed copy of the design.

The copy has other headings, further columns, calibrated or trimmed weights, or replicate weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
import pandas as pd

from ..errors import InputError
from ..validation import check_seed, one_of
from .calibration import Bounds, Distance, KnownTotals, Ratio, Totals, calibrated, rake, trimmed
from .checks import labels_of
from .derived import RowWise, row_wise
from .design_records import DesignRecords
from .replicates.balanced import balanced
from .replicates.base import Replicates
from .replicates.calibrated import calibrated_replicates
from .replicates.jackknife import jackknife
from .replicates.preston import preston
from .replicates.rao_wu import rao_wu
from .replicates.successive import successive_differences


class AdjustableDesign(DesignRecords):
    """Base class of SurveyDesign, with the methods that return a changed copy of the design."""

    def labelled(self, labels: Mapping[str, str]) -> Self:
        """Return the design with new headings of columns, which tables then show in place of the column names.

        Parameters
        ----------
        labels : mapping of column to text
            Headings of some columns.  Other columns keep their headings.

        Returns
        -------
        SurveyDesign
            A design with the same records, weights and roles.

        Raises
        ------
        InputError
            An unknown column.

        Examples
        --------
        >>> frame = pd.DataFrame({"income": [21, 34, 28, 40], "wt": [20.0, 30.0, 25.0, 25.0]})
        >>> ss.SurveyDesign(frame, weights="wt").labelled({"income": "Income (1,000 dollars)"}).labels
        {'income': 'Income (1,000 dollars)'}
        """
        named = self._labels | labels_of(pd.DataFrame(columns=[*self.columns]), labels)
        return self._with(_labels=named, _source=self._source)

    def assign(self, **functions: RowWise) -> Self:
        """Return the design with new columns, which are computed record by record from other columns.

        Parameters
        ----------
        **functions
            Name of each new column, with a function that computes the column from the data frame of the records:
            ``poor=lambda f: f.income < 10_859``.  A function may use the columns that earlier arguments add.

        Returns
        -------
        SurveyDesign
            A design with the same records, weights and roles.

        Raises
        ------
        InputError
            A column exists already; an argument is not a function; a function stops with an error, does not give one
            value per record, or gives values that depend on other records or their order, so that the column is not
            computed record by record.  (To find this out, the function is also computed on parts of the records.)

        Examples
        --------
        >>> frame = pd.DataFrame({"income": [21, 34, 28, 40], "wt": [20.0, 30.0, 25.0, 25.0]})
        >>> design = ss.SurveyDesign(frame, weights="wt").assign(poor=lambda f: f.income < 25)
        >>> ss.estimate(design, "poor", statistic="proportion")[["category", "estimate"]]
          category  estimate
        0    False       0.8
        1     True       0.2
        """
        frame = self.frame
        for name, function in functions.items():
            if name in frame.columns:
                raise InputError(f"the file has a column {name!r} already; give the new one another name")
            frame = frame.assign(**{name: row_wise(frame, function, name)})
        return self._with(_frame=frame, _scan=None)

    def calibrate(self, totals: Totals, distance: Distance = "raking", bounds: Bounds | None = None) -> Self:
        """Calibrate the weights to known totals, by post-stratification, raking or regression (GREG).

        Standard errors are then computed from residuals: the linearized values are regressed on the groups and numeric
        columns whose totals are known (as after R's ``postStratify`` or ``calibrate``).  Replicate weights are
        calibrated to the same totals.

        Source: Deville & Sarndal 1992, cases 1, 2, 6 and 7.

        Parameters
        ----------
        totals : mapping of column (or tuple of columns, crossed) to a mapping of category to total, or to a number
            ``{"sex": {"f": 51e6, "m": 49e6}}`` post-stratifies; with several columns, weights are raked.  A number is
            the total of a numeric column, ``{"income": 3.1e12}``.  The key ``()`` has the size of the population.  It
            can be left out if there are totals of categories, which add up to this size.
        distance : {"raking", "linear", "logit"}
            Distance between new and old weights that is minimized.  All three give nearly the same standard errors.
            "raking" keeps weights positive, and "logit" keeps the ratios of new to old weights within the bounds.
            "linear" is the regression estimator; it is refused if a weight would not be positive.
        bounds : (float, float), optional
            Smallest ratio (from 0 to below 1) and largest ratio (above 1) of new to old weights.  "logit" needs bounds.

        Returns
        -------
        SurveyDesign
            A design with the new weights, which are in a new column ``<weights>_calibrated``.  The column of the old
            weights gets the role ``base_weights``.

        Raises
        ------
        InputError
            Categories without a total or without a record; totals that are not finite, not positive for categories,
            contradict each other, or cannot be met by positive weights within the bounds; bounds that do not contain 1,
            or are missing for "logit"; weights that are already calibrated; a new column whose name is taken.

        Examples
        --------
        >>> frame = pd.DataFrame({"sex": list("ffmm"), "income": [21, 34, 28, 40], "wt": [20.0, 30.0, 25.0, 25.0]})
        >>> design = ss.SurveyDesign(frame, weights="wt").calibrate({"sex": {"f": 60, "m": 40}})
        >>> design
        SurveyDesign: 4 records, weights 'wt_calibrated', no strata, no clusters, weights calibrated to totals of 'sex'
        >>> design.weights
        array([24., 36., 20., 20.])
        """
        if self.calibrated:
            raise InputError("the weights are calibrated already; calibrate the design that they came from")
        ratio, known = Ratio.checked(distance, bounds), KnownTotals.checked(self.frame, totals)
        if distance == "raking" and bounds is None and not known.numbers and self.replication is None:
            w = rake(self.weights, known.margins, known.margin_totals)
        else:
            w = calibrated(self.weights, known.X, known.totals, ratio)
        replication = self.replication
        if replication is not None:
            replication = calibrated_replicates(replication, self.weights, w, known.X, known.totals, ratio)
        column, base = f"{self.weights_name or 'weight'}_calibrated", self.weights_name or "weight"
        taken = {column} if self.weights_name else {column, base}
        if taken & set(self.columns):
            raise InputError(f"the frame has a column {column!r} or {base!r} already, where the weights go: rename it")
        frame = self.frame.assign(**{base: self.weights, column: w})
        roles = self._checked_roles() | {"weights": column, "probs": None, "base_weights": base}
        roles |= {"poststrata": list(known.groups), "auxiliary": list(known.numbers)}
        for role in ("replicate_weights", "combined", "scale", "rscales", "mse"):  # they describe the old weights
            roles.pop(role, None)
        kept = {"lonely_psu": self.lonely_psu, "pps": self.pps, "joint": self.joint, "replication": replication}
        return self._again(frame, **roles)._with(**kept)

    def trim(self, low: float = 0.0, high: float = np.inf, *, strict: bool = False) -> Self:
        """Truncate the weights to limits, and spread the excess equally over the other weights.

        The sum of the weights stays the same (as with R's ``trimWeights``).  Calibrated weights, however, no longer
        meet the known totals.  To limit weights and meet totals, use the bounds of :meth:`calibrate`, or trim first.

        Parameters
        ----------
        low, high : float
            Limits of the weights.
        strict : bool
            The excess may raise another weight above ``high`` (or lower one below ``low``).  True to repeat the
            trimming until no weight is outside the limits.

        Returns
        -------
        SurveyDesign
            A design with the new weights, which are in a new column ``<weights>_trimmed``.

        Raises
        ------
        InputError
            The limits are not numbers, do not contain the mean weight, or leave no weight to take the excess; a trimmed
            weight is not positive; the design has replicate weights, ``pps`` or weights of 0 (which would get a share
            of the excess); there is a column with the new name already.

        Examples
        --------
        >>> frame = pd.DataFrame({"income": [21, 34, 28, 40], "wt": [10.0, 10.0, 20.0, 60.0]})
        >>> ss.SurveyDesign(frame, weights="wt").trim(high=45).weights
        array([15., 15., 25., 45.])
        """
        if self.replication is not None or self.pps is not None:
            raise InputError("weights of a design with replicates or pps= are not trimmed: trim the design before")
        if not self.weights.all():
            raise InputError("weights are not trimmed if some are 0, as these would get a share of the excess, too")
        if not all(isinstance(limit, (int, float)) and not isinstance(limit, bool) for limit in (low, high)):
            raise InputError("low and high must be numbers")
        if not low < self.weights.mean() < high:
            raise InputError("the mean of the weights must be between low and high, or their sum cannot stay")
        column = f"{self.weights_name or 'weight'}_trimmed"
        if column in self.columns:
            raise InputError(f"the frame has a column {column!r} already, where the weights go: rename it")
        roles = self._checked_roles() | {"weights": column, "probs": None}
        met = self.weights_name or "weight"
        frame = self.frame.assign(**{met: self.weights, column: trimmed(self.weights, low, high, strict)})
        if self.calibrated:
            roles["calibrated_weights"] = met
        return self._again(frame, **roles)._with(lonely_psu=self.lonely_psu)

    def replicates(
        self,
        method: str = "preston",
        *,
        R: int | None = None,
        rho: float | None = None,
        mse: bool = True,
        seed: int | None = None,
    ) -> Self:
        """Make replicate weights, from which :func:`surveysynth.estimate` then computes variances.

        Parameters
        ----------
        method : {"preston", "rao_wu", "JK1", "JKn", "BRR", "Fay", "successive_differences"}
            "preston" is Preston's (2009) rescaled bootstrap for any design, including fpc and later stages.  "rao_wu"
            is Rao & Wu's (1988) bootstrap of PSUs with replacement.  "JK1" is the jackknife without strata, "JKn" with
            strata.  "BRR" is balanced repeated replication with two PSUs per stratum, "Fay" is Fay's variant of it.
            "successive_differences" is for PSUs that were drawn systematically in the order of the file (Fay & Train
            1995).
        R : int, optional
            Number of bootstrap replicates, or approximate largest number of replicates for successive differences.
            The default is 100.  With the other methods the number follows from the design.
        rho : float, optional
            Factor of "Fay": of the two PSUs of a stratum, one gets its weights times rho, and the other its weights
            times 2 - rho.  The default is 0.5.
        mse : bool
            True if deviations of the replicates are taken from the estimate; False (R's default) if they are taken
            from the mean of the replicates.  A bootstrap divides the sum of squares by R if True, by R - 1 if False.
        seed : int, optional
            Seed of a bootstrap.  By default it is seeded from the operating system's entropy.

        Returns
        -------
        SurveyDesign
            A design with the same records, weights and roles, and with replicate weights.

        Raises
        ------
        InputError
            The method is unknown, or does not use the given ``R``, ``rho`` or ``seed``; a stratum has one PSU (unless
            it is sampled completely, or ``lonely_psu`` is "remove") or, for "BRR" and "Fay", another number than two;
            the method is "JK1" and there are strata; the design has replicate weights, calibrated weights or ``pps``.

        Examples
        --------
        >>> frame = pd.DataFrame({"income": [21, 34, 28, 40], "wt": [20.0, 30.0, 25.0, 25.0]})
        >>> design = ss.SurveyDesign(frame, weights="wt").replicates("JK1")
        >>> design
        SurveyDesign: 4 records, weights 'wt', no strata, no clusters, 4 JK1 replicates
        >>> ss.estimate(design, "income")[["estimate", "se", "df"]].round(3)
           estimate     se   df
        0      31.4  3.623  3.0
        """
        one_of(method, ("preston", "rao_wu", "JK1", "JKn", "BRR", "Fay", "successive_differences"), "method")
        if not isinstance(mse, bool):
            raise InputError("mse must be True or False")
        check_seed(seed)
        bootstraps = ("preston", "rao_wu")
        methods = {"R": (*bootstraps, "successive_differences"), "rho": ("Fay",), "seed": bootstraps}
        for name, value in {"R": R, "rho": rho, "seed": seed}.items():
            if value is not None and method not in methods[name]:
                needed = " or ".join(map(repr, methods[name]))
                raise InputError(f"{name}= goes with method={needed}: it has no effect on {method!r}")
        R = 100 if R is None else R
        if self.replication is not None:
            raise InputError("replicates cannot be made of a design with replicate weights")
        if self.calibrated:
            raise InputError(
                "replicates cannot be made of a design with calibrated weights: make them of the design before, and "
                "calibrate that"
            )
        if self.pps is not None:
            raise InputError(f"replicates take PSUs as drawn with equal probabilities, not as pps={self.pps!r} does")
        if method in bootstraps:
            bootstrap = preston if method == "preston" else rao_wu
            made: Replicates = bootstrap(self.stages, R, np.random.default_rng(seed), self.lonely_psu)
        elif method in ("JK1", "JKn"):
            made = jackknife(self.stages, method == "JKn", self.lonely_psu)
        elif method == "successive_differences":
            made = successive_differences(self.stages, R, self.lonely_psu)
        else:
            made = balanced(self.stages, rho=0.0 if method == "BRR" else 0.5 if rho is None else rho)
        return self._with(replication=made if mse else made.around_their_mean())
