"""What a plan says, section by section, and its file: TOML with a comment at every entry."""

from __future__ import annotations

import difflib
import json
import re
import reprlib
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

import numpy as np
import tomlkit
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
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticKnownError

from .. import choices
from ..errors import InputError
from ..measuring.outcome import Outcome
from ..models.one_outcome import checked_bounds
from ..privacy.mechanisms import in_plans

SCHEMA = "plan.schema.json"
FILL_IN = "FILL IN"
KINDS = {  # what pydantic calls by the names of Python
    "bool_type": "should be true or false", "dict_type": "should be a table, as {other = ['x', 'y']}",
    "list_type": "should be a list, as ['x', 'y']", "string_type": "should be a text",
}  # fmt: skip
WENT = {  # entries of plans of version 0.2, and what to write instead
    "parts": "take out [parts]: a large parquet file is read like any other",
    "privacy.mechanism=per-instance": "privacy.mechanism = 'per-instance' went: write 'strict' or 'pseudo-posterior'",
    "privacy.alpha_0": "take out privacy.alpha_0, which belonged to 'per-instance'",
    "privacy.reference": "take out privacy.reference: privacy.earlier is the folder of an earlier year's release",
    "privacy.overlap": "take out privacy.overlap: epsilon of an earlier year's release is always added",
    "privacy.between_psus": "take out privacy.between_psus: the spread between PSUs is in the noisy tables",
    "privacy.shares": "take out privacy.shares: importance = {income = 2} in [privacy] says which outcome matters more",
    "model.transform=scores": "take out transform = 'scores'",
    "model.missing=impute": "take out missing = 'impute': missing = 'category' in [outcomes.NAME] keeps missing values",
    "model.weight=curved": "take out weight = 'curved'",
    "model.weight=linear": "take out weight = 'linear', which is how FBS and FBP have it",
}
LONGEST = 255  # bytes of a name in a path, as file systems have it


def _is_there(said: Mapping[str, Any], entry: str) -> bool:
    """Whether a plan has an entry, "section.name", or "section.name=value" where it has this value."""
    path, _, value = entry.partition("=")
    section, _, name = path.partition(".")
    of = said.get(section)
    if not name or not isinstance(of, Mapping):
        return of is not None and not name
    found = of.get(name)
    return isinstance(found, str) and found == value if value else found is not None


def _no_name_too_long(path: str) -> str:
    if any(len(name.encode()) > LONGEST for name in Path(path).parts):
        raise ValueError(f"a name in this path is longer than {LONGEST} bytes")
    return path


def _number(value: Any) -> Any:
    """No text or truth value where a number is asked for."""
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


PathText = Annotated[str, AfterValidator(_no_name_too_long)]
Number = Annotated[float, BeforeValidator(_number), AllowInfNan(False)]
MechanismName = Annotated[str, AfterValidator(_mechanism), WithJsonSchema({"enum": [*in_plans()], "type": "string"})]
Level = int | float | str  # as the file has it, or as text
Whole = Annotated[int, BeforeValidator(_number)]
Truth = Annotated[bool, Strict()]
Positive = Annotated[Number, Field(gt=0)]
Pair = Annotated[tuple[Number, Number], AfterValidator(_bounds)]


class Section(BaseModel):
    """A part of a plan; an entry that is None is not said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _lists_by_commas(cls, said: Any) -> Any:
        """Text where a list is meant, as "age,sex"."""
        if not isinstance(said, Mapping):
            return said
        kinds = {
            name: [get_args(each)[0] if get_origin(each) is Annotated else each for each in get_args(field.annotation)]
            for name, field in cls.model_fields.items()
        }
        listed = {name for name, kind in kinds.items() if any(get_origin(each) in (list, tuple) for each in kind)}
        return {
            name: [part.strip() for part in value.split(",")] if name in listed and isinstance(value, str) else value
            for name, value in said.items()
        }


class Survey(Section):
    """The confidential file, and how the sample was drawn."""

    file: PathText | None = Field(
        None, description="csv, parquet, or a folder of such, Stata, SPSS or SAS; as seen from this file's folder"
    )
    weights: str | None = Field(None, description="column of survey weights")
    probs: str | None = Field(None, description="column of inclusion probabilities, instead of weights")
    unweighted: Truth | None = Field(None, description="every record has the same weight: a simple random sample")
    strata: str | None = Field(None, description="column of strata")
    psu: list[str] | None = Field(None, description="columns of sampling units, outermost first")
    fpc: list[str] | None = Field(None, description="columns of population sizes or fractions, one a stage")
    lonely_psu: choices.LonelyPSU | None = Field(None, description="what a stratum with one PSU does to a variance")
    replicate_weights: list[str] | None = Field(
        None, description="columns of replicate weights, or patterns of their names: the comparison's standard errors"
    )
    combined: Truth | None = Field(
        None, description="replicate weights are full weights (default), or factors of the weights: false"
    )
    replicate_scale: float | None = Field(
        None, gt=0, description="scale= of the design, of their squares; default 1 / R, of BRR and bootstrap"
    )
    rscales: list[float] | None = Field(None, description="scales of their squares, one a replicate; default 1")
    mse: Truth | None = Field(None, description="squares around the estimate (default), or the replicates' mean: false")
    separator: str | None = Field(None, description="between the columns of a csv; found where it is not said")
    decimal: str | None = Field(None, description="decimal mark of a csv: . or ,; found from all of its numbers")
    thousands: str | None = Field(None, description="mark between thousands of a csv: . , blank or '; found likewise")
    text: list[str] | None = Field(None, description="columns of a csv that are read as they are, as codes")
    na: list[str] | None = Field(
        None, description="all texts of a csv that are missing values; default NA and the like among numbers"
    )
    encoding: str | None = Field(None, description="of the file's text; default utf-8")
    missing_codes: list[float | str] | dict[str, list[float | str]] | None = Field(
        None, description="codes that stand for missing values, of all columns or by column"
    )

    @property
    def weighted(self) -> bool:
        """Whether it is said what a record stands for."""
        return self.weights is not None or self.probs is not None or bool(self.unweighted)

    @model_validator(mode="after")
    def _weighted_in_one_way(self) -> Self:
        if self.unweighted and (self.weights is not None or self.probs is not None):
            raise ValueError(
                "unweighted = true says that there are no weights: leave out weights and probs, or this entry"
            )
        return self


class LaterModel(Section):
    """A later model in sequence that is not like the first."""

    formula: str = Field(description="outcome ~ predictors, which may be outcomes before it")
    name: Literal["fbs", "nb", "poisson", "beta", "gamma", "multinomial"] = Field("fbs", description="model")
    zeros: Truth | None = Field(None, description="zeros are an outcome of their own")
    missing: Literal["fail", "drop", "category"] | None = Field(
        None, description="what a missing outcome does: category, of multinomial, makes it one"
    )


def _kind_of_later(said: Any) -> str:
    return "formula" if isinstance(said, str) else "model"


Later = Annotated[
    Annotated[str, Tag("formula")] | Annotated[LaterModel, Tag("model")], Discriminator(_kind_of_later)
]


class Column(Section):
    """What is done to a column when the file is read, before anything else."""

    missing: Literal["category"] | None = Field(None, description="missing values become a level, 'missing'")
    merge: dict[str, Annotated[list[Level], Field(min_length=1)]] | None = Field(
        None, description="levels that become one, by its name: {other = ['x', 'y']}; the column is text then"
    )


class OutcomeSettings(Section):
    """What is public of an outcome of a strict release."""

    bounds: Pair | None = Field(None, description="lowest and highest value of a number; values beyond count as these")
    levels: Annotated[list[bool | int | float | str], Field(min_length=2)] | None = Field(
        None, description="all levels of a category, which are published"
    )
    zeros: Truth | None = Field(None, description="zero is a value of its own")
    missing: Literal["category"] | None = Field(None, description="missing values are an answer of their own: category")
    whole: Truth | None = Field(None, description="values are whole numbers")
    heaps: list[Number] | None = Field(None, description="values of their own that many share, such as a top code")
    round: Positive | None = Field(None, description="unit to which synthetic values are rounded")
    applies: str | None = Field(None, description="who is asked, by columns before: \"tenure == 'tenant'\"")
    elsewhere: Literal[0] | str | None = Field(
        None, description="value where the question is not asked: 0, or a label; default missing, 'not applicable'"
    )

    @classmethod
    def entries(cls, given: Any) -> Any:
        """What an Outcome of Python says, by entry; anything else is as it was."""
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
    """What is synthesized, given what, and by which model."""

    formula: str | None = Field(None, description="outcome ~ public predictors; C(column) is an outcome of categories")
    later: list[Later] | None = Field(
        None,
        description="further outcomes in sequence, given those before them: formulas of amounts, or "
        "{formula = 'visits ~ log(income)', name = 'nb'}",
    )
    kind: choices.OutcomeKind = Field(
        "amount", description="what the outcomes are: amount, count or share; declared, never found"
    )
    name: str | None = Field(None, description="model")
    transform: str | None = Field(None, description="working scale: log, identity, asinh, or a file of normal scores")
    scale: Positive | None = Field(None, description="public scale of identity and asinh")
    weight: Literal["public"] | None = Field(None, description="public, where the survey weights are")
    prior: str | None = Field(None, description="prior of the coefficients")
    zeros: Truth | None = Field(None, description="zeros are an outcome of their own")
    missing: choices.Missing | None = Field(None, description="what a missing outcome does")
    components: Whole | None = Field(None, description="components at most, of a mixture")
    clusters: choices.Clusters | None = Field(None, description="effects of PSUs, and of strata that are no predictors")
    engine: Literal["auto", "embedded", "cmdstan"] | None = Field(None, description="what runs the Stan program")

    @property
    def later_models(self) -> list[LaterModel]:
        """The later models; a formula by itself is one of an amount."""
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
        None, description="all levels of outcomes that are categories, which are published: {job = ['none', 'full']}"
    )
    population_totals: dict[str, dict[str, Positive]] | None = Field(
        None, description="public totals of levels of predictors, {region = {north = 812_000, ...}}: counts are exact"
    )
    weight_bounds: Pair | None = Field(
        None, description="public bounds of a weight, in mean weights; default [0.02, 20]"
    )
    importance: dict[str, Positive] | None = Field(
        None, description="how much an outcome matters: its tables' epsilon is multiplied by it, {income = 2}"
    )
    earlier: PathText | None = Field(
        None, description="folder of an earlier year's strict release, or of its measurements: both years are fitted"
    )
    unit: str | None = Field(None, description="column of what epsilon protects, as households; default a record")
    mechanism: MechanismName | None = Field(None, description="how records are protected")
    options: dict[str, Any] | None = Field(None, description="arguments of a mechanism of your own: {noise = 2}")
    delta: Number | None = Field(
        None, gt=0, le=0.1, description="probability up to which epsilon holds: noise is Gaussian, for many tables, as "
        "1e-10"
    )
    map: choices.MapName | None = Field(None, description="from risk to privacy weight")
    c1: Number | None = Field(None, description="scale of the map; default tuned to epsilon")
    c2: Number | None = Field(None, description="shift of the map")
    risk: choices.RiskName | None = Field(None, description="how the risk of a record is measured; default lipschitz")
    known: list[str] | None = Field(None, description="columns that an intruder knows and that are not synthesized")
    radius: Number | list[Number] | None = Field(None, description="how near is near, a share of the value; default .2")
    absolute: Truth | None = Field(None, description="radius is in the unit of the outcome")
    floor: Number | list[Number] | None = Field(None, description="least radius, in the unit of the outcome")
    max_risk: Number | None = Field(
        None, ge=0, lt=1, description="no release where a record's risk of identification is above; never say it was"
    )
    reweight: Whole | None = Field(None, ge=0, description="steps of re-weighting")
    policy: PathText | None = Field(
        None, description="file by surveysynth policy: it sets model, epsilon, mechanism and m"
    )
    public: list[str] | None = Field(None, description="columns that you declare public; others stop the release")
    ledger: PathText | None = Field(None, description="file that adds up what is spent")
    survey: str | None = Field(None, description="name of the survey in the ledger")
    cap: Positive | None = Field(None, description="the most that may be spent on the survey")


class Edits(Section):
    """Public rules that synthetic records obey."""

    rules: list[str] | None = Field(
        None, description="conditions on columns, as 'rent <= income'; records that break one are drawn again"
    )
    applies: dict[str, str] | None = Field(
        None, description="whom later outcomes are asked: {rent = \"tenure == 'tenant'\"}; a question does not apply "
        "elsewhere",
    )
    elsewhere: dict[str, Literal[0] | str] | None = Field(
        None,
        description="what outcomes are where they do not apply: {rent = 0}; default missing, or a category of its own",
    )
    derive: dict[str, str] | None = Field(
        None, description="further columns, computed from others: {total = 'wages + pension', poor = 'income < 900'}"
    )


class Tables(Section):
    """What public/tables.csv shows."""

    by: list[str] | None = Field(None, description="predictors, crossed; with margins and total")
    statistic: list[str] | None = Field(
        None,
        description="count, mean, total, quantile, proportion, variance, gini, quintile_share_ratio, poverty_rate; "
        "default by what outcomes are",
    )
    quantiles: list[Number] | None = Field(None, description="probabilities of quantiles")
    poverty_line: Positive | None = Field(
        None, description="public line of poverty rates; default 60% of the median of all"
    )
    min_cell: Whole | None = Field(
        None,
        ge=1,
        description="cells of fewer records are left blank: a quality rule, not protection: "
        "whoever has the synthetic files can compute them",
    )
    cv_limit: Positive | None = Field(None, description="larger coefficients of variation are flagged")
    labels: dict[str, str] | None = Field(None, description="headings of columns")
    units: dict[str, str] | None = Field(None, description="units of outcomes, as they are printed")
    symbols: Literal["uk", "statcan"] | dict[str, str | float] | None = Field(
        None, description="marks of quality: uk, statcan, or your own for suppressed, missing, unreliable; default uk"
    )
    wording: str | None = Field(None, description="file of headings and footnotes in other words, or translated")
    digits: Whole | None = Field(None, description="decimals, -2 for hundreds; default two digits of standard errors")


class ReleaseSettings(Section):
    """What is written where, and what its reader is told."""

    m: Whole | None = Field(None, ge=1, description="number of synthetic data sets")
    folder: str = Field("release", description="as seen from this file's folder")
    format: Literal["csv", "parquet"] = Field("csv", description="of the synthetic files")
    debias: Truth | None = Field(None, description="correct the draws for what privacy weights do to the model")
    accept: list[choices.Accepted] | None = Field(
        None,
        description="what is accepted: failed diagnostics, 'information', and 'population_total' where it is more than "
        "3 times, or less than a third of, the sum of the weights",
    )
    title: str | None = Field(None, description="of the release")
    contact: str | None = Field(None, description="whom readers can ask")
    source: str | None = Field(None, description="of the data, as tables cite it")
    license: str | None = Field(None, description="of the published files: its name or address")
    supersedes: str | None = Field(None, description="folder of the release that this one replaces: epsilons add up")


class Settings(Section):
    """All that a release is made of: the sections of a plan.

    Raises
    ------
    InputError
        From :meth:`of`: unknown entries, values of another kind.
    """

    survey: Survey
    columns: dict[str, Column] = Field({}, description="what is done to columns when the file is read, by name")
    outcomes: dict[str, OutcomeSettings] = Field({}, description="what is public of the outcomes, by name")
    model: Model
    privacy: Privacy
    edits: Edits = Edits()
    tables: Tables = Tables()
    release: ReleaseSettings = ReleaseSettings()

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Self:
        """Checked; InputError names the entries that are wrong, or that went with version 0.2."""
        if went := [line for entry, line in WENT.items() if _is_there(said, entry)]:
            raise InputError(f"the plan is of an earlier version: {'; '.join(went)}")
        try:
            return cls.model_validate(dict(said))
        except ValidationError as error:
            wrong = _faults(error.errors(), said)
        raise InputError(f"the plan is not valid: {'; '.join(f'{entry}: {what}' for entry, what in wrong.items())}")

    def items(self) -> Iterator[tuple[str, Any]]:
        """Every entry, "section.entry", or "columns.name.entry", and what it says."""
        for section, kind in sections().items():
            if section in BY_NAME:
                for name, of in getattr(self, section).items():
                    yield from ((f"{section}.{name}.{entry}", getattr(of, entry)) for entry in kind.model_fields)
                continue
            for entry in kind.model_fields:
                yield f"{section}.{entry}", getattr(getattr(self, section), entry)

    def __getitem__(self, entry: str) -> Any:
        """One entry, by "section.entry" or "columns.name.entry"."""
        section, _, name = entry.partition(".")
        if section in BY_NAME:
            column, _, name = name.rpartition(".")
            named = getattr(self, section)
            return getattr(named[column], name) if column in named else None
        return getattr(getattr(self, section), name)

    def set(self, entries: Mapping[str, Any]) -> Self:
        """With other values at some entries, by the names of :meth:`items`; None takes one out.

        The entry "columns" by itself is all that is said of columns, "outcomes" all that is said of outcomes.
        """
        said: dict[str, dict[str, Any]] = self.model_dump(exclude_none=True)
        for entry, value in entries.items():
            section, _, name = str(entry).partition(".")
            column, _, of_column = name.rpartition(".")
            if entry in BY_NAME:
                said[entry] = {name: OutcomeSettings.entries(each) for name, each in (value or {}).items()}
            elif section in BY_NAME and column:
                said[section].setdefault(column, {})[of_column] = value
            elif section in BY_NAME or not name or section not in type(self).model_fields:
                raise InputError(
                    f"{entry!r} is no entry of a plan: write section.entry, of {', '.join(type(self).model_fields)}; "
                    "columns.name.entry and outcomes.name.entry"
                )
            else:
                said.setdefault(section, {})[name] = value
        return self.of({at: _without_none(part) for at, part in said.items()})


BY_NAME: dict[str, type[Section]] = {"columns": Column, "outcomes": OutcomeSettings}  # a section for each column


def sections() -> dict[str, type[Section]]:
    """The sections of a plan; "columns" and "outcomes" have one for each column."""
    kinds: dict[str, Any] = {name: field.annotation for name, field in Settings.model_fields.items()}
    return kinds | BY_NAME


def _without_none(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    return {name: _without_none(value) for name, value in part.items() if value is not None}


def _faults(errors: Sequence[Any], said: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong, by entry; of a value that could be of several kinds, what the nearest of these lacks."""
    found: dict[tuple[int | str, ...], list[Any]] = {}
    for error in errors:
        found.setdefault(_place(error, said), []).append(error)
    deepest = {place: faults for place, faults in found.items() if not any(_within(other, place) for other in found)}
    return {_entry(place): _what(place, faults) for place, faults in deepest.items()}


def _place(error: Any, said: Any) -> tuple[int | str, ...]:
    """Where a fault is in what was said; the kinds that a value could be of are no part of it."""
    place: list[int | str] = []
    for part in error["loc"]:
        there = isinstance(said, Mapping) and part in said
        there |= isinstance(said, list | tuple) and isinstance(part, int) and part < len(said)
        if there:
            said = said[part]
        if there or (error["type"] == "missing" and isinstance(part, str) and part is error["loc"][-1]):
            place.append(part)
    return tuple(place)


def _within(place: tuple[int | str, ...], outer: tuple[int | str, ...]) -> bool:
    return len(place) > len(outer) and place[: len(outer)] == outer


def _entry(place: tuple[int | str, ...]) -> str:
    """The name of an entry; what is in a list is counted from 1."""
    return "".join(f", number {part + 1}" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def _what(place: tuple[int | str, ...], errors: Sequence[Any]) -> str:
    """What is wrong with an entry and what is allowed; values of a plan are public."""
    kinds = [error for error in errors if error["type"].endswith("_type") or error["type"] == "literal_error"]
    of_its_kind = [error for error in errors if error not in kinds] or errors
    error, fields = of_its_kind[0], _fields(place[:-1])
    value = error["input"]
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(place[-1]), list(fields), 1)
        meant = f"did you mean {near[0]}?" if near else f"these are {', '.join(fields)}"
        return f"there is no such entry; {meant}" if len(place) > 1 else "there is no such entry"
    if error["type"] == "missing" and isinstance(error["loc"][-1], int):
        return f"{reprlib.repr(value)} has no number {error['loc'][-1] + 1}: {fields[str(place[1])].description}"
    if error["type"] == "missing":
        lacks = fields.get(str(place[-1]))
        return f"is not there: {lacks.description}" if lacks and lacks.description else "is not there"
    if error["type"] == "model_type":
        kind = "a formula, or a table {formula = ...}" if place[:2] == ("model", "later") else "a table of entries"
        return f"Input should be {kind}, not {reprlib.repr(value)}"
    if len(of_its_kind) > 1 and (entry := fields.get(str(place[-1]))):  # a value that is of none of several kinds
        return f"{reprlib.repr(value)} is none of what it can be: {entry.description}"
    what = KINDS.get(error["type"]) or str(error["msg"]).removeprefix("Value error, ")
    if isinstance(value, Mapping | Section):
        return what
    near = difflib.get_close_matches(str(value), re.findall("'([^']*)'", str(error.get("ctx", {}).get("expected"))), 1)
    return f"{what}, not {reprlib.repr(value)}" + (f"; did you mean {near[0]!r}?" if near else "")


def _fields(place: tuple[int | str, ...]) -> Mapping[str, Any]:
    """The entries that there are at a place."""
    if place[:2] == ("model", "later"):
        return LaterModel.model_fields
    kind = sections().get(str(place[0])) if place else Settings
    return kind.model_fields if kind is not None else {}


def read_toml(path: Path) -> Settings:
    """The settings in a file.

    Raises
    ------
    InputError
        No such file, no TOML, or entries that are wrong.
    """
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}; surveysynth plan FILE > {path.name} makes one")
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{str(path)!r} is not a plan: {error}") from None
    except RecursionError:
        raise InputError(f"{str(path)!r} is not a plan: it is nested too deeply") from None
    if not said:
        raise InputError(
            f"{str(path)!r} is empty: surveysynth plan FILE > {path.name} makes a plan, if it has no error"
        )
    return Settings.of({name: {} for name in ("survey", "model", "privacy")} | said)


def value_of(text: str) -> Any:
    """What ``--set entry=text`` says: a value as TOML writes it, several by commas, or else the text itself.

    Raises
    ------
    InputError
        It begins like a list or a table and is none.
    """
    for written in (text, f"[{text}]"):
        try:
            return tomllib.loads(f"value = {written}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
    if (text[:1], text[-1:]) in (("{", "}"), ("[", "]")):
        raise InputError(f"--set {text}: write lists as [-9, -8], and tables as {{income = [-9, -8]}}")
    return text


EXAMPLES = {
    "columns": "[columns.sex]: merge = {other = ['x', 'y']}, missing = 'category'",
    "outcomes": "[outcomes.income]: bounds = [0, 1_000_000], zeros = true, missing = 'category'",
}
NOT_FOUND = {
    "survey.strata": "if sampling was stratified",
    "survey.psu": "if clusters were sampled first",
    "survey.fpc": "if the sample is a large share of the population",
}
OF_REPLICATES = {
    "survey.combined": "false where they are factors of the weights, as 0 and 2",
    "survey.replicate_scale": "1 / R; Fay 1 / (R (1 - rho)^2), JK1 (R - 1) / R, successive differences 4 / R",
}


def to_toml(
    settings: Settings, reasons: Mapping[str, str], lacking: Mapping[str, str], columns: Sequence[str] = ()
) -> str:
    """The file of a plan.

    Parameters
    ----------
    settings : Settings
    reasons : mapping of entry to str
        Why entries were chosen that the user did not give.
    lacking : mapping of entry to str
        What only the agency can say: a commented line each, to be filled in.
    columns : sequence of str
        Those of the file, for a comment that lists them.
    """
    document = tomlkit.document()
    document.add(tomlkit.comment(f":schema {SCHEMA}"))
    document.add(tomlkit.comment("to be reviewed; then: surveysynth check plan.toml, surveysynth release plan.toml"))
    document.add(tomlkit.comment("(for editors: surveysynth plan --schema > plan.schema.json)"))
    for name, kind in sections().items():
        if name in BY_NAME:
            document.add(tomlkit.nl())
            document.add(name, _by_name(kind, getattr(settings, name), EXAMPLES[name]))
            continue
        section: Section = getattr(settings, name)
        table = tomlkit.table()
        table.add(tomlkit.comment(str(kind.__doc__)))
        if name == "survey":
            for line in textwrap.wrap(f"its columns: {', '.join(columns)}", 100) if columns else ():
                table.add(tomlkit.comment(line))
        for entry, field in type(section).model_fields.items():
            at, value = f"{name}.{entry}", getattr(section, entry)
            if value is not None:
                table.add(entry, _inline(value))
                item: Any = table.value.item(entry)
                item.comment(reasons.get(at) or str(field.description))
            elif at in lacking:
                table.add(tomlkit.comment(f"{entry} =   # {FILL_IN}: {lacking[at]}"))
            elif at in OF_REPLICATES and settings.survey.replicate_weights:
                table.add(tomlkit.comment(f"{entry} =   # {OF_REPLICATES[at]}"))
            elif at in NOT_FOUND and columns:
                table.add(tomlkit.comment(f"{entry} =   # no column was found; say which, {NOT_FOUND[at]}"))
        document.add(tomlkit.nl())
        document.add(name, table)
    return tomlkit.dumps(document).replace("# :schema", "#:schema")


def _by_name(kind: type[Section], columns: Mapping[str, Section], example: str) -> tomlkit.items.Table:
    """The sections [columns.name]; where there is none, how one is written."""
    table = tomlkit.table()
    table.add(tomlkit.comment(f"{kind.__doc__} As {example}"))
    for name, said in columns.items():
        of_column = tomlkit.table()
        for entry, field in kind.model_fields.items():
            if (value := getattr(said, entry)) is not None:
                of_column.add(entry, _inline(value))
                item: Any = of_column.value.item(entry)
                item.comment(str(field.description))
        table.add(name, of_column)
    return table


def _inline(value: Any) -> Any:
    """Tables and pairs on one line; whole numbers without a point."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Section):
        value = value.model_dump(exclude_none=True)
    if isinstance(value, Mapping):
        made = tomlkit.inline_table()
        made.update({key: _inline(each) for key, each in value.items()})
        return made
    if isinstance(value, tuple | list):
        listed = tomlkit.array()
        listed.extend(_inline(each) for each in value)
        return listed
    return value


def key(name: str) -> str:
    """A name as TOML writes it before an equals sign."""
    return tomlkit.key(name).as_string()


def schema() -> str:
    """JSON schema of a plan, from which editors complete and check it; the file beside this one holds it."""
    return json.dumps(Settings.model_json_schema(), indent=2) + "\n"
