"""The list of models for the command line, policies and the R package, and the import of users' own models.

A new model needs the files ``models/x.py`` and ``stan/x.stan``, and a :class:`Listed` in :data:`MODELS`.  The file of a
model is imported when the model is first used.
"""

from __future__ import annotations

import importlib.util
import inspect
import pkgutil
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, SurveySynthError

if TYPE_CHECKING:
    from .base import Synthesizer

OWN_MODEL = re.compile(r".+\.py:\w+")  # a model in a user's Python file: file.py:name


@dataclass(frozen=True)
class Listed:
    """A model of the package, as listed in :data:`MODELS`.

    Attributes
    ----------
    place : str
        Import path within ``surveysynth.models``: ``module:Class``, or ``module:Class.method`` if the class method
        ``method`` makes the model.
    in_r : str
        Name of the function of the R package that makes the model.
    what : str
        Short description, printed by the command line.
    """

    place: str
    in_r: str
    what: str

    @property
    def kind(self) -> type[Synthesizer]:
        """The class of the model."""
        module, _, name = self.place.partition(":")
        found: type[Synthesizer] = pkgutil.resolve_name(f"{__package__}.{module}:{name.partition('.')[0]}")
        return found

    @property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """Parameters of the model's constructor, by name."""
        return inspect.signature(self.kind).parameters

    @property
    def one_outcome(self) -> bool:
        """True if the model synthesizes a single outcome."""
        from .one_outcome import OneOutcome

        return issubclass(self.kind, OneOutcome)

    def make(self, outcome: str | Sequence[str], predictors: str, **options: Any) -> Synthesizer:
        """Make the model from outcomes, predictors (the right-hand side of a formula) and constructor options."""
        made: Synthesizer = pkgutil.resolve_name(f"{__package__}.{self.place}")(outcome, predictors, **options)
        return made


MODELS = {  # by their names on the command line
    "fbs": Listed("normal.fbs:FBS", "fbs", "FBS"),
    "fbp": Listed("normal.fbp:FBP", "fbp", "FBP"),
    "fbp-paper": Listed("normal.fbp:FBP.paper", "fbp", "FBP as in the paper"),
    "beta": Listed("beta:BetaRegression", "beta_regression", "a beta regression of one bounded outcome"),
    "nb": Listed("counts:NegativeBinomialRegression", "negbin", "a negative binomial regression of one count"),
    "poisson": Listed("counts:PoissonRegression", "poisson_counts", "a Poisson regression of one count"),
    "gamma": Listed("gamma:GammaRegression", "gamma_regression", "a gamma regression of one positive outcome"),
    "multinomial": Listed(
        "multinomial:MultinomialRegression", "multinomial_regression", "a multinomial regression of one category"
    ),
    "mixture": Listed("mixture.model:Mixture", "mixture", "a mixture of regressions of one skewed outcome"),
}


def model_from_file(file: str, outcome: Sequence[str], predictors: str) -> Synthesizer:
    """Make a user's model from a Python file.

    Parameters
    ----------
    file : str
        ``file.py:name``.  In the file, ``name`` is a synthesizer, or a function that makes a synthesizer.  The
        arguments of the function are the outcome (a name, or a list of several names) and the predictors.
    outcome : list of str
        Names of the outcomes that the synthesizer must have.
    predictors : str
        Right-hand side of the formula that the synthesizer must have.

    Returns
    -------
    Synthesizer
        The user's model.

    Raises
    ------
    InputError
        There is no such file or name; the code of the file raises an exception; or the synthesizer has other outcomes
        or predictors.  For an exception, only its type and line number are reported, because its text may quote data.
    """
    from .base import Synthesizer

    path, _, name = file.rpartition(":")
    if OWN_MODEL.fullmatch(file) is None:
        raise InputError(f"{file!r} is no model of your own: write file.py:name")
    if not Path(path).is_file():
        raise InputError(f"{file}: there is no file {path!r}")
    made, asked, fault = None, list(outcome), ""
    try:
        made = getattr(_loaded(Path(path)), name, None)
        if callable(made) and not isinstance(made, Synthesizer):
            made = made(asked if len(asked) > 1 else asked[0], predictors)
    except SurveySynthError:
        raise
    except Exception as error:
        fault = f"{type(error).__name__}{_line(error, Path(path))}"
    if fault:  # raised outside of the handler, without the exception as its context
        raise InputError(f"{file}: {fault}")
    if not isinstance(made, Synthesizer):
        raise InputError(f"{file}: {name} is neither a synthesizer nor a function that makes one")
    if (list(made.outcomes), made.predictors) != (asked, predictors):
        raise InputError(
            f"{file}: it is a model of {', '.join(made.outcomes)} given {made.predictors!r}, and one of "
            f"{', '.join(asked)} given {predictors!r} was asked for"
        )
    return made


def _loaded(path: Path) -> Any:
    """Import a Python file as the module ``surveysynth_model_`` plus the file's name, and return the module."""
    spec = importlib.util.spec_from_file_location(f"surveysynth_model_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _line(error: Exception, path: Path) -> str:
    """Return " in line N" if line N of the file ``path`` led to the exception, and an empty string otherwise."""
    went = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        went.append((error.filename or "", error.lineno))
    here = [line for file, line in went if Path(file) == path.absolute()]
    return f" in line {here[-1]}" if here else ""
