"""What a strict release can be expected to be worth, from public numbers alone: before the file is looked at."""

from __future__ import annotations

import math
from dataclasses import replace

from ..validation import positive, whole
from .budget import Budget
from .mechanisms.strict import Strict, clamp_of, first_epsilon, noise_of_scores, refuse_modes, scores_epsilon


def expected_se(
    n: int, parameters: int, epsilon: float, m: int | None = None, *, numbers: int = 2, reference: bool = False,
    scores: bool = True, tailed: bool = False,
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
    1.32
    >>> round(ss.expected_se(n=10_000, parameters=23, epsilon=8), 2)
    1.27
    """
    epsilon = positive(epsilon, "epsilon")
    budget = Budget(epsilon, Strict().data_sets(epsilon) if m is None else m)
    a, noise = information_and_noise(
        n, parameters, budget, numbers=numbers, reference=reference, scores=scores, tailed=tailed
    )
    return math.sqrt(1 + (1 + 1 / a) / budget.m + noise)


def information_and_noise(
    n: int, parameters: int, budget: Budget, *, numbers: int, reference: bool, scores: bool, tailed: bool = False
) -> tuple[float, float]:
    """The share a of a record's log density that counts, and the noise of scores, a variance over the file's own.

    Arguments and errors are those of :func:`expected_se`.
    """
    n, parameters, numbers = whole(n, "n"), whole(parameters, "parameters"), whole(numbers, "numbers")
    of_scores = scores_epsilon(budget, n, max(numbers - 1, 1), numbers) if scores else 0.0
    first = 0.0 if reference else first_epsilon(parameters, n, budget, tailed=tailed)
    rest = replace(budget, parts=(("normal scores", of_scores), ("first draw", first)))
    refuse_modes(rest, n, numbers, parameters, tailed=tailed)
    noise = noise_of_scores(of_scores, n, max(numbers - 1, 1)) if scores else 0.0
    return rest.bound / clamp_of(rest, numbers, tailed=tailed), noise
