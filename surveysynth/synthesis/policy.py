"""A policy: everything that protects a release, set on a historical file (Hu, Williams & Savitsky 2025, section 4.5).

    historical file -> unweighted fit: draws theta_s -> f_i = max_s |log p_i| -> map, c1, c2 -> epsilon

Here p_i is the density of record i at a posterior draw theta_s, f_i the record's risk, and c1 and c2 the constants of
the map from risks to privacy weights alpha_i.  In later periods the same draws give f_i for the records of the current
file, the same map and constants give alpha_i, and the fit moves every alpha_i log p_i into [-epsilon / (2 m),
epsilon / (2 m)] (the clamp), for m data sets.  So a record's privacy weight depends on no other record of the current
file, and the guarantee is strict.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ..choices import Clusters, MapName
from ..design.discrete import is_label
from ..design.survey_design import SurveyDesign
from ..design.to_synthesize import to_synthesize
from ..engines import Diagnostics, get_engine
from ..errors import InputError, ModelError
from ..models.as_json import as_json, from_json
from ..models.base import Boundable, Portable, Synthesizer
from ..models.draws import Draws, Sampler
from ..models.predictors.model_matrix import Constants, predictor_constants
from ..privacy.budget import Budget
from ..privacy.mechanisms import Assessment, PseudoPosterior
from ..privacy.mechanisms.censored import Censored
from ..privacy.protected_fit import PseudoLikelihood
from ..privacy.units import Unit
from ..storage import as_path, whole_file
from ..validation import check_seed, line_of_text, positive
from .draws import check_chains
from .levels import declared
from .missing import without_missing
from .synthetic_design import check_total, public_mean_weight

Floats = NDArray[np.float64]

Positive = Annotated[float, Field(gt=0)]
AtLeastZero = Annotated[float, Field(ge=0)]


class Stored(BaseModel):
    """The JSON part of a policy's file: everything but the draws."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    format: Literal["surveysynth policy 3"]
    synthesizer: dict[str, Any]
    epsilon: Positive
    m: Annotated[int, Field(ge=1)]
    map: MapName
    c1: Positive
    c2: float
    span: tuple[AtLeastZero, AtLeastZero]
    columns: list[str]
    levels: dict[str, list[str]]
    constants: dict[str, Any]
    public_weights: bool
    digest: Annotated[str, Field(pattern="^[0-9a-f]{32}:[0-9a-f]{64}$")]
    source: str
    delta: AtLeastZero
    mean_alpha: AtLeastZero
    draws: dict[str, list[int]]  # shapes


@dataclass(frozen=True, repr=False)  # a repr would show draws from a confidential file
class Policy:
    """Everything that protects later releases of a survey, set once on a historical file.

    A policy is confidential: it contains posterior draws of the historical file, and means and knots of the file's
    predictors.  :meth:`from_historical` makes a policy.

    Attributes
    ----------
    synthesizer : Synthesizer
        The model, with its predictors.
    epsilon : float
        Epsilon of each release of m data sets.
    m : int
        Number of data sets of each release.
    mechanism : Censored
        ``Censored(weighted=True)`` with the map and its constants c1 and c2.
    span : (float, float)
        The smallest and the largest risk in the historical file, which the linear map uses.
    columns : tuple of str
        Columns of the model matrix.  A later file must have the same columns.
    levels : dict of str to list of str
        Levels of the categorical predictors.  A later file must have the same levels.
    constants : dict of str to dict
        Constants of terms such as ``center(age)`` and ``bs(age, 5)`` (mean, knots) in the historical file.  The
        predictors of a later file are evaluated with these constants.
    public_weights : bool
        True if the survey weight was a function of the predictors.  The same must be true of a later file.
    digest : str
        Salted hash of the historical outcomes, by which the historical file itself is recognized and refused.
    values : dict of float arrays (S, ...)
        S draws of the unweighted posterior, from which the risks f_i are computed.
    source : str
        Published name of the historical file.
    delta : float
        Lipschitz bound of the historical file under the privacy weights.  The clamp is not delta, but epsilon / (2 m).
    mean_alpha : float
        Mean privacy weight in the historical file.

    Examples
    --------
    A policy from last year's file for this year's:

    >>> last, this = ss.datasets.sdr_sample(seed=1), ss.datasets.sdr_sample(seed=2)
    >>> model = ss.FBS("salary ~ field + gender", prior="normal")
    >>> public = {"source": "file of 2024", "population_total": 100_000}
    >>> policy = ss.Policy.from_historical(last, model, epsilon=10, **public)  # doctest: +SKIP
    >>> ss.synthesize(this, policy=policy, population_total=101_000)  # doctest: +SKIP
    """

    synthesizer: Synthesizer
    epsilon: float
    m: int
    mechanism: Censored
    span: tuple[float, float]
    columns: tuple[str, ...]
    levels: dict[str, list[str]]
    constants: Constants
    public_weights: bool
    digest: str
    values: dict[str, Floats]
    source: str
    delta: float
    mean_alpha: float

    @classmethod
    def from_historical(
        cls,
        design: SurveyDesign,
        synthesizer: Synthesizer,
        *,
        epsilon: float,
        source: str,
        population_total: float | Mapping[Any, float],
        m: int = 3,
        map: MapName = "inverse",
        c1: float | None = None,
        c2: float = 0.0,
        clusters: Clusters = "model",
        engine: str = "auto",
        chains: int = 4,
        warmup: int = 1000,
        draws: int = 1000,
        seed: int | None = None,
    ) -> Self:
        """Make a policy from a historical file: epsilon, and the map from risks to privacy weights with its constants.

        Parameters
        ----------
        design : SurveyDesign
            The historical file, such as last year's file, but not the file to release.
        synthesizer, epsilon, m, clusters, engine, chains, warmup, draws, seed
            See :func:`surveysynth.fit`.
        source : str
            Published name of the historical file.
        population_total : float or mapping of stratum to float
            Public total or totals of the historical file.
        map, c1, c2
            See :class:`surveysynth.PseudoPosterior`.  If c1 is not given, it is tuned so that the bound of the
            historical file is epsilon / (2 m).  Few records of a similar file are then clamped.

        Returns
        -------
        Policy
            The confidential policy.

        Raises
        ------
        InputError, ModelError, PrivacyError, EngineError
            See :func:`surveysynth.fit`.  An error is also raised if ``source`` is empty; if the model has no fit with a
            clamp, cannot be used for another file, or draws synthetic values given the confidential values, so that no
            epsilon holds; or if the formula has a term that depends on other records, such as ``I(x - x.mean())``.

        Notes
        -----
        The method is from Hu, Williams & Savitsky (2025, section 4.5).

        Examples
        --------
        >>> last = ss.datasets.sdr_sample(seed=1)
        >>> model = ss.FBS("salary ~ field + gender", prior="normal")
        >>> public = {"source": "file of 2024", "population_total": 100_000}
        >>> policy = ss.Policy.from_historical(last, model, epsilon=10, **public)  # doctest: +SKIP
        >>> policy.save("policy.json")  # doctest: +SKIP
        """
        source = line_of_text(source, "source")
        check_seed(seed)
        check_chains(chains, warmup, draws)
        budget = Budget(positive(epsilon, "epsilon"), m)
        weights = PseudoPosterior(map, c1, c2)
        # c1 is tuned below if it is not given
        mechanism = Censored(epsilon, weighted=True, map=map, c1=1.0 if c1 is None else c1, c2=c2)
        _check_model(synthesizer, mechanism)
        design, records = _prepared(design, synthesizer, clusters, population_total)
        constants = predictor_constants(design, synthesizer.predictors)
        runs = get_engine(engine)
        sampler = Sampler(lambda: runs, np.random.default_rng(seed), chains, warmup, draws)
        pseudo = PseudoLikelihood(synthesizer, records, Unit(), sampler)
        unweighted = pseudo.fit(np.ones(design.n))
        risk = synthesizer.lipschitz(records, unweighted)
        assessment = Assessment(lambda _: risk, None, np.ones(design.n))
        weighted = weights.fit(pseudo, budget, assessment, tolerance=0.01, reweight=0, say=lambda _: None)
        finite = risk[np.isfinite(risk)]
        if finite.size == 0:
            raise ModelError("no record of the historical file has a finite risk: the model does not suit it")
        assert isinstance(synthesizer, Portable)  # ensured by _check_model
        return cls(
            synthesizer, epsilon, m, replace(mechanism, c1=float(f"{weighted.c1:.4g}")),
            (float(finite.min()), float(finite.max())), tuple(records.columns), _levels(design, synthesizer), constants,
            records.public_weights is not None, _digest(design, synthesizer, secrets.token_hex(16)),
            synthesizer.to_original_scale(records, unweighted).values, source, weighted.delta,
            float(weighted.alpha.mean()),
        )  # fmt: skip

    def risk(self, design: SurveyDesign, data: Any) -> Floats:
        """Compute each record's risk: the largest |log density| over posterior draws from the historical file.

        Parameters
        ----------
        design : SurveyDesign
            The file.
        data : object
            The records as the synthesizer prepares them with the policy's ``constants``.

        Returns
        -------
        float array (n,)
            The risk f_i of each record.

        Raises
        ------
        InputError
            The file is the historical file itself, so that the policy would depend on the values that it must protect.
            Or the predictors have other columns or levels than in the historical file, or the weights are a function of
            the predictors in one of the two files only, so that the model is another.
        """
        if _digest(design, self.synthesizer, self.digest.partition(":")[0]) == self.digest:
            raise InputError(
                "the policy was made from this very file: it must come from another one, a historical or a public one, "
                "or what it sets depends on what it must protect"
            )
        levels = _levels(design, self.synthesizer)
        there = {*self.columns, *(f"{c} {label}" for c, labels in self.levels.items() for label in labels)}
        here = {*data.columns, *(f"{c} {label}" for c, labels in levels.items() for label in labels)}
        if here != there or tuple(data.columns) != self.columns:
            raise InputError(
                f"the predictors are not those of the policy's file {self.source!r} (new: "
                f"{', '.join(sorted(here - there)) or 'none'}; lacking: {', '.join(sorted(there - here)) or 'none'}): "
                "make the policy from a file with the same levels, or merge rare ones in both"
            )
        if (data.public_weights is not None) != self.public_weights:
            was = "a function of the predictors" if self.public_weights else "no function of the predictors"
            raise InputError(
                f"in the policy's file {self.source!r} the survey weight was {was}, which is not so here: the model is "
                "not the same, so make another policy"
            )
        S = len(next(iter(self.values.values())))
        draws = Draws(self.values, np.zeros(S, dtype=np.intp), Diagnostics(), "", "")
        assert isinstance(self.synthesizer, Portable)
        return self.synthesizer.lipschitz(data, self.synthesizer.from_original_scale(data, draws))

    def describe(self) -> str:
        """Return a sentence of the public report on where the privacy weights come from.

        Returns
        -------
        str
            The sentence.
        """
        c = self.mechanism
        return (
            f"the privacy weights come from a policy, set on a historical file ({self.source}): map {c.map}, c2 = "
            f"{c.c2:g}, a scale c1, and risks under posterior draws of that file; nothing in this file set them. What "
            "they reveal about the historical file, and so about people who are in both, is not covered by this epsilon"
        )

    def __repr__(self) -> str:
        c = self.mechanism
        return (
            f"Policy from {self.source!r}: {self.synthesizer.name} of {', '.join(self.synthesizer.outcomes)}, "
            f"epsilon = {self.epsilon:g} for m = {self.m} data sets, contributions clamped to plus or minus "
            f"{Budget(self.epsilon, self.m).bound:.4g}; map {c.map}, c1 = {c.c1:g}, c2 = {c.c2:g}. On the historical "
            f"file the Lipschitz bound was {self.delta:.4g} and the mean privacy weight {self.mean_alpha:.3f}. "
            "Confidential: it holds posterior draws of that file."
        )

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the policy to one file (mode 0600), completely or not at all.

        Parameters
        ----------
        path : str or Path
            The file.
        overwrite : bool
            True if an existing file is replaced.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            The file exists and ``overwrite`` is False, or the folder of the file does not exist.
        """
        path = as_path(path)
        if path.exists() and not overwrite:
            raise InputError(f"{str(path)!r} exists; choose another name, or overwrite=True")
        if not path.parent.is_dir():
            raise InputError(f"{str(path.parent)!r} is not a folder")
        entries = {
            "format": "surveysynth policy 3", "synthesizer": as_json(self.synthesizer),
            "epsilon": self.epsilon, "m": self.m,
            "map": self.mechanism.map, "c1": self.mechanism.c1, "c2": self.mechanism.c2, "span": self.span,
            "columns": self.columns, "levels": self.levels, "constants": as_json(self.constants),
            "public_weights": self.public_weights, "digest": self.digest, "source": self.source, "delta": self.delta,
            "mean_alpha": self.mean_alpha, "draws": {name: draws.shape for name, draws in self.values.items()},
        }  # fmt: skip
        with whole_file(path) as stream:
            np.savez_compressed(stream, policy=np.array(json.dumps(entries)), **_arrays(self.values))
        return path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a policy from its file.

        Parameters
        ----------
        path : str or Path
            A file that :meth:`save` wrote.

        Returns
        -------
        Policy
            The confidential policy.

        Raises
        ------
        InputError
            The file does not exist, is not a policy of this version, or is damaged.
        """
        path = as_path(path)
        if not path.is_file():
            raise InputError(f"{str(path)!r} is not a file")
        try:
            with np.load(path, allow_pickle=False) as stored:
                kept = Stored.model_validate_json(str(stored["policy"]))
                values = {name.removeprefix("draws_"): stored[name] for name in stored.files if name != "policy"}
            _check_draws(values, kept.draws)
            mechanism = Censored(kept.epsilon, weighted=True, map=kept.map, c1=kept.c1, c2=kept.c2)
            return cls(
                from_json(kept.synthesizer), kept.epsilon, kept.m, mechanism, kept.span, tuple(kept.columns),
                kept.levels, from_json(kept.constants), kept.public_weights, kept.digest, values, kept.source,
                kept.delta, kept.mean_alpha,
            )  # fmt: skip
        except Exception as error:  # a damaged file raises many kinds of errors
            entries = [".".join(map(str, fault["loc"])) for fault in getattr(error, "errors", list)()]
            where = ", ".join(entries) or type(error).__name__
            raise InputError(
                f"{str(path)!r} is not a policy of this version, or is damaged ({where}): make it again with "
                "Policy.from_historical, or take the copy that you keep"
            ) from None


def _check_draws(values: Mapping[str, Floats], shapes: Mapping[str, Sequence[int]]) -> None:
    """Raise ValueError for infinite values, or for draws whose names or shapes are not those that were written."""
    if {name: list(draws.shape) for name, draws in values.items()} != dict(shapes):
        raise ValueError("draws of another shape")
    if len({len(draws) for draws in values.values()}) != 1:
        raise ValueError("parameters with different numbers of draws")
    if not all(draws.dtype == np.float64 and np.isfinite(draws).all() for draws in values.values()):
        raise ValueError("draws that are no numbers")


def _check_model(synthesizer: Synthesizer, mechanism: Censored) -> None:
    """Raise InputError or ModelError for a model for which a policy cannot be made.

    Such a model has no fit with a clamp, cannot be used for other files, or draws synthetic values given the
    confidential values.
    """
    if synthesizer.from_records:
        raise InputError(
            "allocation='posterior' draws what is published given the confidential value of each record: no epsilon "
            "holds for it, and a policy promises one; use allocation='prior'"
        )
    mechanism.check_model(synthesizer, None)
    if not isinstance(synthesizer, Portable):
        raise InputError(f"{synthesizer.name} cannot be carried to another file, and a policy is for other files")


def _prepared(
    design: SurveyDesign, synthesizer: Synthesizer, clusters: Clusters, population_total: float | Mapping[Any, float]
) -> tuple[SurveyDesign, Any]:
    """Return the historical design without missing outcomes, and the records as the model prepares them."""
    design, _, left_out = to_synthesize(design)
    for note in left_out:
        warnings.warn(note, stacklevel=3)
    total = check_total(population_total, design)
    design, _, absent = without_missing(declared(design, synthesizer, None), synthesizer)
    if absent.any():
        check_total(total, design)
    records = synthesizer.prepare(design, clusters, public_mean_weight(design, total))
    assert isinstance(synthesizer, Boundable)  # ensured by _check_model
    synthesizer.check_censored(records)
    return design, records


def _levels(design: SurveyDesign, synthesizer: Synthesizer) -> dict[str, list[str]]:
    """Return the sorted categories that occur, as text, for each predictor that is not numeric."""
    columns = {name: design.column(name) for name in synthesizer.predictor_columns}
    return {name: sorted(set(column.astype(str))) for name, column in columns.items() if is_label(column)}


def _digest(design: SurveyDesign, synthesizer: Synthesizer, salt: str) -> str:
    """Return the text "salt:hash", by which the historical file is recognized.

    The hash (SHA-256) is of the salt and of the values of each outcome in ascending order, so that it does not depend
    on the order of the records.
    """
    values = np.sort(np.column_stack([design.numeric(outcome) for outcome in synthesizer.outcomes]), axis=0)
    return f"{salt}:{hashlib.sha256(salt.encode() + values.tobytes()).hexdigest()}"


def _arrays(values: Mapping[str, Floats]) -> dict[str, Any]:
    return {f"draws_{name}": array for name, array in values.items()}
