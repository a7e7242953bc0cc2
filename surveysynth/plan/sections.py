"""The sections of a plan, with the type and the description of every entry.

An entry is a named value in a section of the plan's file, such as ``epsilon = 3`` in ``[privacy]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

import numpy as np
from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticKnownError

from .. import choices
from ..errors import InputError
from ..measuring.outcome import Outcome
from ..models.one_outcome import checked_bounds
from ..privacy.mechanisms import in_plans
from ..validation import is_text

MOST_DIGITS = 15  # largest number of decimals of printed tables
LONGEST = 255  # largest number of bytes of a name in a path on common file systems


def _short_names(path: str) -> str:
    if any(len(name.encode()) > LONGEST for name in Path(path).parts):
        raise ValueError(f"a name in this path is longer than {LONGEST} bytes")
    return path


def _number(value: Any) -> Any:
    """Convert a numpy number to a Python number.  Raise ValueError for texts and truth values.

    Without the error, pydantic would convert texts and truth values to numbers.
    """
    if isinstance(value, str | bool | np.bool_):
        raise ValueError("Input should be a number")
    return value.item() if isinstance(value, np.generic) else value


def _bounds(pair: tuple[float, float]) -> tuple[float, float]:
    try:
        return checked_bounds(pair)
    except InputError as error:
        raise ValueError(str(error)) from None


def _mechanism(name: str) -> str:
    if name not in in_plans():
        *most, last = map(repr, in_plans())
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(most)} or {last}"})
    return name


def _unicode(text: str) -> str:
    if not is_text(text):
        raise ValueError("has characters that no file can hold (halves of pairs)")
    return text


Text = Annotated[str, AfterValidator(_unicode)]
PathText = Annotated[str, AfterValidator(_short_names)]
Number = Annotated[float, BeforeValidator(_number), AllowInfNan(False)]
MechanismName = Annotated[str, AfterValidator(_mechanism), WithJsonSchema({"enum": [*in_plans()], "type": "string"})]
Level = int | float | str  # a level as it is in the file, or as text
Whole = Annotated[int, BeforeValidator(_number)]
Truth = Annotated[bool, Strict()]
Positive = Annotated[Number, Field(gt=0)]
Pair = Annotated[tuple[Number, Number], AfterValidator(_bounds)]


class Section(BaseModel):
    """A section of a plan.  An entry that is not given is None."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _lists_by_commas(cls, entries: Any) -> Any:
        """Split texts such as "age,sex" at their commas, in entries whose type is a list."""
        if not isinstance(entries, Mapping):
            return entries
        kinds = {
            name: [get_args(each)[0] if get_origin(each) is Annotated else each for each in get_args(field.annotation)]
            for name, field in cls.model_fields.items()
        }
        listed = {name for name, kind in kinds.items() if any(get_origin(each) in (list, tuple) for each in kind)}
        return {
            name: [part.strip() for part in value.split(",")] if name in listed and isinstance(value, str) else value
            for name, value in entries.items()
        }


class Survey(Section):
    """The confidential file and its sampling design."""

    file: PathText | None = Field(
        None, description="csv, parquet, a folder of parquet files, Stata, SPSS or SAS; a path from this file's folder"
    )
    weights: str | None = Field(None, description="column of survey weights")
    probs: str | None = Field(None, description="column of inclusion probabilities, instead of weights")
    unweighted: Truth | None = Field(None, description="every record has the same weight: a simple random sample")
    strata: str | None = Field(None, description="column of strata")
    psu: list[str] | None = Field(None, description="columns of sampling units, outermost first")
    fpc: list[str] | None = Field(None, description="columns of population sizes or fractions, one per stage")
    lonely_psu: choices.LonelyPSU | None = Field(None, description="how a stratum with one PSU enters variances")
    replicate_weights: list[str] | None = Field(
        None, description="columns of replicate weights, or name patterns, for the standard errors of comparisons"
    )
    combined: Truth | None = Field(
        None, description="true (default): replicate weights are full weights; false: they are factors of the weights"
    )
    replicate_scale: float | None = Field(
        None, gt=0, description="factor of the sum of squares (scale= of the design); default 1 / R, as for BRR"
    )
    rscales: list[float] | None = Field(None, description="factor of each replicate's square; default 1")
    mse: Truth | None = Field(
        None, description="squares around the estimate (true, the default) or around the replicates' mean (false)"
    )
    separator: str | None = Field(None, description="separator of a csv's columns; found if not given")
    decimal: str | None = Field(None, description="decimal mark of a csv, . or ,; found from all of its numbers")
    thousands: str | None = Field(None, description="thousands mark of a csv: . , blank or '; found likewise")
    text: list[str] | None = Field(None, description="columns of a csv that hold codes and are read as text")
    na: list[str] | None = Field(
        None, description="all texts of a csv that are missing values; default NA and the like, among numbers"
    )
    encoding: str | None = Field(None, description="encoding of the file's text; default utf-8")
    missing_codes: list[float | str] | dict[str, list[float | str]] | None = Field(
        None, description="codes that stand for missing values, in all columns or by column"
    )

    @property
    def weighted(self) -> bool:
        """True if the plan names weights or inclusion probabilities, or declares an unweighted sample."""
        return self.weights is not None or self.probs is not None or bool(self.unweighted)

    @model_validator(mode="after")
    def _weighted_in_one_way(self) -> Self:
        if self.unweighted and (self.weights is not None or self.probs is not None):
            raise ValueError(
                "unweighted = true says that there are no weights: leave out weights and probs, or this entry"
            )
        return self


class LaterModel(Section):
    """A later model of a sequence: the entries that differ from those of the first model."""

    formula: str = Field(description="outcome ~ predictors, which may be earlier outcomes")
    name: Literal["fbs", "nb", "poisson", "beta", "gamma", "multinomial"] = Field("fbs", description="model")
    zeros: Truth | None = Field(None, description="zeros are modelled separately")
    missing: Literal["fail", "drop", "category"] | None = Field(
        None, description="treatment of a missing outcome; category, for multinomial, makes it a level"
    )


def _later_kind(later: Any) -> str:
    return "formula" if isinstance(later, str) else "model"


Later = Annotated[Annotated[str, Tag("formula")] | Annotated[LaterModel, Tag("model")], Discriminator(_later_kind)]


class Column(Section):
    """Changes to a column when the file is read."""

    missing: Literal["category"] | None = Field(None, description="missing values become a level, 'missing'")
    merge: dict[str, Annotated[list[Level], Field(min_length=1)]] | None = Field(
        None, description="levels to merge, by their common name: {other = ['x', 'y']}; the column becomes text"
    )


class OutcomeSettings(Section):
    """Public facts about an outcome of a strict release."""

    bounds: Pair | None = Field(
        None, description="lowest and highest value of a number; values beyond count as values at the bound"
    )
    levels: Annotated[list[bool | int | float | str], Field(min_length=2)] | None = Field(
        None, description="all levels of a category; they are published"
    )
    zeros: Truth | None = Field(None, description="zero is a value of its own")
    missing: Literal["category"] | None = Field(None, description="category: missing values are an answer of their own")
    whole: Truth | None = Field(None, description="values are whole numbers")
    heaps: list[Number] | None = Field(None, description="single values that many records share, such as a top code")
    round: Positive | None = Field(None, description="unit to which synthetic values are rounded")
    applies: str | None = Field(
        None, description="who is asked: a condition on earlier columns, such as \"tenure == 'tenant'\""
    )
    elsewhere: Literal[0] | str | None = Field(
        None, description="value where the question is not asked: 0, or a label; default missing, or 'not applicable'"
    )

    @classmethod
    def entries(cls, given: Any) -> Any:
        """Convert an :class:`surveysynth.Outcome` to a dictionary of entries.  Any other value is returned unchanged.

        Raise InputError for an instance of a subclass, because a plan's file cannot hold its class.
        """
        if not isinstance(given, Outcome):
            return given
        if type(given) is not Outcome:
            raise InputError(
                f"a plan is a file, which has no place for the class {type(given).__name__}: give it to "
                "synthesize(outcomes=...) or measure(outcomes=...)"
            )
        entries = {field.name: (getattr(given, field.name), field.default) for field in fields(given)}
        return {name: [*value] if isinstance(value, tuple) else value
                for name, (value, default) in entries.items() if value != default}  # fmt: skip


class Model(Section):
    """Outcomes, predictors and model."""

    formula: str | None = Field(None, description="outcome ~ public predictors; C(column) is an outcome of categories")
    later: list[Later] | None = Field(
        None,
        description="further outcomes in sequence, each given those before it: formulas of amounts, or "
        "{formula = 'visits ~ log(income)', name = 'nb'}",
    )
    kind: choices.OutcomeKind = Field(
        "amount", description="kind of the outcomes: amount, count or share; declared, never found"
    )
    name: str | None = Field(None, description="model")
    transform: str | None = Field(None, description="working scale: log, identity, asinh, or a file of normal scores")
    scale: Positive | None = Field(None, description="public scale of identity and asinh")
    weight: Literal["public"] | None = Field(None, description="public: the survey weights are published as they are")
    prior: str | None = Field(None, description="prior of the coefficients")
    zeros: Truth | None = Field(None, description="zeros are modelled separately")
    missing: choices.Missing | None = Field(None, description="treatment of a missing outcome")
    components: Whole | None = Field(None, description="largest number of components of a mixture")
    clusters: choices.Clusters | None = Field(
        None, description="model: effects for PSUs, and for strata that are no predictors; ignore: none"
    )
    engine: Literal["auto", "embedded", "cmdstan"] | None = Field(None, description="engine of the Stan program")

    @property
    def later_models(self) -> list[LaterModel]:
        """The models of later outcomes.  An entry that is only a formula becomes a model with default settings."""
        return [LaterModel(formula=each) if isinstance(each, str) else each for each in self.later or []]


class Privacy(Section):
    """How records are protected, and what is public."""

    epsilon: Positive | None = Field(None, description="budget of the whole release")
    population_total: Positive | dict[str, Positive] | None = Field(
        None, description="public number of population units, in all or by stratum"
    )
    bounds: Pair | Annotated[dict[str, Pair], Field(min_length=1)] | None = Field(
        None, description="public lowest and highest outcome"
    )
    levels: dict[str, Annotated[list[bool | int | float | str], Field(min_length=1)]] | None = Field(
        None, description="all levels of categorical outcomes, {job = ['none', 'full']}; they are published"
    )
    population_totals: dict[str, dict[str, Positive]] | None = Field(
        None, description="public totals of predictor levels, {region = {north = 812_000, ...}}: counts are exact"
    )
    weight_bounds: Pair | None = Field(
        None, description="public bounds of a survey weight, as multiples of the mean weight; default [0.02, 20]"
    )
    importance: dict[str, Positive] | None = Field(
        None, description="factors of the epsilon that an outcome's tables get, {income = 2}; default 1"
    )
    earlier: PathText | None = Field(
        None, description="folder of an earlier year's strict release or measurements; both years are fitted"
    )
    unit: str | None = Field(
        None, description="column of the units that epsilon protects, such as households; default single records"
    )
    mechanism: MechanismName | None = Field(None, description="how records are protected")
    options: dict[str, Any] | None = Field(None, description="arguments of your own mechanism: {noise = 2}")
    delta: Number | None = Field(
        None, gt=0, le=0.1, description="delta of (epsilon, delta)-privacy, as 1e-10: Gaussian noise, for many tables"
    )
    map: choices.MapName | None = Field(None, description="map from risks to privacy weights")
    c1: Number | None = Field(None, description="scale of the map; default tuned to epsilon")
    c2: Number | None = Field(None, description="shift of the map")
    risk: choices.RiskName | None = Field(None, description="measure of a record's risk; default lipschitz")
    known: list[str] | None = Field(None, description="columns that an intruder knows and that are not synthesized")
    radius: Number | list[Number] | None = Field(
        None, description="largest difference that counts as near, as a share of the value; default .2"
    )
    absolute: Truth | None = Field(None, description="radius is in the unit of the outcome")
    floor: Number | list[Number] | None = Field(None, description="least radius, in the unit of the outcome")
    max_risk: Number | None = Field(
        None, ge=0, lt=1, description="largest identification risk of a record; a release above it is refused, "
        "which must stay secret",
    )
    reweight: Whole | None = Field(None, ge=0, description="steps of re-weighting")
    policy: PathText | None = Field(
        None, description="file made by surveysynth policy: it sets model, epsilon, mechanism and m"
    )
    public: list[str] | None = Field(None, description="columns that you declare public; others stop the release")
    ledger: PathText | None = Field(None, description="file that adds up the epsilon spent")
    survey: str | None = Field(None, description="name of the survey in the ledger")
    cap: Positive | None = Field(
        None, description="largest epsilon that may be spent on the survey; recorded with the first entry"
    )


class Edits(Section):
    """Public rules that synthetic records obey."""

    rules: list[str] | None = Field(
        None, description="conditions on columns, as 'rent <= income'; records that break one are drawn again"
    )
    applies: dict[str, str] | None = Field(
        None, description="who is asked a later outcome, {rent = \"tenure == 'tenant'\"}; for others it does not apply"
    )
    elsewhere: dict[str, Literal[0] | str] | None = Field(
        None, description="outcomes where they do not apply, {rent = 0}; default missing, or a level of its own"
    )
    derive: dict[str, str] | None = Field(
        None, description="further columns, computed from others: {total = 'wages + pension', poor = 'income < 900'}"
    )


class Tables(Section):
    """The contents of public/tables.csv."""

    by: list[str] | None = Field(None, description="predictors, crossed; with margins and total")
    statistic: list[str] | None = Field(
        None, description=f"{', '.join(choices.STATISTICS)}; default by the kind of the outcomes",
    )
    quantiles: list[Number] | None = Field(None, description="probabilities of quantiles")
    poverty_line: Positive | None = Field(None, description="public poverty line; default 60% of the overall median")
    min_cell: Whole | None = Field(
        None,
        ge=1,
        description="cells with fewer records are left blank: a quality rule, not protection: "
        "whoever has the synthetic files can compute them",
    )
    cv_limit: Positive | None = Field(None, description="larger coefficients of variation are flagged")
    labels: dict[Text, Text] | None = Field(None, description="headings of columns")
    units: dict[Text, Text] | None = Field(None, description="units of outcomes, for print")
    symbols: Literal["uk", "statcan"] | dict[str, Text | float] | None = Field(
        None, description="marks of quality: uk, statcan, or your own for suppressed, missing, unreliable; default uk"
    )
    wording: str | None = Field(None, description="file of headings and footnotes in other words, or translated")
    digits: Whole | None = Field(
        None,
        ge=-MOST_DIGITS,
        le=MOST_DIGITS,
        description="decimals, or -2 for hundreds; by default the kind of number decides",
    )


class ReleaseSettings(Section):
    """The release folder, and facts for its readers."""

    m: Whole | None = Field(None, ge=1, description="number of synthetic data sets")
    folder: str = Field("release", description="folder of the release; a path from this file's folder")
    format: Literal["csv", "parquet"] = Field("csv", description="format of the synthetic files")
    debias: Truth | None = Field(None, description="correct the draws for the effect of privacy weights on the model")
    accept: list[choices.Accepted] | None = Field(
        None,
        description="what is accepted by name: failed diagnostics, 'information', and 'population_total' if it is more "
        "than 3 times, or less than a third of, the sum of the weights",
    )
    title: Text | None = Field(None, description="title of the release, as 'Earnings by region'")
    population: Text | None = Field(None, description="population of the tables, as 'Employees aged 15 to 64'")
    period: Text | None = Field(None, description="reference period of the tables, as '2025'")
    source: Text | None = Field(None, description="source of the data, as 'Labour force survey 2025'")
    contact: Text | None = Field(None, description="contact of readers, as 'Statistics desk <desk@office.example>'")
    license: Text | None = Field(None, description="license of the published files, by name or address")
    date: Text | None = Field(None, description="date of publication, as '2026-03-31'")
    supersedes: str | None = Field(None, description="folder of the release that this one replaces; epsilons add up")


SECTIONS: dict[str, type[Section]] = {
    "survey": Survey, "columns": Column, "outcomes": OutcomeSettings, "model": Model, "privacy": Privacy,
    "edits": Edits, "tables": Tables, "release": ReleaseSettings,
}  # fmt: skip
BY_NAME = "columns", "outcomes"  # sections that exist once for each column
