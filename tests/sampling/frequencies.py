"""Exact distributions of small samples, and how far frequencies of many draws may be from them."""

from fractions import Fraction
from itertools import combinations

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-4


def assert_frequencies(count, draws, probability):
    """Counts of events against their probabilities: one false alarm in 10,000 runs (Bonferroni)."""
    count, p = np.ravel(count), np.clip(np.ravel(probability), 0, 1)
    known = (p < 1e-12) | (p > 1 - 1e-12)
    np.testing.assert_array_equal(count[known], draws * np.round(p[known]))
    count, p = count[~known], p[~known]
    tails = np.minimum(stats.binom.cdf(count, draws, p), stats.binom.sf(count - 1, draws, p))
    assert count.size == 0 or 2 * tails.min() > FALSE_ALARM / count.size


def indicators(draw, N, draws):
    """Samples as rows of 0 and 1: (draws, N)."""
    chosen = np.zeros((draws, N))
    for row in chosen:
        row[draw()] = 1
    return chosen


def assert_samples(chosen, probability):
    """Frequencies of whole samples against a mapping of (sorted) samples to probabilities: chi-squared."""
    p = np.array(list(probability.values()), dtype=float)
    place = {sample: k for k, sample in enumerate(probability)}
    count = np.bincount([place[tuple(np.flatnonzero(row).tolist())] for row in chosen], minlength=p.size)
    assert (count[p < 1e-12] == 0).all()
    count, p = count[p >= 1e-12], p[p >= 1e-12]
    rare = p * len(chosen) < 5
    p = np.append(p[~rare], p[rare].sum())
    count = np.append(count[~rare], count[rare].sum())
    count, p = (count[:-1], p[:-1]) if not rare.any() else (count, p)
    assert stats.chisquare(count, p / p.sum() * count.sum()).pvalue > FALSE_ALARM


def pairs(probability, N):
    """Joint inclusion probabilities of a mapping of samples to probabilities: (N, N)."""
    joint = np.zeros((N, N))
    for sample, p in probability.items():
        joint[np.ix_(sample, sample)] += float(p)
    return joint


def brewer_samples(pi):
    """Brewer's procedure by its whole tree (Tille 2006, Algorithm 6.10), in fractions.

    Draw j takes unit k with probability proportional to pi_k (n - S - pi_k) / (n - S - pi_k (n - j + 1)),
    S the sum of pi over the units that were drawn before.
    """
    n, paths = int(sum(pi)), {(): Fraction(1)}
    assert sum(pi) == n
    for j in range(1, n + 1):
        longer = {}
        for path, probability in paths.items():
            free, S = n - sum(pi[k] for k in path), set(path)
            weight = {k: pi[k] * (free - pi[k]) / (free - pi[k] * (n - j + 1)) for k in range(len(pi)) if k not in S}
            for k, w in weight.items():
                new = tuple(sorted((*path, k)))
                longer[new] = longer.get(new, Fraction(0)) + probability * w / sum(weight.values())
        paths = longer
    return paths


def elimination_samples(pi, probabilities):
    """Tille's procedure by its definition, over all subsets; ``probabilities(size, k)`` gives pi(i|k)."""
    N, n = len(pi), round(sum(pi))
    left, above = {tuple(range(N)): 1.0}, np.ones(N)
    for k in range(N - 1, n - 1, -1):
        below, shorter = probabilities(pi, k), {}
        for units, probability in left.items():
            for i in units:
                kept = tuple(j for j in units if j != i)
                shorter[kept] = shorter.get(kept, 0.0) + probability * (1 - below[i] / above[i])
        left, above = shorter, below
    return left


def conditional_poisson_samples(odds, n):
    """Samples of n with probabilities proportional to the product of their odds."""
    samples = list(combinations(range(len(odds)), n))
    p = np.prod(np.asarray(odds)[np.array(samples, dtype=int).reshape(len(samples), n)], axis=1)
    return dict(zip(samples, p / p.sum(), strict=True))
