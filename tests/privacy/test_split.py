"""Epsilon among models in sequence: what makes the mean of their expected variances least, from public numbers."""

import itertools
import math

import numpy as np
import pytest

import surveysynth as ss
from surveysynth.errors import PrivacyError
from surveysynth.privacy.budget import Budget
from surveysynth.privacy.expected_accuracy import Sized, expected_split, expected_variance
from tests.models.test_sequential import BOUNDS, make_frame

FIRST, AMOUNT, CATEGORY = Sized(2, 9, True, False), Sized(1, 8, True, True), Sized(1, 6, False, True)


def test_equal_models_have_equal_shares():
    assert expected_split((AMOUNT,) * 4, 3000, Budget(20, 3)) == (0.25,) * 4


def test_the_variance_is_the_square_of_the_expected_standard_error():
    found = expected_variance(FIRST, 2000, Budget(5, 4))
    assert found == pytest.approx(ss.expected_se(2000, 9, 5, 4) ** 2)
    with pytest.raises(PrivacyError):
        ss.expected_se(2000, 300, 5, 4)
    assert expected_variance(FIRST._replace(parameters=300), 2000, Budget(5, 4)) == math.inf


@pytest.mark.parametrize(("epsilon", "n"), [(8, 4000), (20, 1500)])
def test_no_other_split_in_steps_of_a_fiftieth_is_better(epsilon, n):
    """Against all of them."""
    models, m = (FIRST, AMOUNT, CATEGORY), 3
    of = [[expected_variance(each, n, Budget(k * epsilon / 50, m)) for k in range(1, 49)] for each in models]
    least = min(
        of[0][i - 1] + of[1][j - 1] + of[2][50 - i - j - 1]
        for i, j in itertools.product(range(1, 48), repeat=2)
        if i + j < 50
    )
    shares = expected_split(models, n, Budget(epsilon, m))
    assert sum(shares) == pytest.approx(1)
    found = sum(expected_variance(each, n, Budget(epsilon * s, m)) for each, s in zip(models, shares, strict=True))
    assert found <= least * 1.001


def test_where_there_is_not_enough_for_all_there_is_no_split():
    assert expected_split((AMOUNT,) * 8, 500, Budget(3, 3)) is None


def test_a_model_has_the_share_that_was_given():
    """And is refused where that is too little, before the file is looked at."""
    design = ss.SurveyDesign(make_frame(300), weights="w")
    models = [ss.FBS("income ~ region"), ss.FBS("rent ~ region")]
    sequence = ss.Sequential(models, shares=[1, 3])
    assert sequence.split == (0.25, 0.75)
    with pytest.raises(PrivacyError, match=r"0\.99 for a first draw.*epsilon = 2\.5"):  # 27 x 11 / 300
        ss.fit(design, sequence, epsilon=10, bounds=BOUNDS, population_total=20_000)


def test_made_up_files_have_the_columns_of_the_confidential_one_and_none_of_its_numbers():
    """Parameters of a later model are counted without them: the same whatever they are."""
    frame = make_frame(300)
    counts = []
    for moved in (frame, frame.assign(income=np.roll(frame["income"], 1), rent=1.0)):
        sequence = ss.Strict().under(ss.Sequential([ss.FBS("income ~ region"), ss.FBS("rent ~ region + log(income)")]))
        counts.append(sequence.expected_dimensions(ss.SurveyDesign(moved, weights="w"), BOUNDS))
    assert counts[0] == counts[1]
    assert counts[0][1] == (1, 5 + 1)  # an intercept, two regions, log income, log weight; a variance
