"""The choice of posterior draws for a release, and the verdict of the sampler's diagnostics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import PrivacyError
from ..models.draws import Draws
from ..validation import whole


def check_chains(chains: int, warmup: int, draws: int) -> None:
    """Raise InputError unless there are 1 to 100 chains, and 1 to 1,000,000 warm-up draws and draws of each chain."""
    for name, number, most in (("chains", chains, 100), ("warmup", warmup, 1_000_000), ("draws", draws, 1_000_000)):
        whole(number, name, most)


def choose_draws(
    posterior: Draws, m: int, rng: np.random.Generator, used: Sequence[int] = ()
) -> tuple[list[int], float]:
    """Choose m well separated posterior draws, and return their positions and their largest autocorrelation.

    The draws are from different chains if there are enough chains.

    Returns
    -------
    draws : list of int
        Positions in the posterior.  No position is in ``used``, and none is near a used position of the same chain if
        enough other draws are left.
    lag_correlation : float
        How dependent the released draws are: the largest absolute autocorrelation of a parameter, at the smallest
        distance between two draws of one chain that are chosen now or are in ``used``.  It is 0 if no chain has two
        such draws, or if the sampler makes independent draws.

    Raises
    ------
    PrivacyError
        There are too few unused draws.
    """
    chains = rng.permutation(np.unique(posterior.chain))
    before = np.asarray(used, dtype=np.intp)
    selected: list[int] = []
    lag_correlation = 0.0
    for k, chain in enumerate(chains):
        wanted = m // len(chains) + (k < m % len(chains))
        whole = np.flatnonzero(posterior.chain == chain)
        members, earlier = np.setdiff1d(whole, before), np.intersect1d(whole, before)
        if wanted > members.size:
            raise PrivacyError("no unused posterior draws are left for this many data sets; fit again with more draws")
        if wanted == 0:
            continue
        if earlier.size and not posterior.diagnostics.exact:
            distance = np.abs(members[:, None] - earlier).min(axis=1)
            far = members[distance >= whole.size // (4 * (earlier.size + wanted))]
            members = far if far.size >= 2 * wanted else members
        # one draw from the first half of each of `wanted` stretches, so that no two draws are near each other
        stretches = [s[: (s.size + 1) // 2] if wanted > 1 else s for s in np.array_split(members, wanted)]
        weights = [posterior.weight[s] for s in stretches]
        picked = [int(rng.choice(s, p=w / w.sum())) for s, w in zip(stretches, weights, strict=True)]
        selected += picked
        released = np.sort(np.concatenate([earlier, picked]))
        if released.size > 1 and not posterior.diagnostics.exact:
            lag = int(np.diff(released).min())
            lag_correlation = max(lag_correlation, _autocorrelation(posterior, whole, lag))
    return selected, lag_correlation


def _autocorrelation(posterior: Draws, chain: NDArray[np.intp], lag: int) -> float:
    x = np.column_stack([v[chain].reshape(chain.size, -1) for v in posterior.values.values()])
    x = x[:, x.min(axis=0) < x.max(axis=0)] - x.mean(axis=0)[x.min(axis=0) < x.max(axis=0)]
    return float(np.abs((x[lag:] * x[:-lag]).sum(axis=0) / (x**2).sum(axis=0)).max())


def verdict(posterior: Draws) -> str:
    """Return a sentence on whether the sampler's diagnostics passed."""
    failed = posterior.failures
    if posterior.diagnostics.exact and not failed:
        return "The draws are independent, without Markov chains."
    if failed:
        return f"Sampler diagnostics failed: {', '.join(failed)}."
    limit = posterior.diagnostics.rhat_limit
    return f"Sampler diagnostics passed: no divergences, R-hat at most {limit:g}, bulk and tail ESS at least 400."
