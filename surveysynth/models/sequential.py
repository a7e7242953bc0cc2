"""Several outcomes in sequence: each model has earlier outcomes and the weight among its predictors.

    p(y_1, ..., y_J, w | x) = p(y_1, w | x) p(y_2 | x, y_1, w) ... p(y_J | x, y_1, ..., y_(J-1), w)

where y_j are the outcomes of model j, w is the survey weight and x are public columns (Raghunathan, Reiter & Rubin
2003, section 3).  This product is the density of a record, so the record has one privacy weight for all models.  The
models have separate parameters, so each model is fitted separately.  The outcomes of a synthetic record are drawn one
after the other, each given the outcomes drawn before.

**Questions for some records only.**  Let s_i = 1 if a public condition on x_i and earlier outcomes holds, and 0
otherwise.  Model j is fitted to the records with s_i = 1, and record i contributes the factor p(y_j | ...)^s_i.  If
s_i = 0, the outcome is a public constant.  The condition may depend on confidential outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import formulaic
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._version import __version__
from ..choices import Clusters
from ..design.columns import numeric
from ..design.conditions import columns_of_condition, obeyed
from ..design.formula import coded_columns, refuse_other_records
from ..design.recode import NOT_APPLICABLE, as_labels, with_missing
from ..design.survey_design import SurveyDesign
from ..errors import InputError, ModelError
from ..validation import is_finite
from .base import Synthesizer
from .draws import Draws, Sampler, Synthetic
from .multinomial import MultinomialRegression
from .one_outcome import OneOutcome, Standardized
from .predictors.model_matrix import LOG_WEIGHT, Constants, model_spec
from .records import EACH, Public, Records

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Bools = NDArray[np.bool_]

MISSING = "missing"  # what manifests say of a number where its question does not apply
SCALES = (
    "means and standard deviations of the predictors of {}, of which some are confidential: priors of coefficients are "
    "on that scale"
)


@dataclass(frozen=True, repr=False)  # a repr would show confidential values
class Later:
    """Columns, types and constants with which the model matrix of a later model is computed on a synthetic file.

    A later model is any model of the sequence but the first.  Its predictors include synthetic outcomes, so its model
    matrix must be computed anew for each synthetic file.  It must have the columns of the model matrix of the fit, and
    be standardized by the same means and standard deviations.

    Attributes
    ----------
    view : type of Public
        Type of the public data from which the model simulates.
    spec : formulaic.ModelSpec
        Columns of the model matrix in the fit, and levels of its categorical predictors.
    types : mapping of str to str
        Data types of the predictors.
    columns : tuple of str
        Columns of the model matrix that the model uses.
    mean, sd : float arrays (K,) or None
        Means and standard deviations of the K columns in the fit, if the model standardizes columns.
    public_fields : mapping of str to object
        Further public facts about the records of the model, such as names of categories.
    """

    view: type[Public]
    spec: formulaic.ModelSpec
    types: Mapping[str, str]
    columns: tuple[str, ...]
    mean: Floats | None
    sd: Floats | None
    public_fields: Mapping[str, Any]

    @classmethod
    def from_records(cls, design: SurveyDesign, model: Synthesizer, records: Records) -> Self:
        """Make a :class:`Later` from the confidential file, the model, and the records to which the model is fitted."""
        mean, sd = (records.mean, records.sd) if isinstance(records, Standardized) else (None, None)
        whole = [f.name for f in fields(records.view) if not f.metadata.get("each") and f.name not in ("X", "columns")]
        public_fields = {name: getattr(records, name) for name in whole}
        return cls(records.view, *model_spec(design, model.predictors), records.columns, mean, sd, public_fields)

    def public(self, frame: pd.DataFrame, weights: Floats) -> Public:
        """Return the data from which the later model simulates outcomes for one synthetic file.

        ``frame`` has the public predictors, the synthetic outcomes of earlier models and the log weight.  ``weights``
        are the survey weights of the synthetic file.  ``X`` of the result has a row for each record.
        """
        given = frame.astype(dict(self.types))
        matrix = np.asarray(self.spec.get_model_matrix(given, na_action="ignore"), dtype=np.float64)
        found = dict(zip(map(str, self.spec.column_names), matrix.T, strict=True))
        X = np.column_stack([found[column] for column in self.columns])
        if self.mean is not None and self.sd is not None:
            X = (X - self.mean) / self.sd
        unusable = ~np.isfinite(X).all(axis=1)
        if unusable.any():
            raise ModelError(
                f"predictors that are synthetic have no finite value in {int(unusable.sum()):,} records: the formula "
                "takes the log of an outcome that can be 0, say; write log(income + 1)"
            )
        return self.view(X=X, row=np.arange(len(X)), columns=self.columns, public_weights=weights, **self.public_fields)


@dataclass(frozen=True, repr=False, kw_only=True)
class SequentialPublic(Public):
    """Public data of a file for models in sequence.

    Attributes
    ----------
    frame : pandas.DataFrame
        The public predictors of the whole file.
    place : int array (n,)
        Position of each record in ``frame``.
    first : Public
        Public data of the first model.
    later : tuple of Later
        For each later model, what is needed to compute its model matrix.
    """

    frame: pd.DataFrame
    place: Codes = field(metadata=EACH)
    first: Any = field(metadata=EACH)  # of confidential records: Records, of which ``public`` keeps the public part
    later: tuple[Later, ...]


@dataclass(frozen=True, repr=False, kw_only=True)
class SequentialRecords(Records, SequentialPublic):
    """Confidential records of models in sequence.  The columns of ``y`` are the outcomes of all models.

    Attributes
    ----------
    others : tuple of Records
        For each later model, its records.  Their predictors can be confidential.
    asked : bool array (n, models)
        True if the survey question of the model applies to the record.  If it does not apply, ``others`` have
        placeholder values for the record, and its privacy weight in this model is 0.
    """

    others: tuple[Records, ...]
    asked: Bools = field(metadata=EACH)

    view: ClassVar[type[Public]] = SequentialPublic

    @property
    def parts(self) -> tuple[Records, ...]:
        """The records of each model, in the order of the sequence."""
        return (self.first, *self.others)

    def subset(self, records: Codes) -> Self:
        """Return the records at the positions ``records``, in this order."""
        return replace(super().subset(records), others=tuple(other.subset(records) for other in self.others))


class Sequential(Synthesizer[SequentialRecords]):
    """Synthesizer of many outcomes of one file by models in sequence, each given earlier outcomes.

    Parameters
    ----------
    models : sequence of Synthesizer
        Two or more models.  The first model also models the survey weight, unless the weight is public.  It may have
        categorical outcomes: ``FBS("income + C(job) ~ region")``.  A later model of a categorical outcome must be a
        :class:`surveysynth.MultinomialRegression`.  The formula of a later model may name outcomes of earlier models.
        The log of the weight is added to the predictors of each later model.
    applies : mapping of outcome to str, optional
        Public conditions on public columns and earlier outcomes, such as ``{"rent": "tenure == 'tenant'"}``.  The model
        of the outcome is fitted to the records for which the condition holds.  For other records, the survey question
        does not apply: the synthetic outcome is ``elsewhere``, and the value in the file is not used.  The public
        columns in conditions count as predictors, so they are released.
    elsewhere : mapping of outcome to 0 or str, optional
        Value of the outcome in synthetic files if the question does not apply: 0 for a numeric outcome, a label for a
        categorical outcome.  By default, numeric outcomes are missing, and categorical outcomes are
        ``"not applicable"``.

    Raises
    ------
    InputError
        There are fewer than two models, or two models have the same outcome.  A formula or a condition names an outcome
        of the same model or of a later model.  A formula has a term of confidential columns that depends on other
        records, such as ``center(income)``, whose mean would reveal confidential values.  A condition is not text, or
        is for an outcome of the first model or of a model of several outcomes.  A value in ``elsewhere`` has no
        condition or is unsuitable.
    ModelError
        A later model cannot take the weight as a predictor, has categorical outcomes without being a
        MultinomialRegression, or is a mixture with ``allocation="posterior"``, for which no epsilon holds.

    Examples
    --------
    >>> visits = ss.NegativeBinomialRegression("visits ~ region + log(income)")
    >>> file = ss.Sequential([ss.FBS("income ~ region"), visits])
    >>> file.outcomes
    ('income', 'visits')
    """

    models: tuple[Synthesizer, ...] = ()  # not the property of one model

    def __init__(
        self,
        models: Sequence[Synthesizer],
        *,
        applies: Mapping[str, str] | None = None,
        elsewhere: Mapping[str, int | str] | None = None,
    ) -> None:
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
        for name, given_by in (("applies", applies), ("elsewhere", elsewhere)):
            if not isinstance(given_by, Mapping | None):
                raise InputError(f"{name} must map outcomes, as applies={{'rent': \"tenure == 'tenant'\"}}")
        self.applies, self.elsewhere = dict(applies or {}), dict(elsewhere or {})
        self._check_applies()
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
            rule = self._rule(model)
            if known:
                # with a condition, a term that depends on all records to which the question applies may be confidential
                all_confidential = model.predictor_columns if rule is not None else ()
                refuse_other_records(
                    model.predictors, {*self.outcomes, LOG_WEIGHT, *all_confidential}, {*self.categorical, *public}
                )
            if rule is not None:
                named = columns_of_condition(rule, "applies")
                if late := sorted(c for c in named if c in self.outcomes and c not in known):
                    raise InputError(f"applies: {rule!r} names {', '.join(late)}, which no earlier model has")
                public += sorted(c for c in named if c not in (*self.outcomes, *public))
            known += model.outcomes
        self.predictors = " + ".join(name if name.isidentifier() else f"`{name}`" for name in public) or "1"
        self.measure = "; ".join(model.measure for model in self.models)

    def __repr__(self) -> str:
        given = {"applies": self.applies, "elsewhere": self.elsewhere}
        options = "".join(f", {name}={value!r}" for name, value in given.items() if value)
        return f"Sequential([{', '.join(map(repr, self.models))}]{options})"

    # ---- questions for some records only

    def _check_applies(self) -> None:
        """Raise InputError if the constructor's argument ``applies`` or ``elsewhere`` is wrong."""
        for outcome, rule in self.applies.items():
            model = next((each for each in self.models[1:] if outcome in each.outcomes), None)
            if model is None or len(model.outcomes) > 1:
                raise InputError(f"applies: {outcome!r} is not the one outcome of a later model")
            if not isinstance(rule, str) or not rule.strip():
                raise InputError("applies: conditions on columns, as text: {'rent': \"tenure == 'tenant'\"}")
        for outcome, value in self.elsewhere.items():
            if outcome not in self.applies:
                raise InputError(f"elsewhere: {outcome!r} has no condition in applies")
            label = outcome in self.categorical
            if not (isinstance(value, str) if label else is_finite(value) and value == 0):
                known = "a label, which is text" if label else "0, or missing if it is left out"
                raise InputError(f"elsewhere: {outcome!r} is {known}")

    def _rule(self, model: Synthesizer) -> str | None:
        """Return the public condition that selects the records of a later model.  None means all records."""
        return next((self.applies[outcome] for outcome in model.outcomes if outcome in self.applies), None)

    def _whom(self, model: Synthesizer, frame: pd.DataFrame) -> Bools:
        """Return True for each record (n,) to which the survey question of a model applies."""
        rule = self._rule(model)
        return np.ones(len(frame), dtype=bool) if rule is None else obeyed([rule], frame, "applies")

    def _elsewhere(self, model: Synthesizer) -> float | str:
        """Return the value that a model's outcome has in records to which its survey question does not apply."""
        outcome = model.outcomes[0]
        return self.elsewhere.get(outcome, NOT_APPLICABLE if outcome in self.categorical else np.nan)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Numeric outcomes that are missing in the records to which their survey question does not apply."""
        return tuple(o for o in self.numeric if o in self.applies and o not in self.elsewhere)

    def _files(self, frame: pd.DataFrame) -> Iterator[tuple[Synthesizer, pd.DataFrame, Bools]]:
        """Yield each later model, the file to which it is fitted, and whether its question applies to each record (n,).

        In a record to which a survey question does not apply, the file has a missing value for an outcome of the model
        itself, and the value ``elsewhere`` for an outcome of an earlier model.  Numeric outcomes that are stored as
        text are converted to numbers, because a formula would take text as labels.

        Raises
        ------
        InputError
            A condition cannot be evaluated on the file, or a numeric outcome is not a number.
        """
        amounts = [name for name in self.numeric if not pd.api.types.is_numeric_dtype(frame[name])]
        frame = frame.assign(**{name: numeric(frame[name], name) for name in amounts})
        for model in self.models[1:]:
            there = self._whom(model, frame)
            if self._rule(model) is None:
                yield model, frame, there
                frame = frame.assign(**_missing_as_category(model, frame))
                continue
            (outcome,) = model.outcomes
            elsewhere = self._elsewhere(model)
            own = as_labels(frame[outcome]) if outcome in self.categorical else frame[outcome]
            yield model, frame.assign(**{outcome: own.where(there)}), there
            own = _missing_as_category(model, frame).get(outcome, own)
            own = as_labels(own, str(elsewhere)) if outcome in self.categorical else own
            frame = frame.assign(**{outcome: own.where(there, elsewhere)})

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> SequentialRecords:  # fmt: skip
        """Check a file and return the records of all models.

        Raises
        ------
        InputError, ModelError
            A model refuses the file.  ``unit`` is given, although models in sequence protect single records.  The
            public predictors do not determine the PSUs or strata of the design, and ``clusters`` is not "ignore".
        """
        if unit is not None:
            raise ModelError("models in sequence protect single records: leave unit= out")
        X, row, columns = self.predictor_rows(design, clusters, constants)
        first = self.models[0].prepare(design, "ignore", mean_weight, constants)
        mean = float(design.weights.mean())
        if first.public_weights is None:
            mean = mean_weight or mean  # modelled weights are relative to this mean, too
        others, later, asked = list[Records](), list[Later](), [np.ones(design.n, dtype=bool)]
        for model, file, there in self._files(_with_log_weight(design.frame, design.weights / mean)):
            weighted = SurveyDesign(_standing_in(model, file, there), **design.roles(), labels=design.labels)
            others.append(model.prepare(weighted, "ignore", mean_weight))
            later.append(Later.from_records(weighted, model, others[-1]))
            asked.append(there)
        frame = design.frame[list(self.predictor_columns)].reset_index(drop=True)
        y = np.column_stack([part.y for part in (first, *others)])
        return SequentialRecords(
            X=X, row=row, columns=columns, public_weights=first.public_weights, y=y, log_w=first.log_w, frame=frame,
            place=np.arange(design.n), first=first, later=tuple(later), others=tuple(others),
            asked=np.column_stack(asked),
        )  # fmt: skip

    def fit(self, records: SequentialRecords, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw the parameters of each model, under the same privacy weights for all models.

        The parameter ``b`` of model k, counted from 0, has the name ``"k.b"`` in the result: ``"0.b"`` for the first.
        """
        drawn = [
            model.fit(part, alpha * asked, sampler)
            for model, part, asked in zip(self.models, records.parts, records.asked.T, strict=True)
        ]
        diagnostics, weight = drawn[0].diagnostics, drawn[0].weight
        for each in drawn[1:]:
            diagnostics, weight = diagnostics.worst(each.diagnostics), weight * each.weight
        return Draws(
            {f"{k}.{name}": value for k, each in enumerate(drawn) for name, value in each.values.items()},
            drawn[0].chain, diagnostics, "surveysynth", __version__, weight / weight.sum(),
            {f"{k}.{name}": value for k, each in enumerate(drawn) for name, value in each.effects.items()},
        )  # fmt: skip

    def log_density(self, records: SequentialRecords, draws: Draws) -> Floats:
        """Return the joint log density (S, n) of all outcomes and the weight, for each draw and record.

        An outcome whose question does not apply to the record does not contribute.
        """
        out = np.zeros((draws.size, records.n))
        for k, (model, part, asked) in enumerate(zip(self.models, records.parts, records.asked.T, strict=True)):
            if asked.all():
                out += model.log_density(part, _model_draws(draws, k))
            elif asked.any():
                there = np.flatnonzero(asked)
                out[:, there] += model.log_density(part.subset(there), _model_draws(draws, k))
        return out

    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """Draw one synthetic data set: outcomes and weights of the first model, then outcomes of each later model."""
        assert isinstance(public, SequentialPublic)
        first, *others = self.models
        made = first.simulate(public.first, _model_draws(draw, 0), rng)
        frame = public.frame.iloc[public.place].reset_index(drop=True).assign(**first.columns_of(made))
        # Modelled weights are relative to the mean weight of the fit, not to the mean weight of the draw.
        relative = made.weights if public.first.public_weights is None else made.weights / made.weights.mean()
        frame = _with_log_weight(frame, relative)
        for k, (model, later) in enumerate(zip(others, public.later, strict=True), 1):
            own, there = _model_draws(draw, k), self._whom(model, frame)
            if there.all():
                frame = frame.assign(**model.columns_of(model.simulate(later.public(frame, made.weights), own, rng)))
                continue
            (outcome,) = model.outcomes
            column = np.full(len(frame), self._elsewhere(model), dtype=object)
            if there.any():
                made_there = model.simulate(later.public(frame[there], made.weights[there]), own, rng)
                column[there] = np.asarray(model.columns_of(made_there)[outcome], dtype=object)
            text = outcome in self.categorical
            frame = frame.assign(**{outcome: column.astype(str) if text else column.astype(np.float64)})
        labels = {name: frame[name] for name in self.categorical}
        return replace(made, outcomes=frame[[*self.numeric]].to_numpy(dtype=np.float64), labels=labels)

    def describe(self, public: Public) -> dict[str, Any]:
        """Return public facts about each model, for the manifest."""
        formulas = [f"{' + '.join(model.outcomes)} ~ {model.predictors}" for model in self.models]
        steps = [f"{model.name}: {formula}" for model, formula in zip(self.models, formulas, strict=True)]
        measures = [model.measure for model in self.models]
        facts: dict[str, Any] = {"sequence": steps, "transform": measures}
        if self.applies:
            default = {o: NOT_APPLICABLE if o in self.categorical else MISSING for o in self.applies}
            facts |= {"applies": self.applies, "elsewhere": default | self.elsewhere}
        return super().describe(public) | facts

    def assumptions(self, public: Public) -> list[str]:
        """Return the assumptions of each model, as sentences."""
        assert isinstance(public, SequentialPublic)
        sentences = [f"{len(self.models)} models in sequence, each given the outcomes that its formula names"]
        sentences += self.models[0].assumptions(public.first)
        for model in self.models[1:]:
            what = f"{', '.join(model.outcomes)}: {model.name} given {model.predictors}"
            sentences.append(f"{what}, on the scale {model.measure}")
            if (rule := self._rule(model)) is not None:
                value = self._elsewhere(model)
                other = MISSING if value != value else value
                sentences.append(f"{model.outcomes[0]} applies where {rule}, a public rule, and is {other} elsewhere")
        return sentences

    @property
    def computed_from_file(self) -> list[str]:
        """At most one sentence, which names outcomes whose predictors are standardized with the confidential file."""
        outcomes = [o for model in self.models[1:] if isinstance(model, OneOutcome) for o in model.outcomes]
        return [SCALES.format(", ".join(outcomes))] if outcomes else []


def _given_the_weight(model: Synthesizer) -> Synthesizer:
    """Return the model with the log of the survey weight as a further predictor.

    Raise ModelError if the model cannot be a later model of a sequence.
    """
    if not hasattr(model, "weight") or model.name == "FBP":
        raise ModelError(f"{model.name} cannot take the weight as given, as later models do: let it be the first")
    if model.from_records:
        raise ModelError("allocation='posterior' is of a mixture by itself, and has no epsilon: leave it out")
    if model.categorical and not isinstance(model, MultinomialRegression):
        raise ModelError(
            f"{', '.join(model.categorical)}: categories of {model.name} belong to the first model; a later one is "
            "MultinomialRegression('C(job) ~ region + log(income)')"
        )
    predictors = f"{model.predictors} + `{LOG_WEIGHT}`"
    return replace(model, weight="public", predictors=predictors)  # type: ignore[type-var]


def _with_log_weight(frame: pd.DataFrame, weights: Floats) -> pd.DataFrame:
    """Add the column log(w / mean w) to a file.  ``weights`` (n,) are w / mean w, where w are the survey weights."""
    return frame.assign(**{LOG_WEIGHT: np.log(weights)})


def _missing_as_category(model: Synthesizer, frame: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the categorical outcomes of the model as text, by name, with "missing" as a category.

    Unless the model has ``missing="category"``, return an empty dict.
    """
    if model.missing != "category":
        return {}
    return {outcome: with_missing(frame[outcome]) for outcome in model.categorical}


def _standing_in(model: Synthesizer, frame: pd.DataFrame, there: Bools) -> pd.DataFrame:
    """Return the file with placeholder values for the records to which the survey question of a model does not apply.

    ``there`` (n,) is True for the records to which it applies.  The outcomes and numeric predictors of other records
    are replaced by the values of the first record to which the question applies, which pass all checks.  These records
    have privacy weight 0.  Categorical predictors and the weight are not replaced, so that the columns of the model
    matrix do not depend on which records the question applies to.
    """
    if there.all():
        return frame
    if not there.any():
        raise InputError(f"applies: {', '.join(model.outcomes)} applies to no record")
    first = frame.iloc[int(np.argmax(there))]
    coded = coded_columns(model.predictors)
    others = [c for c in model.predictor_columns if c != LOG_WEIGHT and c not in coded]
    numbers = [c for c in others if pd.api.types.is_numeric_dtype(frame[c])]
    return frame.assign(**{c: frame[c].where(there, first[c]) for c in (*model.outcomes, *numbers)})


def _model_draws(draws: Draws, k: int) -> Draws:
    own = f"{k}."
    values = {name.removeprefix(own): value for name, value in draws.values.items() if name.startswith(own)}
    effects = {name.removeprefix(own): value for name, value in draws.effects.items() if name.startswith(own)}
    return replace(draws, values=values, effects=effects)
