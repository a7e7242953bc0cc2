"""The exceptions of surveysynth.

A message names the column, the number of rows at fault, the first few row numbers and the remedy.  It never shows a
value of the data, since messages end up in logs and tickets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
# what a front door says of an error of another library, whose own message may hold a value of the data
AT_FAULT = "surveysynth is at fault: {}. Its message is withheld, because it may quote the file."


class SurveySynthError(Exception):
    """Base of all errors that surveysynth raises on purpose.

    Attributes
    ----------
    code : str
        One word for the kind of error.  Programs should test the code, which stays the same in later versions, and not
        the message, which may change.  The R package makes the class of a condition from the code.
    """

    code: ClassVar[str] = "error"
    obstacles: tuple[str, ...] = ()  # the message on each problem, if there are several


class InputError(SurveySynthError, ValueError):
    """The caller's data, column names or arguments cannot be used."""

    code = "input"


class ModelError(SurveySynthError):
    """The model cannot be fitted to this file, for example because a matrix is singular."""

    code = "model"


class PrivacyError(SurveySynthError):
    """The requested privacy guarantee cannot be given."""

    code = "privacy"


class EngineError(SurveySynthError):
    """Stan, which draws from posterior distributions, is not installed or stopped with an error."""

    code = "engine"


class NotFitForRelease(SurveySynthError):
    """The sampler's diagnostics failed, so nothing is released."""

    code = "diagnostics"


class Obstacles:
    """The errors that the checks of one call find.  One message reports all of them.

    The message lists the errors in the order of the checks, which is the order in which the user should correct them.
    """

    def __init__(self, found: Iterable[SurveySynthError] = ()) -> None:
        self.found = [*found]

    def check(self, check: Callable[P, T], *args: P.args, **options: P.kwargs) -> T | None:
        """Call ``check`` and return its value, or note its error and return None.

        An InputError, ModelError or PrivacyError is noted.  A TypeError, ValueError, KeyError or AttributeError is
        ignored if another error was noted before, because the earlier error is the likely cause.  Otherwise it is
        raised.
        """
        try:
            return check(*args, **options)
        except (InputError, ModelError, PrivacyError) as error:
            self.note(error)
        except (TypeError, ValueError, KeyError, AttributeError):
            if not self.found:
                raise
        return None

    def note(self, error: SurveySynthError) -> None:
        """Note an error, unless one with the same message was noted before."""
        if str(error) not in map(str, self.found):
            self.found.append(error)

    def refuse(self) -> None:
        """Raise one error with the messages of all noted errors, if any.  It has the class of the first noted error."""
        if not self.found:
            return
        messages = [*dict.fromkeys(each for error in self.found for each in error.obstacles or (str(error),))]
        if len(self.found) == 1 or len(messages) == 1:
            raise self.found[0]
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
    """Within this context, replace errors of computation (a singular matrix, an overflow) by a ModelError."""
    from numpy.linalg import LinAlgError  # imported late, since all commands import this module

    try:
        yield
    except (LinAlgError, ArithmeticError) as error:
        raise ModelError(TOO_EXTREME.format(type(error).__name__)) from None


def guarded(
    work: Callable[[], T],
    caught: type[Exception] | tuple[type[Exception], ...],
    explain: Callable[[str], SurveySynthError],
) -> T:
    """Call a library whose exceptions may quote the data, and replace such an exception by one of surveysynth.

    The new exception does not keep the library's exception as its ``__context__``.

    Parameters
    ----------
    work : function
        A function without arguments, which calls the library.  Its value is returned.
    caught : exception type or tuple of them
        The exceptions to replace.
    explain : function
        A function that makes the new exception.  Its argument is the name of the type of the library's exception.
    """
    try:
        return work()
    except caught as error:
        kind = type(error).__name__
    raise explain(kind)
