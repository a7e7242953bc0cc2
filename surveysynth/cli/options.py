"""Options that several commands have, and what they say made into designs, models, risks and ledgers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

import surveysynth as ss

from .. import choices
from ..choices import LonelyPSU, MapName
from ..errors import InputError
from ..models.registry import MODELS, OWN_MODEL, model_from_file
from ..release.quality_rule import QUALITY_RULE

if TYPE_CHECKING:
    from ..privacy.risks.base import Risk


def names(text: str) -> list[str]:
    """Names by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers(text: str) -> list[float]:
    """Numbers by commas."""
    try:
        found = [float(part) for part in names(text)]
    except ValueError:
        found = []
    if not found:
        raise typer.BadParameter("numbers were expected, by commas")
    return found


def whole_numbers(text: str) -> list[int]:
    """Whole numbers by commas."""
    found = numbers(text)
    if any(number % 1 for number in found):
        raise typer.BadParameter("whole numbers were expected, by commas")
    return [int(number) for number in found]


class Ends(NamedTuple):
    """The lowest and the highest value."""

    low: float
    high: float


def ends(text: str) -> Ends:
    """Lowest and highest value, by a comma."""
    found = numbers(text)
    if len(found) != 2:
        raise typer.BadParameter("two numbers were expected, lowest and highest, by a comma")
    return Ends(*found)


METAVARS: dict[Callable[[str], Any], str] = {
    names: "<str,...>", numbers: "<float,...>", whole_numbers: "<int,...>", ends: "<float,float>"
}  # fmt: skip


def by_commas(help: str, parser: Callable[[str], Any] = names, *declared: str, **settings: Any) -> Any:
    """An option whose values are given by commas."""
    return typer.Option(*declared, parser=parser, metavar=METAVARS[parser], help=help, **settings)


File = Annotated[Path, typer.Argument(help="csv, parquet, Stata, SPSS or SAS file", show_default=False)]
Seed = Annotated[int | None, typer.Option(min=0, help="For tests only; the release is marked not for publication.")]
Weights = Annotated[str | None, typer.Option(help="Column of survey weights.")]
Probs = Annotated[str | None, typer.Option(help="Column of inclusion probabilities, instead of weights.")]
Strata = Annotated[str | None, typer.Option(help="Column of strata.")]
Psu = Annotated[Sequence[str] | None, by_commas("Columns of sampling units, outermost first, by commas.")]
Fpc = Annotated[Sequence[str] | None, by_commas("Columns of population sizes or sampling fractions, one a stage.")]
Lonely = Annotated[LonelyPSU, typer.Option(help="What a stratum with one PSU does to a variance.")]
Outcome = Annotated[
    Sequence[str], by_commas("Columns to synthesize, by commas; 'C(employed)' for categories.", show_default=False)
]
Out = Annotated[Path, typer.Option(help="Release folder to make.", show_default=False)]
Predictors = Annotated[str, typer.Option(help="Formula of public columns, e.g. 'field + gender'.", show_default=False)]


def _model_name(text: str) -> str:
    """A model of the package, or one of the user's: ``file.py:name``."""
    if text in MODELS or OWN_MODEL.fullmatch(text):
        return text
    raise typer.BadParameter(f"{text!r} is not one of {', '.join(map(repr, MODELS))}, nor a model file.py:name.")


Model = Annotated[
    str,
    typer.Option(
        parser=_model_name,
        metavar=f"[{'|'.join(MODELS)}|FILE.py:NAME]",
        help=f"{'; '.join(model.what for model in MODELS.values())}; or a model of your own, in a Python file.",
    ),
]
Bounds = Annotated[
    Ends | None,
    by_commas("Public lowest and highest outcome, for --mechanism strict, --model beta or mixture: 0,200000.", ends),
]
PriorName = Literal[choices.FBSPrior, "common"]
Prior = Annotated[
    PriorName | None,
    typer.Option(help="Prior of the coefficients; default paper; of --model mixture common, which is its alone."),
]
Transform = Annotated[
    str, typer.Option(help="Working scale of the outcome: log, identity, asinh, or a file of normal scores (.json).")
]
Scale = Annotated[float | None, typer.Option(help="Public scale of identity and asinh.")]
Zeros = Annotated[
    bool,
    typer.Option(
        "--zeros", help="An outcome of exactly 0 has a probability of its own (--model mixture, --mechanism strict)."
    ),
]
Components = Annotated[int, typer.Option(help="Components at most (--model mixture); too many is right.")]
Missing = Annotated[
    choices.Missing, typer.Option(help="What a missing outcome does; impute goes with --mechanism strict.")
]
Weight = Annotated[
    choices.WeightModel | None,
    typer.Option(
        help="How the survey weight goes with the outcome (curved: of --mechanism strict, where it is the default), or "
        "that weights are public (--model fbs, fbp)."
    ),
]
Map = Annotated[MapName, typer.Option(help="From risk to privacy weight.")]
RiskName = Literal["lipschitz", "count", "marginal", "pairwise"]
RiskOption = Annotated[
    RiskName,
    typer.Option(
        "--risk",
        help="How the risk of a record is measured: by its Lipschitz bound; by the share of records that are not near "
        "it; or by its probability of identification among synthetic records, marginal or pairwise.",
    ),
]
Known = Annotated[
    Sequence[str] | None,
    by_commas("Columns that an intruder knows and that are not synthesized, by commas; default none."),
]
Radius = Annotated[
    Sequence[float] | None,
    by_commas(
        "How near is near to a record, as a share of its value; one number, or one for each numeric outcome by "
        "commas; default 0.2.",
        numbers,
    ),
]
Absolute = Annotated[bool, typer.Option("--absolute", help="The --radius is in the unit of the outcome.")]
Floor = Annotated[
    Sequence[float] | None,
    by_commas("Least radius, in the unit of the outcome; one, or one for each; default 0.", numbers),
]
Reweight = Annotated[
    int,
    typer.Option(
        min=0,
        help="Steps of re-weighting at most: privacy weights rise where a record's bound leaves room, at the same "
        "epsilon. 1 is the paper's; more go on while weights rise.",
    ),
]
Clusters = Annotated[choices.Clusters, typer.Option(help="Effects of PSUs, and of strata that are not predictors.")]
UnitColumn = Annotated[
    str | None, typer.Option("--unit", help="Column of what epsilon protects (households, say); default: a record.")
]
Engine = Annotated[Literal["auto", "embedded", "cmdstan"], typer.Option(help="What runs the Stan program.")]
M = Annotated[int, typer.Option("-m", "--m", help="Number of synthetic data sets.")]
StratumTotals = Annotated[
    Path | None, typer.Option(help="File with two columns, stratum and its public population total.")
]
LedgerFile = Annotated[
    Path | None,
    typer.Option(
        help="Privacy ledger, which the command ledger --create makes. Epsilon is entered before the data sets leave, "
        "and stays spent where the release then fails."
    ),
]
Survey = Annotated[str | None, typer.Option(help="Name of the survey in the ledger; its epsilons add up.")]
Cap = Annotated[
    float | None, typer.Option(help="The most that may be spent on the survey under blanking; recorded once.")
]
SyntheticFormat = Annotated[Literal["csv", "parquet"], typer.Option(help="Of the synthetic files.")]
Overwrite = Annotated[bool, typer.Option(help="Replace a release that is there.")]
MinCell = Annotated[int | None, typer.Option(help=f"Suppress cells of fewer records. {QUALITY_RULE}")]
CvLimit = Annotated[float | None, typer.Option(help="Flag estimates with a larger coefficient of variation.")]
OF_MODELS = {  # options that some models have, and what these call them
    "bounds": "bounds", "prior": "prior", "transform": "transform", "scale": "transform", "zeros": "zeros",
    "components": "components", "weight": "weight",
}  # fmt: skip


def refuse(context: typer.Context, names: tuple[str, ...], why: str) -> None:
    """Refuse those of some options that were given, whatever their value."""
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [name for name, source in sources.items() if source is not None and source.name != "DEFAULT"]
    if given:
        raise InputError(f"{', '.join('--' + name.replace('_', '-') for name in given)}: {why}")


def defaulted(context: typer.Context, name: str) -> bool:
    """Whether an option was not given."""
    source = context.get_parameter_source(name)
    return source is None or source.name == "DEFAULT"


def read_design(
    file: Path,
    weights: str | None,
    probs: str | None,
    strata: str | None,
    psu: Sequence[str] | None,
    fpc: Sequence[str] | None,
    lonely: LonelyPSU,
) -> ss.SurveyDesign:
    """The file, under the design that its columns say."""
    return ss.SurveyDesign.read(file, weights=weights, probs=probs, strata=strata, psu=psu, fpc=fpc, lonely_psu=lonely)


def make_model(
    context: typer.Context,
    model: str,
    outcome: Sequence[str],
    predictors: str,
    bounds: Ends | None,
    prior: PriorName | None,
    transform: str,
    scale: float | None,
    zeros: bool,
    components: int,
    missing: choices.Missing,
    weight: choices.WeightModel | None,
) -> ss.Synthesizer:
    """The model that --model and its options say; InputError where an option is not of that model."""
    from ..models.shared.transforms import as_transform

    if not outcome:
        raise InputError("--outcome names no column")
    if OWN_MODEL.fullmatch(model):
        refuse(context, tuple(OF_MODELS), "not with a model of your own")
        return model_from_file(model, list(outcome), predictors)
    chosen = MODELS[model]
    _refuse_of_others(context, model)
    if chosen.one_outcome and len(outcome) != 1:
        raise InputError(f"--model {model} synthesizes one --outcome")
    takes = chosen.options
    if bounds is None and "bounds" in takes and takes["bounds"].default is inspect.Parameter.empty:
        raise InputError(f"--model {model} needs --bounds: the outcome's lowest and highest possible value, public")
    given: dict[str, Any] = {
        "bounds": bounds, "prior": prior, "zeros": zeros, "components": components, "missing": missing,
        "weight": weight,
    }  # fmt: skip
    if "transform" in takes:
        scores = transform.endswith(".json")
        given["transform"] = ss.NormalScores.load(transform) if scores else as_transform(transform, scale)
    said = {name: value for name, value in given.items() if name in takes and value is not None}
    return chosen.make(outcome[0] if chosen.one_outcome else outcome, predictors, **said)


def _refuse_of_others(context: typer.Context, model: str) -> None:
    """Refuse options that the model does not have, and say which one has them where these are few."""
    having = {
        option: [name for name, of in MODELS.items() if takes in of.options] for option, takes in OF_MODELS.items()
    }
    others = {option: names for option, names in having.items() if model not in names}
    if context.params.get("mechanism") == "strict":  # whose normal scores are made within them
        others.pop("bounds", None)
    for few in {tuple(names): None for names in others.values() if len(names) <= 2}:
        only = tuple(option for option, names in others.items() if tuple(names) == few)
        strict = ", or --mechanism strict" if "bounds" in only and context.info_name == "synthesize" else ""
        refuse(context, only, f"only with --model {' or '.join(few)}{strict}")
    refuse(context, tuple(others), f"not with --model {model}")


def ball(radius: Sequence[float] | None, absolute: bool, floor: Sequence[float] | None) -> dict[str, Any]:
    """How near is near, as arguments of a measure."""
    if absolute and radius is None:
        raise InputError("--absolute needs --radius, in the unit of the outcome")
    given = (("radius", radius), ("floor", floor))
    sizes = {name: size[0] if len(size) == 1 else tuple(size) for name, size in given if size is not None}
    return {"relative": not absolute} | sizes


def make_risk(
    context: typer.Context, risk: RiskName, known: Sequence[str] | None, radius: Sequence[float] | None, absolute: bool,
    floor: Sequence[float] | None, *, ruled: bool = False,
) -> Risk:  # fmt: skip
    """The measure; where there is a rule, too (``ruled``), what is known and how near is near are of both."""
    or_rule = " or with --max-risk" if context.info_name == "synthesize" else ""
    if risk in ("lipschitz", "count") and not ruled:
        refuse(context, ("known",), f"only with --risk marginal or pairwise{or_rule}")
    if risk == "lipschitz":
        if not ruled:
            refuse(context, ("radius", "absolute", "floor"), f"only with --risk count, marginal, pairwise{or_rule}")
        return ss.LipschitzRisk()
    near = ball(radius, absolute, floor)
    if risk == "count":
        return ss.CountRisk(**near)
    return {"marginal": ss.MarginalRisk, "pairwise": ss.PairwiseRisk}[risk](tuple(known or ()), **near)


def open_ledger(file: Path | None, survey: str | None, cap: float | None) -> ss.Ledger | None:
    """The ledger in which the release is entered, if one is given."""
    if file is None:
        stray = [option for option, value in (("--survey", survey), ("--cap", cap)) if value is not None]
        if stray:
            raise InputError(f"{', '.join(stray)}: only with --ledger")
        return None
    if survey is None:
        raise InputError("--ledger needs --survey, the name under which the epsilons of the survey add up")
    return ss.Ledger(file, survey, cap)


def one_total(total: float | None, stratum_totals: Path | None) -> float | dict[str, float] | None:
    """The public population total, or those by stratum."""
    if total is not None and stratum_totals is not None:
        raise InputError("--population-total and --stratum-totals are both given; totals by stratum say it all")
    return total if stratum_totals is None else _stratum_totals(stratum_totals)


def _stratum_totals(file: Path) -> dict[str, float]:

    from ..design.discrete import is_label
    from ..design.read import read_frame

    frame = read_frame(file)
    if frame.shape[1] != 2 or is_label(frame.iloc[:, 1]):
        raise InputError(f"--stratum-totals {file} must have two columns: the stratum, and its population total")
    return dict(zip(frame.iloc[:, 0].astype(str), frame.iloc[:, 1].astype(float), strict=True))
