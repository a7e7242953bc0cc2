"""A release beside its file: measures against hand-computed values, scipy, and theory."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f_oneway, rankdata, spearmanr
from scipy.stats.contingency import association as scipy_association
from typer.testing import CliRunner

import surveysynth as ss
from surveysynth.cli.app import app
from surveysynth.publication.figures.comparison import joint_grids
from surveysynth.release.comparison import association, distribution, propensity, standard_error
from tests.surveys import PSEUDO, make_frame, model


@pytest.fixture(scope="module")
def design() -> ss.SurveyDesign:
    frame = make_frame(600)
    return ss.SurveyDesign(frame.replace({"field": {"NA": "03"}}), weights="wt", strata="field")  # a csv has no "NA"


@pytest.fixture(scope="module")
def release(design: ss.SurveyDesign) -> ss.Release:
    return ss.synthesize(design, model(), epsilon=60, m=3, mechanism=PSEUDO, seed=4)


@pytest.fixture(scope="module")
def found(design: ss.SurveyDesign, release: ss.Release) -> ss.Comparison:
    return ss.compare(design, release)


def test_cells_are_those_of_the_file_and_of_the_release(design, release, found) -> None:
    assert found.by == ("field", "gender")
    frame = design.frame
    inside = (frame["field"] == "02") & (frame["gender"] == "f")
    cell = found.cells.query("statistic == 'mean' and field == '02' and gender == 'f'").iloc[0]
    assert cell["estimate"] == pytest.approx(np.average(frame["income"][inside], weights=frame["wt"][inside]))
    means = [
        np.average(d.frame["income"][at], weights=d.weights[at])
        for d in release.datasets
        if (at := (d.frame["field"] == "02") & (d.frame["gender"] == "f")).any()
    ]
    assert cell["estimate_release"] == pytest.approx(np.mean(means))
    assert cell["std_diff"] == pytest.approx((np.mean(means) - cell["estimate"]) / cell["se_release"])
    assert cell["holds"] == (cell["ci_low"] <= cell["estimate"] <= cell["ci_high"])
    assert len(found.cells) == 2 * 5 * 3  # counts and means, every cell and margin


def test_misses_are_counted_against_chance(found) -> None:
    row = found.summary.query("statistic == 'mean'").iloc[0]
    means = found.cells.query("statistic == 'mean'")
    assert row["cells"] == 15
    assert row["misses"] == 15 - means["holds"].sum()
    assert row["by_chance"] == pytest.approx(0.05 * 15)

    def at_most(k: int) -> float:
        return sum(math.comb(15, j) * 0.05**j * 0.95 ** (15 - j) for j in range(k + 1))

    assert at_most(row["most"]) >= 0.99 > at_most(row["most"] - 1)


def test_the_file_itself_as_a_release_is_at_no_distance(design, release) -> None:
    same = tuple(
        ss.SurveyDesign(data.frame.assign(**{c: design.frame[c] for c in data.frame}), **data.roles())
        for data in release.datasets
    )
    itself = ss.compare(ss.SurveyDesign(same[0].frame, **same[0].roles()), replace(release, datasets=same))
    assert itself.cells["std_diff"].abs().max() == pytest.approx(0, abs=1e-9)
    assert itself.distributions["largest"].max() == pytest.approx(0, abs=1e-12)
    assert itself.pmse["pmse"].max() == pytest.approx(0, abs=1e-12)
    assert (itself.joint["file"] - itself.joint["release"]).abs().max() == pytest.approx(0, abs=1e-12)
    assert itself.summary["misses"].sum() == 0
    assert itself.findings == [] and str(itself).startswith("Nothing stands out.")


def test_a_distorted_release_is_found(design, release) -> None:
    double = tuple(ss.SurveyDesign(d.frame.assign(income=2 * d.frame["income"]), **d.roles()) for d in release.datasets)
    far = ss.compare(design, replace(release, datasets=double))
    row = far.summary.query("statistic == 'mean'").iloc[0]
    assert row["misses"] > row["most"]
    assert far.distributions.set_index("outcome").loc["income", "largest"] > 0.3
    assert far.pmse.set_index("outcome").loc["income", "ratio"] > 10
    for start in ("mean of income: ", "distribution of income: ", "income: pMSE "):
        assert any(text.startswith(start) for text in far.findings), start
    missed = far.cells[(far.cells["statistic"] == "mean") & ~far.cells["holds"].fillna(True).astype(bool)]
    worst = missed.loc[missed["std_diff"].abs().idxmax()]
    said = f"{worst['field']} x {worst['gender']} off by {worst['std_diff']:+.1f}"
    assert f"farthest: {said}" in far.findings[0] and f"\n  {said}\n" in str(far)
    assert str(far).count("Distances (off by) are release minus file, in standard errors of the release.") == 1


def test_a_shuffled_outcome_loses_its_associations_and_that_stands_out(design, release) -> None:
    rng = np.random.default_rng(0)
    strong = design.frame.assign(income=design.frame["income"] * np.where(design.frame["gender"] == "f", 4, 1))
    made = [strong.assign(income=rng.permutation(strong["income"])) for _ in release.datasets]
    data = tuple(
        ss.SurveyDesign(frame[[*old.frame]], **old.roles())
        for frame, old in zip(made, release.datasets, strict=True)
    )  # fmt: skip
    found = ss.compare(ss.SurveyDesign(strong, **design.roles()), replace(release, datasets=data)).findings
    assert any(text.startswith("income and gender: variance explained 0.00") for text in found)


def test_the_standard_error_of_an_association_includes_noise_that_pairs_share() -> None:
    values = np.array([1.0, 2.0, 4.0, 6.0])  # pairs (1, 2) and (4, 6): means 1.5 and 5, B = 3.5^2 / 2, w = (1 + 4) / 4
    assert standard_error(values, pairs=True) == pytest.approx(math.sqrt(6.125 - 1.25 / 2 + 6.125 / 2))
    assert standard_error(values, pairs=False) == pytest.approx(math.sqrt(59 / 12 / 4))
    assert math.isnan(standard_error(values[:1], pairs=False))


def test_weighted_distribution_by_hand() -> None:
    values, weights = np.array([2.0, 1, 5, 2]), np.array([1.0, 2, 4, 1])
    at = distribution(values, weights, np.array([0.0, 1, 2, 4.9, 5]))
    assert at.tolist() == [0, 2 / 8, 4 / 8, 4 / 8, 1]


def test_associations_are_those_of_scipy_where_weights_are_equal() -> None:
    rng = np.random.default_rng(0)
    group = pd.Series(rng.choice(["a", "b", "c"], 300))
    x = pd.Series(rng.normal(size=300) + (group == "b"))
    y = pd.Series(np.round(x + rng.normal(size=300), 1))  # with ties
    other = pd.Series(np.where(rng.random(300) < 0.5, group, "a"))
    weights = np.full(300, 1 / 300)
    assert association(x, y, weights)[1] == pytest.approx(spearmanr(x, y).statistic)
    cramer = scipy_association(pd.crosstab(group, other).to_numpy(), method="cramer")
    assert association(group, other, weights)[1] == pytest.approx(cramer)
    f = f_oneway(*(rankdata(y)[group == g] for g in "abc")).statistic
    assert association(group, y, weights)[1] == pytest.approx(2 * f / (2 * f + 297))
    assert association(y, group, weights) == association(group, y, weights)


def test_a_weight_of_three_is_three_records() -> None:
    rng = np.random.default_rng(1)
    x, y, w = pd.Series(rng.normal(size=80)), pd.Series(rng.gamma(2, size=80)), rng.integers(1, 4, 80)
    again = np.repeat(np.arange(80), w)
    once = association(x, y, w / w.sum())[1]
    assert association(x[again], y[again], np.full(w.sum(), 1 / w.sum()))[1] == pytest.approx(once)


@pytest.mark.slow
def test_the_propensity_score_error_of_an_independent_sample_is_twice_the_expected() -> None:
    """Theorem 1 of Snoke et al. is of data drawn given the file; two samples that are independent differ twice as much.

    300 pairs, chi-square with k columns: the mean ratio has a standard error of 2 sqrt(2 / k) / sqrt(300).
    """
    rng = np.random.default_rng(2)
    group = rng.choice(["a", "b"], 500)  # public: the same in both

    def sample() -> pd.DataFrame:
        x = rng.normal(size=500) + (group == "b")
        return pd.DataFrame({"x": x, "y": x + rng.normal(size=500), "group": group})

    ratios = [pmse / expected for pmse, expected in (propensity(sample(), sample(), ["x", "y"]) for _ in range(300))]
    k = 7  # x, y, their squares, x y, and both by group
    assert propensity(sample(), sample(), ["x", "y"])[1] == pytest.approx(k * 0.5**3 / 1000)
    error = 2 * math.sqrt(2 / k / 300)
    assert np.mean(ratios) == pytest.approx(2, abs=4 * error + 0.06)  # 3%: logistic against linear at n = 1,000


def test_the_folder_is_private_and_holds_every_table_and_figure(found, tmp_path: Path) -> None:
    folder = found.write(tmp_path / "beside")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in folder.iterdir())
    names = {file.name for file in folder.iterdir()}
    assert {"cells.csv", "summary.csv", "pmse.csv", "joint.csv", "estimates.svg", "distributions.svg"} <= names
    assert len(pd.read_csv(folder / "cells.csv")) == len(found.cells)
    with pytest.raises(ss.InputError, match="exists"):
        found.write(folder)


def test_joint_distributions_sum_to_one_and_are_drawn(found, tmp_path: Path) -> None:
    for grids in found.grids.values():
        assert [grid.sum() for grid in grids] == pytest.approx([1, 1])
    joint_grids(found.grids, tmp_path / "joint.svg")
    assert (tmp_path / "joint.svg").stat().st_size > 1000


def test_another_file_is_refused_without_a_value_of_it(design, release) -> None:
    other = ss.SurveyDesign(make_frame(600).rename(columns={"gender": "sex"}), weights="wt")
    with pytest.raises(ss.InputError, match="no column 'gender'"):
        ss.compare(other, release)
    with pytest.raises(ss.InputError, match="no cell in common"):
        ss.compare(ss.SurveyDesign(design.frame.assign(field="elsewhere", gender="x"), weights="wt"), release, "field")
    with pytest.raises(ss.InputError, match=r"compare\(design, release\)"):
        ss.compare(release, design)  # type: ignore[arg-type]


def test_records_without_an_outcome_are_left_out_and_said(design, release) -> None:
    frame = design.frame.copy()
    frame.loc[[3, 50], "income"] = np.nan
    said = ss.compare(ss.SurveyDesign(frame, **design.roles()), release)
    assert said.incomplete == 2
    assert "2 records of the file lack an outcome: counts include them" in str(said)


def test_the_command_finds_roles_by_itself(design, release, tmp_path: Path) -> None:
    design.frame.to_csv(tmp_path / "file.csv", index=False)
    release.write(tmp_path / "release")
    asked = ["compare", str(tmp_path / "release"), "--confidential", str(tmp_path / "file.csv")]
    done = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "beside")])
    assert done.exit_code == 0, done.output
    assert "mean of income: " in done.stdout and "Internal" in done.stdout
    cells = pd.read_csv(tmp_path / "beside" / "cells.csv", dtype={"field": str}, keep_default_na=False, na_values=[""])
    mine = ss.compare(design, release).cells
    assert cells["estimate"].to_numpy() == pytest.approx(mine["estimate"].to_numpy())
    lacking = CliRunner().invoke(app, ["compare", str(tmp_path / "release")])
    assert isinstance(lacking.exception, ss.InputError) and "--confidential" in str(lacking.exception)


def test_missing_answers_are_in_the_denominator_of_both_sides():
    """Of 2,000 persons 30% did not answer; shares of the release are of all, and so are those of the file."""
    rng, n = np.random.default_rng(2), 2_000
    answer = np.where(rng.random(n) < 0.3, None, np.where(rng.random(n) < 0.4, "yes", "no"))
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "answer": answer, "w": 10.0})
    file = ss.SurveyDesign(frame, weights="w")
    made = ss.synthesize(
        file, "C(answer) ~ sex", epsilon=50, weight="public", seed=1,
        outcomes={"answer": ss.Outcome(levels=["yes", "no"], missing="category")},
    )  # fmt: skip
    cells = ss.compare(file, made, by="sex").cells.query("statistic == 'proportion' and sex == 'all'")
    cells = cells.set_index("category")
    own = frame["answer"].fillna("missing").value_counts(normalize=True)
    assert sorted(cells.index) == ["missing", "no", "yes"]
    for category, row in cells.iterrows():
        assert row["estimate"] == pytest.approx(own[category], rel=1e-12)
        assert row["holds"]


@pytest.mark.parametrize("of_variance", ["jackknife", "given replicates", "calibrated", "calibrated replicates", "pps"])
def test_missing_answers_leave_the_variance_of_the_file_as_it_is(of_variance) -> None:
    rng, n = np.random.default_rng(3), 300
    answer = np.where(rng.random(n) < 0.3, None, np.where(rng.random(n) < 0.4, "yes", "no"))
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "answer": answer, "w": rng.uniform(5, 15, n)})
    frame = frame.assign(**{f"r{k}": frame["w"] * rng.choice([0.5, 1.5], n) for k in range(12)})

    def design(frame: pd.DataFrame) -> ss.SurveyDesign:
        if of_variance in ("given replicates", "calibrated replicates"):
            made = ss.SurveyDesign(frame, weights="w", replicate_weights="r[0-9]+")
        elif of_variance == "pps":
            pi = 1 / frame["w"].to_numpy()
            joint = np.outer(pi, pi) * 0.999
            np.fill_diagonal(joint, pi)
            made = ss.SurveyDesign(frame, weights="w", pps="horvitz_thompson", joint=joint)
        else:
            made = ss.SurveyDesign(frame, weights="w")
        if of_variance.startswith("calibrated"):
            made = made.calibrate({"sex": {"f": 1_600, "m": 1_500}})
        return made.replicates("JK1") if of_variance == "jackknife" else made

    release = ss.synthesize(
        ss.SurveyDesign(frame, weights="w"), "C(answer) ~ sex", epsilon=50, weight="public", seed=1,
        outcomes={"answer": ss.Outcome(levels=["yes", "no"], missing="category")},
    )  # fmt: skip
    cells = ss.compare(design(frame), release, by="sex", statistic="proportion").cells
    filled = design(frame.assign(answer=frame["answer"].fillna("missing")))
    own = ss.estimate(filled, "answer", by="sex", statistic="proportion")
    both = cells.merge(own, on=["sex", "category"], suffixes=("", "_own"))
    assert len(both) == len(cells) == 9
    assert both["se"].to_numpy() == pytest.approx(both["se_own"].to_numpy())


CODED = {  # how a file writes two answers, the levels that are declared for them, and whether some did not answer
    "floats for codes": ({"0": 0.0, "1": 1.0}, [0, 1], True),
    "floats, and texts declared": ({"0": 0.0, "1": 1.0}, ["0", "1"], True),
    "codes": ({"0": 0, "1": 1}, [0, 1], False),
    "codes, and texts declared": ({"0": 0, "1": 1}, ["0", "1"], False),
    "floats, all there": ({"0": 0.0, "1": 1.0}, [0, 1], False),
    "halves": ({"0": 1.0, "1": 1.5}, [1, 1.5], True),
    "truth values": ({"0": False, "1": True}, [False, True], True),
    "truth values, and texts declared": ({"0": False, "1": True}, ["False", "True"], False),
}  # fmt: skip

CELLS = "sex", ("sex", "ill")


def _with_answers(written: dict[str, object], levels: list[object], missing: bool):
    """A file of 300 persons of whom 30% have the answer "1", which is written in it as ``written`` says."""
    rng, n = np.random.default_rng(7), 300
    said = pd.Series(np.where(rng.random(n) < 0.3, "1", "0")).map(written)
    frame = pd.DataFrame({
        "sex": rng.choice(["f", "m"], n), "pay": np.round(rng.gamma(4, 500, n)), "w": rng.uniform(5, 15, n),
        "ill": said.where(rng.random(n) > 0.1) if missing else said,
    })  # fmt: skip
    design = ss.SurveyDesign(frame, weights="w")
    outcomes = {
        "ill": ss.Outcome(levels=levels, missing="category" if missing else None),
        "pay": ss.Outcome(bounds=(0, 10_000)),
    }
    formulas = ["pay ~ sex", "C(ill) ~ sex"]
    return design, ss.synthesize(design, formulas, epsilon=50, weight="public", seed=1, outcomes=outcomes)


@cache
def _with_texts(missing: bool):
    """The file with the answers as texts, its release, and the comparison of both by each kind of cell."""
    design, release = _with_answers({"0": "0", "1": "1"}, ["0", "1"], missing)
    return design, release, [ss.compare(design, release, by=by) for by in CELLS]


def _assert_alike(design: ss.SurveyDesign, release: ss.Release, missing: bool) -> None:
    for by, wanted in zip(CELLS, _with_texts(missing)[2], strict=True):
        found = ss.compare(design, release, by=by)
        pd.testing.assert_frame_equal(found.pmse, wanted.pmse, rtol=1e-9)
        pd.testing.assert_frame_equal(found.joint, wanted.joint, rtol=1e-9)
        numbers = wanted.cells.select_dtypes("number").columns
        assert found.cells[["estimate", "estimate_release"]].notna().all(axis=None)
        pd.testing.assert_frame_equal(found.cells[numbers], wanted.cells[numbers], rtol=1e-9)
        assert found.findings == wanted.findings


@pytest.mark.parametrize("coded", CODED.values(), ids=CODED)
def test_a_file_of_codes_compares_as_the_same_file_of_texts(coded) -> None:
    _assert_alike(*_with_answers(*coded), missing=coded[2])


def test_a_file_of_codes_compares_so_with_a_release_that_was_read(tmp_path: Path) -> None:
    design, release = _with_answers({"0": 0.0, "1": 1.0}, [0, 1], missing=True)
    release.write(tmp_path / "release")
    _assert_alike(design, ss.read_release(tmp_path / "release"), missing=True)


@pytest.mark.parametrize("coded", CODED.values(), ids=CODED)
def test_who_knows_a_code_finds_the_records_that_who_knows_the_text_finds(coded) -> None:
    texts, codes = _with_texts(coded[2]), _with_answers(*coded)
    filled = texts[0].frame.fillna({"ill": "missing"})
    for measure in (ss.identification_risk, ss.attribute_risk, ss.match_risk):
        wanted = measure(filled, texts[1], known=["sex", "ill"], value="pay")
        found = measure(codes[0], codes[1], known=["sex", "ill"], value="pay")
        assert wanted.max() > 0
        pd.testing.assert_series_equal(found, wanted)


def test_a_public_column_of_codes_has_the_labels_of_the_release() -> None:
    rng, n = np.random.default_rng(8), 400
    frame = pd.DataFrame({"region": rng.choice(["1", "2"], n), "pay": rng.gamma(4, 500, n), "w": 10.0})
    design = ss.SurveyDesign(frame, weights="w")
    release = ss.synthesize(
        design, "pay ~ region", epsilon=50, weight="public", seed=1, outcomes={"pay": ss.Outcome(bounds=(0, 10_000))}
    )
    floats = ss.SurveyDesign(frame.assign(region=frame["region"].astype(float)), weights="w")
    wanted, found = (ss.compare(file, release) for file in (design, floats))
    pd.testing.assert_frame_equal(found.cells, wanted.cells)
    pd.testing.assert_frame_equal(found.pmse, wanted.pmse)
    pd.testing.assert_frame_equal(found.joint, wanted.joint)


def _tenants(filled: bool) -> pd.DataFrame:
    """Persons of whom tenants are asked two questions; others have no answers, or "not applicable" and 0."""
    rng, n = np.random.default_rng(5), 600
    tenant = rng.random(n) < 0.4
    kind = pd.Series(np.where(rng.random(n) < 0.7, "flat", "house")).mask(rng.random(n) < 0.1)
    rent, pay = np.round(rng.gamma(4, 200, n)), np.round(rng.gamma(4, 500, n))
    kind = kind.fillna("missing") if filled else kind
    return pd.DataFrame({
        "sex": rng.choice(["f", "m"], n), "tenure": np.where(tenant, "tenant", "owner"), "pay": pay,
        "kind": kind.where(tenant, "not applicable" if filled else None), "w": rng.uniform(5, 15, n),
        "rent": pd.Series(rent).where(tenant, 0 if filled else np.nan),
    })  # fmt: skip


@pytest.fixture(scope="module")
def of_tenants() -> ss.Release:
    asked = "tenure == 'tenant'"
    return ss.synthesize(
        ss.SurveyDesign(_tenants(filled=False), weights="w"), ["pay ~ sex", "rent ~ sex + tenure", "kind ~ sex"],
        epsilon=50, m=4, weight="public", public=["sex", "tenure"], seed=1, outcomes={
            "pay": ss.Outcome(bounds=(0, 20_000)), "rent": ss.Outcome(bounds=(0, 10_000), applies=asked, elsewhere=0),
            "kind": ss.Outcome(levels=["flat", "house"], missing="category", applies=asked),
        },
    )  # fmt: skip


@pytest.mark.parametrize("read", [False, True])
def test_who_is_not_asked_is_the_same_in_file_and_release(of_tenants, read, tmp_path) -> None:
    release = ss.read_release(of_tenants.write(tmp_path / "release")) if read else of_tenants
    found, wanted = (
        ss.compare(ss.SurveyDesign(_tenants(filled), weights="w"), release, by="sex") for filled in (False, True)
    )
    own = _tenants(filled=True)
    shares = found.cells.query("statistic == 'proportion' and sex == 'all'").set_index("category")["estimate"]
    for category, share in (own.groupby("kind")["w"].sum() / own["w"].sum()).items():
        assert shares[category] == pytest.approx(share, rel=1e-12)
    rent = found.cells.query("statistic == 'mean' and sex == 'all' and outcome == 'rent'")["estimate"].item()
    assert rent == pytest.approx(np.average(own["rent"], weights=own["w"]), rel=1e-12)
    pd.testing.assert_frame_equal(found.pmse, wanted.pmse, rtol=1e-9)
    pd.testing.assert_frame_equal(found.joint, wanted.joint, rtol=1e-9)
    assert found.findings == wanted.findings and found.incomplete == 0


@pytest.mark.parametrize("known", [["sex", "kind"], ["sex", "tenure", "rent"]])
def test_risks_of_who_is_not_asked_are_those_of_the_file_with_these_answers(of_tenants, known) -> None:
    files = [_tenants(filled) for filled in (False, True)]
    for measure in (ss.identification_risk, ss.attribute_risk, ss.match_risk):
        found, wanted = (measure(file, of_tenants, known=known, value="pay") for file in files)
        assert wanted.max() > 0
        pd.testing.assert_series_equal(found, wanted)
