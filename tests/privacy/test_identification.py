"""Identification risk against its definition, record by record, the printed examples, and releases end to end."""

import itertools
import re
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from surveys import make_design, make_frame, model, population_model

import surveysynth as ss
from surveysynth.release.identification import (
    attribute_risk,
    identification_risk,
    match_risk,
    pairwise_weights,
    pattern_sizes,
)
from tests.surveys import PSEUDO

MEASURES = [identification_risk, pairwise_weights, attribute_risk]


def by_hand(original, files, known, value, radius=0.2, relative=True, floor=0.0):
    """Eq. 8 and 11 to 13 of Hu, Savitsky & Williams (2022b), and the share inside, as printed: sums over i, j and h."""
    labels = [tuple(row) for row in original[known].to_numpy(dtype=object)]
    truth = original[value].to_numpy(dtype=float).tolist()
    n = len(truth)
    ir, alpha, share = (np.zeros(n) for _ in range(3))
    for file in files:
        star = file[value].to_numpy(dtype=float).tolist()

        def inside(h, i, star=star):
            pairs = zip(star[h], truth[i], strict=True)
            return all(abs(s - y) <= max(radius * abs(y) if relative else radius, floor) for s, y in pairs)

        marginal = np.zeros(n)
        for i in range(n):
            pattern = [h for h in range(n) if labels[h] == labels[i]]
            M = len(pattern)
            marginal[i] = inside(i, i) * sum(not inside(h, i) for h in pattern) / M
            share[i] += sum(inside(h, i) for h in pattern) / M / len(files)
            pairs = []
            for j in pattern:
                if j != i:
                    both = sum(not inside(h, i) and not inside(h, j) for h in pattern)
                    pairs.append(1 - inside(i, i) * inside(j, j) * both / M)
            alpha[i] += (sum(pairs) / (M - 1) if M > 1 else 1 - marginal[i]) / len(files)
        ir += marginal / len(files)
    return ir, alpha, share


def check(original, files, known, value, **ball):
    for measure, expected in zip(MEASURES, by_hand(original, files, known, value, **ball), strict=True):
        got = measure(original, files, known=known, value=value, **ball)
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12, err_msg=measure.__name__)


@st.composite
def small_files(draw):
    """A file and 1 to 3 synthetic versions: quarters, so that values, ties and edges of balls are exact."""
    n, d, L = draw(st.integers(1, 9)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    numbers = st.lists(st.integers(-12, 12), min_size=n * d, max_size=n * d)
    known = {f"k{i}": draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)) for i in range(draw(st.integers(0, 2)))}
    value = [f"y{k}" for k in range(d)]

    def file():
        return pd.DataFrame(np.reshape(draw(numbers), (n, d)) / 4, columns=value).assign(**known)

    ball = {"radius": draw(st.sampled_from([0, 0.125, 0.25, 0.5, 1, 2.0])), "relative": draw(st.booleans())}
    ball["floor"] = draw(st.sampled_from([0, 0, 0.25, 1.0]))
    return file(), [file() for _ in range(L)], list(known), value, ball


@pytest.mark.slow
@settings(derandomize=True, max_examples=1000, deadline=None)
@given(small_files())
def test_the_measures_are_their_definition(drawn):
    original, files, known, value, ball = drawn
    check(original, files, known, value, **ball)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "ball"),
    [(["income"], {}), (["income"], {"radius": 0.03, "floor": 900.0}), (["hours", "income"], {}),
     (["income"], {"radius": 2500, "relative": False}), (["income", "hours", "wt"], {"radius": 0.5})],
    ids=str,
)  # fmt: skip
def test_the_measures_on_larger_patterns(value, ball):
    rng, frame = np.random.default_rng(8), make_frame(90)
    noise = np.exp(rng.normal(0, 0.15, (2, 90, 3)))
    files = [frame.assign(**dict(zip(["income", "hours", "wt"], (frame[["income", "hours", "wt"]] * e).to_numpy().T,
                                     strict=True))) for e in noise]  # fmt: skip
    check(frame, files, ["field"], value, **ball)


# printed and computed by hand


@pytest.mark.parametrize(
    ("near", "own", "expected"), [(3, 100, 10 / 13), (8, 119, 5 / 13), (8, 500, 0), (3, 79.9, 0)], ids=str
)
def test_betty(near, own, expected):
    """Supplement 1, Figures 2 to 5: 13 units in the pattern, 10 or 5 of them outside of the ball, T = 1 or 0."""
    y = np.full(13, 100.0)
    close = near - (80 <= own <= 120)  # of the others
    star = np.array([own, *[100.0] * close, *[200.0] * (12 - close)])
    original, synthetic = pd.DataFrame({"y": y}), pd.DataFrame({"y": star})
    assert identification_risk(original, synthetic, known=[], value="y").iloc[0] == pytest.approx(expected, abs=1e-15)


def test_three_records_and_one_alone():
    original = pd.DataFrame({"p": ["a", "a", "b", "a"], "y": [10, 20, 7, 40]}, index=["w", "x", "y", "z"])
    synthetic = original.assign(y=[11, 24, 7, 100])  # 24 is on the edge of 20's ball; 100 is not in 40's
    expected = {
        identification_risk: [2 / 3, 2 / 3, 0, 0], pairwise_weights: [5 / 6, 5 / 6, 1, 1],
        attribute_risk: [1 / 3, 1 / 3, 1, 0],
    }  # fmt: skip
    names = ["identification_risk", "pairwise_weight", "attribute_risk"]
    for (measure, numbers), name in zip(expected.items(), names, strict=True):
        got = measure(original, synthetic, known="p", value="y")
        pd.testing.assert_series_equal(got, pd.Series(numbers, index=[*"wxyz"], name=name), rtol=1e-14, atol=1e-15)


def test_negative_values_have_a_ball_and_zero_has_one_with_a_floor():
    original = pd.DataFrame({"y": [-100.0, 0.0, 50.0, 1000.0]})
    synthetic = pd.DataFrame({"y": [-81.0, 3.0, 500.0, 700.0]})
    risk = {floor: identification_risk(original, synthetic, known=[], value="y", floor=floor) for floor in (0, 5, 500)}
    np.testing.assert_array_equal(risk[0], [0.75, 0, 0, 0])
    np.testing.assert_array_equal(risk[5], [0.75, 0.75, 0, 0])
    np.testing.assert_array_equal(risk[500], [0.5, 0.25, 0.25, 0.5])  # [-600, 400], [-500, 500], [-450, 550], ...


def test_each_value_may_have_a_radius_of_its_own():
    frame = make_frame(60)
    other = frame.assign(income=frame["income"] + 900, hours=frame["hours"] - 3)
    arguments = {"known": "gender", "value": ["income", "hours"], "relative": False}
    risks = [identification_risk(frame, other, radius=r, **arguments) for r in ([1000, 4], [1000, 2], [800, 4])]
    assert risks[0].gt(0).all() and risks[1].eq(0).all() and risks[2].eq(0).all()
    floored = identification_risk(frame, other, radius=0, floor=(1000, 4), **(arguments | {"relative": True}))
    pd.testing.assert_series_equal(floored, risks[0])


def test_top_coded_data_protect_the_top_and_nobody_else():
    frame = make_frame(160)
    limit = float(frame["income"].quantile(0.9))
    coded = frame.assign(income=frame["income"].clip(upper=limit))
    risk = identification_risk(frame, coded, known=["field", "gender"], value="income")
    hidden = frame["income"] * 0.8 > limit
    assert hidden.sum() > 3 and risk[hidden].eq(0).all() and risk[~hidden].gt(0).all()
    np.testing.assert_allclose(risk, by_hand(frame, [coded], ["field", "gender"], ["income"])[0], rtol=1e-12)


# what does not matter


@pytest.fixture(scope="module")
def pair():
    rng, frame = np.random.default_rng(2), make_frame(300)
    frame.index = pd.Index(frame["id"])
    return frame, [frame.assign(income=frame["income"] * np.exp(rng.normal(0, 0.2, 300))) for _ in range(3)]


@pytest.mark.parametrize("measure", MEASURES)
def test_order_labels_and_unit_do_not_matter(measure, pair):
    frame, files = pair
    arguments = {"known": ["field", "gender"], "value": "income"}
    risk = measure(frame, files, **arguments)
    assert 0 < risk.mean() < 1
    order = np.random.default_rng(1).permutation(300)
    shuffled = measure(frame.iloc[order], [f.iloc[order] for f in files], **arguments)
    pd.testing.assert_series_equal(shuffled, risk.iloc[order], rtol=1e-14)

    def renamed(f):
        return f.assign(field=f["field"].map({"01": 7, "02": 3, "NA": 5, "ökonomie": 1}), gender=f["gender"] + "?")

    def rescaled(f):
        return f.assign(income=f["income"] * -3.7)

    for change in (renamed, rescaled):
        same = measure(change(frame), [change(f) for f in files], **arguments)
        pd.testing.assert_series_equal(same, risk, rtol=1e-14)


@pytest.mark.parametrize("measure", MEASURES)
def test_data_sets_are_averaged(measure, pair):
    frame, files = pair
    arguments = {"known": "field", "value": "income"}
    each = [measure(frame, f, **arguments) for f in files]
    assert not each[0].equals(each[1])
    pd.testing.assert_series_equal(measure(frame, tuple(files), **arguments), sum(each) / 3, rtol=1e-14)
    pd.testing.assert_series_equal(measure(frame, [files[0]] * 4, **arguments), each[0], rtol=1e-14)


def test_designs_are_frames_with_rows_from_0(pair):
    frame, files = pair
    designs = [ss.SurveyDesign(f, weights="wt") for f in files]
    got = identification_risk(ss.SurveyDesign(frame, weights="wt"), designs, known="field", value="income")
    expected = identification_risk(frame, files, known="field", value="income")
    pd.testing.assert_series_equal(got, expected.reset_index(drop=True))


@pytest.mark.parametrize("kind", [float, "Int64", "Float64", np.int8])
def test_a_known_number_may_be_stored_in_another_type(kind, pair):
    frame, files = pair
    coded = frame.assign(field=frame["field"].map({"01": 1, "02": 2, "NA": 3, "ökonomie": 4}))
    stored = [f.assign(field=coded["field"].astype(kind)).reset_index(drop=True) for f in files]
    expected = identification_risk(frame, files, known="field", value="income")
    for a, b in ((coded, stored), (coded.assign(field=stored[0]["field"].to_numpy()), stored)):
        pd.testing.assert_series_equal(identification_risk(a, b, known="field", value="income"), expected, rtol=1e-14)


def test_a_wider_ball_never_lowers_the_attribute_risk(pair):
    frame, files = pair
    risks = [attribute_risk(frame, files, known="field", value="income", radius=r) for r in (0, 0.05, 0.2, 0.6, 99)]
    assert risks[0].eq(0).all() and risks[-1].eq(1).all()
    for narrow, wide in itertools.pairwise(risks):
        assert (wide >= narrow).all()


# known variables that were synthesized


OF_FILES = [identification_risk, attribute_risk, match_risk, pattern_sizes]


def matched_by_hand(original, files, fixed, categories, numbers, value, radius, relative, floor):
    """Eq. 8, the share inside, T / c of Reiter & Mitra (2009) and the pattern: who matches whom, in a double loop."""
    truth, n = original.to_dict("records"), len(original)
    total = np.zeros((4, n))
    for file in files:
        star = file.to_dict("records")
        for i in range(n):

            def near(h, column, size, least, i=i, star=star):
                width = max(size * abs(truth[i][column]) if relative else size, least)
                return truth[i][column] - width <= star[h][column] <= truth[i][column] + width

            sizes = dict(zip([*value, *numbers], zip(radius, floor, strict=True), strict=True))
            alike = [h for h in range(n)
                     if all(truth[h][c] == truth[i][c] for c in fixed)
                     and all(star[h][c] == truth[i][c] for c in categories)
                     and all(near(h, c, *sizes[c]) for c in numbers)]  # fmt: skip
            inside = [h for h in alike if all(near(h, c, *sizes[c]) for c in value)]
            T = i in inside
            found = [T * (len(alike) - len(inside)) / len(alike), len(inside) / len(alike)] if alike else [0, 0]
            total[:, i] += [*found, T / len(inside) if T else 0, len(alike)]
    return total / len(files)


@st.composite
def whole_files(draw):
    """A file and 1 to 3 synthetic versions of a public column, categories and numbers, of which some are known."""
    n, d, k = draw(st.integers(1, 9)), draw(st.integers(1, 2)), draw(st.integers(0, 2))
    value, numbers, categories = [f"y{j}" for j in range(d)], [f"z{j}" for j in range(k)], ["c0", "c1"]
    fixed = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))

    def file():
        quarters = {c: [draw(st.integers(-6, 6)) / 4 for _ in range(n)] for c in (*value, *numbers)}
        return pd.DataFrame({"p": fixed, **{c: [draw(st.sampled_from("abé")) for _ in range(n)] for c in categories},
                             **quarters})  # fmt: skip

    size = st.sampled_from([0, 0.25, 0.5, 1, 2.0])
    asked = {"fixed": draw(st.sampled_from([[], ["p"]])), "numbers": numbers, "value": value,
             "categories": draw(st.sampled_from([[], ["c1"], categories])), "relative": draw(st.booleans()),
             "radius": [draw(size) for _ in range(d + k)],
             "floor": [draw(st.sampled_from([0, 0, 0.25])) for _ in range(d + k)]}  # fmt: skip
    return file(), [file() for _ in range(draw(st.integers(1, 3)))], asked


def check_of_files(original, files, asked, order=slice(None)):
    moving = [*asked["categories"], *asked["numbers"]]
    known = {"known": [*asked["numbers"], *asked["fixed"], *asked["categories"]], "synthesized": moving}
    arguments = known | {name: asked[name] for name in ("value", "radius", "relative", "floor")}
    expected = matched_by_hand(original, files, **asked)
    for measure, numbers in zip(OF_FILES, expected, strict=True):
        got = measure(original.iloc[order], [file.iloc[order] for file in files], **arguments)
        np.testing.assert_allclose(got, numbers[order], rtol=1e-12, atol=1e-12, err_msg=measure.__name__)
    return expected


@pytest.mark.slow
@settings(derandomize=True, max_examples=600, deadline=None)
@given(whole_files(), st.randoms())
def test_known_synthesized_variables_match_as_by_a_double_loop_in_any_order(drawn, random):
    original, files, asked = drawn
    order = list(range(len(original)))
    random.shuffle(order)
    check_of_files(original, files, asked, order)


@pytest.mark.parametrize("d", [1, 2])
def test_a_file_of_known_categories_and_amounts(d):
    rng, frame = np.random.default_rng(4), make_frame(120)
    files = [
        frame.assign(
            gender=np.where(rng.random(120) < 0.3, rng.permutation(frame["gender"]), frame["gender"]),
            income=frame["income"] * np.exp(rng.normal(0, 0.2, 120)),
            hours=frame["hours"] * np.exp(rng.normal(0, 0.2, 120)), wt=frame["wt"] * np.exp(rng.normal(0, 0.2, 120)),
        )
        for _ in range(2)
    ]  # fmt: skip
    asked = {"fixed": ["field"], "categories": ["gender"], "numbers": ["hours"], "value": ["income", "wt"][:d],
             "radius": [*[0.2, 0.6][:d], 0.3], "relative": True, "floor": [0.0] * (d + 1)}  # fmt: skip
    risk = check_of_files(frame, files, asked)
    assert (risk[0] > 0).sum() > 60 and (risk[3] < 30).all()  # 30 have the same field


def test_five_records_by_hand():
    """Activity and rent are known and synthetic; balls of 20% around pay and 10% around rent, both closed."""
    original = pd.DataFrame({
        "sex": list("ffffm"), "activity": ["work", "work", "none", "work", "work"],
        "rent": [100, 110, 100, 500, 100], "pay": [10, 20, 30, 40, 10],
    })  # fmt: skip
    synthetic = original.assign(
        activity=["work", "work", "work", "none", "work"], rent=[110, 100, 95, 500, 89], pay=[11, 21, 12, 40, 10],
    )  # fmt: skip
    # 1: records 1, 2, 3 match (work, rent 90 to 110), pay 8 to 12 in 1 and 3; 2: rent 99 to 121, records 1 and 2, pay
    # 16 to 24 in 2; 3: no synthetic record without work has a rent of 90 to 110; 4: without work now, so nobody
    # matches; 5: the only man's synthetic rent, 89, is not within 10 of 100
    expected = {
        identification_risk: [1 / 3, 1 / 2, 0, 0, 0], attribute_risk: [2 / 3, 1 / 2, 0, 0, 0],
        match_risk: [1 / 2, 1, 0, 0, 0], pattern_sizes: [3, 2, 0, 0, 0],
    }  # fmt: skip
    arguments = {"known": ["sex", "activity", "rent"], "value": "pay", "synthesized": ["rent", "activity"],
                 "radius": [0.2, 0.1]}  # fmt: skip
    for measure, numbers in expected.items():
        np.testing.assert_allclose(measure(original, synthetic, **arguments), numbers, atol=1e-15)
        halved = measure(original, [synthetic, synthetic.assign(activity="study")], **arguments)
        np.testing.assert_allclose(halved, np.array(numbers) / 2, atol=1e-15)


def test_the_expected_match_risk_counts_a_unique_match_that_the_measure_of_rare_values_does_not():
    frame = pd.DataFrame({"town": ["a", "b", "b", "c"], "y": [1.0, 2.0, 2.1, 9.0]})
    arguments = {"known": "town", "value": "y", "synthesized": "town"}
    assert match_risk(frame, frame, **arguments).tolist() == [1, 0.5, 0.5, 1]
    assert identification_risk(frame, frame, **arguments).tolist() == [0, 0, 0, 0]
    swapped = frame.assign(town=["b", "a", "b", "c"])
    assert match_risk(frame, swapped, **arguments).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("measure", OF_FILES)
def test_columns_that_did_not_change_are_the_special_case(measure, pair):
    """Categories, and numbers within radius 0, that are called synthesized and are equal: to the last bit."""
    frame, files = pair
    age = frame["hours"].round()
    frame, files = frame.assign(age=age), [file.assign(age=age) for file in files]
    known = ["field", "gender", "age"]
    public = measure(frame, files, known=known, value="income")
    for moving in (["field"], known[:2], ["age"], known):
        radius = [0.2, 0] if "age" in moving else 0.2
        again = measure(frame, files, known=known, value="income", synthesized=moving, radius=radius)
        pd.testing.assert_series_equal(again, public, check_exact=True)


def test_categories_are_compared_as_text_and_numbers_of_any_type_as_numbers(pair):
    frame, files = pair
    frame = frame.assign(code=frame["field"].map({"01": 1, "02": 2, "NA": 3, "ökonomie": 6}))
    rng = np.random.default_rng(0)
    files = [f.assign(code=rng.permutation(frame["code"])) for f in files]
    arguments = {"known": ["gender", "code"], "value": "income", "synthesized": "code"}
    expected = identification_risk(frame, files, radius=[0.2, 0], **arguments)
    assert expected.gt(0).any()
    for kind in (str, "category"):
        as_labels = [f.assign(code=f["code"].astype(str).astype(kind)) for f in files]
        got = identification_risk(frame, as_labels, **arguments)
        pd.testing.assert_series_equal(got, expected, rtol=1e-14)
    stored = [f.assign(code=f["code"].astype("Int64")) for f in files]
    pd.testing.assert_series_equal(identification_risk(frame, stored, radius=[0.2, 0], **arguments), expected)


def test_pairs_are_of_known_columns_that_were_not_synthesized():
    release = ss.synthesize(
        make_design(), ss.FBS(["income", "C(gender)"], "field", prior="flat"), epsilon=30, m=1, seed=1,
        mechanism=PSEUDO, levels={"gender": ["f", "m"]},
    )  # fmt: skip
    with pytest.raises(ss.InputError, match="known column 'gender' was synthesized, and pairs are defined for"):
        pairwise_weights(make_frame(), release, known=["field", "gender"], value="income")


@pytest.mark.parametrize("missing", [(), (0, 7, 399)], ids=["whole", "left out"])
def test_a_release_knows_which_known_columns_it_synthesized(missing):
    """Hours are a number and gender a category among the outcomes; the same by files in order, and by hand."""
    frame = make_frame().assign(gender=make_frame()["gender"].map({"f": 2, "m": 1}))
    frame.loc[list(missing), "income"] = np.nan
    there = frame["income"].notna().to_numpy()
    model = ss.FBS(["income", "hours", "C(gender)"], "field", prior="flat", missing="drop" if missing else "fail")
    release = ss.synthesize(
        ss.SurveyDesign(frame, weights="wt"), model, epsilon=60, m=2, seed=1, mechanism=PSEUDO,
        levels={"gender": [1, 2]},
    )  # fmt: skip
    asked = {"fixed": ["field"], "categories": ["gender"], "numbers": ["hours"], "value": ["income"],
             "radius": [0.5, 0.25], "relative": True, "floor": [0, 0]}  # fmt: skip
    ordered = []
    for data, rows in zip(release.datasets, release.internal["rows"], strict=True):
        back = data.frame.iloc[np.argsort(rows)].set_index(np.sort(rows))
        ordered.append(frame[there].assign(**{c: back[c] for c in ("income", "hours", "gender")}))
    expected = matched_by_hand(frame[there], ordered, **asked)
    assert (expected[0] > 0).sum() > 20 and (expected[0] == 0).sum() > 20
    for measure, numbers in zip(OF_FILES, expected, strict=True):
        got = measure(frame, release, known=["gender", "field", "hours"], value="income", radius=[0.5, 0.25])
        assert got[~there].isna().all()
        np.testing.assert_allclose(got[there], numbers, rtol=1e-12, atol=1e-12)


def test_a_column_derived_from_synthesized_ones_may_be_known():
    frame, design = make_frame(), make_design()
    release = ss.synthesize(
        design, ss.FBS(["income", "hours"], "field", prior="flat"), epsilon=30, m=1, seed=1, mechanism=PSEUDO
    )

    def band(f):
        return np.where(f["hours"] > 40, "long", "short")

    back = release.datasets[0].frame.iloc[np.argsort(release.internal["rows"][0])]
    ordered = frame.assign(income=back["income"].to_numpy(), band=band(back))
    frame = frame.assign(band=band(frame))
    got = identification_risk(frame, release.assign(band=band), known=["field", "band"], value="income")
    arguments = {"known": ["field", "band"], "value": "income", "synthesized": "band"}
    pd.testing.assert_series_equal(got, identification_risk(frame, ordered, **arguments))


def test_the_synthetic_weight_is_a_value_and_not_a_known_column():
    frame, design = make_frame(), make_design()
    release = ss.synthesize(design, model(), epsilon=30, m=1, seed=1, mechanism=PSEUDO)
    said = "known column 'wt' is the survey weight, of which the files have synthetic values: name it in value"
    with pytest.raises(ss.InputError, match=said):
        identification_risk(frame, release, known=["field", "wt"], value="income")
    with pytest.raises(ss.InputError, match=said):
        identification_risk(design, frame, known=["field", "wt"], value="income", synthesized="wt")
    with pytest.raises(ss.InputError, match="a Release knows what was synthesized"):
        identification_risk(frame, release, known="field", value="income", synthesized="field")


# errors


FRAME = pd.DataFrame({
    "sex": ["f", "m", "f", "geheim"], "area": [314159, 314159, 271828, 271828], "pay": [161803.4, 57721.6, 141421.4, 0],
    "text": ["a", "17320.5", "b", "22360.7"], "id": [1, 2, 3, 4],
})  # fmt: skip
SWAPPED = FRAME.iloc[[1, 0, 2, 3]]


def with_missing(column):
    return FRAME.assign(**{column: FRAME[column].where(FRAME.index != 2)})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"synthetic": FRAME[:3]}, "synthetic data set 1 has 3 records and the original 4: row i of both"),
        ({"synthetic": [FRAME, FRAME[:3]]}, "synthetic data set 2 has 3 records"),
        ({"synthetic": []}, "synthetic must be a DataFrame, a SurveyDesign, a list of them or a Release"),
        ({"synthetic": "release/"}, "synthetic must be a DataFrame, a SurveyDesign, a list of them or a Release"),
        ({"synthetic": None}, "synthetic must be a DataFrame, a SurveyDesign, a list of them or a Release"),
        ({"synthetic": [FRAME, 3]}, "synthetic data set 2 must be a DataFrame or a SurveyDesign, not int"),
        ({"original": FRAME.to_numpy()}, "original must be a DataFrame or a SurveyDesign, not ndarray"),
        ({"original": FRAME[:0], "synthetic": FRAME[:0]}, "original is empty"),
        ({"original": pd.concat([FRAME, FRAME[["pay"]]], axis=1)}, "original has several columns of the same name"),
        ({"known": "age"}, "original: there is no column 'age'; it has sex, area, pay, text, id"),
        ({"synthetic": FRAME.drop(columns="area")}, "synthetic data set 1: there is no column 'area'"),
        ({"value": "income"}, "original: there is no column 'income'"),
        ({"value": []}, "value must name one column or more that are not in known"),
        ({"value": ["pay", "sex"]}, "value must name one column or more that are not in known"),
        ({"known": 3}, "a name was expected, or a list of names, not int"),
        ({"value": "text"}, r"original: column 'text' is not a number in 2 rows \(row numbers 1, 3"),
        ({"original": with_missing("pay")}, r"original: column 'pay' is missing or not finite in 1 row \(.* 3;"),
        ({"synthetic": [FRAME, with_missing("pay")]}, r"set 2: column 'pay' is missing or not finite in 1 row \(.* 3"),
        ({"synthetic": FRAME.assign(pay=[1, np.inf, 2, -np.inf])}, r"not finite in 2 rows \(row numbers 2, 4;"),
        ({"original": with_missing("sex")}, r"original: known column 'sex' is missing in 1 row \(row numbers 3;"),
        ({"synthetic": with_missing("area")}, r"set 1: known column 'area' is missing in 1 row \(row numbers 3;"),
        ({"synthetic": [FRAME, SWAPPED]}, r"set 2: column 'sex' differs from the original in 2 rows \(.* 1, 2;"),
        ({"synthetic": FRAME.assign(area=314159)}, r"column 'area' differs from the original in 2 rows \(.* 3, 4;"),
        *(({"radius": r}, "radius must be a finite number, not negative, or a list with one for each value")
          for r in (-0.2, np.nan, np.inf, "0.2", None, True, [0.1, 0.2], [])),
        ({"floor": -1}, "floor must be a finite number, not negative, or a list with one for each value"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_without_a_value_in_the_message(arguments, message):
    given = {"original": FRAME, "synthetic": FRAME, "known": ["sex", "area"], "value": "pay"} | arguments
    for measure in MEASURES:
        with pytest.raises(ss.InputError, match=message) as refused:
            measure(given.pop("original"), given.pop("synthetic"), **given)
        said = str(refused.value)
        assert not re.search("geheim|314159|271828|161803|57721|141421|17320|22360", said)
        given = {"original": FRAME, "synthetic": FRAME, "known": ["sex", "area"], "value": "pay"} | arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"known": ["sex", "area", "age"], "synthesized": "age"}, "original: there is no column 'age'; it has sex,"),
        ({"synthetic": FRAME.drop(columns="area")}, "synthetic data set 1: there is no column 'area'; it has sex"),
        ({"synthesized": ["area", "id"]}, "synthesized names 'id', which is not in known"),
        ({"synthesized": "pay"}, "synthesized names 'pay', which is not in known"),
        ({"synthesized": 3}, "a name was expected, or a list of names, not int"),
        ({"value": ["pay", "area"]}, "value must name one column or more that are not in known"),
        ({"radius": [0.1, 0.2, 0.3]}, "radius must be a finite .* or a list with one for each of pay, area"),
        ({"floor": [1, -1]}, "floor must be a finite number, not negative, .* one for each of pay, area"),
        ({"original": with_missing("area")}, r"original: known column 'area' is missing in 1 row \(row numbers 3;"),
        ({"synthetic": with_missing("sex"), "synthesized": "sex"}, r"set 1: known column 'sex' is missing in 1 row"),
        ({"synthetic": FRAME.assign(area=[1, np.inf, 2, 3])}, r"set 1: column 'area' is .* not finite in 1 row \(.* 2"),
        ({"synthetic": SWAPPED}, r"'sex' differs from the original in 2 rows .* but for those that synthesized= names"),
    ],
)  # fmt: skip
def test_wrong_known_synthesized_columns_are_refused_without_a_value_in_the_message(arguments, message):
    given = {"original": FRAME, "synthetic": FRAME, "known": ["sex", "area"], "value": "pay", "synthesized": "area"}
    given |= arguments
    for measure in OF_FILES:
        with pytest.raises(ss.InputError, match=message) as refused:
            measure(given["original"], given["synthetic"], **{k: given[k] for k in list(given)[2:]})
        assert not re.search("geheim|314159|271828|161803|57721|141421|17320|22360", str(refused.value))


# releases


@pytest.mark.slow
def test_a_release_is_put_back_in_the_order_of_the_file():
    """Records are followed by their hours, one value each and public."""
    frame = make_frame(80)
    release = ss.synthesize(
        ss.SurveyDesign(frame, weights="wt"), model("gender + hours"), epsilon=40, m=3, seed=1, mechanism=PSEUDO
    )
    assert release.internal["rows"].shape == (3, 80)
    ordered = [d.frame.set_index("hours").loc[frame["hours"]].reset_index() for d in release.datasets]
    for data, rows in zip(release.datasets, release.internal["rows"], strict=True):
        np.testing.assert_array_equal(data.frame["hours"], frame["hours"].to_numpy()[rows])
        assert not (np.diff(rows) == 1).all()
    expected = by_hand(frame, ordered, ["gender"], ["income"])
    assert (expected[0] > 0).sum() > 20
    for measure, numbers in zip(MEASURES, expected, strict=True):
        got = measure(frame, release, known="gender", value="income")
        np.testing.assert_allclose(got, numbers, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("synthesizer", [model(), population_model()], ids=repr)
def test_the_synthetic_weight_of_a_release_may_be_what_the_intruder_knows(synthesizer):
    """Of both models, with the rows of the data sets as public files have them, and after calibration."""
    design, frame = make_design(), make_frame()
    release = ss.synthesize(design, synthesizer, epsilon=10.8, m=2, seed=1, mechanism=PSEUDO)
    ordered = []
    for data, rows in zip(release.datasets, release.internal["rows"], strict=True):
        back = np.empty((400, 2))
        back[rows] = data.frame[["income", "wt"]]
        ordered.append(frame.assign(income=back[:, 0], wt=back[:, 1]))
    arguments = {"known": ["field", "gender"], "value": ["income", "wt"], "radius": 0.4}
    expected = identification_risk(frame, ordered, **arguments)
    assert expected.gt(0).sum() > 50
    pd.testing.assert_series_equal(identification_risk(design, release, **arguments), expected)
    calibrated = release.calibrate({"gender": {"f": 10_000, "m": 12_000}})
    arguments["value"] = "income"
    expected = identification_risk(frame, ordered, **arguments)
    pd.testing.assert_series_equal(identification_risk(design, calibrated, **arguments), expected)


def test_records_that_a_release_left_out_have_no_risk_and_are_in_no_pattern():
    frame = make_frame(80)
    frame.loc[[0, 7, 50, 79], "income"] = np.nan
    frame.index = pd.Index(np.arange(80) + 1000)
    design = ss.SurveyDesign(frame, weights="wt")
    release = ss.synthesize(design, model("gender + hours", missing="drop"), epsilon=40, m=2, seed=1, mechanism=PSEUDO)
    there = frame["income"].notna().to_numpy()
    complete = frame[there]
    ordered = [d.frame.set_index("hours").loc[complete["hours"]].reset_index() for d in release.datasets]
    expected = by_hand(complete, ordered, ["gender"], ["income"])
    for measure, numbers in zip(MEASURES, expected, strict=True):
        got = measure(frame, release, known="gender", value="income")
        assert got.index.equals(frame.index) and got[~there].isna().all()
        np.testing.assert_allclose(got[there], numbers, rtol=1e-12, atol=1e-12)
    assert release.internal["records"].index.tolist() == np.flatnonzero(there).tolist()
    frame.loc[[1007], "gender"] = None  # of a record that is not in the release
    again = identification_risk(frame, release, known="gender", value="income")
    np.testing.assert_allclose(again[there], expected[0], rtol=1e-12, atol=1e-12)


def test_predictors_of_any_kind_may_be_known():
    frame, rng = make_frame(), np.random.default_rng(5)
    frame = frame.assign(
        coded=pd.Categorical(rng.choice([3, 1], 400), [3, 1, 9]), band=pd.cut(frame["hours"], [0, 40, 100]),
        employed=rng.random(400) < 0.5, share=rng.choice([0.1, 1 / 3], 400),
    )  # fmt: skip
    design = ss.SurveyDesign(frame, weights="wt")
    for known in ("coded", "band", "employed", "share"):
        release = ss.synthesize(design, model(f"gender + {known}"), epsilon=30, m=1, seed=1, mechanism=PSEUDO)
        back = release.datasets[0].frame.iloc[np.argsort(release.internal["rows"][0])]
        ordered = frame.assign(income=back["income"].to_numpy())
        expected = identification_risk(frame, ordered, known=["gender", known], value="income")
        got = identification_risk(frame, release, known=["gender", known], value="income")
        pd.testing.assert_series_equal(got, expected)


def test_row_order_is_written_to_the_internal_part_alone(tmp_path):
    release = ss.synthesize(make_design(), model(), epsilon=10.8, m=2, seed=1, mechanism=PSEUDO)
    path = release.write(tmp_path / "r")
    rows = pd.read_csv(path / "internal" / "rows.csv")
    assert rows.columns.tolist() == ["synthetic_1", "synthetic_2"]
    np.testing.assert_array_equal(rows.to_numpy().T, release.internal["rows"])
    for number in (1, 2):
        public = pd.read_csv(path / "public" / f"synthetic_{number}.csv", dtype={"field": str}, keep_default_na=False)
        truth = make_frame().iloc[rows[f"synthetic_{number}"]].reset_index(drop=True)
        pd.testing.assert_frame_equal(public[["field", "gender"]], truth[["field", "gender"]], check_dtype=False)
    assert not [file.name for file in (path / "public").iterdir() if "rows" in file.name or "records" in file.name]
    back = ss.read_release(path)
    assert back.internal == {}
    with pytest.raises(ss.InputError, match=r"read from its public files.*session that made it \(internal/rows.csv"):
        identification_risk(make_design(), back, known="field", value="income")


def test_a_release_and_a_file_that_it_was_not_made_from():
    frame, design = make_frame(), make_design()
    release = ss.synthesize(design, model(), epsilon=10.8, m=2, seed=1, mechanism=PSEUDO)
    arguments = {"known": [], "value": "income"}
    assert identification_risk(frame, release, **arguments).notna().all()
    for other in (frame[:399], pd.concat([frame, frame[:1]]), frame.sort_values("income")):
        with pytest.raises(ss.InputError, match="the original"):
            identification_risk(other, release, **arguments)
    with pytest.raises(ss.InputError, match=r"pass a Release as a whole, for its data sets are permuted"):
        identification_risk(frame, release.datasets, known="field", value="income")
    recoded = ss.synthesize(design, model("gender"), epsilon=10.8, m=1, seed=1, clusters="ignore", mechanism=PSEUDO)
    with pytest.raises(ss.InputError, match=r"'field' differs from the original in 400 rows .* nor recoded"):
        identification_risk(frame, recoded, known="field", value="income")


def test_time_for_the_size_of_the_papers_file():
    """n = 6,208 and L = 20, in 1 and 40 patterns, and as many patterns as records; seconds are printed (-s)."""
    rng = np.random.default_rng(0)
    for n, patterns in ((6208, 1), (6208, 40), (100_000, 100_000)):
        y = np.exp(rng.normal(10.8, 1, n))
        frame = pd.DataFrame({"p": rng.integers(0, patterns, n), "y": y})
        files = [frame.assign(y=y * np.exp(rng.normal(0, 0.5, n))) for _ in range(20 if n < 10_000 else 1)]
        for measure in (identification_risk, pairwise_weights):
            start = time.perf_counter()
            result = measure(frame, files, known="p", value="y")
            seconds = time.perf_counter() - start
            print(f"{measure.__name__}: n = {n:,}, {patterns:,} patterns, L = {len(files)}: {seconds:.3f} s")
            assert result.between(0, 1).all()
