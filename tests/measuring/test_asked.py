"""Rules of strict releases: whom a question is asked, what every record obeys, and which outcomes matter most."""

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth import InputError, ModelError, Outcome

TOTAL = 500_000.0
FORMULAS = ["earners ~ region + members", "pay ~ region + earners", "tenure ~ region + pay", "rent ~ region + tenure"]
SCHEMA = {
    "earners": Outcome(levels=[0, 1, 2]),
    "pay": Outcome(bounds=(1, 1_000_000), applies="earners > 0", elsewhere=0),
    "tenure": Outcome(levels=["owner", "tenant"], missing="category"),
    "rent": Outcome(bounds=(1, 10_000), applies="tenure == 'tenant' and members > 1"),
}
RENTS = ["rent <= income"]
RULES = ["earners <= members", "pay < 900000"]


def households(n, seed=1):
    """Earners are paid, some tenants have a rent."""
    rng = np.random.default_rng(seed)
    region, members = rng.choice(list("abc"), n), rng.integers(1, 5, n)
    earners = np.minimum(rng.binomial(2, 0.6, n), members)
    pay = np.exp(10 + 0.3 * (region == "a") + 0.3 * earners + 0.4 * rng.standard_normal(n))
    tenure = np.where(rng.random(n) < 0.5, "tenant", "owner").astype(object)
    tenure[rng.random(n) < 0.1] = np.nan
    rent = np.exp(6 + 0.2 * (region == "b") + 0.3 * rng.standard_normal(n))
    frame = pd.DataFrame({"region": region, "members": members, "earners": earners, "tenure": tenure})
    frame["pay"], frame["rent"] = np.where(earners > 0, pay, 0.0), np.where(asked_rent(frame), rent, np.nan)
    w = np.exp(0.3 * rng.standard_normal(n))
    return frame.assign(w=w * (TOTAL / w.sum()))


def asked_rent(frame):
    return (frame["tenure"] == "tenant") & (frame["members"] > 1)


def measured(frame, formulas=FORMULAS, **settings):
    schema = {name: SCHEMA.get(name) for name in (formula.split(" ~")[0] for formula in formulas)}
    given = {"epsilon": 12.0, "population_total": TOTAL, "outcomes": schema, "seed": 1}
    return ss.measure(ss.SurveyDesign(frame, weights="w"), formulas, **given | settings)


@pytest.fixture(scope="module")
def release():
    return measured(households(2_000), edits=RULES).release(4, seed=1)


def test_every_record_has_an_answer_where_it_is_asked_and_none_elsewhere(release, tmp_path):
    for design in release.datasets:
        frame = design.frame
        assert ((frame["pay"] > 0) == (frame["earners"] > 0)).all() and (frame["pay"] >= 0).all()
        assert (frame["rent"].notna() == asked_rent(frame)).all()
        assert (frame["earners"] <= frame["members"]).all()
    table = release.tables(by="region", outcome="rent", statistic="mean")
    assert table["estimate"].between(300, 700).all() and (table["n"] < 700).all()
    back = ss.read_release(release.write(tmp_path / "r"))
    assert back.measured.edits == tuple(RULES)
    more = back.more(4, seed=5).datasets[-1].frame
    assert (more["earners"] <= more["members"]).all() and back.manifest()["edits"] == RULES
    assert not more["pay"].isna().any() and back.measured.tables.variable("pay").cells.outcome == SCHEMA["pay"]


def test_what_the_file_has_where_a_question_is_not_asked_is_not_looked_at():
    frame = households(600)
    other = frame.assign(
        pay=frame["pay"].where(frame["earners"] > 0, 77_777.0), rent=frame["rent"].where(asked_rent(frame), -3.0)
    )
    one, two = (measured(each).source.tables.as_json() for each in (frame, other))
    assert one == two
    with pytest.raises(InputError, match="'pay' is missing in"):
        measured(frame.assign(pay=np.nan))


def test_estimates_of_those_who_are_asked_are_the_files_own_without_noise():
    """Were the others of a public cell not left out, amounts would be spread over them."""
    frame = households(6_000)
    found = measured(frame, epsilon=3e4).release(6, seed=2)
    own = ss.SurveyDesign(frame, weights="w")
    for name, where in (("pay", lambda each: each["earners"] > 0), ("rent", None)):
        mine = found.tables(by="region", outcome=name, statistic="mean", where=where)
        truth = ss.estimate(own, name, "region", "mean", where=where, missing="available")
        off = (mine["estimate"] - truth["estimate"]) / truth["se"]
        assert np.abs(off).max() < 1.2  # by simulation of six data sets: one half each
    shares = [(design.frame["pay"] > 0).mean() for design in found.datasets]
    assert np.mean(shares) == pytest.approx((frame["pay"] > 0).mean(), abs=0.01)


@pytest.mark.parametrize(
    ("schema", "elsewhere"),
    [
        ({"levels": ["full", "part"]}, "not applicable"),
        ({"levels": ["full", "part"], "elsewhere": "none"}, "none"),
        ({"levels": ["full", "part", "none"], "elsewhere": "none"}, "none"),
        ({"levels": [1, 2], "elsewhere": "none"}, "none"),
        ({"bounds": (0, 80), "whole": True, "elsewhere": 0}, 0),
        ({"bounds": (0, 80), "whole": True, "zeros": True, "missing": "category"}, np.nan),
        ({"bounds": (0, 80), "heaps": [40]}, np.nan),
    ],
)  # fmt: skip
def test_kinds_of_answers_and_what_they_are_elsewhere(schema, elsewhere):
    frame = households(800)
    rng = np.random.default_rng(3)
    answers = rng.choice(schema["levels"], 800) if "levels" in schema else rng.integers(0, 60, 800)
    frame["hours"] = answers
    outcomes = {"earners": SCHEMA["earners"], "hours": Outcome(applies="earners > 0", **schema)}
    made = measured(frame, ["earners ~ region", "hours ~ region + earners"], outcomes=outcomes).release(4, seed=1)
    for design in made.datasets:
        outside = design.frame["hours"][design.frame["earners"] == 0]
        assert outside.isna().all() if elsewhere != elsewhere else (outside.astype(str) == str(elsewhere)).all()
        inside = design.frame["hours"][design.frame["earners"] > 0].dropna()
        assert set(inside.astype(str)) <= set(map(str, schema["levels"])) if "levels" in schema else inside.max() <= 80
    assert len(made.tables(by="region")) > 0


def test_a_rule_may_be_about_public_columns_alone():
    frame = households(800)
    schema = {"pay": Outcome(bounds=(1, 1_000_000), applies="members >= 2")}
    frame["pay"] += 5.0
    made = measured(frame, ["pay ~ region + members"], outcomes=schema).release(4, seed=1)
    for design in made.datasets:
        assert (design.frame["pay"].notna() == (design.frame["members"] >= 2)).all()


def test_a_record_that_no_later_answer_mends_is_drawn_anew():
    """Nobody with two earners is a tenant: where two earners were drawn first, half of the tenures break the rule."""
    frame = households(800)
    rules = ["earners < 2 or tenure == 'owner'", "earners < 2 or pay > 30000", "pay < 60000"]
    made = measured(frame, FORMULAS[:3], edits=rules).release(4, seed=1)
    for design in made.datasets:
        two = design.frame[design.frame["earners"] == 2]
        assert len(two) > 50 and (two["tenure"] == "owner").all() and (two["pay"] > 30_000).all()
        assert (design.frame["pay"] < 60_000).all()
    with pytest.raises(ModelError, match="break a rule of edits= in every one of 100 draws"):
        measured(frame, FORMULAS[:2], edits=["earners > 5"]).release(4, seed=1)


def test_the_release_says_what_is_asked_and_obeyed(release):
    text = str(release.privacy)
    assert "asked where earners > 0" in text and "earners <= members" in text


def test_importance_multiplies_what_an_outcomes_tables_spend():
    frame = households(300)
    one, two = (measured(frame, **{"importance": of}).source.tables for of in (None, {"pay": 3.0}))

    def spent(tables, name):
        return sum(table.epsilon for table in tables.variable(name).tables)

    assert one.epsilon == pytest.approx(12.0) and two.epsilon == pytest.approx(12.0)
    ratio = (spent(two, "pay") / spent(two, "rent")) / (spent(one, "pay") / spent(one, "rent"))
    assert ratio == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"importance": {"region": 2}}, "importance= names 'region'"),
        ({"importance": {"pay": 0}}, "importance of 'pay'"),
        ({"edits": ["pay < wealth"]}, "names wealth"),
        ({"edits": ["tenure < 5"]}, "cannot be evaluated"),
        ({"edits": ["pay + 1"]}, "is no condition"),
        ({"edits": ["region == 'a'"]}, "is about public columns alone"),
        ({"outcomes": SCHEMA | {"pay": Outcome(bounds=(1, 2), applies="rent > 0")}}, "names rent"),
        ({"outcomes": SCHEMA | {"pay": Outcome(bounds=(1, 2), applies="w > 0")}}, "names w"),
    ],
)  # fmt: skip
def test_rules_that_cannot_hold_are_refused_before_anything_is_measured(settings, said, tmp_path):
    ledger = ss.Ledger(tmp_path / "ledger.json", survey="a", cap=20, create=True)
    with pytest.raises(InputError, match=said):
        measured(households(300), ledger=ledger, **settings)
    assert len(ledger.entries()) == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bounds": (0, 1), "elsewhere": 0}, "applies= says where"),
        ({"bounds": (0, 1), "applies": "a > 0", "elsewhere": 5}, "elsewhere is 0"),
        ({"bounds": (0, 1), "applies": "a > 0", "elsewhere": "none"}, "elsewhere is 0"),
        ({"levels": ["a", "b"], "applies": "a > 0", "elsewhere": 0}, "a label"),
        ({"bounds": (0, 1), "applies": 3}, "condition on columns"),
        ({"bounds": (0, 1e300)}, "within 1e.100: give the outcome in another unit"),
        ({"bounds": (-1e200, 0)}, "within 1e.100"),
    ],
)  # fmt: skip
def test_schemas_that_contradict_themselves_are_refused(settings, said):
    with pytest.raises(InputError, match=said):
        Outcome(**settings)


def test_a_rule_about_an_answer_that_is_not_there_holds():
    """Rents that are not asked, and those that are missing, break no rule; and the share that is missing stays."""
    frame = households(1_000)
    frame["income"] = frame["rent"].fillna(300.0) * np.random.default_rng(1).uniform(0.8, 3, 1_000)
    frame.loc[frame["earners"] == 0, "income"] = np.nan
    schema = {
        "income": Outcome(bounds=(1, 30_000), missing="category"), "tenure": SCHEMA["tenure"],
        "rent": Outcome(bounds=(1, 10_000), applies="tenure == 'tenant'"),
    }  # fmt: skip
    frame["rent"] = frame["rent"].fillna(300.0)
    formulas = ["income ~ region", "tenure ~ region", "rent ~ region + tenure + income"]
    made = measured(frame, formulas, outcomes=schema, edits=["rent <= income"]).release(4, seed=1)
    for design in made.datasets:
        both = design.frame.dropna(subset=["rent", "income"])
        assert len(both) > 100 and (both["rent"] <= both["income"]).all()
        assert design.frame["income"].isna().mean() == pytest.approx(frame["income"].isna().mean(), abs=0.06)


def test_who_is_asked_may_not_answer_and_who_is_not_asked_has_0(tmp_path):
    """Tables are of those with a number; comparison and dossier have the values of the release, too."""
    frame = households(600)
    frame.loc[frame["earners"] == 0, "pay"] = np.nan
    frame.loc[::9, "pay"] = np.nan
    schema = {"bounds": (1, 1_000_000), "missing": "category", "applies": "earners > 0", "elsewhere": 0}
    release = measured(frame, ["earners ~ region", "pay ~ region"], outcomes={
        "earners": SCHEMA["earners"], "pay": Outcome(**schema),
    }).release(4, seed=1)  # fmt: skip
    assert release.datasets[0].frame["pay"].isna().any() and (release.datasets[0].frame["pay"] == 0).any()
    assert release.method["missing"] == ["pay"] and release.method["elsewhere"] == {"pay": 0}
    design = ss.SurveyDesign(frame, weights="w")
    own = frame.assign(pay=frame["pay"].where(frame["earners"] > 0, 0.0)).dropna(subset="pay")
    again = ss.read_release(release.write(tmp_path / "release"))
    for each in (release, again):
        cells = ss.compare(design, each, by="region").cells.query("statistic == 'mean' and region == 'all'")
        cells = cells.set_index("outcome")
        assert cells.loc["pay", "estimate"] == pytest.approx(np.average(own["pay"], weights=own["w"]))
        assert cells.loc["pay", "estimate_release"] > 0
    ss.dossier(tmp_path / "release", design, tmp_path / "signed")


@pytest.mark.slow
def test_standard_errors_with_rules_are_about_those_without():
    """Refits draw every outcome anew: were those of a data set kept, earlier ones would be bound by its later ones."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"region": rng.choice(["a", "b"], 800), "w": TOTAL / 800})
    frame["income"] = rng.lognormal(8, 0.5, 800)
    frame["rent"] = frame["income"] * rng.beta(6, 4, 800)
    schema = {"income": Outcome(bounds=(100, 100_000)), "rent": Outcome(bounds=(10, 100_000))}
    formulas = ["income ~ region", "rent ~ region + income"]
    both = [measured(frame, formulas, outcomes=schema, edits=rules).release(4, seed=1) for rules in (RENTS, None)]
    for release in both:
        drawn = release.datasets[0].frame["income"].to_numpy()
        again = [np.corrcoef(each.frame["income"], drawn)[0, 1] for each in release.redrawn]
        assert np.mean(again) < 0.2
    one, two = (each.tables("region", outcome="income", statistic="mean")["se"].mean() for each in both)
    assert one == pytest.approx(two, rel=0.5)


@pytest.mark.parametrize(
    ("column", "schema", "rule"),
    [
        (lambda rng, n: rng.uniform(0, 10, n), {"bounds": (0, 10), "round": 5}, "y > 0"),
        (lambda rng, n: rng.normal(0, 3, n), {"bounds": (-1, 1)}, "y < 0.5"),
        (lambda rng, n: rng.choice(["1", "2"], n), {"levels": [1, 2]}, "y == 1"),
        (lambda rng, n: rng.choice(["1", "2", None], n), {"levels": [1, 2], "missing": "category"}, "y == 'missing'"),
        (lambda rng, n: rng.uniform(0, 10, n).round().astype(str), {"bounds": (0, 10), "whole": True}, "y > 3"),
    ],
)
def test_rules_see_the_files_answers_as_synthetic_ones_are(column, schema, rule):
    """Who is asked in the noisy tables is who is asked in the files, whatever a schema does to values."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"region": rng.choice(["a", "b"], 2_000), "y": column(rng, 2_000), "w": TOTAL / 2_000})
    frame["z"] = rng.lognormal(5, 1, 2_000)
    outcomes = {"y": Outcome(**schema), "z": Outcome(bounds=(0, 9_000), applies=rule)}
    found = measured(frame, ["y ~ region", "z ~ region + y"], outcomes=outcomes, epsilon=100.0)
    histogram = found.source.tables.variable("z").tables[0]
    others = histogram.sums[0, -1] / 2_000
    files = np.mean([design.frame["z"].isna().mean() for design in found.release(4, seed=1).datasets])
    assert files == pytest.approx(others, abs=0.05) and 0.02 < others < 0.98


@pytest.mark.parametrize("farmers", [0, 3])
def test_a_question_that_nobody_is_asked_stops_nothing(farmers):
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"region": rng.choice(["a", "b"], 3_000), "job": rng.choice(["x", "y"], 3_000)})
    frame = frame.assign(w=TOTAL / 3_000)
    frame.loc[: farmers - 1, "job"] = "farmer"
    frame["income"], frame["rent"] = rng.lognormal(8, 1, 3_000), rng.lognormal(6, 1, 3_000)
    outcomes = {
        "job": Outcome(levels=["x", "y", "farmer"]), "rent": Outcome(bounds=(0, 90_000)),
        "income": Outcome(bounds=(0, 900_000), applies="job == 'farmer'"),
    }  # fmt: skip
    formulas = ["job ~ region", "income ~ region + job", "rent ~ region + income"]
    release = measured(frame, formulas, outcomes=outcomes).release(4, seed=1)
    assert len(release.tables("region", outcome="rent", statistic="mean")) == 3


def test_a_product_is_the_same_whatever_the_order_of_its_columns():
    frame = households(600)
    outcomes = {"earners": SCHEMA["earners"], "pay": SCHEMA["pay"]}
    frame["size"] = np.where(frame["members"] > 2, "large", "small")
    formulas = ["earners ~ region:size", "pay ~ size:region + earners + size:region:earners"]
    found = measured(frame, formulas, outcomes=outcomes)
    by = [table.by for table in found.source.tables.variable("pay").tables]
    assert by.count("region:size") == 4 and found.source.tables.epsilon == pytest.approx(12.0)
    assert found.release(4, seed=1).m == 4
