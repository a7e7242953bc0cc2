"""The strict mechanism: counts of the file get noise, models are fitted to the counts, and the models simulate data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ...choices import Kind
from ...errors import InputError
from ...validation import is_finite, positive
from .base import InPlans, Mechanism

MOST_DELTA = 1e-4
COUNTED = (
    "Strict differential privacy at any number of records. Records were counted by cells of their outcome and "
    "weight and by public columns, and every count and sum has integer {noise} noise (OpenDP): they are in "
    "measurements.json, and all else is computed from them and from public columns. Blanking outcome and weight of "
    "any one {unit} changes the probability of whatever comes out by at most a factor e^epsilon, replacing them "
    "by at most e^({more}){up_to}. This holds for all that was ever computed from these counts, further data sets "
    "and no release among it. It assumes that the file conforms to the declared schema, and what is listed below."
)


@dataclass(frozen=True)
class Strict(Mechanism):
    """Differential privacy at any number of records, by noisy tables: see :func:`surveysynth.measure`.

    The mechanism protects the file before the model is fitted: the model is fitted to tables, not to records.
    If one record's outcomes and weight are blanked, the probability of any release changes by at most a factor
    e^epsilon; if these values are replaced, by at most a factor e^(2 epsilon) under Laplace noise.

    Parameters
    ----------
    epsilon : float, optional
        Budget of the whole release, for any number of data sets, here or in ``synthesize``.
    delta : float, optional
        Probability, such as 1e-10, with which epsilon may fail to hold.  If delta is given, the noise is Gaussian.

    Raises
    ------
    InputError
        epsilon is not a positive number, or delta is not above 0 and at most 1e-4.

    Examples
    --------
    >>> ss.Strict(epsilon=8)
    Strict(epsilon=8, delta=None)
    """

    epsilon: float | None = None
    delta: float | None = None

    name: ClassVar[str] = "noisy tables"
    plan: ClassVar[Mapping[str, InPlans]] = {"strict": InPlans(("delta",), asks=("population_total",))}
    in_r: ClassVar[str] = "strict"
    guarantees: ClassVar[Mapping[Kind, str]] = {"strict": COUNTED}
    has_delta: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            positive(self.epsilon, "epsilon")
        check_delta(self.delta)

    @classmethod
    def guarantee(cls, kind: Kind, delta: float | None, replaced: float | None) -> str:
        """Return sentences on the guarantee under Laplace noise, or under Gaussian noise if delta is given."""
        noise, up_to, more = "Laplace", "", "2 epsilon"
        if delta is not None:
            noise, up_to, more = "Gaussian", f", up to probability delta = {delta:.3g}", f"{replaced:g}"
        text = cls.guarantees[kind].replace("{noise}", noise)
        return text.replace("{up_to}", up_to).replace("{more}", more)


def check_delta(delta: float | None) -> None:
    """Refuse a delta that is not above 0 and at most 1e-4 (InputError), as epsilon must almost never fail to hold."""
    if delta is not None and not (is_finite(delta) and 0 < delta <= MOST_DELTA):
        raise InputError(f"delta is a probability that is next to none: above 0, and {MOST_DELTA:g} at most")
