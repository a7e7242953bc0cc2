"""The strict mechanism: a file is counted, noise is added, and data sets are drawn from the noisy tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...errors import InputError
from ...validation import is_finite, positive

MOST_DELTA = 1e-4


@dataclass(frozen=True)
class Strict:
    """Differential privacy at the file's own number of records, by noisy tables: see :func:`surveysynth.measure`.

    It protects the file before a model is fitted, so that it fits no records: the model is fitted to the tables.
    Blanking one record's outcome and weight changes the probability of any release by at most a factor e^epsilon,
    replacing it by at most e^(2 epsilon).

    Parameters
    ----------
    epsilon : float, optional
        For the whole release, however many data sets it has; may stand here instead of in ``synthesize``.
    delta : float, optional
        Noise is Gaussian, and epsilon holds up to this probability: 1e-10, say.

    Raises
    ------
    InputError
        An epsilon that is no positive number; a delta that is not between 0 and 1e-4.

    Examples
    --------
    >>> ss.Strict(epsilon=8)
    Strict(epsilon=8, delta=None)
    """

    epsilon: float | None = None
    delta: float | None = None

    name: ClassVar[str] = "strict"

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            positive(self.epsilon, "epsilon")
        check_delta(self.delta)


def check_delta(delta: float | None) -> None:
    """Refuse what is no small probability (InputError)."""
    if delta is not None and not (is_finite(delta) and 0 < delta <= MOST_DELTA):
        raise InputError(f"delta is a probability that is next to none: above 0, and {MOST_DELTA:g} at most")
