"""Basis functions over the bins and special values of a response, and prior variances of their coefficients.

A response is a confidential variable.  Its cells are bins of numbers, and special values such as "missing".  There are
four kinds of basis functions: a line (called tilt if it is linear in the normal score of a bin), a smooth curve (bend),
the indicator of a single bin (heap), and the indicator of a special value.

The prior variance of a coefficient is a relative variance times a variance component of the model.  A component has a
guess with a weight, and is estimated with the coefficients (see :mod:`.table_fit`).

Shapes: R rows of the model (records in the same row have the same distribution), G cells of the response, A features,
K basis functions (see :mod:`.table_model`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm

from .table_fit import Components
from .table_model import Codes, Effect, Floats

SCORE_LIMIT = 2.6  # score beyond which an effect is constant
LENGTH = 0.8  # length scale of the kernel of effects, in scores
FIXED = np.inf  # weight of a variance that is not estimated
Guess = tuple[float, float]  # guessed variance, and the weight of the guess as a number of coefficients
Block = tuple[Floats, Floats, Guess]  # basis functions, relative variances, guess of their variance
# Guesses for the baseline: slope per standard deviation, spline, heaps of single bins, cells of special values
SLOPE, SPLINE, HEAP, SPECIAL = (25.0, FIXED), (1.0, 2.0), (0.05**2, 2.0), (25.0, FIXED)
# Guesses for effects: a tilt of the density by the score, a smooth bend, log odds of special values
TILT, BEND, ODDS = (0.1, 1.0), (0.03, 1.0), (0.3, 1.0)
# Guess for a product with the score of the response
PRODUCT = (0.03, 1.0)


@dataclass
class Variances:
    """The variance components of a model, each with a prior guess of its value."""

    guesses: list[Guess] = field(default_factory=list)

    def add(self, guess: Guess) -> int:
        """Add a variance component with this guess, and return its index, from 0."""
        self.guesses.append(guess)
        return len(self.guesses) - 1

    @property
    def components(self) -> Components:
        """The variance components that were added."""
        variance, worth = np.array(self.guesses).T
        return Components(variance, worth)


@dataclass(frozen=True, eq=False, repr=False)
class Response:
    """The cells of a response: bins of a numeric variable, in order, then special values.

    Attributes
    ----------
    p : float array (G,)
        Approximate probability of each cell, from a smooth fit or a guess.
    numbers : int
        Number of cells that are bins of a numeric variable.
    """

    p: Floats
    numbers: int

    @property
    def bins(self) -> Floats:
        """Probability of each bin, given that the response is a number and not a special value."""
        p = self.p[: self.numbers]
        return p / p.sum() if p.sum() > 0 else np.full(self.numbers, 1 / self.numbers)

    @property
    def scores(self) -> Floats:
        """Normal scores of the bins: the normal quantile of the probability below the middle of each bin."""
        middle = np.cumsum(self.bins) - self.bins / 2
        return np.asarray(norm.ppf(np.clip(middle, 1e-5, 1 - 1e-5)), dtype=np.float64)

    @property
    def axis(self) -> Floats:
        """Signed distance of each bin from the median, in standard deviations, as if all bins were equally wide."""
        index = np.arange(self.numbers) + 0.5
        sd = max(np.sqrt(self.bins @ (index - self.bins @ index) ** 2), 1.0)
        return np.asarray((index - np.interp(0.5, np.cumsum(self.bins), index)) / sd)

    def baseline(self, rows: int, variances: Variances) -> Effect:
        """Return the effect that gives all ``rows`` of the model the same distribution of the response.

        The log probability is a line plus a spline, plus a coefficient for each bin (a heap) and each special value.
        The effect's variance components are added to ``variances``.
        """
        blocks = []
        if self.numbers:
            x = self.axis
            spline, sizes = leading(spline_kernel(x), 1e-7, 24)
            blocks = [
                (x[:, None], np.ones(1), SLOPE), (spline, sizes, SPLINE),
                (np.eye(self.numbers), np.ones(self.numbers), HEAP),
            ]  # fmt: skip
        return self._effect(np.ones((rows, 1)), blocks, SPECIAL, variances)

    def effect(self, features: Floats, variances: Variances, most: int = 10, guess: float = 1.0) -> Effect:
        """Return an effect of public ``features`` (R, A) on the distribution of the response.

        Each feature adds to the log probabilities of bins a line in the normal score (a tilt) and at most ``most``
        smooth curves (bends), and changes the log odds of special values.  The effect's variance components are added
        to ``variances``; ``guess`` multiplies their guesses.
        """
        blocks = []
        if self.numbers:
            u, p = np.clip(self.scores, -SCORE_LIMIT, SCORE_LIMIT), self.bins
            bends, sizes = leading(_smooth(u), 1e-3, most)
            tilt, bend = ((guess * variance, worth) for variance, worth in (TILT, BEND))
            blocks = [(u[:, None] - p @ u, np.ones(1), tilt), (bends - p @ bends, sizes, bend)]
        return self._effect(features, blocks, (guess * ODDS[0], ODDS[1]), variances)

    def product(self, features: Floats, score: Floats, variances: Variances) -> Effect:
        """Return an interaction effect: public ``features`` (R, A) times the ``score`` (G,) of the response's cell.

        With this effect, the fit can reproduce a table of sums, over records, of a feature times the record's score.
        The score is centred and scaled to variance 1.
        """
        centred = score - self.p @ score
        centred = centred / np.sqrt(self.p @ centred**2)
        component = np.array([variances.add(PRODUCT)])
        return Effect(features, centred[:, None], np.ones(1), component)

    def _effect(self, features: Floats, blocks: list[Block], special: Guess, variances: Variances) -> Effect:
        many = len(self.p) - self.numbers
        padded = [(np.pad(basis, ((0, many), (0, 0))), sizes, guess) for basis, sizes, guess in blocks]
        if many:
            padded.append((np.pad(np.eye(many), ((self.numbers, 0), (0, 0))), np.ones(many), special))
        component = [np.full(len(sizes), variances.add(guess), dtype=np.intp) for _, sizes, guess in padded]
        return Effect(
            features, np.concatenate([basis for basis, _, _ in padded], axis=1),
            np.concatenate([sizes for _, sizes, _ in padded]), np.concatenate(component),
        )  # fmt: skip


def start_coefficients(effects: list[Effect], p: Floats) -> Floats:
    """Return starting coefficients, with which all rows of the model have about the probabilities ``p`` of the cells.

    Only the first of the ``effects``, the baseline, has coefficients other than 0.
    """
    basis, log_p = effects[0].basis, np.log(p + 1e-12)
    ridge = np.diag(1e-3 / effects[0].relative)
    first = np.linalg.solve(basis.T @ basis + ridge, basis.T @ (log_p - log_p.mean()))
    return np.concatenate([first, np.zeros(sum(effect.size for effect in effects[1:]))])


def spline_kernel(x: Floats) -> Floats:
    """Return the covariance matrix (G, G) of an integrated Wiener process at the points ``x`` (G,).

    The process has value 0 and slope 0 at x = 0.  Its conditional mean is a natural cubic spline (Wahba 1978).
    """
    size, same = np.abs(x), np.sign(x)[:, None] == np.sign(x)
    least, most = np.minimum.outer(size, size), np.maximum.outer(size, size)
    return same * least**2 * (most / 2 - least / 6)


def leading(kernel: Floats, tolerance: float, most: int) -> tuple[Floats, Floats]:
    """Return the eigenvectors (G, K) of a kernel (G, G) with the largest eigenvalues, and these eigenvalues (K,).

    At most ``most`` are returned, and only those above ``tolerance`` times the largest eigenvalue.
    """
    values, vectors = np.linalg.eigh(kernel)
    order = np.argsort(values)[::-1][:most]
    order = order[values[order] > tolerance * values[order[0]]]
    return vectors[:, order], values[order]


def smooth_features(scores: Floats) -> tuple[Floats, Floats]:
    """Return features for an effect that is a smooth function of ``scores`` (S,): a line and curves.

    The first array (S, 1) has a line.  The second array (S, A) has bends, which are curves orthogonal to lines.  Each
    array is for a separate effect, because evidence against bends is not evidence against a line.
    """
    straight = np.linalg.qr(np.stack([np.ones(len(scores)), scores], axis=1))[0]
    without_line = np.eye(len(scores)) - straight @ straight.T
    bends, sizes = leading(without_line @ _smooth(scores) @ without_line, 1e-3, 6)
    return scores[:, None], bends * np.sqrt(sizes)


def one_hot(codes: Codes, levels: int) -> Floats:
    """Return a 0-1 matrix (R, levels): 1 in row r and column l if ``codes[r]`` is l.  Codes are below ``levels``."""
    return np.eye(levels)[codes]


def _smooth(u: Floats) -> Floats:
    return np.exp(-0.5 * ((u[:, None] - u) / LENGTH) ** 2)


