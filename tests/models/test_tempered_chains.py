"""Chains that are too short go on, and those that do not agree at all are given up."""

import numpy as np

from surveysynth.models import tempered_chains as module
from surveysynth.models.draws import Sampler
from surveysynth.models.tempered_chains import tempered_chains


class Normals:
    """Two modes so far apart that no chain sees both, or one whose draws are nearly independent."""

    scale = np.ones(1)

    def __init__(self, apart):
        self.apart, self.evaluations = apart, 0

    def starts(self, chains, rng):
        return [np.array([self.apart * (-1.0) ** chain]) for chain in range(chains)]

    def function(self):
        def at(x):
            self.evaluations += 1
            centre = self.apart * np.sign(x)
            return float(-((x - centre) ** 2).sum() / 2), centre - x

        return at


def sampler(draws):
    return Sampler(lambda: None, np.random.default_rng(5), 4, 200, draws, most=4 * draws)


def test_chains_with_too_few_effective_draws_go_on_until_they_have_enough():
    """Draws that are there are kept, and are the first: nothing is warmed up again."""
    once, _, passed = tempered_chains(Normals(0.0), 10, sampler(300))
    assert not passed.failures
    few, _, _ = tempered_chains(Normals(0.0), 10, sampler(60))
    per_chain = len(few) // 4
    assert per_chain in (120, 240)  # 60 draws of 4 chains are no 400 effective ones
    for chain in range(4):
        start = few.reshape(4, per_chain, 1)[chain, :60]
        np.testing.assert_array_equal(start, once.reshape(4, 300, 1)[chain, :60])


def test_chains_that_do_not_agree_do_not_go_on():
    _, chain, found = tempered_chains(Normals(8.0), 10, sampler(100))
    assert found.failures and found.rhat > module.NEARLY
    assert len(chain) == 400
