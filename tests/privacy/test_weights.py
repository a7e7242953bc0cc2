"""Privacy weights against the formulas of the method (section 2)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from surveysynth import InputError, PseudoPosterior
from surveysynth.privacy.weight_maps import MAPS, inverse_map, linear_map

RISKS = arrays.arrays(float, st.integers(1, 30), elements=st.floats(1e-9, 1e6) | st.sampled_from([0, np.inf, np.nan]))
NUMBER = st.floats(0.01, 100)


def by_hand(name, f, c1, c2, target):
    """One record at a time, as the formulas are printed."""
    finite = [x for x in f if np.isfinite(x)]
    alpha = []
    for x in f:
        if not np.isfinite(x):
            alpha.append(0.0)
            continue
        if name == "inverse":
            a = min(1.0, c1 * target / x) if x > 0 else 1.0
        else:
            low, high = min(finite), max(finite)
            a = c1 * (1 - ((x - low) / (high - low) if high > low else 0.0))
        alpha.append(min(max(a + c2, 0.0), 1.0))
    return alpha


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", MAPS)
@settings(derandomize=True)
@given(f=RISKS, c1=NUMBER, c2=st.floats(-1, 1), target=NUMBER)
def test_maps_are_the_printed_formulas(name, f, c1, c2, target):
    np.testing.assert_allclose(MAPS[name](f, c1, c2, target), by_hand(name, f, c1, c2, target), rtol=1e-12, atol=1e-12)


def test_maps_by_example():
    f = np.array([1.0, 2.0, 4.0, np.inf, np.nan, 5.0])
    np.testing.assert_allclose(inverse_map(f, 1.0, 0.0, 2.0), [1, 1, 0.5, 0, 0, 0.4])
    np.testing.assert_allclose(inverse_map(f, 0.5, 0.1, 2.0), [1, 0.6, 0.35, 0, 0, 0.3])
    np.testing.assert_allclose(linear_map(f, 1.0, 0.0, 9.9), [1, 0.75, 0.25, 0, 0, 0])
    np.testing.assert_allclose(linear_map(f, 0.8, 0.1, 9.9), [0.9, 0.7, 0.3, 0, 0, 0.1])
    np.testing.assert_array_equal(linear_map(np.array([np.inf, np.nan]), 1, 0, 1), [0, 0])


@pytest.mark.parametrize("name", MAPS)
@settings(derandomize=True)
@given(f=RISKS, c1=NUMBER, more=st.floats(1, 10), c2=st.floats(-1, 1))
def test_weights_grow_with_c1_and_shrink_with_risk(name, f, c1, more, c2):
    alpha = MAPS[name](f, c1, c2, 1.8)
    assert ((alpha >= 0) & (alpha <= 1)).all()
    assert (MAPS[name](f, c1 * more, c2, 1.8) >= alpha - 1e-12).all()
    by_risk = alpha[np.isfinite(f)][np.argsort(f[np.isfinite(f)], kind="stable")]
    assert (np.diff(by_risk) <= 1e-12).all()


def test_mechanism_applies_its_map():
    f = np.array([0.5, 3.0, 6.0])
    np.testing.assert_allclose(PseudoPosterior().alpha(f, 1.0, 1.5), [1, 0.5, 0.25])
    np.testing.assert_allclose(PseudoPosterior("linear", c2=0.2).alpha(f, 0.5, 1.5), [0.7, 0.2 + 0.5 * 3 / 5.5, 0.2])
    assert PseudoPosterior().kind == "asymptotic"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"map": "square"}, "map='square' is not one of inverse, linear"),
        *(({"c1": c1}, "c1 must be a positive number") for c1 in (0, -1, np.nan, np.inf, "1", True)),
        *(({"c2": c2}, "c2 must be a number between -1 and 1") for c2 in (1.1, -2, np.nan, "0", None)),
    ],
)
def test_constants_are_checked(arguments, message):
    with pytest.raises(InputError, match=message):
        PseudoPosterior(**arguments)
