"""FBS: the fully Bayes model for the observed sample (Hu, Savitsky & Williams 2022a, section 2.1 and appendix C).

    (y~_i, w~_i) ~ N(x_i B, Sigma),    w~_i = log(w_i / mean w),

is fitted under the pseudo likelihood (eq. 3), which raises the density of record i to the power of its privacy weight
alpha_i.  y~_i are the numeric outcomes on their working scales (such as log income), w_i is the survey weight, and x_i
are the predictors.  B is integrated out, ``stan/fbs.stan`` samples the other parameters, and B is then drawn from its
exact conditional distribution.  Under the censored pseudo likelihood (Hu, Williams & Savitsky 2025, eq. 3.6) B cannot
be integrated out, and ``stan/fbs_censored.stan`` samples (B, Sigma).

Shapes: S draws, K predictors (columns of the model matrix), D columns of (y~, w~), or of y~ if the weight is public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...choices import Clusters, FBSPrior, Missing
from ...design.survey_design import SurveyDesign
from ..draws import Draws, Sampler, Synthetic
from ..predictors.model_matrix import Constants
from ..records import Public
from ..scales.transforms import Transform
from . import shares
from .assumptions import shared_assumptions
from .censored_fit import Pilot
from .flat_prior import FLAT
from .joint_records import JointPublic, JointRecords
from .joint_regression import JointRegression
from .variance_components import or_refuse

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

WEIGHTS = "survey weights are jointly normal with the outcome on the log scale; smoothed weights are released"


@dataclass(frozen=True)
class FBS(JointRegression[JointRecords]):
    """Fully Bayes synthesizer for the observed sample: outcome and weight are jointly normal.

    Parameters
    ----------
    outcome : str or list of str
        Confidential columns, which are synthesized together with the weight.  A formula such as
        ``"salary + C(employed) ~ field + gender"`` names outcomes and predictors together.  A categorical column is
        written ``C(employed)``.  Categories are multinomial within cells of the discrete predictors (Dirichlet prior),
        and the numeric outcomes and the weight depend on the categories.
    predictors : str
        Right-hand side of a model formula, as in R: ``"field + gender"``.  These columns are public and are released
        unchanged.  The exception is a categorical outcome, which may be in the formula for its interactions.
    prior : {"paper", "independent", "normal", "flat"}
        "paper": the prior of Hu, Savitsky & Williams (2022a, appendix C).  "independent": the paper's prior with
        Omega = I, which is sensible with more than about 20 predictors.  "normal": the paper's prior of Sigma, and
        coefficients ~ N(0, 100) as in FBP, which is the fastest prior under censoring.  "flat": p(B, Sigma) ~
        |Sigma|^-(D+1)/2, where Sigma is D x D; the posterior is drawn exactly, without MCMC.
    transform : str, transform, or dict of outcome to either
        ``"log"`` (the default), ``surveysynth.IdentityTransform(scale=)``, ``surveysynth.AsinhTransform(scale=)`` or
        ``surveysynth.NormalScores(...)`` of an earlier file.
    missing : {"fail", "drop"}
        Treatment of records with a missing outcome.  "drop" leaves these records out, and the report gives their
        number.
    weight : "public", optional
        Declares that the survey weights are public: they are released unchanged.  Weights that are a function of the
        predictors are released unchanged, too; under :class:`Strict` such weights must be declared public.

    Raises
    ------
    InputError
        On construction, if an option is unknown, an outcome is a predictor, or a term of the formula depends on the
        categories of other records.

    Notes
    -----
    Hu, Savitsky & Williams (2022a, section 2.1, eq. 2-3 and appendix C).  The coefficients are integrated out exactly,
    except under the censored mechanism.

    Examples
    --------
    >>> model = ss.FBS("salary ~ field + gender", prior="flat")
    >>> model.outcomes, model.predictors
    (('salary',), 'field + gender')
    >>> ss.FBS("income + C(employed) ~ region", transform={"income": ss.AsinhTransform(scale=1000)}).outcomes
    ('income', 'employed')
    """

    outcome: str | Sequence[str]
    predictors: str = ""
    prior: FBSPrior = "paper"
    transform: str | Transform | dict[str, str | Transform] = "log"
    missing: Missing = "fail"

    name: ClassVar[str] = "FBS"
    priors: ClassVar[dict[str, str]] = {
        "paper": "beta_y, beta_w ~ N(0, D Omega D), D = diag(half-t(3, 0, 10)), Omega ~ LKJ(6) "
        "(Hu, Savitsky & Williams 2022a, appendix C)",
        "independent": "as the paper's, with Omega = I",
        "normal": "coefficients ~ N(0, 100)",
        "flat": FLAT,
    }

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> JointRecords:  # fmt: skip
        """Check a file and return the records that the model needs.

        The arguments are those of :meth:`Synthesizer.prepare`, and the errors those of
        :meth:`JointRegression.joint_records`.
        """
        return self.joint_records(design, clusters, mean_weight, constants, unit)

    def _sample(self, records: JointRecords, A: float, R: Floats, Z0: Floats, S0: Floats, sampler: Sampler) -> Draws:
        rank, D, K = len(R), records.Y.shape[1], R.shape[1]
        b, r = _coefficient_size(R, Z0, S0 / A)
        stan_data = {
            "D": D, "K": K, "rank": rank, "A": A, "R": R, "Z0": Z0, "S0": S0,
            "b": b, "r": r, **self._prior_flags(),
        }  # fmt: skip
        fit = sampler.sample("fbs", stan_data)
        v = {name: a.reshape(-1, *a.shape[2:]) for name, a in fit.values.items()}
        L = v["L"]
        Omega_root = v["L_Omega"][:, None] if self.prior == "paper" else np.eye(K)
        root = v["sigma_beta"].transpose(0, 2, 1)[:, :, :, None] * Omega_root
        B = or_refuse(lambda: draw_coefficients(R, Z0, L, root, sampler.rng))
        return Draws({"B": B, "L": L}, sampler.chain_of_draws, fit.diagnostics, fit.engine, fit.version)

    def _sample_censored(
        self, records: JointRecords, distinct: dict[str, Any], pilot: Pilot, sampler: Sampler
    ) -> Draws:
        b, ratio = _coefficient_size(pilot.R, pilot.Z0, pilot.S0 / pilot.A)
        fit = sampler.sample("fbs_censored", {
            **distinct, "C0": pilot.R.T @ pilot.R, "P": pilot.R.T @ pilot.Z0, "B_hat": pilot.B, "b": b, "ratio": ratio,
            **self._prior_flags(),
        })  # fmt: skip
        values = {name: fit.values[name].reshape(-1, *fit.values[name].shape[2:]) for name in ("B", "L")}
        return Draws(values, sampler.chain_of_draws, fit.diagnostics, fit.engine, fit.version)

    def _prior_flags(self) -> dict[str, int]:
        return {"scaled": int(self.prior != "normal"), "correlated": int(self.prior == "paper")}

    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """Draw one synthetic data set: outcomes y* from the model, and public weights or smoothed weights.

        Source: Hu, Savitsky & Williams 2022a, section 2.1.

        The smoothed weight of a record is exp(E(w~ | y~*)).  Let B_y and beta_w be the columns of B for the outcomes
        and for the log weight.  Then E(w~ | y~) = x beta_w + Sigma_wy Sigma_yy^-1 (y~ - x B_y).  For one outcome, this
        is x beta_w + rho (sigma_w / sigma_y)(y~ - x beta_y).  Effects of PSUs and strata are added to both means.
        """
        assert isinstance(public, JointPublic)
        B, L, d = draw.values["B"][0], draw.values["L"][0], len(self.numeric)
        category = shares.simulate(public, draw, rng)
        row = public.rows_of(category)
        mean = (public.X @ B)[row] + self.effects_of_records(public, draw, rng)
        z = rng.standard_normal((public.n, d))
        # L is triangular: its first d rows are the outcomes' factor, and Sigma_wy Sigma_yy^-1 (y~ - x B_y) = L_wy z
        outcomes, labels = self.back(mean[:, :d] + z @ L[:d, :d].T), public.labels(category)
        if public.public_weights is not None:
            return Synthetic(outcomes, public.public_weights, labels)
        return Synthetic(outcomes, np.exp(mean[:, d] + z @ L[d, :d]), labels)

    def assumptions(self, public: Public) -> list[str]:
        """Return the assumptions of FBS, as sentences."""
        assert isinstance(public, JointPublic)
        exact = self.prior == "flat"
        how = ", drawn without Markov chains" if exact else "; Sigma's scales half-t(3, 0, 10), correlation LKJ(6)"
        sentences = [*shared_assumptions(self, public), f"prior {self.prior}: {self.priors[self.prior]}{how}"]
        return sentences if public.public_weights is not None else [*sentences, WEIGHTS]


def draw_coefficients(R: Floats, Z0: Floats, L: Floats, root: Floats, rng: np.random.Generator) -> Floats:
    """Draw the coefficients B from their exact conditional distribution, given S draws of the other parameters.

    Column j of B has the prior covariance root_j root_j'.  Therefore b = blockdiag(root)^-1 vec B has the posterior
    precision I + blockdiag(root)' (Sigma^-1 (x) R'R) blockdiag(root), where (x) is the Kronecker product.  This matrix
    is not singular for any rank of R.

    Parameters
    ----------
    R, Z0 : float arrays (rank, K), (rank, D)
        R'R are the alpha-weighted cross products of the predictors.  Z0 = R B^, where B^ are the weighted least-squares
        coefficients.
    L : float array (S, D, D)
        Lower Cholesky factors of Sigma.
    root : float array (S, D, K, K)
        For each draw and column of B, a factor root_j of the prior covariance.
    rng : numpy.random.Generator

    Returns
    -------
    float array (S, K, D)
        One draw of B for each draw of the other parameters.
    """
    S, D, K, _ = root.shape
    B = np.empty((S, K, D))
    step = max(1, 4_000_000 // (K * D) ** 2)
    for s in range(0, S, step):
        part = slice(s, min(S, s + step))
        r = root[part]
        W = np.linalg.inv(L[part])
        precision = W.transpose(0, 2, 1) @ W
        scaled = R @ r  # (s, D, rank, K)
        M = np.einsum("sjk,sjra,skrb->sjakb", precision, scaled, scaled, optimize=True).reshape(-1, D * K, D * K)
        M += np.eye(D * K)
        h = np.einsum("sjra,rk,skj->sja", scaled, Z0, precision, optimize=True).reshape(-1, D * K, 1)
        C = np.linalg.cholesky(M)
        noise = rng.standard_normal(h.shape)
        b = np.linalg.solve(C.transpose(0, 2, 1), np.linalg.solve(C, h) + noise)
        B[part] = np.einsum("sjka,sja->skj", r, b.reshape(-1, D, K))
    return B


def _coefficient_size(R: Floats, Z0: Floats, Sigma: Floats) -> tuple[Floats, Floats]:
    """Return the typical size of each coefficient, and the coefficient's standard error divided by this size.

    The size is the root mean square of the coefficient in its posterior under a flat prior, but at most 10, the scale
    of the actual prior.  If it is 10, or if the data do not inform the coefficient, the two results are 10 and 1.  They
    only define the coordinates of the sampler (see ``stan/fbs.stan``).

    ``R`` (rank, K) and ``Z0`` (rank, D) are as in :func:`draw_coefficients`, and ``Sigma`` (D, D) is an estimate of the
    residual covariance.
    """
    inverse = np.linalg.pinv(R)
    unseen = 1 - np.einsum("kr,rk->k", inverse, R) > 1e-6  # coefficients that the data do not inform
    error = np.sqrt(np.outer((inverse**2).sum(axis=1), np.diag(Sigma)))
    b = np.hypot(inverse @ Z0, error)
    wide = unseen[:, None] | (b > 10)  # 10 is the scale of the prior
    b = np.where(wide, 10.0, b)
    return b, np.where(wide, 1.0, error / b)
