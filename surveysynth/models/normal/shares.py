"""Shares of categories in the fit, in record densities and in synthetic files of FBS and FBP.

Draws hold ``log_shares`` (S, G, K).  If PSUs or strata have effects on log shares, draws also hold ``tilt`` (S, C, K),
the total effect of each group; and ``sigma`` (S, levels), the standard deviations of effects.  Groups are PSUs, or
strata if only strata have effects.  If both have effects, the total effect is the effect of the PSU plus the effect of
its stratum, and draws also hold ``tilt_above`` (S, H, K), the effects of strata alone.

Shapes: S draws, G public cells (combinations of discrete predictors), K categories, C groups, H strata, n records.
``levels`` is 2 if both PSUs and strata have effects, and 1 otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..corrections.share_correction import Shares, Tilts
from ..densities.normal_density import Offset
from ..draws import Draws, Sampler
from . import categories, category_effects
from .categories import Categories
from .joint_records import JointPublic, JointRecords

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

# Corrections use a few random PSUs: TILTED_ROWS / (rows of X), but at least 6 and at most 12
TILTS, TILTED_ROWS = (6, 12), 300


def with_shares(numeric: Draws, records: JointRecords, crossed: Categories, alpha: Floats, sampler: Sampler) -> Draws:
    """Draw the shares of categories from their pseudo posterior, and add them to the ``numeric`` draws.

    ``numeric`` are draws of the parameters for numeric outcomes and weight, of which the shares are independent given
    the data.  ``crossed`` are the categories of the records, and ``alpha`` (n,) are their privacy weights.
    """
    if records.groups is None:
        log_shares = categories.draw_log_shares(crossed.counts(alpha), numeric.size, sampler.rng)
        return replace(numeric, values=numeric.values | {"log_shares": log_shares})
    s = category_effects.sample_with_effects(category_effects.grouped_counts(crossed, alpha, records.groups), sampler)
    mcmc = s if numeric.diagnostics.exact else numeric
    return replace(
        numeric, values=numeric.values | {"log_shares": s.log_shares, "sigma": s.sigma},
        effects=numeric.effects | {"tilt": s.b} | ({} if s.strata is None else {"tilt_above": s.strata}),
        diagnostics=s.diagnostics.worst(numeric.diagnostics), chain=mcmc.chain, engine=mcmc.engine,
        version=mcmc.version,
    )  # fmt: skip


def log_share(records: JointRecords, draws: Draws) -> Offset | None:
    """Return a function that computes the log shares of records' categories, given the positions of the records.

    The function returns an array (records, S).  The share is p(category | public cell, PSU) in each draw.  Return None
    for a model without categories.
    """
    crossed, log_shares = records.categories, draws.values.get("log_shares")
    if crossed is None or log_shares is None:
        return None
    cell, category = crossed.cell, crossed.category
    if records.groups is None:
        return lambda i: categories.log_share(log_shares, cell[i], category[i])
    group, tilt = records.groups.record, draws.effects["tilt"]
    return lambda i: category_effects.log_share_with_effects(log_shares, tilt, cell[i], category[i], group[i])


def log_likelihood(records: JointRecords, crossed: Categories, alpha: Floats, draws: Draws) -> Floats:
    """Return the log pseudo likelihood of the records' categories in each draw.

    It is sum_i alpha_i log p(category i | cell i, PSU i, draw).  The privacy weights alpha (n,) may be negative: alpha
    can be the difference of two sets of weights.
    """
    log_shares = draws.values["log_shares"]
    if records.groups is None:
        return categories.log_likelihood(crossed.counts(alpha), log_shares)
    counts = category_effects.grouped_counts(crossed, alpha, records.groups)
    return category_effects.log_likelihood_with_effects(counts, log_shares, draws.effects["tilt"])


def simulate(public: JointPublic, draw: Draws, rng: np.random.Generator) -> Codes | None:
    """Draw the categories (n,) of one synthetic data set, given the public cells and one draw of the parameters.

    Return None for a model without categories.
    """
    if public.categories is None:
        return None
    log_shares, cell = draw.values["log_shares"][0], public.categories.cell
    if public.groups is None:
        return categories.simulate(log_shares, cell, rng)
    b = _new_tilt(public, draw, rng)
    return category_effects.simulate_with_effects(log_shares, b, cell, public.groups.record, rng)


def _new_tilt(public: JointPublic, draw: Draws, rng: np.random.Generator) -> Floats:
    """Return effects of PSUs or strata on log shares of categories for one synthetic data set, given one draw.

    The effects (C, K) are new effects of PSUs plus the drawn effects of strata.  If only strata have effects, they are
    the drawn ones.
    """
    assert public.groups is not None and public.categories is not None
    drawn = {name: effects[0] for name, effects in draw.effects.items()}
    if not public.groups.sampled:
        return np.asarray(drawn["tilt"], dtype=np.float64)
    sigma = draw.values["sigma"][0]
    return category_effects.new_effects(sigma, drawn.get("tilt_above"), public.categories.K, public.groups, rng)


def to_correct(
    records: JointRecords, crossed: Categories, draws: Draws, positions: Sequence[int], rng: np.random.Generator
) -> Shares:
    """Return the shares of categories in the draws at ``positions``, in the form that the bias correction takes.

    The correction is :func:`.normal_correction.correct_with_shares`.
    """
    row = np.arange(len(records.X)).reshape(-1, records.each)
    cell = np.empty(len(row), dtype=np.intp)
    cell[records.row // records.each] = crossed.cell
    log_shares = draws.values["log_shares"][list(positions)]
    return Shares(log_shares, cell, row, _sampled_tilts(records, draws, positions, rng))


def _sampled_tilts(
    records: JointRecords, draws: Draws, positions: Sequence[int], rng: np.random.Generator
) -> Tilts | None:
    """Simulate effects on log shares in the draws at ``positions``, for a few PSUs.

    PSUs are drawn with probabilities proportional to their numbers of records.  Return None for a model without effects
    of PSUs and strata.
    """
    if records.groups is None or records.categories is None:
        return None
    size = np.bincount(records.groups.record, minlength=records.groups.size)
    many = int(np.clip(TILTED_ROWS // len(records.X), *TILTS))
    selected = rng.choice(size.size, many, p=size / size.sum())
    b = [_new_tilt(records, draws.subset([s]), rng)[selected] for s in positions]
    return Tilts(np.array(b), draws.values["sigma"][list(positions), 0], size[selected].astype(np.float64))


def with_spread(draws: Draws, spread: Floats) -> Draws:
    """Multiply the effects of PSUs and strata on log shares, and the standard deviations of effects, by ``spread``.

    ``spread`` (m,) has one factor for each of the m draws: :func:`.normal_correction.correct_with_shares` finds it.
    """
    names = [name for name in draws.effects if name.startswith("tilt")]
    scaled = {name: draws.effects[name] * spread[:, None, None].astype(np.float32) for name in names}
    values = {"sigma": draws.values["sigma"] * spread[:, None]} if names else {}
    return replace(draws, values=draws.values | values, effects=draws.effects | scaled)
