"""Several outcomes in sequence: each model has the earlier outcomes, and the weight, among its predictors.

    p(y_1, ..., y_J, w | x) = p(y_1, w | x) p(y_2 | x, y_1, w) ... p(y_J | x, y_1, ..., y_(J-1), w)

y_j are the outcomes of model j, w is the survey weight, x what is public (Raghunathan, Reiter & Rubin 2003, section 3).
It is one density of a record, with one privacy weight: parameters of the models are apart, so that each is fitted by
itself under the same weights.  A synthetic record gets its outcomes one after the other, each given those that were
drawn before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import formulaic
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._version import __version__
from ..choices import Clusters
from ..design.survey_design import SurveyDesign
from ..errors import InputError, ModelError
from .base import LeaveOneOut, Relative, Synthesizer
from .draws import Draws, Sampler, Synthetic
from .multinomial import MultinomialRegression
from .one_outcome import OneOutcome, Standardized
from .records import EACH, Public, Records
from .shared.normal_scores import PrivateScores
from .shared.predictors import LOG_WEIGHT, Constants, model_spec

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

SCALES = (
    "means and standard deviations of the predictors of {}, of which some are confidential: priors of coefficients are "
    "on that scale"
)


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Later:
    """How predictor rows of a later model are made from columns that are synthetic.

    Attributes
    ----------
    view : type of Public
        What the model simulates from.
    spec : formulaic.ModelSpec
        The model matrix as it was in the fit: its columns, and the levels of labels.
    types : mapping of str to str
        Types in which it takes columns.
    columns : tuple of str
        Of the predictor rows.
    mean, sd : float arrays (K,) or None
        What the fit took off and divided by, of models that do.
    beside : mapping of str to object
        What else is public of the model's records as a whole: names of categories.
    """

    view: type[Public]
    spec: formulaic.ModelSpec
    types: Mapping[str, str]
    columns: tuple[str, ...]
    mean: Floats | None
    sd: Floats | None
    beside: Mapping[str, Any]

    @classmethod
    def of(cls, design: SurveyDesign, model: Synthesizer, records: Records) -> Self:
        """As in these records."""
        mean, sd = (records.mean, records.sd) if isinstance(records, Standardized) else (None, None)
        whole = [f.name for f in fields(records.view) if not f.metadata.get("each") and f.name not in ("X", "columns")]
        beside = {name: getattr(records, name) for name in whole}
        return cls(records.view, *model_spec(design, model.predictors), records.columns, mean, sd, beside)

    def public(self, frame: pd.DataFrame, weights: Floats) -> Public:
        """What the model simulates from: every record has a row of its own."""
        given = _with_log_weight(frame, weights / weights.mean()).astype(dict(self.types))
        matrix = np.asarray(self.spec.get_model_matrix(given, na_action="ignore"), dtype=np.float64)
        found = dict(zip(map(str, self.spec.column_names), matrix.T, strict=True))
        X = np.column_stack([found[column] for column in self.columns])
        if self.mean is not None and self.sd is not None:
            X = (X - self.mean) / self.sd
        unusable = ~np.isfinite(X).all(axis=1)
        if unusable.any():
            raise ModelError(
                f"predictors that are synthetic have no finite value in {int(unusable.sum()):,} records: the formula "
                "takes the log of an outcome that can be 0, say; write log(income + 1) or arcsinh(income)"
            )
        return self.view(X=X, row=np.arange(len(X)), columns=self.columns, public_weights=weights, **self.beside)


@dataclass(frozen=True, repr=False, kw_only=True)
class SequentialPublic(Public):
    """What is public of a file for models in sequence.

    Attributes
    ----------
    frame : pandas.DataFrame
        The columns of public predictors, of the whole file.
    place : int array (n,)
        Row of the frame of each record.
    first : Public
        What the first model simulates from.
    later : tuple of Later
        One a later model.
    """

    frame: pd.DataFrame
    place: Codes = field(metadata=EACH)
    first: Any = field(metadata=EACH)  # Records here, of which its public view keeps what is public
    later: tuple[Later, ...]


@dataclass(frozen=True, repr=False, kw_only=True)
class SequentialRecords(Records, SequentialPublic):
    """The confidential file; y is that of all models side by side.

    Attributes
    ----------
    others : tuple of Records
        Those of the later models, whose predictors are confidential.
    """

    others: tuple[Records, ...]

    view: ClassVar[type[Public]] = SequentialPublic

    @property
    def parts(self) -> tuple[Records, ...]:
        """One a model."""
        return (self.first, *self.others)

    def some(self, chosen: Codes) -> Self:
        """As of :class:`Records`."""
        return replace(super().some(chosen), others=tuple(other.some(chosen) for other in self.others))


class Sequential(LeaveOneOut[SequentialRecords]):
    """Synthesizer of many outcomes of one file: models in sequence, each given the outcomes of those before it.

    Parameters
    ----------
    models : sequence of Synthesizer
        Two or more.  The first models the survey weight, unless that is public, and may have categories,
        ``FBS("income + C(job) ~ region")``.  The later ones are amounts, counts, shares, or categories by a
        :class:`MultinomialRegression`; what they are given of the earlier outcomes is what their formulas name, and the
        log of the weight.

    Raises
    ------
    InputError
        Fewer than two models; an outcome twice; a formula that names an outcome of its own or a later model.
    ModelError
        A later model of categories within cells, or one that cannot take the weight as given.

    Examples
    --------
    >>> visits = ss.NegativeBinomialRegression("visits ~ region + log(income)")
    >>> file = ss.Sequential([ss.FBS("income ~ region"), visits])
    >>> file.outcomes
    ('income', 'visits')
    """

    models: tuple[Synthesizer, ...] = ()  # not the property of one model

    def __init__(self, models: Sequence[Synthesizer]) -> None:
        given = list(models) if isinstance(models, Sequence) and not isinstance(models, str) else []
        if len(given) < 2 or not all(isinstance(model, Synthesizer) for model in given):
            raise InputError(
                "models in sequence are a list of two or more: [FBS('income ~ sex'), FBS('rent ~ sex + log(income)')]"
            )
        self.models = (given[0], *(_given_the_weight(model) for model in given[1:]))
        self.outcomes = tuple(outcome for model in self.models for outcome in model.outcomes)
        self.categorical = tuple(outcome for model in self.models for outcome in model.categorical)
        twice = sorted({name for name in self.outcomes if self.outcomes.count(name) > 1})
        if twice:
            raise InputError(f"{', '.join(twice)}: an outcome of two models; name it in one")
        known: list[str] = []
        public: list[str] = []
        for model in self.models:
            early = [c for c in model.predictor_columns if c in self.outcomes and c not in known]
            if early:
                raise InputError(
                    f"{model.name} of {', '.join(model.outcomes)} is given {', '.join(early)}, which no earlier model "
                    "has: put the models in an order in which every predictor is public or comes before"
                )
            public += [c for c in model.predictor_columns if c not in (*self.outcomes, *public, LOG_WEIGHT)]
            known += model.outcomes
        self.predictors = " + ".join(name if name.isidentifier() else f"`{name}`" for name in public) or "1"
        self.measure = "; ".join(model.measure for model in self.models)

    def __repr__(self) -> str:
        return f"Sequential([{', '.join(map(repr, self.models))}])"

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> SequentialRecords:  # fmt: skip
        """As :meth:`Synthesizer.prepare`, model by model.

        Raises
        ------
        InputError, ModelError
            As those of the models; PSUs, or strata that the public predictors do not determine, without
            ``clusters="ignore"``; units of several records.
        """
        if unit is not None:
            raise ModelError("models in sequence protect single records: leave unit= out")
        X, row, columns = self.predictor_rows(design, clusters, constants)
        first = self.models[0].prepare(design, "ignore", mean_weight, constants)
        mean = mean_weight or float(design.weights.mean())
        weighted = SurveyDesign(
            _with_log_weight(design.frame, design.weights / mean), **design.roles(), labels=design.labels
        )  # fmt: skip
        others = tuple(model.prepare(weighted, "ignore", mean_weight) for model in self.models[1:])
        later = tuple(Later.of(weighted, *each) for each in zip(self.models[1:], others, strict=True))
        frame = design.frame[list(self.predictor_columns)].reset_index(drop=True)
        y = np.column_stack([part.y for part in (first, *others)])
        return SequentialRecords(
            X=X, row=row, columns=columns, public_weights=first.public_weights, y=y, log_w=first.log_w, frame=frame,
            place=np.arange(design.n), first=first, later=later, others=others,
        )  # fmt: skip

    def fit(self, records: SequentialRecords, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw the parameters of each model under the same privacy weights."""
        return self.together([
            model.fit(part, alpha, sampler) for model, part in zip(self.models, records.parts, strict=True)
        ])  # fmt: skip

    def together(self, drawn: Sequence[Draws]) -> Draws:
        """Draws of each model as draws of all."""
        diagnostics, weight = drawn[0].diagnostics, drawn[0].weight
        for each in drawn[1:]:
            diagnostics, weight = diagnostics.worst(each.diagnostics), weight * each.weight
        return Draws(
            {f"{k}.{name}": value for k, each in enumerate(drawn) for name, value in each.values.items()},
            drawn[0].chain, diagnostics, "surveysynth", __version__, weight / weight.sum(),
            {f"{k}.{name}": value for k, each in enumerate(drawn) for name, value in each.effects.items()},
        )  # fmt: skip

    def log_density(self, records: SequentialRecords, draws: Draws) -> Floats:
        """log p of all outcomes and the weight of each record: (S, n)."""
        parts = zip(self.models, records.parts, strict=True)
        return np.asarray(sum(model.log_density(part, _of_model(draws, k)) for k, (model, part) in enumerate(parts)))

    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """One synthetic data set: the first model's outcomes and weights, then one model after the other."""
        assert isinstance(public, SequentialPublic)
        made, frame = self._first_of(public, [_of_model(draw, k) for k in range(len(self.models))], rng)
        labels = {name: frame[name] for name in self.categorical}
        return replace(made, outcomes=frame[[*self.numeric]].to_numpy(dtype=np.float64), labels=labels)

    def _first_of(
        self, public: SequentialPublic, drawn: Sequence[Draws], rng: np.random.Generator
    ) -> tuple[Synthetic, pd.DataFrame]:
        """What as many models as there are draws make, one after the other: weights, and predictors with outcomes."""
        first, *others = self.models
        made = first.simulate(public.first, drawn[0], rng)
        frame = public.frame.iloc[public.place].reset_index(drop=True).assign(**first.columns_of(made))
        for model, later, draw in zip(others, public.later, drawn[1:], strict=False):
            frame = frame.assign(**model.columns_of(model.simulate(later.public(frame, made.weights), draw, rng)))
        return made, frame

    # ---- the strict mechanism, which fits one model after the other

    def with_models(self, models: Sequence[Synthesizer]) -> Self:
        """The same outcomes by other models."""
        made = copy(self)
        made.models = tuple(models)
        return made

    @property
    def private_scores(self) -> dict[str, PrivateScores]:
        """Those of all models."""
        return {outcome: scores for model in self.models for outcome, scores in model.private_scores.items()}

    @property
    def unscaled(self) -> tuple[str, ...]:
        """Outcomes of which nothing public says where they lie, unless there are bounds."""
        return tuple(o for model in self.models if isinstance(model, Relative) for o in model.unscaled)

    def check_relative(self) -> None:
        """Refuse later models whose records cannot be measured against a reference one by one (ModelError)."""
        for model in self.models[1:]:
            if not isinstance(model, Relative) or len(model.outcomes) > 1:
                raise ModelError(
                    f"{model.name} of {', '.join(model.outcomes)} cannot be a later model under Strict(), where these "
                    "have one outcome each and a clamp that is bounded: FBS of an amount, or a regression of a count, "
                    "a share, a positive amount or categories. Put it first, or say mechanism=PseudoPosterior()"
                )

    def relative(self, records: SequentialRecords, references: Sequence[Draws], rng: np.random.Generator) -> Records:
        """The records of the model after those that have a reference, with predictor rows that set scales.

        Its predictors are confidential, and nothing of them may set a scale: the rows are those of a file that is
        simulated from the references, which are published or paid for.
        """
        k = len(references)
        if k == 0:
            return records.first
        assert isinstance(records.public, SequentialPublic)
        made, frame = self._first_of(records.public, references, rng)
        X = records.later[k - 1].public(frame, made.weights).X
        return replace(records.others[k - 1], simulated=X)

    def check_leave_one_out(self) -> None:
        """Refuse models of which it is not known (ModelError)."""
        for model in self.models:
            if not isinstance(model, LeaveOneOut):
                raise ModelError(f"PerInstance() has no bound for {model.name}: say mechanism=PseudoPosterior()")
            model.check_leave_one_out()

    def log_ratio_bounds(self, records: SequentialRecords, alpha: Floats, delta: float) -> Floats:
        """The sum of the models' bounds, each at its share of delta: parameters of the models are independent."""
        total = np.zeros(records.n)
        for model, part in zip(self.models, records.parts, strict=True):
            assert isinstance(model, LeaveOneOut)  # as check_leave_one_out sees to
            total += model.log_ratio_bounds(part, alpha, delta / len(self.models))
        return total

    def describe(self, public: Public) -> dict[str, Any]:
        """Public facts about each model, for the manifest."""
        formulas = [f"{' + '.join(model.outcomes)} ~ {model.predictors}" for model in self.models]
        steps = [f"{model.name}: {formula}" for model, formula in zip(self.models, formulas, strict=True)]
        measures = [model.measure for model in self.models]
        return super().describe(public) | {"sequence": steps, "transform": measures}

    def assumptions(self, public: Public) -> list[str]:
        """What each model takes as given."""
        assert isinstance(public, SequentialPublic)
        said = [f"{len(self.models)} models in sequence, each given the outcomes that its formula names"]
        said += self.models[0].assumptions(public.first)
        for model in self.models[1:]:
            what = f"{', '.join(model.outcomes)}: {model.name} given {model.predictors}"
            said.append(f"{what}, on the scale {model.measure}")
        return said

    @property
    def computed_from_file(self) -> list[str]:
        """Scales of predictors that are confidential, and the levels of labels."""
        scaled = [m for m in self.models[1:] if isinstance(m, OneOutcome) and not getattr(m, "strict", False)]
        of = [o for m in scaled for o in m.outcomes]
        return [SCALES.format(", ".join(of))] if of else []


def _given_the_weight(model: Synthesizer) -> Synthesizer:
    """A later model, with the log of the weight among its predictors."""
    if not hasattr(model, "weight") or model.name == "FBP":
        raise ModelError(f"{model.name} cannot take the weight as given, as later models do: let it be the first")
    if model.weight == "curved":
        raise InputError("later models take the weight as given: leave weight='curved' out, but for the first")
    if model.categorical and not isinstance(model, MultinomialRegression):
        raise ModelError(
            f"{', '.join(model.categorical)}: categories of {model.name} belong to the first model; a later one is "
            "MultinomialRegression('C(job) ~ region + log(income)')"
        )
    predictors = f"{model.predictors} + `{LOG_WEIGHT}`"
    return replace(model, weight="public", predictors=predictors)  # type: ignore[type-var]


def _with_log_weight(frame: pd.DataFrame, weights: Floats) -> pd.DataFrame:
    """With the column that later models have for the weight, relative to its mean."""
    return frame.assign(**{LOG_WEIGHT: np.log(weights)})


def _of_model(draws: Draws, k: int) -> Draws:
    """The draws of one model."""
    own = f"{k}."
    values = {name.removeprefix(own): value for name, value in draws.values.items() if name.startswith(own)}
    effects = {name.removeprefix(own): value for name, value in draws.effects.items() if name.startswith(own)}
    return replace(draws, values=values, effects=effects)
