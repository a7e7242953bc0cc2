"""What a strict release can be expected to be worth, from public numbers alone: before the file is looked at."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from ..errors import InputError, PrivacyError
from ..validation import is_finite, positive, several, truth, whole
from .budget import Budget
from .mechanisms.strict import (
    FIRST_SHARE,
    Strict,
    clamp_of,
    first_epsilon,
    least_first,
    noise_of_scores,
    one_mode,
    part_of,
    refuse_modes,
    scores_epsilon,
    tempered,
)  # fmt: skip

Measured = tuple[tuple[float, float], ...]


def expected_se(
    n: int, parameters: int, epsilon: float, m: int | None = None, *, numbers: int = 2, reference: bool = False,
    scores: bool = True, tailed: bool = False, measured: Measured = (),
) -> float:  # fmt: skip
    """Standard error of a mean from a strict release, over that of the confidential file, about.

    With V the confidential variance, a synthetic file adds its own V, and its parameters V / a: so the mean of m of
    them has the variance V (1 + (1 + 1 / a) / m), and that of the scores' noise comes on top.

    Parameters
    ----------
    n : int
        Records, or units that epsilon protects.
    parameters : int
        Coefficients of every outcome and of the weight, covariances and curvature: of FBS with K columns of
        predictors and one outcome 2 K + 5.
    epsilon : float
        Of the whole release.
    m : int, optional
        Number of synthetic data sets; by default as ``synthesize`` chooses it.
    numbers : int
        Confidential numbers of a record that are modelled: outcomes, and the weight unless it is public.
    reference : bool
        Whether there is one; else a first draw is paid for.
    scores : bool
        Whether normal scores are made of the file itself.
    tailed : bool
        Whether the outcome is a count, a share or a positive amount that has no normal scores: the clamp is then wider,
        and more is spent on the first draw.
    measured : tuple of (float, float)
        What else is measured on the file: epsilon of each at the most, and its share of the whole at the most.  Of
        shares of categories, ``C()``, (.3, .04), of the share of the variance between PSUs (.3, .06).

    Returns
    -------
    float
        1.3 is a standard error that is 30% longer.

    Raises
    ------
    InputError
        Numbers that are none.
    PrivacyError
        The release would be refused: with the epsilon that would do.

    Examples
    --------
    >>> round(ss.expected_se(n=1000, parameters=23, epsilon=8), 2)
    1.35
    >>> round(ss.expected_se(n=10_000, parameters=23, epsilon=8), 2)
    1.29
    """
    epsilon = positive(epsilon, "epsilon")
    budget = Budget(epsilon, Strict().data_sets(epsilon) if m is None else m)
    a, noise = information_and_noise(
        n, parameters, budget, numbers=numbers, reference=reference, scores=scores, tailed=tailed, measured=measured
    )
    return math.sqrt(1 + (1 + 1 / a) / budget.m + noise)


def information_and_noise(
    n: int, parameters: int, budget: Budget, *, numbers: int, reference: bool, scores: bool, tailed: bool = False,
    later: bool = False, measured: Measured = (),
) -> tuple[float, float]:  # fmt: skip
    """The share a of a record's log density that counts, and the noise of scores, a variance over the file's own.

    Arguments and errors are those of :func:`expected_se`; ``later`` is a model whose predictors are confidential.
    """
    n, parameters, numbers = whole(n, "n"), whole(parameters, "parameters"), whole(numbers, "numbers")
    for name, given in (("scores", scores), ("reference", reference), ("tailed", tailed)):
        truth(given, name)
    if not all(len(several(each)) == 2 and all(map(is_finite, each)) for each in several(measured)):
        raise InputError("measured lists pairs of numbers: most epsilon, and most share of the whole")
    outcomes = numbers if later else max(numbers - 1, 1)
    of_scores = scores_epsilon(budget, n, outcomes, numbers) if scores else 0.0
    first = 0.0 if reference else first_epsilon(parameters, n, budget, tailed=tailed)
    beside = sum(part_of(budget, each) for each in measured)
    rest = replace(budget, parts=(("normal scores", of_scores), ("first draw", first), ("measured", beside)))
    refuse_modes(rest, n, numbers, parameters, tailed=tailed)
    noise = noise_of_scores(of_scores, n, outcomes) if scores else 0.0
    return tempered(rest.bound, clamp_of(rest, numbers, tailed=tailed), confidential=later), noise


class Sized(NamedTuple):
    """What is public of the size of one of several models in sequence.

    Attributes
    ----------
    numbers, parameters : int
        As :func:`expected_se` has them.
    scores, tailed, measured : bool, bool, tuple
        The same.
    later : bool
        Whether its predictors are confidential.
    """

    numbers: int
    parameters: int
    scores: bool
    later: bool
    tailed: bool = False
    measured: Measured = ()


STEPS = 100  # parts in which epsilon is split among models


def expected_variance(model: Sized, n: int, budget: Budget) -> float:
    """Variance of a mean of a model's outcome over that of the confidential file, about; infinite if it is refused."""
    assert budget.epsilon is not None  # as synthesize sees to
    least = least_first(model.parameters, n, budget, tailed=model.tailed)
    if least > FIRST_SHARE * budget.epsilon or not one_mode(
        replace(budget, parts=(("first draw", least),)), n, model.numbers, model.parameters, tailed=model.tailed
    ):
        return math.inf  # at once: the message of a refusal is dear
    try:
        a, noise = information_and_noise(
            n, model.parameters, budget, numbers=model.numbers, reference=False, scores=model.scores,
            tailed=model.tailed, later=model.later, measured=model.measured,
        )  # fmt: skip
    except PrivacyError:
        return math.inf
    return 1 + (1 + 1 / a) / budget.m + noise


@lru_cache(maxsize=64)
def expected_split(models: tuple[Sized, ...], n: int, budget: Budget) -> tuple[float, ...] | None:
    """Shares of epsilon that make the mean of the models' expected variances least, from public numbers alone.

    Every model has the least epsilon with which it is not refused, and the rest goes in small steps to the model whose
    variance it takes most off.  None where there is not enough for all of them.
    """
    assert budget.epsilon is not None  # as synthesize sees to
    step = budget.epsilon / STEPS
    variance = [
        [math.inf, *(expected_variance(model, n, Budget(k * step, budget.m)) for k in range(1, STEPS + 1))]
        for model in models
    ]
    steps = [next((k for k, v in enumerate(each) if math.isfinite(v)), STEPS + 1) for each in variance]
    if sum(steps) > STEPS:
        return None
    for _ in range(STEPS - sum(steps)):
        gains = [each[k] - each[k + 1] if k < STEPS else 0.0 for each, k in zip(variance, steps, strict=True)]
        steps[gains.index(max(gains))] += 1
    return tuple(k / STEPS for k in steps)
