"""What a plan says, section by section, and its file: TOML with a comment at every entry."""

from __future__ import annotations

import difflib
import json
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

import tomlkit
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from .. import choices
from ..errors import InputError

SCHEMA = "plan.schema.json"
FILL_IN = "FILL IN"
MechanismName = Literal["strict", "pseudo-posterior", "per-instance", "weighted-e", "censored", "censored-weighted"]
Pair = tuple[float, float]
Positive = Annotated[float, Field(gt=0)]
LONGEST = 255  # bytes of a name in a path, as file systems have it


def _no_name_too_long(path: str) -> str:
    if any(len(name.encode()) > LONGEST for name in Path(path).parts):
        raise ValueError(f"a name in this path is longer than {LONGEST} bytes")
    return path


PathText = Annotated[str, AfterValidator(_no_name_too_long)]


class Section(BaseModel):
    """A part of a plan; an entry that is None is not said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _lists_by_commas(cls, said: Any) -> Any:
        """Text where a list is meant, as "age,sex"."""
        if not isinstance(said, Mapping):
            return said
        kinds = {name: get_args(field.annotation) for name, field in cls.model_fields.items()}
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
    strata: str | None = Field(None, description="column of strata")
    psu: list[str] | None = Field(None, description="columns of sampling units, outermost first")
    fpc: list[str] | None = Field(None, description="columns of population sizes or fractions, one a stage")
    lonely_psu: choices.LonelyPSU | None = Field(None, description="what a stratum with one PSU does to a variance")
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


class LaterModel(Section):
    """A later model in sequence that is not like the first."""

    formula: str = Field(description="outcome ~ predictors, which may be outcomes before it")
    name: Literal["fbs", "nb", "poisson", "beta", "gamma", "multinomial"] = Field("fbs", description="model")
    zeros: bool | None = Field(None, description="zeros are an outcome of their own")
    missing: Literal["fail", "drop", "impute", "category"] | None = Field(
        None, description="what a missing outcome does: category, of multinomial, makes it one"
    )


class Model(Section):
    """What is synthesized, given what, and by which model."""

    formula: str | None = Field(None, description="outcome ~ public predictors; C(column) is an outcome of categories")
    later: list[str | LaterModel] | None = Field(
        None,
        description="further outcomes in sequence, given those before them: formulas of amounts, or "
        "{formula = 'visits ~ log(income)', name = 'nb'}",
    )
    kind: choices.OutcomeKind = Field(
        "amount", description="what the outcomes are: amount, count or share; declared, never found"
    )
    name: str | None = Field(None, description="model")
    transform: str | None = Field(None, description="working scale: scores, log, identity, asinh, or a file of scores")
    scale: float | None = Field(None, description="public scale of identity and asinh")
    weight: choices.WeightModel | None = Field(None, description="how the weight goes with the outcome, or public")
    prior: str | None = Field(None, description="prior of the coefficients")
    zeros: bool | None = Field(None, description="zeros are an outcome of their own")
    missing: choices.Missing | None = Field(None, description="what a missing outcome does")
    components: int | None = Field(None, description="components at most, of a mixture")
    clusters: choices.Clusters | None = Field(None, description="effects of PSUs, and of strata that are no predictors")
    engine: Literal["auto", "embedded", "cmdstan"] | None = Field(None, description="what runs the Stan program")


class Privacy(Section):
    """How records are protected, and what is public."""

    epsilon: float | None = Field(None, gt=0, description="budget of the whole release")
    population_total: Positive | dict[str, Positive] | None = Field(
        None, description="public number of population units, in all or by stratum"
    )
    bounds: Pair | Annotated[dict[str, Pair], Field(min_length=1)] | None = Field(
        None, description="public lowest and highest outcome"
    )
    shares: list[Positive] | None = Field(
        None, description="of epsilon, one a model in sequence, relative to each other; default by expected accuracy"
    )
    unit: str | None = Field(None, description="column of what epsilon protects, as households; default a record")
    mechanism: MechanismName | None = Field(None, description="how records are protected")
    reference: PathText | None = Field(None, description="folder of an earlier strict release of this survey")
    overlap: bool | None = Field(None, description="the reference's respondents are in this file, too: epsilons add up")
    between_psus: float | None = Field(None, ge=0, lt=1, description="public share of the variance between PSUs")
    delta: float | None = Field(
        None, gt=0, le=0.1, description="probability up to which a per-instance epsilon holds, of each data set"
    )
    alpha_0: float | None = Field(None, gt=0, le=1, description="largest privacy weight under per-instance")
    map: choices.MapName | None = Field(None, description="from risk to privacy weight")
    c1: float | None = Field(None, description="scale of the map; default tuned to epsilon")
    c2: float | None = Field(None, description="shift of the map")
    risk: choices.RiskName | None = Field(None, description="how the risk of a record is measured; default lipschitz")
    known: list[str] | None = Field(None, description="columns that an intruder knows and that are not synthesized")
    radius: float | list[float] | None = Field(None, description="how near is near: a share of the value; default 0.2")
    absolute: bool | None = Field(None, description="radius is in the unit of the outcome")
    floor: float | list[float] | None = Field(None, description="least radius, in the unit of the outcome")
    max_risk: float | None = Field(
        None, ge=0, lt=1, description="no release where a record's risk of identification is above; never say it was"
    )
    reweight: int | None = Field(None, ge=0, description="steps of re-weighting")
    policy: PathText | None = Field(
        None, description="file by surveysynth policy: it sets model, epsilon, mechanism and m"
    )
    public: list[str] | None = Field(None, description="columns that you declare public; others stop the release")
    ledger: PathText | None = Field(None, description="file that adds up what is spent")
    survey: str | None = Field(None, description="name of the survey in the ledger")
    cap: float | None = Field(None, gt=0, description="the most that may be spent on the survey")


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
    quantiles: list[float] | None = Field(None, description="probabilities of quantiles")
    poverty_line: float | None = Field(
        None, gt=0, description="public line of poverty rates; default 60% of the median of all"
    )
    min_cell: int | None = Field(
        None,
        ge=1,
        description="cells of fewer records are left blank: a quality rule, not protection: "
        "whoever has the synthetic files can compute them",
    )
    cv_limit: float | None = Field(None, gt=0, description="larger coefficients of variation are flagged")
    labels: dict[str, str] | None = Field(None, description="headings of columns")
    units: dict[str, str] | None = Field(None, description="units of outcomes, as they are printed")
    symbols: Literal["uk", "statcan"] | dict[str, str | float] | None = Field(
        None, description="marks of quality: uk, statcan, or your own for suppressed, missing, unreliable; default uk"
    )
    wording: str | None = Field(None, description="file of headings and footnotes in other words, or translated")
    digits: int | None = Field(None, description="decimals, -2 for hundreds; default two digits of standard errors")


class ReleaseSettings(Section):
    """What is written where, and what its reader is told."""

    m: int | None = Field(None, ge=1, description="number of synthetic data sets")
    folder: str = Field("release", description="as seen from this file's folder")
    format: Literal["csv", "parquet"] = Field("csv", description="of the synthetic files; parquet of files in parts")
    debias: bool | None = Field(None, description="correct the draws for what privacy weights do to the model")
    accept: list[str] | None = Field(None, description="failed diagnostics, or 'information', that are accepted")
    title: str | None = Field(None, description="of the release")
    contact: str | None = Field(None, description="whom readers can ask")
    source: str | None = Field(None, description="of the data, as tables cite it")
    license: str | None = Field(None, description="of the published files: its name or address")
    supersedes: str | None = Field(None, description="folder of the release that this one replaces: epsilons add up")


class InParts(Section):
    """Who computes, part by part: with one of these entries check and release never have the whole file in memory."""

    workers: int | None = Field(None, ge=1, description="processes of this machine")
    scheduler: str | None = Field(None, description="address of a Dask scheduler, whose workers compute instead")
    scratch: PathText | None = Field(
        None, description="folder in which data sets are made, and to which all workers can write"
    )

    @property
    def said(self) -> bool:
        """Whether there is an entry."""
        return (self.workers, self.scheduler, self.scratch) != (None, None, None)


class Settings(Section):
    """All that a release is made of: the sections of a plan.

    Raises
    ------
    InputError
        From :meth:`of`: unknown entries, values of another kind.
    """

    survey: Survey
    model: Model
    privacy: Privacy
    edits: Edits = Edits()
    tables: Tables = Tables()
    release: ReleaseSettings = ReleaseSettings()
    parts: InParts = InParts()

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Self:
        """Checked; InputError names the entries that are wrong."""
        try:
            return cls.model_validate(dict(said))
        except ValidationError as error:
            wrong = {_entry(e["loc"]): _what(e) + _near(e) for e in reversed(error.errors())}  # of a union the first
        raise InputError(f"the plan is not valid: {'; '.join(f'{entry}: {what}' for entry, what in wrong.items())}")

    def items(self) -> Iterator[tuple[str, Any]]:
        """Every entry, "section.entry", and what it says."""
        for section in type(self).model_fields:
            for entry in type(getattr(self, section)).model_fields:
                yield f"{section}.{entry}", getattr(getattr(self, section), entry)

    def __getitem__(self, entry: str) -> Any:
        """One entry, by "section.entry"."""
        section, _, name = entry.partition(".")
        return getattr(getattr(self, section), name)

    def set(self, entries: Mapping[str, Any]) -> Self:
        """With other values at some entries, "section.entry"; None takes one out."""
        said: dict[str, dict[str, Any]] = self.model_dump(exclude_none=True)
        for entry, value in entries.items():
            section, _, name = entry.partition(".")
            if not name or section not in type(self).model_fields:
                raise InputError(
                    f"{entry!r} is no entry of a plan: write section.entry, of {', '.join(type(self).model_fields)}"
                )
            said.setdefault(section, {})[name] = value
        said = {at: {name: value for name, value in part.items() if value is not None} for at, part in said.items()}
        return self.of(said)


def _entry(location: tuple[int | str, ...]) -> str:
    """Where an entry stands; the alternatives of a union are no part of it."""
    return ".".join(str(part) for part in location[:2])


def _what(error: Any) -> str:
    """What is wrong with an entry, shortly; values of a plan are public."""
    if error["type"] == "extra_forbidden":
        return "there is no such entry"
    return str(error["msg"]).removeprefix("Value error, ")


def _near(error: Any) -> str:
    """The entry that was meant, where one is like it."""
    if error["type"] != "extra_forbidden" or len(error["loc"]) < 2:
        return ""
    sections = {name: kind.annotation for name, kind in Settings.model_fields.items()}
    entries = list(sections[error["loc"][0]].model_fields)  # type: ignore[union-attr]
    near = difflib.get_close_matches(str(error["loc"][1]), entries, 1)
    return f"; did you mean {near[0]}?" if near else f"; these are {', '.join(entries)}"


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


NOT_FOUND = {
    "survey.strata": "if sampling was stratified",
    "survey.psu": "if clusters were sampled first",
    "survey.fpc": "if the sample is a large share of the population",
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
    for name, kind in Settings.model_fields.items():
        section: Section = getattr(settings, name)
        table = tomlkit.table()
        table.add(tomlkit.comment(str(kind.annotation.__doc__)))
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
            elif at in NOT_FOUND and columns:
                table.add(tomlkit.comment(f"{entry} =   # no column was found; say which, {NOT_FOUND[at]}"))
        document.add(tomlkit.nl())
        document.add(name, table)
    return tomlkit.dumps(document).replace("# :schema", "#:schema")


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


def schema() -> str:
    """JSON schema of a plan, from which editors complete and check it; the file beside this one holds it."""
    return json.dumps(Settings.model_json_schema(), indent=2) + "\n"
