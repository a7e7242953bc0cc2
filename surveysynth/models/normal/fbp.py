"""FBP: the fully Bayes model for the population and its inclusion probabilities.

Source: Hu, Savitsky & Williams 2022a, section 2.2 and appendix D.

    y~_i ~ N(x_i beta, sigma_y^2),    log pi_i | y~_i ~ N(kappa_y y~_i + x_i kappa_x, sigma_pi^2)

hold in the population.  y~_i is the outcome on its working scale (such as log income), and x_i are the predictors.  A
unit is in the sample with probability pi_i, so the density of a sampled record is (eq. 6)

    N(log pi_i | kappa_y y~_i + x_i kappa_x, sigma_pi^2) N(y~_i | x_i beta, sigma_y^2)
      / exp(x_i kappa_x + sigma_pi^2 / 2 + kappa_y x_i beta + kappa_y^2 sigma_y^2 / 2).

**This is FBS in other parameters.**  The product of the two normal densities and pi_i, normalized, is the bivariate
normal density of (y~_i, log pi_i) with

    E y~ = x beta + kappa_y s,   E log pi = kappa_y E y~ + x kappa_x + sigma_pi^2,
    cov  = [[s, kappa_y s], [kappa_y s, kappa_y^2 s + sigma_pi^2]],     s = sigma_y^2,

and eq. 6 is this density divided by pi_i.  If w~ = -log pi, and the formula has an intercept (X e = 1 for a vector e),
the parameters of FBP and (B, Sigma) of FBS are one-to-one.  With several outcomes, s is the covariance matrix of the
outcomes and kappa_y a vector.

Under the paper's priors (appendix D), beta and kappa_x are integrated out, and ``stan/fbp.stan`` samples the other
three parameters.  Under the censored pseudo likelihood (Hu, Williams & Savitsky 2025, eq. 3.6), no parameter can be
integrated out, and ``stan/fbp_censored.stan`` samples all parameters.

Shapes: S draws, n records, K predictors (columns of the model matrix), d outcomes.  D is d + 1, or d if the weight is
public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...choices import Clusters, Missing
from ...design.columns import codes
from ...design.discrete import is_discrete
from ...design.survey_design import SurveyDesign
from ...errors import InputError, ModelError
from ...validation import check_keywords, one_of
from ..corrections.clamp_correction import uncensored_tilted
from ..draws import Draws, Sampler, Synthetic
from ..predictors.model_matrix import LOG_SIZE, LOG_UNIT, Constants
from ..records import Public
from ..scales.transforms import Transform
from . import shares
from .assumptions import shared_assumptions
from .censored_fit import Pilot
from .flat_prior import FLAT
from .joint_records import JointPublic, JointRecords, PopulationPublic, PopulationRecords
from .joint_regression import JointRegression

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Prior = Literal["paper", "flat"]

BETA_VARIANCE = 100.0  # prior variance of beta, kappa_y and kappa_x (appendix D)
MOST_LEVELS = 50  # most distinct values of a numeric predictor that makes cells


@dataclass(frozen=True)
class FBP(JointRegression[PopulationRecords]):
    """Fully Bayes synthesizer for the population: synthetic outcomes follow the population, not the sample.

    A cell is a combination of values of the predictors.  A synthetic file has two weights.  Means and totals are
    estimated with the first weight, the mean smoothed weight of the cell, which is the same for all records of a cell
    and PSU.  Standard errors of counts come from the spread of the second weight, the record's own smoothed weight
    ``<weight>_smoothed``.  Both weights give the same estimated counts.

    Parameters
    ----------
    outcome, predictors, transform, missing, weight
        See :class:`FBS`.
    prior : {"paper", "flat"}
        "paper": the prior of Hu, Savitsky & Williams (2022a, appendix D), for one numeric outcome.  "flat": p(B, Sigma)
        ~ |Sigma|^-(D+1)/2 in FBS's parameters; the posterior is drawn exactly, without MCMC.
    weights : {"full", "paper"}
        "full": smoothed weights exp(-kappa_y y~* - x kappa_x), as the model implies for a synthetic outcome y~*.
        "paper": exp(-kappa_y y~*), as in section 2.2 of the paper, which leaves out how selection differs between
        cells.
    variance : {"stratified", "paper"}
        "stratified": standard errors of counts are computed by stratum.  "paper": standard errors of counts ignore
        strata, which reproduces Table 4 of the paper.
    bands : dict of column to list of numbers
        Public limits that group a numeric predictor with many values into bands, from which the cells are made:
        ``bands={"age": [25, 45, 65]}``.

    Raises
    ------
    InputError
        On construction, if an option is unknown, or if there are several numeric outcomes under the paper's prior.

    Notes
    -----
    Hu, Savitsky & Williams (2022a, section 2.2, eq. 4-7 and appendix D).  The coefficients beta and kappa_x are
    integrated out exactly, except under the censored mechanism.

    Examples
    --------
    >>> ss.FBP("salary ~ field + gender").outcomes
    ('salary',)
    >>> ss.FBP("salary ~ field + age", prior="flat", bands={"age": [25, 45, 65]}).predictors
    'field + age'
    """

    outcome: str | Sequence[str]
    predictors: str = ""
    prior: Prior = "paper"
    transform: str | Transform | dict[str, str | Transform] = "log"
    missing: Missing = "fail"
    weights: Literal["full", "paper"] = "full"
    variance: Literal["stratified", "paper"] = "stratified"
    bands: dict[str, Sequence[float]] = field(default_factory=dict)

    name: ClassVar[str] = "FBP"
    priors: ClassVar[dict[str, str]] = {
        "paper": "beta, kappa_y, kappa_x ~ N(0, 100), sigma_y, sigma_pi ~ half-Cauchy(0, 1) "
        "(Hu, Savitsky & Williams 2022a, appendix D)",
        "flat": FLAT,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.weights, ("full", "paper"), "weights")
        one_of(self.variance, ("stratified", "paper"), "variance")
        if self.prior == "paper" and len(self.numeric) != 1:
            raise InputError("the paper's prior of FBP is for one numeric outcome; else use prior='flat'")
        if not isinstance(self.bands, dict):
            raise InputError("bands must map predictors to their limits: bands={'age': [25, 45, 65]}")
        for name, limits in self.bands.items():
            if name not in self.predictor_columns:
                raise InputError(f"bands: {name!r} is not a predictor")
            if not _rising(limits):
                raise InputError(f"bands: the limits of {name!r} must be numbers in rising order")

    @classmethod
    def paper(cls, outcome: str | Sequence[str], predictors: str = "", **settings: Any) -> Self:
        """Make FBP with the smoothed weights and the standard errors of counts of Hu, Savitsky & Williams (2022a).

        Parameters
        ----------
        outcome, predictors : str
            See :class:`FBS`.
        **settings
            Other parameters of :class:`FBP`.

        Returns
        -------
        FBP
            The model with ``weights="paper"`` and ``variance="paper"``.
        """
        check_keywords(cls.paper, settings, cls, without=["weights", "variance"])
        return cls(outcome, predictors, **settings, weights="paper", variance="paper")

    @property
    def as_in_paper(self) -> bool:  # type: ignore[override]  # of the options
        """True if smoothed weights or standard errors of counts are those of Hu, Savitsky & Williams (2022a)."""
        return "paper" in (self.weights, self.variance)

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> PopulationRecords:  # fmt: skip
        """Check a file and return the records that FBP needs, with the cells in which synthetic weights are equal.

        The arguments are those of :meth:`Synthesizer.prepare`.

        Raises
        ------
        InputError, ModelError
            :meth:`JointRegression.joint_records` raises an error.  The formula has no intercept, without which the
            parameters of FBP and FBS are not one-to-one.  The weights are modelled, and a numeric predictor with more
            than 50 values has no ``bands`` to make cells from.  PSUs or strata have effects, and the prior, the weights
            or the variance are the paper's, which has no such effects.
        """
        records = self.joint_records(design, clusters, mean_weight, constants, unit)
        if records.groups is not None and (self.as_in_paper or self.prior == "paper"):
            raise ModelError(
                f"the design has {records.groups.describe()} whose effects FBP models with prior='flat' and with "
                "neither weights='paper' nor variance='paper'; otherwise set clusters='ignore', and standard errors "
                "from the synthetic files can be far too small"
            )
        intercept = np.asarray(np.linalg.pinv(records.X).sum(axis=1), dtype=np.float64)
        if np.abs(records.X @ intercept - 1).max() > 1e-8:
            raise InputError(f"FBP needs an intercept, which the formula {self.predictors!r} takes out")
        kept = {f.name: getattr(records, f.name) for f in fields(records)}
        return PopulationRecords(**kept, intercept=intercept, cell=self._cells(design, records))

    def _cells(self, design: SurveyDesign, records: JointRecords) -> Codes:
        if records.public_weights is not None:  # public weights are kept, so no weights are averaged
            return np.zeros(design.n, dtype=np.intp)
        cells = pd.DataFrame(index=range(design.n))
        for name in self.predictor_columns:
            column = design.column(name)
            if name in self.bands:
                cells[name] = np.searchsorted(np.asarray(self.bands[name], dtype=float), design.numeric(name), "right")
            elif not is_discrete(design, name, MOST_LEVELS):
                raise InputError(
                    f"predictor {name!r} has more than {MOST_LEVELS} different values, and FBP weights its records by "
                    f"cells of equal predictors: group it by public limits, bands={{{name!r}: [...]}}, or use FBS"
                )
            else:
                cells[name] = column.to_numpy()
        if cells.empty:
            return np.zeros(design.n, dtype=np.intp)
        return np.asarray(cells.groupby(list(cells), sort=True).ngroup(), dtype=np.intp)

    def log_base(self, records: PopulationRecords, Y: Floats) -> Floats:
        """Return, for each record, the log ratio of the record density to the normal density of the values ``Y``.

        By eq. 6 of the paper, this is -log pi = w~, the log weight, or 0 if the weight is public.
        """
        return Y[:, -1] if records.public_weights is None else np.zeros(len(Y))

    def _sample(
        self, records: PopulationRecords, A: float, R: Floats, Z0: Floats, S0: Floats, sampler: Sampler
    ) -> Draws:
        """Draw sigma_y, kappa_y and sigma_pi by Markov chains, and beta and kappa_x from their exact distribution."""
        root, V, z, v, S = _rotated(records, R, Z0, S0)
        fit = sampler.sample("fbp", {"D": len(S), "rank": len(R), "A": A, "root": root, "Z": z, "v": v, "S": S})
        sigma = fit.values["sigma"].reshape(-1, len(S))

        def coefficients(target: Floats, tilt: Floats, sd: Floats) -> Floats:
            """Draw coefficients b (S, K) exactly from their normal posterior, given the rotated data ``target``.

            The prior is N(0, 100 I), and target ~ N(U'R b + tilt v, sd^2 I) with v = U'R intercept (:func:`_rotated`).
            """
            precision = 1 / sd[:, None] ** 2 + 1 / (BETA_VARIANCE * root**2)
            mean = (target - tilt[:, None] * v) / sd[:, None] ** 2 / precision
            seen = (mean + sampler.rng.standard_normal(mean.shape) / np.sqrt(precision)) / root
            unseen = sampler.rng.standard_normal((len(sd), len(V) - root.size)) * np.sqrt(BETA_VARIANCE)
            return np.hstack([seen, unseen]) @ V

        L_y = sigma[:, :1, None]
        if len(S) == 1:
            beta = coefficients(z[:, 0], np.zeros(len(sigma)), sigma[:, 0])
            values = {"B": beta[:, :, None], "L": L_y}
        else:
            kappa_y = fit.values["kappa_y"].reshape(-1, 1)
            beta = coefficients(z[:, 0], kappa_y[:, 0] * sigma[:, 0] ** 2, sigma[:, 0])
            kappa_x = coefficients(z[:, 1] - kappa_y * z[:, 0], sigma[:, 1] ** 2, sigma[:, 1])
            B, L = to_sample(beta[:, :, None], L_y, kappa_y, kappa_x, sigma[:, 1], records.intercept)
            values = {"B": B, "L": L}
        return Draws(values, sampler.chain_of_draws, fit.diagnostics, fit.engine, fit.version)

    def _sample_censored(
        self, records: PopulationRecords, distinct: dict[str, Any], pilot: Pilot, sampler: Sampler
    ) -> Draws:
        root, V, z, v, S = _rotated(records, pilot.R, pilot.Z0, pilot.S0)
        basis = V.T.copy()
        basis[:, : root.size] /= root
        whitened = np.linalg.solve(pilot.L, (records.X @ pilot.B).T).T
        fit = sampler.sample("fbp_censored", {
            **distinct, "X": records.X @ basis, "mu_hat": whitened, "rank": len(root), "root": root, "Z": z, "v": v,
            "S": S,
        })  # fmt: skip
        values = {name: a.reshape(-1, *a.shape[2:]) for name, a in fit.values.items()}
        coefficients, sigma = basis @ values["f"], values["sigma"]  # beta, kappa_x
        if len(S) == 1:
            values = {"B": coefficients, "L": sigma[:, :, None]}
        else:
            B, L = to_sample(
                coefficients[:, :, :1], sigma[:, :1, None], values["kappa_y"], coefficients[:, :, 1], sigma[:, 1],
                records.intercept,
            )  # fmt: skip
            values = {"B": B, "L": L}
        return Draws(values, sampler.chain_of_draws, fit.diagnostics, fit.engine, fit.version)

    def debias_draws(
        self, records: PopulationRecords, draws: Draws, positions: Sequence[int], alpha: Callable[..., Floats],
        unit: Codes | None, rng: np.random.Generator, *, debias: bool,
    ) -> Draws:  # fmt: skip
        """Return the draws at ``positions``, corrected for the bias that privacy weights cause.

        See :meth:`JointRegression.debias_draws`.

        Raises
        ------
        InputError, ModelError
            :meth:`JointRegression.debias_draws` raises an error.  ``debias`` is True, and PSUs or strata have effects:
            then the bias of the coefficients is unknown.
        """
        if debias and records.groups is not None:
            raise InputError("FBP has no debias with effects of PSUs or strata: use FBS, or leave debias out")
        return super().debias_draws(records, draws, positions, alpha, unit, rng, debias=debias)

    def uncensored(self, records: PopulationRecords, draws: Draws, positions: Sequence[int], bound: float) -> Draws:
        """Return the draws at ``positions`` of a censored fit, corrected for the bias that the clamp causes.

        See :meth:`JointRegression.uncensored`.  If the weight is modelled, the coefficients B are corrected, too: the
        factor 1 / pi of the record density makes them biased.
        """
        if records.public_weights is not None:
            return super().uncensored(records, draws, positions, bound)
        done = draws.subset(positions)
        size = np.bincount(records.pattern, minlength=len(records.X)).astype(np.float64)
        B, L = uncensored_tilted(done.values["B"], done.values["L"], records.X, size, bound)
        return done.subset(range(done.size), {"B": B, "L": L})

    def variance_factor(
        self, records: PopulationRecords, draws: Draws, positions: Sequence[int], bound: float, *, corrected: bool
    ) -> float | None:
        """Return the factor by which to multiply variances of means estimated from synthetic files of a censored fit.

        See :meth:`JointRegression.variance_factor`.  If the weight is modelled, the factor is unknown, and the result
        is None.
        """
        if records.public_weights is None:
            return None
        return super().variance_factor(records, draws, positions, bound, corrected=corrected)

    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """Draw one synthetic data set: outcomes y* from the population model, and public weights or smoothed weights.

        Source: Hu, Savitsky & Williams 2022a, section 2.2, eq. 4.

        Smoothed weights are a function of y*, the predictors and the effect of the PSU or stratum.  They are the
        ``count_weights`` of the result.  ``weights`` are their means over the records of each cell, apart from the
        factor that belongs to the PSU, stratum or unit of a record.
        """
        assert isinstance(public, PopulationPublic)
        B, L, d = draw.values["B"][0], draw.values["L"][0], len(self.numeric)
        category = shares.simulate(public, draw, rng)
        row, labels = public.rows_of(category), public.labels(category)
        effect = self.effects_of_records(public, draw, rng)
        beta, L_y, kappa_y, kappa_x, _ = to_population(B, L, public.intercept, d)
        # y without the effect, because the effect does not change the selection within a PSU
        y = (public.X @ beta)[row] + rng.standard_normal((public.n, d)) @ L_y.T
        outcomes = self.back(y + effect[:, :d])
        if public.public_weights is not None:
            return Synthetic(outcomes, public.public_weights, labels)
        log_weight, psu_log_weight = -y @ kappa_y, effect[:, d]
        # size predictors belong to the PSU or unit, as effects do, and are not averaged over the cell
        is_size = np.isin(public.columns, (LOG_SIZE, LOG_UNIT))
        psu_log_weight = psu_log_weight - (public.X[:, is_size] @ kappa_x[is_size])[row]
        kappa_x = np.where(is_size, 0.0, kappa_x)
        if self.weights == "full":
            log_weight -= (public.X @ kappa_x)[row]
        factor = np.broadcast_to(np.exp(psu_log_weight), len(y))
        smoothed = np.exp(log_weight - log_weight.max()) * factor
        cell = public.cell if category is None else codes(public.cell, category)
        mean = (np.bincount(cell, smoothed) / np.bincount(cell, factor))[cell] * factor
        return Synthetic(outcomes, mean, labels, smoothed, cell, self.variance == "stratified")

    def assumptions(self, public: Public) -> list[str]:
        """Return the assumptions of FBP, as sentences."""
        assert isinstance(public, JointPublic)
        sentences = [*shared_assumptions(self, public), f"prior {self.prior}: {self.priors[self.prior]}"]
        if self.prior == "flat":
            sentences[-1] += ", drawn without Markov chains"
        if public.public_weights is not None:
            return sentences
        sentences.append(
            "the survey weight is the inverse of the inclusion probability, which is lognormal given outcome and "
            "predictors; a weight that was calibrated or adjusted for nonresponse is not quite that, and the "
            "correction of the outcome to the population is then off by as much"
        )
        psu_text = (
            "" if public.groups is None else ", times what the effect of the record's PSU or stratum makes of them"
        )
        form = "exp(-kappa_y y~ - x kappa_x)" if self.weights == "full" else "exp(-kappa_y y~), the form of the paper"
        sentences.append(
            "synthetic outcomes follow the population within cells of the predictors; the weight in the files is the "
            f"cell's mean of the smoothed weights {form}{psu_text}; weighting by a record's own smoothed weight would "
            "correct twice. Standard errors of counts come from the records' own smoothed weights, "
            + ("by stratum" if self.variance == "stratified" else "without strata, as in the paper")
        )
        for name, limits in self.bands.items():
            sentences.append(
                f"the limits that group {name} into cells are public: {', '.join(f'{x:g}' for x in limits)}; within a "
                f"band records weigh the same, as if selection did not depend on {name} there"
            )
        return sentences


def _rotated(
    records: PopulationRecords, R: Floats, Z0: Floats, S0: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return sufficient statistics in the coordinates of FBP's sampler, with the sign of the log weight reversed.

    So they are statistics of log pi = -w~.  R (rank, K), Z0 (rank, D) and S0 (D, D) are the statistics of
    :mod:`.joint_regression`, and R = U diag(root) V is the singular value decomposition.  Returned are root (rank,), V
    (K, K), U' Z0, U' R e (rank,) and S0, where X e = 1.
    """
    U, root, V = np.linalg.svd(R)
    z, v = U.T @ Z0, U.T @ (R @ records.intercept)
    sign = np.array([1.0, -1.0])[: z.shape[1]]  # log pi = -w~
    return root, V, z * sign, v, S0 * np.outer(sign, sign)


def _rising(limits: object) -> bool:
    if isinstance(limits, str) or not isinstance(limits, Sequence | np.ndarray) or len(limits) == 0:
        return False
    if any(isinstance(x, bool) or not isinstance(x, int | float | np.number) for x in limits):
        return False
    return bool(np.isfinite(limits).all() and (np.diff(limits) > 0).all())


def to_sample(
    beta: Floats, L_y: Floats, kappa_y: Floats, kappa_x: Floats, sigma_pi: Floats, intercept: Floats
) -> tuple[Floats, Floats]:
    """Convert S draws of FBP's parameters to the parameters (B, L) of FBS.  The module docstring has the formulas.

    Parameters
    ----------
    beta : float array (S, K, d)
        Coefficients of the outcomes in the population.
    L_y : float array (S, d, d)
        Lower Cholesky factors of the covariance of the outcomes given x.  For one outcome this factor is sigma_y.
    kappa_y, kappa_x, sigma_pi : float arrays (S, d), (S, K), (S,)
        Coefficients of log pi on the outcomes and on the predictors, and its residual standard deviations.
    intercept : float array (K,)
        The vector e with X e = 1.

    Returns
    -------
    B : float array (S, K, d + 1)
        Coefficients of (y~, w~) in the sample, with w~ = -log pi.
    L : float array (S, d + 1, d + 1)
        Lower Cholesky factors of the residual covariance of (y~, w~).
    """
    S, _, d = beta.shape
    tilt = np.einsum("sij,skj,sk->si", L_y, L_y, kappa_y)  # cov(y~) kappa_y
    B_y = beta + intercept[:, None] * tilt[:, None, :]
    B_w = -np.einsum("skj,sj->sk", B_y, kappa_y) - kappa_x - intercept * sigma_pi[:, None] ** 2
    L = np.zeros((S, d + 1, d + 1))
    L[:, :d, :d] = L_y
    L[:, d, :d] = -np.einsum("sij,si->sj", L_y, kappa_y)
    L[:, d, d] = sigma_pi
    return np.concatenate([B_y, B_w[:, :, None]], axis=2), L


def to_population(B: Floats, L: Floats, intercept: Floats, d: int) -> tuple[Floats, Floats, Floats, Floats, float]:
    """Convert one draw of FBS's parameters, B (K, D) and the Cholesky factor L (D, D) of Sigma, to FBP's parameters.

    Return beta (K, d), L_y (d, d), kappa_y (d,), kappa_x (K,) and sigma_pi, as in :func:`to_sample`.  ``d`` is the
    number of outcomes, and ``intercept`` (K,) the vector e with X e = 1.

    If the weight is public (D = d), beta is B, and kappa_y, kappa_x and sigma_pi are 0.
    """
    L_y = L[:d, :d]
    if L.shape[0] == d:
        return B, L_y, np.zeros(d), np.zeros(len(B)), 0.0
    kappa_y = np.asarray(-np.linalg.solve(L_y.T, L[d, :d]), dtype=np.float64)
    sigma_pi = float(L[d, d])
    beta = B[:, :d] - np.outer(intercept, L_y @ (L_y.T @ kappa_y))
    kappa_x = -B[:, d] - B[:, :d] @ kappa_y - intercept * sigma_pi**2
    return beta, L_y, kappa_y, kappa_x, sigma_pi
