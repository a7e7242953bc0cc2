"""What the R package has Python do: frames come and go by folder, all else as json.

The arguments of a task are json, in which ``{"__make__": "FBS", ...}`` stands for the value of
``surveysynth.FBS(...)``, so R can say anything that Python's constructors can.  Errors and warnings are
told, not raised: R makes conditions of them, whatever the version of reticulate.
"""

from __future__ import annotations

import atexit
import json
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import surveysynth as ss
from surveysynth.errors import Obstacles
from surveysynth.models.registry import model_from_file
from surveysynth.progress import progress_to
from surveysynth.publication.figures.domains import SUFFIXES as FIGURES
from surveysynth.r import exchange
from surveysynth.r.words_of_r import in_words_of_r
from surveysynth.release.folder import fields_from_text, public_text
from surveysynth.release.manifest import public_folder
from surveysynth.release.measurements import CLASSES_IN_R, is_measured, with_classes_in_r
from surveysynth.synthesis.strict_request import check_contradictions, strict_request

MAKE = "__make__"
MEASURES = {
    "identification_risk": ss.identification_risk,
    "pairwise_weights": ss.pairwise_weights,
    "attribute_risk": ss.attribute_risk,
    "match_risk": ss.match_risk,
}


@dataclass
class Answer:
    """The Python object that R is to keep, if any, and what R is told, as json."""

    value: Any
    told: str


def run(task: str, arguments: str, listener: Callable[[str], Any], *objects: Any, **named: Any) -> Answer:
    """Do a task of this module; of an error that is not one of surveysynth's own only the type is told.

    The listener is given the stages of long work.  Objects, with or without a name, are Python's own that R keeps.
    """
    value, told, heard, internal, wrong = None, {}, [], [], Obstacles()
    progress = progress_to(lambda text: listener(in_words_of_r(text)), internal.append)
    with warnings.catch_warnings(), progress:
        warnings.showwarning = lambda message, category, *place: heard.append(_heard(message, category))
        try:
            given = json.loads(arguments, object_hook=lambda part: _made(part, wrong))
            wrong.refuse()
            value, said = globals()[task](*objects, **named, **given)
            told["value"] = said
        except ss.SurveySynthError as error:
            told["error"] = {"message": in_words_of_r(str(error)), "code": error.code}
        except Exception as error:  # its message may quote the data
            kind = type(error).__name__
            text = f"{kind} in Python, whose message may quote the data and is not shown"
            told["error"] = {"message": text, "code": "internal"}
    told["warnings"] = list(dict.fromkeys(heard))
    told["internal"] = [in_words_of_r(text) for text in internal]
    return Answer(value, json.dumps(told))


def stop() -> None:
    """What Python does where it ends, and R does not let it: unwritten data sets go."""
    atexit._run_exitfuncs()


def _heard(message: Warning | str, category: type[Warning]) -> str:
    """The text of a warning that our own code gives, the type of another."""
    frame = sys._getframe(2)  # below us and the function that Python gives warnings to
    while frame.f_back is not None and frame.f_globals.get("__name__") == "warnings":
        frame = frame.f_back
    ours = str(frame.f_globals.get("__name__")).split(".")[0] == "surveysynth"
    return in_words_of_r(str(message)) if ours else f"{category.__name__} in Python"


def _made(said: dict[str, Any], wrong: Obstacles) -> Any:
    """What a part of the arguments stands for; of several outcomes that are refused all are noted."""
    name = said.pop(MAKE, None)
    if name is None:
        return said
    if name == "frame":
        frame = exchange.load(**said)
        shutil.rmtree(said["folder"])  # confidential: gone before the work begins, which may be killed
        return frame
    if name == "model_from_file":
        return model_from_file(**said)
    if name == "measurements":
        return _measurements_in(**said)
    make = getattr(ss, name)
    return wrong.check(make, **said) if make is ss.Outcome else make(**said)


def start() -> tuple[None, str]:
    """The version of surveysynth."""
    return None, ss.__version__


def synthesize(
    folder: str, policy: ss.Policy | None = None, population_total: Any = None,
    classes: Mapping[str, str] | None = None, **given: Any,
) -> tuple[ss.Release, dict[str, Any]]:  # fmt: skip
    """A release, with its data sets in the subfolders 1, 2, ..."""
    given |= _known_totals(given["design"], population_total, given.get("population_totals"))
    return _released(with_classes_in_r(ss.synthesize(**given, policy=policy), classes or {}), folder)


def measure(
    synthesizer: Any, population_total: Any = None, epsilon: Any = None, classes: Mapping[str, str] | None = None,
    **given: Any,
) -> tuple[ss.Measurements, str]:  # fmt: skip
    """Measurements, and what they are."""
    given |= {"epsilon": epsilon}  # which R leaves out where it is NULL
    given |= _known_totals(given["design"], population_total, given.get("population_totals"))
    return _described(ss.Measurements(ss.measure(formula=synthesizer, **given).source, classes or {}))


def release(measured: ss.Measurements, folder: str, **given: Any) -> tuple[ss.Release, dict[str, Any]]:
    """A release that is drawn from measurements, as that of :func:`synthesize`."""
    return _released(measured.release(**given), folder)


def read_measurements(path: str) -> tuple[ss.Measurements, str]:
    """The measurements of a folder, or those that the release of a folder was drawn from."""
    return _described(_measurements_in(path))


def write_measurements(measured: ss.Measurements, **given: Any) -> tuple[None, str]:
    """Write the folder of measurements."""
    return None, str(measured.write(**given))


def measured_table(measured: ss.Measurements, folder: str) -> tuple[None, None]:
    """All noisy counts and sums."""
    return _saved(measured.table(), folder)


def expected_errors(
    folder: str, synthesizer: Any, population_total: Any = None, epsilon: Any = None, by: list[str] | None = None,
    m: int = 20, **given: Any,
) -> tuple[None, None]:  # fmt: skip
    """Standard errors to expect of a strict release, if the file does not contradict what is declared of it."""
    given |= {"epsilon": epsilon}
    given |= _known_totals(given["design"], population_total, given.get("population_totals"))
    expected = ss.expected_errors(formula=synthesizer, by=by, m=m, **given)
    check_contradictions(strict_request(formula=synthesizer, **given))
    return _saved(expected, folder, by)


def perturbed_histogram(folder: str, **given: Any) -> tuple[ss.Release, dict[str, Any]]:
    """The same, from a noisy histogram."""
    return _released(ss.perturbed_histogram(**given), folder)


def policy_from_historical(population_total: Any = None, **given: Any) -> tuple[ss.Policy, dict[str, Any]]:
    """A policy."""
    total = _by_level(population_total, given["design"])
    return _policy(ss.Policy.from_historical(**given, population_total=total))


def read_policy(path: str) -> tuple[ss.Policy, dict[str, Any]]:
    """The policy of a file."""
    return _policy(ss.Policy.load(path))


def write_policy(policy: ss.Policy, **given: Any) -> tuple[None, str]:
    """Write a policy to a file."""
    return None, str(policy.save(**given))


def read_plan(path: str, set: dict[str, Any] | None = None) -> tuple[ss.Plan, dict[str, Any]]:
    """The plan of a file."""
    plan = ss.Plan.read(path, set)
    return plan, {"text": repr(plan)}


def check_plan(plan: ss.Plan, inside: bool) -> tuple[None, str]:
    """What to expect of a plan."""
    return None, str(plan.check(inside=inside))


def release_plan(
    plan: ss.Plan, overwrite: bool, out: str | None = None, seed: int | None = None
) -> tuple[None, str]:
    """Make the release of a plan, and say where it is."""
    plan.check_place(out, overwrite=overwrite)
    return None, str(plan.write(plan.release(enter=False, seed=seed), out, overwrite=overwrite))


def ledger(ledger: ss.Ledger) -> tuple[None, str]:
    """What a ledger says of its survey."""
    return None, str(ledger)


def spend(
    ledger: ss.Ledger, blank: float | None = None, replace: float | None = None, **given: Any
) -> tuple[None, None]:
    """Enter both epsilons; R leaves out what is NULL."""
    ledger.spend(blank, replace, **given)
    return None, None


def set_cap(ledger: ss.Ledger, **given: Any) -> tuple[None, None]:
    """Change the cap."""
    ledger.set_cap(**given)
    return None, None


def entries(ledger: ss.Ledger, folder: str) -> tuple[None, None]:
    """What was spent, entry by entry."""
    return _saved(ledger.entries(), folder)


def verify_ledger(
    *releases: ss.Release, ledger: ss.Ledger, folder: str, folders: Sequence[str] = ()
) -> tuple[None, None]:
    """The entries, with the release that goes with each."""
    named = {path: ss.read_release(path) for path in folders}
    named |= {f"release {position}": each for position, each in enumerate(releases, len(folders) + 1)}
    return _saved(ledger.verify(named), folder)


def privacy_cost(population_total: Any = None, **given: Any) -> tuple[None, dict[str, Any]]:
    """A dry run: of one setting, or a table, column by column."""
    cost = ss.privacy_cost(**given, population_total=_by_level(population_total, given["design"]))
    if isinstance(cost, ss.PrivacyCost):
        return None, asdict(cost)
    return None, {name: [None if pd.isna(v) else v for v in column] for name, column in cost.to_dict("list").items()}


def read_release(path: str) -> tuple[ss.Release, None]:
    """The release of a folder."""
    return ss.read_release(path), None


def release_from_text(text: str, frames: list[pd.DataFrame]) -> tuple[ss.Release, None]:
    """The release of an earlier session: what R keeps of it as text, and R's data sets."""
    return ss.Release(**fields_from_text(text, frames)), None


def write_release(release: ss.Release, **given: Any) -> tuple[None, str]:
    """Write the release folder."""
    return None, str(release.write(**given))


def resume_release(path: str, **given: Any) -> tuple[None, str]:
    """Publish a release that was charged to its ledger and then cut off."""
    return None, str(ss.resume(path, **given))


def write_tables(release: ss.Release, path: str, **given: Any) -> tuple[None, str]:
    """Write printed tables, or a figure of them."""
    write = release.plot if Path(path).suffix in FIGURES else release.write_tables
    return None, str(write(path, **given))


def tables(release: ss.Release, folder: str, **given: Any) -> tuple[None, None]:
    """Tables of a release."""
    return _saved(release.tables(**given), folder, given.get("by"))


def assign(
    release: ss.Release, columns: pd.DataFrame, again: pd.DataFrame | None = None
) -> tuple[ss.Release, None]:
    """The release with columns that R derived, the data sets one below the other, and then those under other noise."""
    frames = [design.frame for design in (*release.datasets, *(() if again is None else release.redrawn))]
    computed = columns if again is None else pd.concat([columns, again], ignore_index=True)
    plain = [name for name in frames[0].columns if name not in release.derived]
    functions = {name: _as_computed(pd.concat([f[plain] for f in frames]), computed[name]) for name in columns}
    datasets, start = [], 0
    for design in release.datasets:
        part = {name: columns[name].array[start : start + design.n] for name in columns}
        datasets.append(ss.SurveyDesign(design.frame.assign(**part), **design.roles(), labels=design.labels))
        start += design.n
    return replace(release, datasets=tuple(datasets), derived={**release.derived, **functions}), None


def _as_computed(frame: pd.DataFrame, values: pd.Series[Any]) -> Callable[[pd.DataFrame], pd.Series[Any]]:
    """A column that R computed record by record, as a function of the columns that it was computed from."""
    known = pd.Series(values.array, index=pd.util.hash_pandas_object(frame, index=False))
    known = known[~known.index.duplicated()]

    def computed(asked: pd.DataFrame) -> pd.Series[Any]:
        rows = pd.util.hash_pandas_object(asked[[*frame.columns]], index=False)
        return pd.Series(known.loc[rows].array, index=asked.index)

    return computed


def redrawn(release: ss.Release, folder: str) -> tuple[None, None]:
    """Columns of the first data set that other noise changes, under such noise: column by column."""
    weight = [] if release.method["weights"] == "public" else [str(release.datasets[0].weights_name)]
    columns = {
        f"{name}_{number}": design.frame[name].array
        for name in (*release.outcomes, *weight) for number, design in enumerate(release.redrawn, 1)
    }  # fmt: skip
    return _saved(pd.DataFrame(columns), folder)


def estimate(folder: str, **given: Any) -> tuple[None, None]:
    """Tables of a design."""
    return _saved(ss.estimate(**given), folder, given.get("by"))


def laplace_tables(folder: str, **given: Any) -> tuple[None, dict[str, Any]]:
    """Tables with Laplace noise, and their budget, in the subfolders table and budget."""
    made = ss.laplace_tables(**given)
    for name, frame, by in (("table", made.table, given["by"]), ("budget", made.budget, None)):
        (Path(folder) / name).mkdir()
        _saved(frame, str(Path(folder) / name), by)
    return None, {name: getattr(made, name) for name in ("kind", "epsilon", "guarantee", "postprocessing")}


def inclusion_probabilities(frame: pd.DataFrame, n: Any, folder: str) -> tuple[None, None]:
    """Of units with columns ``size`` and, where there are strata, ``stratum``."""
    pi = ss.sampling.inclusion_probabilities(frame["size"], n, frame.get("stratum"))
    return _saved(pd.DataFrame({"pi": pi}), folder)


def risk_of_records(
    *release: ss.Release, measure: str, folder: str, synthetic: Any = None, synthesized: Any = None, **given: Any
) -> tuple[None, None]:
    """A measure of identification of the records of the original, in a release or in frames."""
    given |= {} if synthesized is None else {"synthesized": synthesized}  # the measure of pairs has none
    risk = MEASURES[measure](synthetic=release[0] if release else synthetic, **given)
    return _saved(pd.DataFrame({"risk": risk.to_numpy()}), folder)


def compare(release: ss.Release, folder: str, by: Any = None, **given: Any) -> tuple[None, dict[str, Any]]:
    """A release beside the confidential design: its tables in subfolders."""
    found = ss.compare(given.pop("design"), release, by, **given)
    names = ["cells", "summary", "distributions", "curves", "pmse", "joint"]
    for name in names:
        (Path(folder) / name).mkdir()
        _saved(getattr(found, name), str(Path(folder) / name))
    return None, {"order": names, "text": str(found)}


def dossier(path: str, out: str, **given: Any) -> tuple[None, str]:
    """The document to sign, of a release folder beside the confidential design."""
    return None, str(ss.dossier(path, given.pop("design"), out, **given))


def public_dossier(path: str, out: str) -> tuple[None, str]:
    """Its twin, of the public files alone."""
    return None, str(ss.public_dossier(path, out))


def historical_scores(frame: pd.DataFrame, **given: Any) -> tuple[None, dict[str, Any]]:
    """Knots of normal scores from a frame with columns ``values`` and, where there are, ``weights``."""
    scores = ss.NormalScores.from_historical(frame["values"], weights=frame.get("weights"), **given)
    return None, {"amounts": scores.amounts, "probabilities": scores.probabilities}


def _released(release: ss.Release, folder: str) -> tuple[ss.Release, dict[str, Any]]:
    for number, design in enumerate(release.datasets, 1):
        (Path(folder) / str(number)).mkdir()
        exchange.save(design.frame, Path(folder) / str(number))
    return release, {"manifest": release.manifest(), "text": public_text(release)}


def _described(measured: ss.Measurements) -> tuple[ss.Measurements, str]:
    return measured, repr(measured)


def _measurements_in(path: str) -> ss.Measurements:
    """The measurements of their own folder, or of that of a release."""
    manifest = public_folder(Path(path)) / "manifest.json"
    if not manifest.is_file():
        raise ss.InputError(f"{path!r} holds neither measurements nor a release: there is no public/{manifest.name}")
    if is_measured(manifest):
        return ss.read_measurements(path)
    release = ss.read_release(path)
    if release.measured is None:
        raise ss.InputError(f"the release in {path!r} was not drawn from measurements: a model was fitted to records")
    return ss.Measurements(release.measured, release.method.get(CLASSES_IN_R, {}))


def _policy(policy: ss.Policy) -> tuple[ss.Policy, dict[str, Any]]:
    """With what it says of itself, and the columns that a file must have for it."""
    model = policy.synthesizer
    columns = {"outcomes": list(model.outcomes), "columns": list(model.predictor_columns)}
    return policy, {"text": str(policy), **columns}


def _saved(table: pd.DataFrame, folder: str, by: str | list[str] | None = None) -> tuple[None, None]:
    labels = {name: table[name].map(_label) for name in ([by] if isinstance(by, str) else by or [])}
    exchange.save(table.assign(**labels), folder)
    return None, None


def _known_totals(design: ss.SurveyDesign, total: Any, totals: Mapping[str, Any] | None) -> dict[str, Any]:
    """Public totals of everybody, of strata and of levels."""
    known: dict[str, Any] = {"population_total": _by_level(total, design)}
    if totals is not None:
        known["population_totals"] = {name: _by_label(each, name, design) for name, each in totals.items()}
    return known


def _by_level(total: Any, design: ss.SurveyDesign) -> Any:
    """Totals by the levels of the strata, which R names as it prints them."""
    if not isinstance(total, Mapping) or design.strata_name is None:
        return total
    return _by_label(total, design.strata_name, design)


def _by_label(totals: Mapping[str, Any], term: str, design: ss.SurveyDesign) -> Mapping[Any, Any]:
    """Totals by the levels of a predictor, which R names as it prints them; those of crossed ones as they are."""
    if term not in design.frame:
        return totals
    level = {_label(value): value for value in design.frame[term].unique()}
    return {level.get(name, name): value for name, value in totals.items()}


def _label(value: Any) -> str:
    """A category as R prints it."""
    if isinstance(value, (bool, np.bool_)):
        return str(value).upper()
    return f"{value:.15g}" if isinstance(value, float) else str(value)
