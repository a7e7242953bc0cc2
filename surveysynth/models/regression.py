"""What FBS and FBP share: outcomes and log weight as one multivariate normal regression on public predictors.

    (y~_i, w~_i) ~ N(x_i B, Sigma),    w~_i = log(w_i / mean w)

is FBS itself (T eq. 2).  FBP's likelihood (T eq. 6) is the same density of (y~_i, log pi_i = -w~_i),
divided by pi_i: a factor without parameters.  So both are fitted through the same statistics of
the records,

    A = sum alpha_i,   C0 = X' diag(alpha) X = R'R,   B^ = C0^- X' diag(alpha) Y,   Z0 = R B^,
    S0 = (Y - X B^)' diag(alpha) (Y - X B^),

and the cost of a fit does not depend on n.  They differ in their priors, in the record densities
behind the Lipschitz bound, and in what they synthesize.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import formulaic
import numpy as np
import pandas as pd
from formulaic.parser.types import Factor
from formulaic.transforms import TRANSFORMS
from formulaic.utils.variables import Variable, get_required_variables
from numpy.typing import NDArray
from scipy.stats import invwishart

from ..design import SurveyDesign
from ..engines import Diagnostics
from ..errors import InputError, ModelError, as_list, guarded, rows
from . import consistency, gaussian
from .base import Posterior, Sampler
from .scores import NormalScores
from .sufficient import SufficientStatistics, sufficient_statistics
from .transforms import Transform, as_transform

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

FLAT = "p(B, Sigma) ~ |Sigma|^-(D+1)/2"
# A weight whose residual spread on the log scale is below EXACT is a function of the predictors
# (what is left is rounding); between EXACT and NEAR it is neither random nor a function.
EXACT, NEAR = 1e-7, 1e-3


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Data:
    """A design in the form that FBS works with.

    Attributes
    ----------
    X : float array (G, K)
        Distinct predictor rows ("patterns"), public.
    pattern : int array (n,)
        Row of X of each record.
    Y : float array (n, D)
        Working scale: the d outcomes, then log(w / mean w) unless the weight is public.
    public_weights : float array (n,) or None
        The weights, where they are a function of public columns.
    columns : tuple of str
        Columns of X.
    """

    X: Floats
    pattern: Codes
    Y: Floats
    public_weights: Floats | None
    columns: tuple[str, ...]


@dataclass(frozen=True)
class JointRegression(ABC):
    """A synthesizer that models outcomes and log weight jointly, given public predictors: FBS and FBP.

    Posteriors hold ``B`` (S, K, D) and ``L`` (S, D, D), the lower Cholesky factor of Sigma.
    """

    outcome: str | Sequence[str]
    predictors: str
    prior: str = "paper"
    transform: str | Transform | dict[str, str | Transform] = "log"
    missing: Literal["fail", "drop"] = "fail"

    name: ClassVar[str]
    priors: ClassVar[dict[str, str]]

    def __post_init__(self) -> None:
        outcomes = self.outcomes
        if not outcomes or len(set(outcomes)) < len(outcomes):
            raise InputError("outcome must name one column or several different ones")
        if self.prior not in list(self.priors):
            raise InputError(f"prior={self.prior!r} is not one of {', '.join(self.priors)}")
        if self.missing not in ("fail", "drop"):
            raise InputError(f"missing={self.missing!r} is not one of fail, drop")
        both = set(outcomes) & set(self.predictor_columns)
        if both:
            raise InputError(f"{', '.join(sorted(both))}: an outcome cannot be a predictor; predictors are public")
        self.transforms()

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The columns that are synthesized."""
        return tuple(as_list(self.outcome))

    @property
    def predictor_columns(self) -> tuple[str, ...]:
        """The columns that the formula names, sorted."""
        if not isinstance(self.predictors, str) or not self.predictors.strip():
            raise InputError("predictors must be a formula such as 'field + gender' ('1' for none)")
        try:
            formula = formulaic.Formula(f"1 + {self.predictors}")
        except Exception as error:
            raise InputError(f"predictors {self.predictors!r} is not a formula ({type(error).__name__})") from None
        if not isinstance(formula, formulaic.SimpleFormula) or not formula:
            raise InputError("predictors is the right-hand side of a formula, with each public column by name")
        return tuple(sorted({name for term in formula for factor in term.factors for name in columns_of(factor)}))

    def transforms(self) -> list[Transform]:
        """One transform an outcome."""
        if isinstance(self.transform, dict):
            if set(self.transform) != set(self.outcomes):
                raise InputError("transform names other columns than outcome does")
            return [as_transform(self.transform[o]) for o in self.outcomes]
        return [as_transform(self.transform) for _ in self.outcomes]

    @property
    def as_in_paper(self) -> bool:
        """Whether this is a paper's setting where ours is another."""
        return False

    def pilot(self) -> Self | None:
        """The model under the flat prior, whose draws are exact and take milliseconds."""
        return None if self.prior == "flat" else replace(self, prior="flat")

    def prepare(self, design: SurveyDesign) -> Data:
        """Working-scale values and distinct predictor rows, after the checks that belong to the model.

        Raises
        ------
        InputError
            Missing or non-numeric outcomes, outcomes outside the transform's range, normal scores
            made from this file, missing predictors, a formula that cannot be evaluated.
        ModelError
            A constant outcome; an outcome or weight that the predictors (nearly) determine.
        """
        working = []
        for outcome, transform in zip(self.outcomes, self.transforms(), strict=True):
            y = design.numeric(outcome)
            if np.isnan(y).any():
                raise InputError(
                    f"outcome {outcome!r} is missing in {rows(np.isnan(y))}; fill it in, or say missing='drop' to "
                    "leave these records out (the report then says how many)"
                )
            if isinstance(transform, NormalScores) and transform.made_from(y, design.weights):
                raise InputError(
                    f"outcome {outcome!r}: the normal scores of {transform.source!r} were made from this very file, or "
                    "from one that is nearly the same; make them from a historical or public file, or they give away "
                    "what they are to protect"
                )
            z = transform.forward(y)
            if not np.isfinite(z).all():
                raise InputError(
                    f"outcome {outcome!r} has no {transform.describe().split()[0]} in {rows(~np.isfinite(z))}; "
                    "use transform=surveysynth.Asinh(scale=...) for amounts that can be zero or negative"
                )
            working.append(z)
        X, pattern, columns = self._patterns(design)
        public = public_weight(design, self.predictor_columns, X, pattern)
        if public is None:
            working.append(np.log(design.weights / design.weights.mean()))
        Y = np.column_stack(working)
        _refuse_singular(Y, X, pattern, [*self.outcomes, *(["the survey weight"] if public is None else [])])
        return Data(X, pattern, Y, public, columns)

    def _patterns(self, design: SurveyDesign) -> tuple[Floats, Codes, tuple[str, ...]]:
        names = list(self.predictor_columns)
        for name in names:
            missing = design.column(name).isna()
            if missing.any():
                raise InputError(
                    f"predictor {name!r} is missing in {rows(missing)}; give these records a category of their own"
                )
            if pd.api.types.infer_dtype(design.column(name)) in ("date", "datetime", "datetime64"):
                raise InputError(f"predictor {name!r} is a date; make a number of it, or groups of dates")
        frame = design.frame[names]
        text = {c: "str" for c in names if isinstance(frame[c].dtype, pd.StringDtype)}
        if design.strata_name in names:  # a stratum is a label, also where it is coded as a number
            text |= {design.strata_name: "category"}

        def evaluate() -> tuple[Floats, tuple[str, ...]]:
            # of all records, so that center(), bs() and the like are what they are in R
            matrix = formulaic.model_matrix(f"1 + {self.predictors}", frame.astype(text), na_action="ignore")
            return np.asarray(matrix, dtype=np.float64), tuple(str(c) for c in matrix.model_spec.column_names)

        def impossible(kind: str) -> InputError:
            return InputError(f"the predictors {self.predictors!r} cannot be evaluated on this file ({kind})")

        rows_of_X, columns = guarded(evaluate, Exception, impossible)
        finite = np.isfinite(rows_of_X).all(axis=1)
        if not finite.all():
            raise InputError(f"the predictors {self.predictors!r} are not finite in {rows(~finite)}")
        pattern: Codes = np.zeros(design.n, dtype=np.intp)
        if names:
            pattern = np.asarray(frame.groupby(names, sort=True, observed=True).ngroup(), dtype=np.intp)
        X = rows_of_X[np.unique(pattern, return_index=True)[1]]
        if not all(np.allclose(column, x[pattern]) for column, x in zip(rows_of_X.T, X.T, strict=True)):
            raise InputError(f"the predictors {self.predictors!r} depend on the order of the records")
        return X, pattern, columns

    def sufficient_statistics(self, data: Data, alpha: Floats) -> SufficientStatistics:
        """A, C0, X'alpha Y and Y'alpha Y; statistics of blocks of records add up."""
        return sufficient_statistics(data.X, data.pattern, data.Y, alpha)

    def fit(self, data: Data, alpha: Floats, sampler: Sampler) -> Posterior:
        """Draw (B, Sigma) from the alpha-weighted pseudo posterior (T eq. 3 and 7).

        Raises
        ------
        ModelError
            alpha leaves too little of the file to fit, or (flat prior) cells without any weight.
        """
        statistics = self.sufficient_statistics(data, alpha)
        R, Z0, S0 = statistics.reduced()
        _refuse_degenerate(S0, statistics, len(R))
        if self.prior == "flat":
            return _flat(data, statistics, R, Z0, S0, sampler)
        return self._sample(data, statistics.A, R, Z0, S0, sampler)

    @abstractmethod
    def _sample(self, data: Data, A: float, R: Floats, Z0: Floats, S0: Floats, sampler: Sampler) -> Posterior:
        """The same by Markov chains, under the model's own prior."""

    def log_base(self, Y: Floats) -> Floats:
        """log p(record) minus the log of the normal density of (y~, w~), from working-scale values: (n,)."""
        return np.zeros(len(Y))

    def lipschitz(self, data: Data, posterior: Posterior) -> Floats:
        """max over draws of |log p(record i | draw)| (T 1.4.1 steps 2-3): (n,)."""
        v = posterior.values
        return gaussian.max_abs_log_density(data.Y, data.pattern, data.X, v["B"], v["L"], self.log_base(data.Y))

    def log_likelihood(self, data: Data, alpha: Floats, posterior: Posterior) -> Floats:
        """sum_i alpha_i log p(record i | draw), from sufficient statistics: (S,); alpha may be negative."""
        s, B, L = self.sufficient_statistics(data, alpha), posterior.values["B"], posterior.values["L"]
        cross = np.einsum("skd,ke->sde", B, s.P)
        residual = s.Q - cross - cross.transpose(0, 2, 1) + B.transpose(0, 2, 1) @ s.C0 @ B
        W = np.linalg.inv(L)
        log_det = np.log(np.einsum("sdd->sd", L)).sum(axis=1)
        quadratic = np.einsum("sij,sjk,sik->s", W, residual, W)
        base = alpha @ self.log_base(data.Y)
        return base - s.A * (L.shape[1] / 2 * np.log(2 * np.pi) + log_det) - quadratic / 2

    def log_density(self, data: Data, records: Codes, posterior: Posterior) -> Floats:
        """log p(record | draw) of some records on the working scale: (S, records)."""
        v, Y = posterior.values, data.Y[records]
        return gaussian.log_density(Y, data.pattern[records], data.X, v["B"], v["L"]) + self.log_base(Y)

    def consistent(
        self, data: Data, posterior: Posterior, draws: Sequence[int], alpha: Callable[[Floats], Floats],
        rng: np.random.Generator,
    ) -> Posterior:  # fmt: skip
        """Fisher-consistent versions of some draws: without what the weights ``alpha`` do to the model.

        Raises
        ------
        ModelError
            The weights' effect cannot be undone.
        """
        size = np.bincount(data.pattern, minlength=len(data.X)).astype(np.float64)
        B, L = (posterior.values[name][list(draws)] for name in "BL")
        B, L = consistency.correct(B, L, data.X, size, alpha, self.log_base, posterior.size, rng)
        return replace(posterior, values={"B": B, "L": L}, chain=posterior.chain[list(draws)], weight=np.empty(0))

    def describe(self, data: Data) -> dict[str, Any]:
        """Public facts about the model, for the manifest."""
        return {
            "method": self.name,
            "outcome": list(self.outcomes),
            "predictors": self.predictors,
            "prior": self.prior,
            "transform": [t.describe() for t in self.transforms()],
            "weights": "public" if data.public_weights is not None else "synthesized (smoothed)",
        }

    def _normality(self, data: Data) -> list[str]:
        """The assumptions that FBS and FBP share, in sentences."""
        said = [
            f"given the predictors ({self.predictors}) the outcome"
            + ("s are" if len(self.outcomes) > 1 else " is")
            + " normal on the scale: "
            + "; ".join(dict.fromkeys(t.describe() for t in self.transforms()))
        ]
        numeric = [c for c in data.columns if c != "Intercept" and "[" not in c]
        if numeric:
            said.append(f"numeric predictors enter as numbers, not as categories: {', '.join(numeric)}")
        if data.public_weights is not None:
            said.append(
                "the survey weight is a function of the public predictors (found so on the file): it is public, it is "
                f"kept, and only the outcome{'s are' if len(self.outcomes) > 1 else ' is'} modelled"
            )
        return said


def columns_of(factor: Factor) -> set[str]:
    """The columns that a factor of a formula reads; formulaic's own list misses those inside ``center()``, ``bs()``."""
    if factor.eval_method == Factor.EvalMethod.LOOKUP:
        return {factor.expr}
    found = get_required_variables(factor.expr)
    return {
        str(v.root if Variable.Role.CALLABLE in v.roles else v)
        for v in found
        # center(x) is a function and contr.sum a constant, but C(center) reads a column
        if v.root not in TRANSFORMS or (Variable.Role.VALUE in v.roles and v == v.root)
    }


def _flat(
    data: Data, statistics: SufficientStatistics, R: Floats, Z0: Floats, S0: Floats, sampler: Sampler
) -> Posterior:
    """Exact draws: Sigma ~ inverse-Wishart(A - rank, S0), B | Sigma matrix normal."""
    D, size = S0.shape[0], sampler.chains * sampler.draws
    df = statistics.A - len(R)
    inverse = np.linalg.pinv(R)  # (K, rank)
    outside = np.linalg.norm(data.X - data.X @ inverse @ R, axis=1) > 1e-6 * (1 + np.linalg.norm(data.X, axis=1))
    if outside.any():
        raise ModelError(
            f"the privacy weights leave nothing of the cells of {rows(outside[data.pattern])}, so a flat prior says "
            "nothing about them; use prior='independent' or 'paper'"
        )
    Sigma = invwishart.rvs(df, S0, size=size, random_state=sampler.rng).reshape(size, D, D)
    L = np.asarray(np.linalg.cholesky(Sigma), dtype=np.float64)
    E = sampler.rng.standard_normal((size, len(R), D))
    B = inverse @ (Z0 + E @ L.transpose(0, 2, 1))
    independent = Diagnostics(ess_bulk=size, ess_tail=size, exact=True)
    return Posterior({"B": B, "L": L}, np.zeros(size, dtype=np.intp), independent, "numpy", np.__version__)


def public_weight(design: SurveyDesign, predictors: tuple[str, ...], X: Floats, pattern: Codes) -> Floats | None:
    """The survey weight as a function of public predictors, where it is one (stratified SRS, self-weighting files).

    Such a weight has no distribution given x: it would make Sigma singular and the density
    unbounded.  It is public, and is kept: as the value of its cell, so that not even the last
    digits are a record's own.  A cell of one record fits any weight, and shows nothing.

    Returns
    -------
    float array (n,), or None where the weight is not such a function.

    Raises
    ------
    ModelError
        Where it is nearly such a function: neither public nor safely modelled.
    """
    log_weight = np.log(design.weights / design.weights.mean())
    cells = [np.zeros(design.n, dtype=np.intp)]
    if design.strata_name in predictors:
        cells.append(design.stages[0].stratum)
    discrete = [p for p in predictors if not pd.api.types.is_float_dtype(design.column(p).dtype)]
    if discrete:
        cells.append(np.asarray(design.frame.groupby(discrete, observed=True).ngroup(), dtype=np.intp))
    spreads = []
    for cell in cells:
        size = np.bincount(cell)
        fitted = (np.bincount(cell, log_weight) / size)[cell]
        spread = _spread(log_weight - fitted)
        if spread <= EXACT and size.min() > 1:
            return _significant(np.exp(fitted) * design.weights.mean())
        spreads.append(spread if (size > 1).mean() > 0.5 else np.inf)
    statistics = sufficient_statistics(X, pattern, log_weight[:, None], np.ones(design.n))
    R, Z0, _ = statistics.reduced()
    inverse = np.linalg.pinv(R)
    fitted = (X @ inverse @ Z0)[pattern, 0]
    leverage = ((X @ inverse) ** 2).sum(axis=1).max()
    spread = _spread(log_weight - fitted)
    if spread <= EXACT and leverage < 1 - 1e-6:
        return _significant(np.exp(fitted) * design.weights.mean())
    if min(spread, *spreads) < NEAR:
        raise ModelError(
            "the survey weights are nearly, but not quite, a function of the predictors (residual spread on the log "
            f"scale below {NEAR:g}, or cells of one record), so their density is all but unbounded and no Lipschitz "
            "bound is useful. If they are constant within cells of the design, round them so and merge cells of one "
            "record; else leave out the predictor that determines them"
        )
    return None


def _significant(x: Floats, digits: int = 14) -> Floats:
    """Rounded to so many significant digits: a weight of 10 is published as 10, not as 9.999999999999998."""
    unit = 10.0 ** (digits - 1 - np.floor(np.log10(x)))
    return np.asarray(np.round(x * unit) / unit)


def _spread(residual: Floats) -> float:
    return float(np.sqrt(np.mean(residual**2)))


def _refuse_singular(Y: Floats, X: Floats, pattern: Codes, labels: list[str]) -> None:
    """Refuse outcomes without variation of their own: the density would be unbounded."""
    statistics = sufficient_statistics(X, pattern, Y - Y.mean(axis=0), np.ones(len(Y)))
    S0 = statistics.reduced()[2]
    total, left = np.diag(statistics.Q), np.diag(S0)
    for label, t, s, y in zip(labels, total, left, Y.T, strict=True):
        if t <= len(Y) * (1e-7 * (1 + abs(y.mean()))) ** 2:
            raise ModelError(f"{label} is constant: there is nothing to synthesize, and publishing it is publishing it")
        if s <= 1e-6 * t:
            raise ModelError(
                f"the predictors determine {label} (nearly) completely, so its density is unbounded and no Lipschitz "
                "bound is useful; use fewer predictors"
            )
    correlation = S0 / np.sqrt(np.outer(left, left))
    if np.linalg.eigvalsh(correlation)[0] < 1e-6:
        raise ModelError(
            f"given the predictors, {' and '.join(labels)} determine one another (nearly) completely, so their joint "
            "density is unbounded and no Lipschitz bound is useful"
        )


def _refuse_degenerate(S0: Floats, statistics: SufficientStatistics, rank: int) -> None:
    scale = np.sqrt(np.maximum(np.diag(S0), 0))
    too_little = statistics.A < rank + len(S0) or not (scale > 0).all()
    if too_little or np.linalg.eigvalsh(S0 / np.outer(scale, scale))[0] < 1e-9:
        raise ModelError(
            f"the privacy weights leave too little of the file to fit {rank} coefficients an outcome; ask for a larger "
            "epsilon, a smaller m, or use fewer predictors"
        )
