"""A synthesizer made from a Stan program and from Python functions for its data, its density and its simulation.

The program must sample the parameters theta from a density proportional to

    p(theta) prod_i p(y_i, log w_i | x_i, theta)^alpha_i,

where y_i are the outcomes, w_i is the survey weight (if it is modelled), x_i are the predictors and alpha_i is the
privacy weight of record i.  The log density of every record is multiplied by alpha_i, and the log prior is not.
Epsilon is computed from ``log_density``.  If the program has a factor that ``log_density`` omits, the computed epsilon
is too small; :func:`surveysynth.check_model` detects this error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..choices import Clusters
from ..design.formula import sides_of
from ..design.survey_design import SurveyDesign
from ..engines.embedded import check_data, check_program
from ..errors import InputError, ModelError
from ..storage import as_path
from ..validation import as_list, one_of
from .base import Synthesizer
from .draws import Draws, Sampler, Synthetic
from .predictors.model_matrix import Constants
from .records import Public, Records

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


class StanModel(Synthesizer[Records]):
    """A synthesizer made from a Stan program and three Python functions.

    n is the number of records, d of outcomes, K of columns of the model matrix, and S of posterior draws.

    Parameters
    ----------
    program : str or Path
        File of the Stan program.
    outcome : str or list of str
        Confidential columns of numbers that are synthesized; or a formula with the predictors, ``"y ~ x"``.
    predictors : str
        Right-hand side of a formula of public columns, as in R.  ``"1"`` stands for no predictors.
    measure : str
        Scale of the density, as the report prints it: "income in thousands", "count".
    data : function of (records, alpha)
        Returns the data of the program, by name.  ``records.x`` (n, K) is the model matrix.  ``records.X`` has its
        distinct rows, and record i has the row ``X[records.row[i]]``.  ``records.y`` (n,) or (n, d) are the
        outcomes.  ``records.log_w`` (n,) is log(w / mean w), or None if the weight is public.  The program must
        multiply the log density of every record by the privacy weight ``alpha`` (n,), a number from 0 to 1.
    log_density : function of (records, draws)
        Returns the normalized log p(y_i, log w_i | x_i, draw) (S, n).  ``draws["b"]`` are the S draws of parameter b.
    simulate : function of (public, draw, rng)
        Returns two things: the synthetic outcomes (n,) or (n, d), and the synthetic log weights (n,), or None if the
        weight is public.  ``draw["b"]`` is one draw of parameter b.  ``public`` is like ``records``, but without
        outcomes and ``log_w``; ``public.public_weights`` are the weights if they are public.
    weight : {"public", "modelled"}
        "public": the survey weight must be a function of the predictors.  "modelled": the weight is modelled with the
        outcome, unless it is found to be a function of the predictors.  A weight that is a function of the predictors
        is released unchanged.
    missing : {"fail", "drop"}
        "fail" refuses a file with a missing outcome.  "drop" leaves the record out, and the report says how many.

    Raises
    ------
    ModelError
        On construction: the program does not compile.  The message names line and column.
    InputError
        On construction: there is no such file, an option is unknown, or ``data``, ``log_density`` or ``simulate`` is
        not a function.

    Notes
    -----
    The draws contain the parameters, transformed parameters and generated quantities of the program.  None of these may
    have an entry for every record, because convergence diagnostics are computed for each entry.  Synthetic values are
    not made with the program's random numbers, whose seed has only 32 bits: somebody who knows published values could
    try all seeds.

    Examples
    --------
    A model from a program in ``rate.stan`` and three functions as above (docs/extending.md shows all four):

    >>> made_of = {"data": data, "log_density": log_density, "simulate": simulate}  # doctest: +SKIP
    >>> model = ss.StanModel("rate.stan", outcome="visits ~ region", measure="count", **made_of)  # doctest: +SKIP
    """

    def __init__(
        self,
        program: str | Path,
        *,
        outcome: str | list[str],
        predictors: str = "1",
        measure: str,
        data: Callable[[Records, Floats], Mapping[str, Any]],
        log_density: Callable[[Records, Draws], Floats],
        simulate: Callable[[Public, Mapping[str, Any], np.random.Generator], tuple[Floats, Floats | None]],
        weight: Literal["public", "modelled"] = "public",
        missing: Literal["fail", "drop"] = "fail",
    ) -> None:
        one_of(weight, ("public", "modelled"), "weight")
        one_of(missing, ("fail", "drop"), "missing")
        self.program = as_path(program, "program").resolve()
        if not self.program.is_file():
            raise InputError(f"there is no Stan program {str(program)!r}")
        check_program(self.program)
        for name, function in (("data", data), ("log_density", log_density), ("simulate", simulate)):
            if not callable(function):
                raise InputError(f"{name} must be a function; see surveysynth.StanModel")
        names, predictors = sides_of(outcome, predictors)
        self.outcomes = tuple(as_list(names))
        self.predictors, self.measure, self.missing, self.weight = predictors, measure, missing, weight
        self._data, self._log_density, self._simulate = data, log_density, simulate

    def __repr__(self) -> str:
        return f"StanModel({self.program.name!r}, outcome={list(self.outcomes)}, predictors={self.predictors!r})"

    @property
    def name(self) -> str:
        """Name of the program's file, without the suffix."""
        return self.program.stem

    def prepare(
        self, design: SurveyDesign, clusters: Clusters = "model", mean_weight: float | None = None,
        constants: Constants | None = None, unit: Codes | None = None,
    ) -> Records:  # fmt: skip
        """Check a file and return its records (:meth:`Synthesizer.prepare`).

        Raise InputError, too, if ``weight="public"`` and the survey weight is not a function of the predictors.
        """
        records = super().prepare(design, clusters, mean_weight, constants, unit)
        if records.log_w is not None and self.weight == "public":
            raise InputError(
                f"the survey weights are not a function of the predictors, and {self.name} does not model them: put "
                "what the weights depend on into the formula, or say weight='modelled' and model log_w with the outcome"
            )
        return records

    def data(self, records: Records, alpha: Floats) -> dict[str, Any]:
        """Return the data of the Stan program, by name, from the user's function ``data``."""
        return dict(self._data(records, alpha))

    def fit(self, records: Records, alpha: Floats, sampler: Sampler) -> Draws:
        """Draw the parameters from the density of the Stan program.

        Raises
        ------
        ModelError
            A variable of the program's data is missing or has a wrong size; or a parameter or computed quantity of the
            program has an entry for every record, which the convergence diagnostics do not allow.
        EngineError
            The sampler stopped.
        """
        entries = self.data(records, alpha)
        check_data(self.program, entries)
        fit = sampler.sample(str(self.program), entries)
        values = {name: draws.reshape(-1, *draws.shape[2:]) for name, draws in fit.values.items()}
        record_sized = [name for name, v in values.items() if v.ndim > 1 and records.n > 1 and records.n in v.shape[1:]]
        if record_sized:
            raise ModelError(
                f"{self.program.name}: {', '.join(record_sized)} has an entry for every record. Leave it out of the "
                "program: log_density= and simulate= compute what belongs to records"
            )
        return Draws(values, sampler.chain_of_draws, fit.diagnostics, fit.engine, fit.version)

    def log_density(self, records: Records, draws: Draws) -> Floats:
        """Return the log densities (S, n) from the user's function ``log_density``."""
        logs = np.asarray(self._log_density(records, draws), dtype=np.float64)
        if logs.shape != (draws.size, records.n):
            raise ModelError(
                f"log_density of {self.name} must be an array of draws by records, here {(draws.size, records.n)}; it "
                f"is {logs.shape}"
            )
        return logs

    def simulate(self, public: Public, draw: Draws, rng: np.random.Generator) -> Synthetic:
        """Return one synthetic data set from the user's function ``simulate``."""
        y, log_w = self._simulate(public, {name: v[0] for name, v in draw.values.items()}, rng)
        y = np.asarray(y, dtype=np.float64).reshape(public.n, -1)
        if y.shape[1] != len(self.outcomes):
            raise ModelError(f"simulate of {self.name} made {y.shape[1]} outcomes; there are {len(self.outcomes)}")
        if public.public_weights is not None:
            return Synthetic(y, public.public_weights)
        if log_w is None:
            raise ModelError(f"simulate of {self.name} must return log weights, too: the weights are not public")
        return Synthetic(y, np.exp(np.asarray(log_w, dtype=np.float64)))
