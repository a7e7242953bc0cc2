"""The errors of surveysynth, one small family.

A message names the column, the number of rows at fault, the first few row numbers and the remedy.
It never shows a value, since messages end up in logs and tickets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class SurveySynthError(Exception):
    """Base of all errors that surveysynth raises on purpose.

    Attributes
    ----------
    code : str
        One word for the kind of error, on which programs may rely, as R's conditions do; messages may change.
    """

    code: ClassVar[str] = "error"
    obstacles: tuple[str, ...] = ()  # where several things stand in the way, the message on each


class InputError(SurveySynthError, ValueError):
    """The caller's data, column names or arguments cannot be used as they are."""

    code = "input"


class ModelError(SurveySynthError):
    """The model cannot be fitted to this file (singular, unbounded, not estimable)."""

    code = "model"


class PrivacyError(SurveySynthError):
    """The requested privacy guarantee cannot be given."""

    code = "privacy"


class EngineError(SurveySynthError):
    """The Stan engine is missing or stopped."""

    code = "engine"


class NotFitForRelease(SurveySynthError):
    """The sampler's diagnostics failed, so nothing is released."""

    code = "diagnostics"


class Obstacles:
    """Everything that stands in the way of a call, so that one message can tell all of it.

    Checks run one after the other, in the order in which their findings are to be mended.
    """

    def __init__(self, found: Iterable[SurveySynthError] = ()) -> None:
        self.found = [*found]

    def check(self, check: Callable[P, T], *args: P.args, **options: P.kwargs) -> T | None:
        """The value of a check; None where it refuses, which is noted, or fails over what was refused before."""
        try:
            return check(*args, **options)
        except (InputError, ModelError, PrivacyError) as error:
            self.note(error)
        except (TypeError, ValueError, KeyError, AttributeError):
            if not self.found:
                raise
        return None

    def note(self, error: SurveySynthError) -> None:
        """Note what a check refused; what was noted already is not told twice."""
        if str(error) not in map(str, self.found):
            self.found.append(error)

    def refuse(self) -> None:
        """Raise what was found: one error as it is, several as one of the kind of the first."""
        if not self.found:
            return
        if len(self.found) == 1:
            raise self.found[0]
        messages = [each for error in self.found for each in error.obstacles or (str(error),)]
        listed = "\n".join(f"{number}. {message}" for number, message in enumerate(messages, 1))
        error = type(self.found[0])(f"{len(messages)} things stand in the way; mend them in this order:\n{listed}")
        error.obstacles = tuple(messages)
        raise error


TOO_EXTREME = (
    "the computation broke down ({}): some outcomes, predictors or weights are too extreme, or nearly the same in all "
    "records, for the model. Look at the largest and the smallest of them, trim or rescale them, leave out predictors "
    "that say the same, or choose another scale of the outcome (transform=)"
)


@contextmanager
def breakdown_as_error() -> Iterator[None]:
    """Turn numerical breakdowns, such as a singular matrix or an overflow, into a ModelError."""
    from numpy.linalg import LinAlgError  # not before it is needed, as commands import this module

    try:
        yield
    except (LinAlgError, ArithmeticError) as error:
        raise ModelError(TOO_EXTREME.format(type(error).__name__)) from None


def guarded(
    work: Callable[[], T],
    caught: type[Exception] | tuple[type[Exception], ...],
    explain: Callable[[str], SurveySynthError],
) -> T:
    """Do the work of a library whose exceptions may quote the data, and replace them by ours.

    The new exception is raised when the old one is gone: not even its ``__context__`` keeps it.

    Parameters
    ----------
    work : function
        The work, whose value is returned.
    caught : exception type or tuple of them
    explain : function
        It makes the new exception from the type name of the old one.
    """
    try:
        return work()
    except caught as error:
        kind = type(error).__name__
    raise explain(kind)
