"""What FBS and FBP share: outcomes and log weight as one multivariate normal regression on public predictors.

    (y~_i, w~_i) ~ N(x_i B, Sigma),    w~_i = log(w_i / mean w)

is FBS itself (T eq. 2).  FBP's likelihood (T eq. 6) is the same density of (y~_i, log pi_i = -w~_i),
divided by pi_i: a factor without parameters.  So both are fitted through the same statistics of
the records,

    A = sum alpha_i,   C0 = X' diag(alpha) X = R'R,   B^ = C0^- X' diag(alpha) Y,   Z0 = R B^,
    S0 = (Y - X B^)' diag(alpha) (Y - X B^),

and the cost of a fit does not depend on n.  They differ in their priors, in the record densities
behind the Lipschitz bound, and in what they synthesize.

Records of one PSU, and of one stratum that the predictors do not determine, share a normal effect
on (y~, w~): see :mod:`surveysynth.models.effects`.
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

from ..columns import codes
from ..design import SurveyDesign
from ..engines import Diagnostics
from ..errors import InputError, ModelError, as_list, guarded, rows
from . import consistency, gaussian
from .base import Clusters, Posterior, Sampler
from .effects import (
    GroupedStatistics,
    Groups,
    draw_effects,
    grouped_statistics,
    groups_of,
    new_effects,
    sample_with_effects,
)
from .scores import NormalScores
from .sufficient import SufficientStatistics, sufficient_statistics
from .transforms import Transform, as_transform

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

FLAT = "p(B, Sigma) ~ |Sigma|^-(D+1)/2"
# A weight whose residual spread on the log scale is below EXACT is a function of the predictors
# (what is left is rounding); between EXACT and NEAR it is neither random nor a function.
EXACT, NEAR = 1e-7, 1e-3
# A cell of one record fits any weight.  Predictors must have none; of PSUs, whose weights belong to
# the design, most records must share theirs with another.
ALL, MOST = 1.0, 0.9
LOG_WEIGHT = "log(weight)"


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
    groups : Groups or None
        PSUs or strata whose effects are modelled.
    """

    X: Floats
    pattern: Codes
    Y: Floats
    public_weights: Floats | None
    columns: tuple[str, ...]
    groups: Groups | None


@dataclass(frozen=True)
class JointRegression(ABC):
    """A synthesizer that models outcomes and log weight jointly, given public predictors: FBS and FBP.

    Posteriors hold ``B`` (S, K, D) and ``L`` (S, D, D), the lower Cholesky factor of Sigma; with
    effects also ``tau`` (S, levels, D) and ``T`` (S, D, D), the factor of the covariance of the
    lowest level; and in ``effects`` the draws ``total`` (S, C, D) of every group and, with two
    levels, ``above`` (S, H, D) of the strata.
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

    def prepare(self, design: SurveyDesign, clusters: Clusters = "model") -> Data:
        """Working-scale values and distinct predictor rows, after the checks that belong to the model.

        Parameters
        ----------
        design : SurveyDesign
        clusters : {"model", "ignore"}
            Whether PSUs, and strata that the predictors do not determine, get effects.

        Raises
        ------
        InputError
            Missing or non-numeric outcomes, outcomes outside the transform's range, normal scores
            made from this file, missing predictors, a formula that cannot be evaluated.
        ModelError
            A constant outcome; an outcome or weight that the predictors, or the PSUs, (nearly) determine.
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
        groups = groups_of(design, self.predictor_columns) if clusters == "model" else None
        public = public_weight(design, self.predictor_columns, X, pattern, groups)
        if public is None:
            working.append(np.log(design.weights / design.weights.mean()))
        elif _varies(public, pattern):
            X, pattern = _with_column(X, pattern, np.log(public / public.mean()))
            columns = (*columns, LOG_WEIGHT)
        Y = np.column_stack(working)
        labels = [*self.outcomes, *(["the survey weight"] if public is None else [])]
        _refuse_singular(Y, X, pattern, labels)
        if groups is not None:
            _refuse_constant_within(groups, Y, labels)
        return Data(X, pattern, Y, public, columns, groups)

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
        if data.groups is not None:
            return self._with_effects(data, data.groups, alpha, sampler)
        statistics = self.sufficient_statistics(data, alpha)
        R, Z0, S0 = statistics.reduced()
        _refuse_degenerate(S0, statistics, len(R))
        if self.prior == "flat":
            return _flat(data, statistics, R, Z0, S0, sampler)
        return self._sample(data, statistics.A, R, Z0, S0, sampler)

    def _with_effects(self, data: Data, groups: Groups, alpha: Floats, sampler: Sampler) -> Posterior:
        statistics = grouped_statistics(data.X, data.pattern, data.Y, alpha, groups)
        R, _, S0 = statistics.total.reduced()
        _refuse_degenerate(S0, statistics.total, len(R))
        if self.prior == "flat":
            _refuse_unseen(data, R)
        s = sample_with_effects(statistics, self.prior, sampler)  # type: ignore[arg-type]
        total, above = draw_effects(statistics, s.B, s.L, s.tau, sampler.rng)
        values = {"B": s.B, "L": s.L, "tau": s.tau, "T": s.L * np.sqrt(s.tau[:, 0, None])}
        effects = {"total": total} | ({} if above is None else {"above": above})
        return Posterior(values, s.chain, s.diagnostics, s.engine, s.version, effects=effects)

    @abstractmethod
    def _sample(self, data: Data, A: float, R: Floats, Z0: Floats, S0: Floats, sampler: Sampler) -> Posterior:
        """The same by Markov chains, under the model's own prior."""

    def log_base(self, Y: Floats) -> Floats:
        """log p(record) minus the log of the normal density of (y~, w~), from working-scale values: (n,)."""
        return np.zeros(len(Y))

    def lipschitz(self, data: Data, posterior: Posterior, unit: Codes | None = None) -> Floats:
        """max over draws of |log p(record i | draw)| (T 1.4.1 steps 2-3): (n,); of units' sums: (U,).

        Given the effects of a record's PSU and stratum, where there are effects.
        """
        v = posterior.values
        return gaussian.max_abs_log_density(
            data.Y, data.pattern, data.X, v["B"], v["L"], self.log_base(data.Y),
            effects=_effects(data, posterior), unit=unit,
        )  # fmt: skip

    def log_likelihood(self, data: Data, alpha: Floats, posterior: Posterior) -> Floats:
        """sum_i alpha_i log p(record i | draw), from sufficient statistics: (S,); alpha may be negative."""
        s, B, L = self.sufficient_statistics(data, alpha), posterior.values["B"], posterior.values["L"]
        cross = np.einsum("skd,ke->sde", B, s.P)
        residual = s.Q - cross - cross.transpose(0, 2, 1) + B.transpose(0, 2, 1) @ s.C0 @ B
        if data.groups is not None:
            grouped = grouped_statistics(data.X, data.pattern, data.Y, alpha, data.groups)
            residual += _from_effects(grouped, B, posterior.effects["total"])
        W = np.linalg.inv(L)
        log_det = np.log(np.einsum("sdd->sd", L)).sum(axis=1)
        quadratic = np.einsum("sij,sjk,sik->s", W, residual, W)
        base = alpha @ self.log_base(data.Y)
        return base - s.A * (L.shape[1] / 2 * np.log(2 * np.pi) + log_det) - quadratic / 2

    def log_density(self, data: Data, records: Codes, posterior: Posterior) -> Floats:
        """log p(record | draw) of some records on the working scale: (S, records)."""
        v, Y = posterior.values, data.Y[records]
        effects = _effects(data, posterior, records)
        return gaussian.log_density(Y, data.pattern[records], data.X, v["B"], v["L"], effects) + self.log_base(Y)

    def new_units(self, data: Data) -> bool:
        """Whether synthetic data have new effects of PSUs."""
        return data.groups is not None and data.groups.sampled

    def effects_of_records(self, data: Data, posterior: Posterior, draw: int, rng: np.random.Generator) -> Floats:
        """Effects (n, D) in one synthetic data set: new ones of PSUs, those of strata as they were drawn."""
        if data.groups is None:
            return np.zeros((1, data.Y.shape[1]))
        drawn = {name: effects[draw] for name, effects in posterior.effects.items()}
        effect = drawn["total"].astype(np.float64)
        if data.groups.sampled:
            effect = new_effects(posterior.values["T"][draw], data.groups, drawn.get("above"), rng)
        return np.asarray(effect[data.groups.record])

    def consistent(
        self, data: Data, posterior: Posterior, draws: Sequence[int], alpha: Callable[[Floats], Floats],
        unit: Codes | None, rng: np.random.Generator, *, debias: bool,
    ) -> Posterior:  # fmt: skip
        """Fisher-consistent versions of some draws: without what the weights ``alpha`` do to the model.

        Raises
        ------
        ModelError
            The weights' effect cannot be undone.
        """
        if not debias:
            return posterior.some(draws, {})
        size = np.bincount(data.pattern, minlength=len(data.X)).astype(np.float64)
        B, L = (posterior.values[name][list(draws)] for name in "BL")
        B, L = consistency.correct(B, L, data.X, size, alpha, self.log_base, posterior.size, rng)
        return posterior.some(draws, {"B": B, "L": L})

    def describe(self, data: Data) -> dict[str, Any]:
        """Public facts about the model, for the manifest."""
        return {
            "method": self.name,
            "outcome": list(self.outcomes),
            "predictors": self.predictors,
            "prior": self.prior,
            "transform": [t.describe() for t in self.transforms()],
            "weights": "public" if data.public_weights is not None else "synthesized (smoothed)",
            **({} if data.groups is None else {"effects": data.groups.describe()}),
        }

    def _normality(self, data: Data) -> list[str]:
        """The assumptions that FBS and FBP share, in sentences."""
        said = [
            f"given the predictors ({self.predictors}) the outcome"
            + ("s are" if len(self.outcomes) > 1 else " is")
            + " normal on the scale: "
            + "; ".join(dict.fromkeys(t.describe() for t in self.transforms()))
        ]
        numeric = [c for c in data.columns if c not in ("Intercept", LOG_WEIGHT) and "[" not in c]
        if numeric:
            said.append(f"numeric predictors enter as numbers, not as categories: {', '.join(numeric)}")
        if data.public_weights is not None:
            given = LOG_WEIGHT in data.columns
            said.append(
                f"the survey weight is a function of the public {'PSUs or strata' if given else 'predictors'} (found "
                "so on the file): it is public, it is kept, and only the outcome"
                f"{'s are' if len(self.outcomes) > 1 else ' is'} modelled"
                + (", with the logarithm of the weight among the predictors" if given else "")
            )
        return said + ([] if data.groups is None else _said_of_effects(data.groups))


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
    inverse = _refuse_unseen(data, R)
    Sigma = invwishart.rvs(df, S0, size=size, random_state=sampler.rng).reshape(size, D, D)
    L = np.asarray(np.linalg.cholesky(Sigma), dtype=np.float64)
    E = sampler.rng.standard_normal((size, len(R), D))
    B = inverse @ (Z0 + E @ L.transpose(0, 2, 1))
    independent = Diagnostics(ess_bulk=size, ess_tail=size, exact=True)
    return Posterior({"B": B, "L": L}, np.zeros(size, dtype=np.intp), independent, "numpy", np.__version__)


def _refuse_unseen(data: Data, R: Floats) -> Floats:
    """R^- (K, rank), if every predictor row is among those that the weighted records inform on."""
    inverse = np.linalg.pinv(R)
    outside = np.linalg.norm(data.X - data.X @ inverse @ R, axis=1) > 1e-6 * (1 + np.linalg.norm(data.X, axis=1))
    if outside.any():
        raise ModelError(
            f"the privacy weights leave nothing of the cells of {rows(outside[data.pattern])}, so a flat prior says "
            "nothing about them; use prior='independent' or 'paper'"
        )
    return np.asarray(inverse, dtype=np.float64)


def _effects(data: Data, posterior: Posterior, records: Codes | slice = slice(None)) -> gaussian.Effects | None:
    if data.groups is None:
        return None
    return gaussian.Effects(data.groups.record[records], posterior.effects["total"])


def _from_effects(s: GroupedStatistics, B: Floats, u: NDArray[Any]) -> Floats:
    """sum alpha (Y - xB - u)(Y - xB - u)' less the same without u: (S, D, D)."""
    out = np.empty((len(B), u.shape[2], u.shape[2]))
    for i in range(0, len(B), step := max(1, 4_000_000 // (u.shape[1] * u.shape[2]))):
        effect = u[i : i + step].astype(np.float64)
        back = effect.transpose(0, 2, 1)
        cross = back @ s.t - (back @ s.s) @ B[i : i + step]
        out[i : i + step] = (back * s.a) @ effect - cross - cross.transpose(0, 2, 1)
    return out


def _said_of_effects(groups: Groups) -> list[str]:
    names = groups.describe()
    said = [
        f"{names} have normal effects on what is modelled (given the predictors, on the working scale), with one "
        "covariance for all; the ratio of its scales to those of the records has a half-normal(0, 1) prior"
    ]
    if groups.sampled:
        said.append(
            "PSUs, their number and sizes are public; their labels are recoded, and every data set has new effects of "
            "PSUs" + (", while those of strata are drawn from their posterior" if groups.parent is not None else "")
        )
    return [
        *said,
        "a record's density, and with it Delta, is that given the effects of its own "
        f"{'PSU' if groups.sampled else 'stratum'}: epsilon is for a record that is added to, or removed from, a "
        f"{'PSU' if groups.sampled else 'stratum'} that is known to be there",
    ]


def _varies(weights: Floats, pattern: Codes) -> bool:
    """Whether records with the same predictors have different weights."""
    low, high = np.full(pattern.max() + 1, np.inf), np.zeros(pattern.max() + 1)
    np.minimum.at(low, pattern, weights)
    np.maximum.at(high, pattern, weights)
    return bool((high > low * (1 + EXACT)).any())


def _with_column(X: Floats, pattern: Codes, column: Floats) -> tuple[Floats, Codes]:
    """Predictor rows and patterns with one more column (n,)."""
    pair = codes(pattern, np.unique(column, return_inverse=True)[1])
    first = np.unique(pair, return_index=True)[1]
    return np.column_stack([X[pattern[first]], column[first]]), pair


def public_weight(
    design: SurveyDesign, predictors: tuple[str, ...], X: Floats, pattern: Codes, groups: Groups | None = None
) -> Floats | None:
    """The survey weight as a function of what is public, where it is one.

    Of the predictors (stratified SRS, self-weighting files), or of the PSUs or strata whose
    effects are modelled (equal probabilities within PSUs).

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
    everybody = np.zeros(design.n, dtype=np.intp)
    cells = [(everybody, ALL)]
    if design.strata_name in predictors:
        cells.append((design.stages[0].stratum, ALL))
    discrete = [p for p in predictors if not pd.api.types.is_float_dtype(design.column(p).dtype)]
    if discrete:
        cells.append((np.asarray(design.frame.groupby(discrete, observed=True).ngroup(), dtype=np.intp), ALL))
    if groups is not None:
        if groups.parent is not None:
            cells.append((groups.parent[groups.record], MOST))
        cells.append((groups.record, MOST))
    spreads = []
    for cell, shared in cells:
        size = np.bincount(cell)
        fitted = (np.bincount(cell, log_weight) / np.maximum(size, 1))[cell]
        spread = _spread(log_weight - fitted)
        if spread <= EXACT and (size[cell] > 1).mean() >= shared:
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
            "record; else leave out the predictor that determines them, or say clusters='ignore' where it is the PSU"
        )
    return None


def _significant(x: Floats, digits: int = 14) -> Floats:
    """Rounded to so many significant digits: a weight of 10 is published as 10, not as 9.999999999999998."""
    unit = 10.0 ** (digits - 1 - np.floor(np.log10(x)))
    return np.asarray(np.round(x * unit) / unit)


def _spread(residual: Floats) -> float:
    return float(np.sqrt(np.mean(residual**2)))


def _refuse_constant_within(groups: Groups, Y: Floats, labels: list[str]) -> None:
    """Refuse outcomes that the groups determine: given their effects, the density would be unbounded."""
    size = np.maximum(np.bincount(groups.record, minlength=groups.size), 1)
    for label, y in zip(labels, Y.T, strict=True):
        mean = np.bincount(groups.record, y, groups.size) / size
        if ((y - mean[groups.record]) ** 2).sum() <= 1e-6 * ((y - y.mean()) ** 2).sum():
            raise ModelError(
                f"{label} is (nearly) constant within {groups.describe()}, so its density given their effects is "
                "unbounded and no Lipschitz bound is useful; clusters='ignore' leaves the effects out"
            )


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
