"""What log densities are measured against under the strict mechanism: parameters that this file did not set."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..design.survey_design import SurveyDesign
from ..engines import Diagnostics, get_engine
from ..errors import InputError, ModelError, guarded, told_if_it_breaks_down
from ..expenses import Expense, Fingerprint, with_files
from ..models.as_json import as_json, from_json
from ..models.base import Relative, Synthesizer
from ..models.draws import Draws, Sampler
from ..models.records import Public
from ..storage import as_path, unsealed
from ..validation import line_of_text, positive

Floats = NDArray[np.float64]

FINGERPRINTS = "fingerprints.json"  # in the internal part of a release folder
PUBLIC_CHAINS = 4, 1000, 1000  # of a public file's posterior, whose mean is the reference: chains, warm-up, draws


@runtime_checkable
class Published(Protocol):
    """What a reference reads of a release."""

    @property
    def method(self) -> dict[str, Any]:
        """Public facts, the parameters of the released draws among them."""
        ...

    @property
    def rests_on(self) -> tuple[Expense, ...]:
        """What was spent on its file."""
        ...

    @property
    def rests_on_others(self) -> tuple[Expense, ...]:
        """What was spent on other files that it is measured against."""
        ...


@dataclass(frozen=True)
class Reference:
    """Parameters of a model, fixed before the file was looked at, or by an earlier strict release.

    Parameters
    ----------
    synthesizer : Synthesizer
        The model that the parameters are of.
    columns : tuple of str
        Columns of its predictors.
    values : dict of float arrays
        The parameters, as draws of the model name them.
    source : str
        Where they come from; it is published.
    rests_on : tuple of Expense
        What was spent on confidential files for them; none for public parameters.

    Raises
    ------
    InputError
        Values that are no numbers by name.

    Notes
    -----
    People behind a reference are protected by the release that it comes from; for those who are in both files the
    budgets add up.  Of a release of the very same file, epsilon is counted again in what is measured against it; a
    ledger counts it once.  Where that is not known, as of a folder without its ``internal``, it is counted, too.
    A fit of last year's confidential file is no reference.

    Examples
    --------
    >>> public = ss.datasets.sdr_sample(seed=1)
    >>> reference = ss.Reference.from_public(public, ss.FBS("salary ~ gender"), source="public file of 2023")
    >>> reference.columns
    ('Intercept', 'gender[T.male]')
    >>> ss.Strict(epsilon=8, reference=reference).epsilon
    8
    """

    synthesizer: Synthesizer
    columns: tuple[str, ...]
    values: dict[str, Floats]
    source: str
    rests_on: tuple[Expense, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping):
            raise InputError("values of a reference are parameters by name: {'b': [3, 0], 'shape': 1.5}")
        wrong = (TypeError, ValueError)
        values = guarded(lambda: {name: np.asarray(v, dtype=np.float64) for name, v in self.values.items()}, wrong,
                         lambda kind: InputError("values of a reference must be numbers"))  # fmt: skip
        object.__setattr__(self, "values", values)

    @staticmethod
    def from_release(release: Published | str | Path) -> Reference:
        """The parameters of a strict release: an object, or its folder.

        Parameters
        ----------
        release : Release, str or Path
            A strict release, or its folder.

        Returns
        -------
        Reference
            Of the model that the release was made by.

        Raises
        ------
        InputError
            There is no such folder; the release is not one of ``Strict``.
        """
        if isinstance(release, Published):
            said, expenses = release.method, (*release.rests_on, *release.rests_on_others)
        else:
            folder = as_path(release, "release")
            said = _manifest(folder)
            expenses = with_files(itertools.chain(*expenses_of(said)), fingerprints_in(folder))
        if not said.get("reference"):  # of a user's own model it is empty
            raise InputError(
                "this release holds no parameters that a reference could be made of: only releases of Strict() do"
            )
        return replace(read_published(said["reference"]), rests_on=expenses)

    @classmethod
    def from_public(
        cls, design: SurveyDesign, synthesizer: Synthesizer, *, source: str, population_total: float | None = None
    ) -> Self:
        """The parameters of a **public** file, by the posterior mean: under a flat prior, or the model's own.

        Parameters
        ----------
        design : SurveyDesign
            A file that anyone may have; never last year's confidential one.
        synthesizer : Synthesizer
            One that ``Strict`` has.
        source : str
            What to call the file; it is published.
        population_total : float, optional
            As for :func:`surveysynth.synthesize`.

        Raises
        ------
        InputError, ModelError
            The file does not suit the model, or the model is none of these.

        Examples
        --------
        >>> public = ss.datasets.sdr_sample(seed=1)
        >>> ss.Reference.from_public(public, ss.FBS("salary ~ field + gender"), source="public file of 2023")
        Reference('public file of 2023', FBS: salary)
        """
        source = line_of_text(source, "source")
        if not isinstance(design, SurveyDesign) or not isinstance(synthesizer, Synthesizer):
            raise InputError("a reference is made from a SurveyDesign by a model: FBS('salary ~ field + gender')")
        if population_total is not None:
            positive(population_total, "population_total")
        if not isinstance(synthesizer, Relative):
            raise InputError(f"{synthesizer.name} cannot be measured against a reference: Strict() does not have it")
        mean = None if population_total is None else population_total / design.n
        sampler = Sampler(lambda: get_engine("auto"), np.random.default_rng(), *PUBLIC_CHAINS)
        with told_if_it_breaks_down():
            records = synthesizer.prepare(design, "ignore", mean)
            drawn = synthesizer.unprotected(records, sampler)
        if drawn.failures:
            raise ModelError(f"the sampler's diagnostics failed on the public file ({', '.join(drawn.failures)})")
        values = {name: value[0] for name, value in synthesizer.pooled(drawn).values.items()}
        file = Fingerprint.of(design.column(outcome) for outcome in synthesizer.outcomes)
        return cls(synthesizer, records.columns, values, source, (Expense(source, None, None, file=file),))

    def draws(self, model: Synthesizer, public: Public) -> Draws:
        """The parameters as one draw, for a model and the predictors of a file.

        Parameters
        ----------
        model : Synthesizer
            With the outcomes and scale of the reference's.
        public : Public
            Predictors of the file to release.

        Returns
        -------
        Draws
            One draw.

        Raises
        ------
        InputError
            The model has other outcomes or another scale; the predictors have other columns.
        """
        mine, theirs = self.synthesizer, model
        if theirs.categorical:
            raise InputError(
                f"{', '.join(theirs.categorical)}: categories and their cells are not carried from a reference to "
                "another file yet. Leave the reference out: a first draw takes its place"
            )
        if mine.outcomes != theirs.outcomes or mine.measure != theirs.measure:
            raise InputError(
                f"the reference {self.source!r} is of {', '.join(mine.outcomes)} on the scale {mine.measure}; the "
                f"model has {', '.join(theirs.outcomes)} on the scale {theirs.measure}: use the reference's own model, "
                "reference.synthesizer"
            )
        lacking = [c for c in public.columns if c not in self.columns]
        beyond = [c for c in self.columns if c not in public.columns]
        if lacking or beyond:
            raise InputError(
                f"the predictors of the reference {self.source!r} are not those of this file: without "
                f"{', '.join(lacking) or 'nothing'} of the file, with {', '.join(beyond) or 'nothing'} beside them. "
                "Recode the file, or leave the reference out: a first draw then takes its place"
            )
        values = {name: value[None] for name, value in self.values.items()}
        order = [self.columns.index(c) for c in public.columns]
        for name in values.keys() & {"B", "zero", "B_zero", "slope"}:
            values[name] = values[name][:, order]
        if "b" in values:
            values["b"] = values["b"][..., order]
        if "c" in values:  # the last is that of the outcome
            values["c"] = values["c"][..., [*order, -1]]
        return Draws(values, np.zeros(1, dtype=np.intp), Diagnostics(exact=True), "reference", "")

    def __repr__(self) -> str:
        return f"Reference({self.source!r}, {self.synthesizer.name}: {', '.join(self.synthesizer.outcomes)})"


def published(model: Relative[Any], public: Public, draws: Draws, source: str) -> dict[str, Any]:
    """What the manifest of a strict release says, for :meth:`Reference.from_release`; of a user's own model nothing."""
    if not model.later_files:
        return {}
    values = {name: value[0].tolist() for name, value in model.pooled(draws).values.items()}
    return {
        "synthesizer": as_json(model.for_later_files()),
        "columns": list(public.columns),
        "values": values,
        "source": source,
    }


def expenses_of(manifest: Mapping[str, Any]) -> tuple[tuple[Expense, ...], tuple[Expense, ...]]:
    """What a release rests on, as its manifest says: of its own file and of others (InputError: it is damaged).

    One that does not say it, as of an earlier version, rests on its epsilon.
    """

    def read() -> tuple[tuple[Expense, ...], tuple[Expense, ...]]:
        if "rests_on" in manifest:
            own, others = (
                tuple(Expense(**each) for each in manifest.get(name, ())) for name in ("rests_on", "rests_on_others")
            )
            return own, others
        said = dict(manifest)
        epsilons = tuple(dict(said["neighbours"]).values())
        blank, replaced = (epsilons[0], epsilons[1] if len(epsilons) > 1 else None) if epsilons else (None, None)
        return (Expense("an earlier release", blank, replaced, id=said["checksum"]["sha256"][:32]),), ()

    wrong = (TypeError, KeyError, ValueError, IndexError)
    return guarded(read, wrong, lambda kind: InputError(f"what the release rests on is damaged ({kind})"))


def write_fingerprints(expenses: Iterable[Expense], folder: Path) -> None:
    """Write the fingerprints of the files that something was spent on, to an ``internal`` folder."""
    said = {each.id: asdict(each.file) for each in expenses if each.file is not None}
    if said:
        (folder / FINGERPRINTS).write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")


def fingerprints_in(folder: Path) -> dict[str, Fingerprint]:
    """Fingerprints of files by the numbers of expenses, from a release folder whose ``internal`` can be read."""
    file = folder / "internal" / FINGERPRINTS

    def read() -> dict[str, Fingerprint]:
        said = json.loads(file.read_text(encoding="utf-8"))
        return {id: Fingerprint(each["key"], tuple(each["digests"])) for id, each in said.items()}

    try:
        there = file.is_file()
    except OSError:  # a folder of somebody else's
        return {}
    if not there:
        return {}
    wrong = (OSError, ValueError, TypeError, KeyError, AttributeError)
    return guarded(read, wrong, lambda kind: InputError(f"{str(file)!r} cannot be read ({kind})"))


def read_published(said: Any) -> Reference:
    """The reference that :func:`published` made an entry of a manifest of (InputError: it is damaged)."""
    try:
        values = {name: np.asarray(value, dtype=np.float64) for name, value in said["values"].items()}
        for name in values.keys() & {"L", "L_zero"}:  # JSON has no square of no rows
            values[name] = values[name].reshape(len(values[name]), -1) if values[name].size else np.zeros((0, 0))
        return Reference(from_json(said["synthesizer"]), tuple(said["columns"]), values, said["source"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"the reference in this release is damaged ({type(error).__name__})") from None


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a release's folder, or of its public part."""
    for path in (folder / "public" / "manifest.json", folder / "manifest.json"):
        if path.is_file():
            try:
                return dict(json.loads(unsealed(path)))
            except (ValueError, TypeError, RecursionError) as error:
                raise InputError(f"{str(path)!r} is not the manifest of a release ({type(error).__name__})") from None
    raise InputError(f"{str(folder)!r} is not the folder of a release: it has no manifest.json")

