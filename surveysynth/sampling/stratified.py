"""Samples from a sampling frame, drawn separately in each stratum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError
from ..validation import one_of
from .joint import JOINTS, Joint, entropy_joint
from .maximum_entropy import conditional_poisson
from .probabilities import (
    Floats,
    Positions,
    SampleSize,
    Strata,
    check_sizes,
    proportional_to,
    sample_sizes,
    sizes_of,
    strata_of,
)
from .selection import brewer, multinomial, poisson, random_systematic, simple_random, systematic
from .tille import tille

# selection methods that only need pi; maximum entropy, simple random and multinomial selection need more
PROPORTIONAL: dict[str, Callable[[Floats, np.random.Generator], Positions]] = {
    "systematic": systematic,
    "random_systematic": random_systematic,
    "brewer": brewer,
    "tille": tille,
    "poisson": poisson,
}
METHODS = (*PROPORTIONAL, "maximum_entropy", "multinomial", "srs")


@dataclass(frozen=True)
class Selection:
    """A sample from a sampling frame.

    Attributes
    ----------
    positions : int array (n,)
        Positions of the n selected units in the frame, counted from 0, in ascending order.  With replacement a unit may
        occur several times.
    pi : float array (n,)
        Inclusion probability of each selected unit.  With replacement it is the expected number of draws of the unit.
    population : int array (n,)
        Number of units of the frame in the stratum of each selected unit.
    joint : tuple of Joint
        Joint inclusion probabilities of each stratum with selected units, in the order of strata in the frame.  The
        tuple is empty for a method without joint inclusion probabilities.

    Examples
    --------
    >>> selection = ss.sampling.draw(None, 3, "srs", np.random.default_rng(), N=12)
    >>> selection.pi
    array([0.25, 0.25, 0.25])
    """

    positions: Positions
    pi: Floats
    population: Positions
    joint: tuple[Joint, ...]


def draw(
    size: ArrayLike | None,
    n: SampleSize,
    method: str,
    rng: np.random.Generator,
    strata: ArrayLike | None = None,
    *,
    N: int | None = None,
) -> Selection:
    """Draw a sample from a sampling frame, separately in each stratum if there are strata.

    Parameters
    ----------
    size : array (N,), optional
        Size of each unit, to which inclusion probabilities are proportional.  By default all sizes are equal.
    n : int, or mapping of stratum to int
        Sample size.  With strata, it is the sample size of each stratum.  For Poisson selection it is the expected
        sample size, which need not be a whole number.
    method : str
        One of ``METHODS``: "systematic" (in the order of the frame), "random_systematic", "brewer", "tille", "poisson"
        (random sample size), "maximum_entropy", "multinomial" (with replacement) or "srs" (simple random).
    rng : numpy.random.Generator
        Source of the randomness.
    strata : array (N,), optional
        Stratum of each unit.
    N : int, optional
        Number of units of the frame.  It is needed if neither sizes nor strata are given.

    Returns
    -------
    Selection
        Positions of the selected units, with their inclusion probabilities.

    Raises
    ------
    InputError
        The method is unknown; sizes are given with "srs", which draws with equal probabilities; neither sizes, strata
        nor N is given; sizes, sample sizes or strata are refused by :func:`inclusion_probabilities`; a sample size is
        not a whole number (except under "poisson").
    ModelError
        Under "maximum_entropy", :func:`conditional_poisson` fails.

    Examples
    --------
    >>> sizes, strata = [3, 5, 8, 2, 6, 9], ["a", "a", "a", "b", "b", "b"]
    >>> selection = ss.sampling.draw(sizes, {"a": 2, "b": 1}, "maximum_entropy", np.random.default_rng(), strata)
    >>> selection.positions.size, selection.population
    (3, array([3, 3, 3]))
    """
    one_of(method, METHODS, "method")
    if method == "srs" and size is not None:
        raise InputError("method='srs' draws all units with the same probability: leave the sizes out")
    if size is None:
        N = N if strata is None else np.size(strata)
        if N is None:
            raise InputError("give the sizes, the strata or N, the number of units")
        size = np.ones(N)
    a = sizes_of(size)
    groups = None if strata is None else strata_of(strata, a.size)
    n_h = sample_sizes(n, groups)
    if method != "poisson" and (n_h != np.round(n_h)).any():
        raise InputError("n is not a whole number")
    pi = _expected_draws(a, n_h, groups) if method == "multinomial" else proportional_to(a, n_h, groups)
    units = np.array([a.size]) if groups is None else np.diff(groups.start)
    drawn, joints = [], []
    for h, size_h in enumerate(n_h):
        if groups is None:
            selected, joint = _draw(pi, size_h, method, rng)
        else:
            members = groups.order[groups.start[h] : groups.start[h + 1]]
            selected, joint = _draw(pi[members], size_h, method, rng)
            selected = members[selected]
        drawn.append(selected)
        joints.append(joint)
    positions = np.concatenate(drawn)
    order = np.argsort(positions, kind="stable")
    place = np.empty(order.size, dtype=np.intp)
    place[order] = np.arange(order.size)
    taken = np.array([selected.size for selected in drawn])
    places = np.split(place, np.cumsum(taken)[:-1])
    return Selection(
        positions=positions[order],
        pi=pi[positions[order]],
        population=np.repeat(units, taken)[order],
        joint=tuple(
            replace(joint, positions=at) for joint, at in zip(joints, places, strict=True) if joint and at.size
        ),
    )


def _expected_draws(a: Floats, n_h: Floats, strata: Strata | None) -> Floats:
    check_sizes(a, n_h, strata, replacement=True)
    if strata is None:
        return n_h[0] * a / (a.sum() or 1.0)
    code = np.empty(a.size, dtype=np.intp)
    code[strata.order] = np.repeat(np.arange(n_h.size), np.diff(strata.start))
    total = np.bincount(code, a)
    return (n_h / np.where(total > 0, total, 1.0))[code] * a


def _draw(pi: Floats, n: float, method: str, rng: np.random.Generator) -> tuple[Positions, Joint | None]:
    """Draw a sample of n units from one stratum with the inclusion probabilities ``pi``.

    Return the positions of the selected units in the stratum, and their joint inclusion probabilities, or None if these
    cannot be computed for the method.
    """
    if method == "multinomial":
        return multinomial(pi, int(n), rng), None
    if method == "maximum_entropy":
        fitted = conditional_poisson(pi)
        selected = fitted.draw(rng)
        return selected, entropy_joint(fitted, pi, selected)
    selected = simple_random(pi.size, int(n), rng) if method == "srs" else PROPORTIONAL[method](pi, rng)
    return selected, JOINTS[method](pi, selected) if method in JOINTS else None
