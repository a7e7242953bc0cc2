"""docs/extending.md: what it shows runs as it stands, and does what it says."""

import json

import numpy as np
import pytest
from scipy.stats import weibull_min

import surveysynth as ss
from surveysynth.privacy.mechanisms import MECHANISMS
from surveysynth.publication.formats import FORMATS
from tests import guide
from tests.surveys import PSEUDO

RECORDS, OUTCOME, MECHANISM, FORMAT = [heading for heading in guide.sections() if heading]


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A function that runs sections; the lists of the package are as before afterwards."""
    before = [(listed, dict(listed)) for listed in (MECHANISMS, FORMATS)]
    yield lambda *headings: guide.run(headings, tmp_path, monkeypatch)
    for listed, was in before:
        listed.clear()
        listed.update(was)


def test_the_page_is_short():
    assert len(guide.text_beside_code().split()) < 1_400


@pytest.mark.slow
def test_models_of_records(session, capfd, run):
    made = session(RECORDS)
    printed = capfd.readouterr().out
    assert printed.count("the density has mass one") == 2 and "to rounding" in printed
    assert made["release"].method["method"] == "Weibull regression"
    design, weeks = made["design"], made["weeks"]
    draws = ss.fit(design, weeks, mechanism=ss.PseudoPosterior(c1=1e9), seed=1).draws
    scale = np.exp(draws["b"] @ weeks.prepare(design).X.T).mean(axis=0)
    relative = design.frame["weeks"] / scale[weeks.prepare(design).row]
    shape, _, one = weibull_min.fit(relative, floc=0)  # of scipy, by maximum likelihood: a posterior sd is about 4%
    assert draws["shape"].mean() == pytest.approx(shape, rel=0.03) and one == pytest.approx(1, rel=0.03)
    rng = np.random.default_rng(2)
    drawn = design.frame["weight"] * rng.lognormal(0, 0.3, design.n)
    uneven = ss.SurveyDesign(design.frame.assign(weight=drawn), weights="weight")
    assert "mass one" in str(ss.check_model(weeks, uneven))
    release = ss.synthesize(uneven, weeks, epsilon=60, m=1, seed=1, mechanism=PSEUDO, population_total=7_000)
    assert release.manifest()["weights"] == "synthesized"
    none = design.frame.assign(weeks=design.frame["weeks"].where(design.frame.index > 0, 0.0))
    with pytest.raises(ss.InputError, match=r"'weeks' is not positive in 1 row \(row numbers 1;"):
        weeks.prepare(ss.SurveyDesign(none, weights="weight"))
    design.frame.to_csv("f.csv", index=False)
    words = ["synthesize", "f.csv", "--weights", "weight", "--epsilon", "40"]
    words += ["--set", "privacy.mechanism=pseudo-posterior", "--set", "release.m=1"]
    for formula, name in (("pay ~ region", "pay.py:pay"), ("weeks ~ region", "weibull.py:Weibull")):
        code, _, err = run(*words, "--formula", formula, "--set", f"model.name={name}", "--out", name[:3])
        assert code == 0, err


@pytest.mark.slow
def test_a_kind_of_number(session, tmp_path):
    """Medians of wealth, far below the default knee, are those of the file; to read tables back needs no class."""
    made = session(OUTCOME)
    design, release = made["design"], made["release"]
    theirs = ss.estimate(design, "wealth", "region", statistic="quantile").set_index("region")["estimate"]
    releases = (
        ss.synthesize(
            design, "wealth ~ region", epsilon=50, weight="public", outcomes={"wealth": kind(bounds=(0, 1e9))}
        )
        for kind in (made["Wealth"], ss.Outcome)
    )
    tables = (each.tables("region", statistic="quantile") for each in releases)
    ours, plain = (table.set_index("region")["estimate"] for table in tables)
    assert np.abs(np.log(ours / theirs)).max() < 0.15  # the file's own standard errors are 12%, noise adds 5%
    assert plain["all"] > 2 * theirs["all"]
    folder = release.write(tmp_path / "release") / "public"
    wealth = json.loads((folder / "measurements.json").read_text())["variables"][0]
    assert (wealth["knee"], wealth["tail_index"]) == (1_000, 1.4) and set(wealth["schema"]) == {"bounds"}
    again = ss.read_release(tmp_path / "release")
    np.testing.assert_allclose(again.tables("region")["estimate"], release.tables("region")["estimate"])
    with pytest.raises(ss.InputError, match=r"no place for the class Wealth: give it to synthesize\(outcomes="):
        ss.Plan(design, "wealth ~ region", epsilon=5, outcomes={"wealth": made["Wealth"](bounds=(0, 1e9))})
    for name, value in (("knee", -1.0), ("tail_index", 0)):
        with pytest.raises(ss.InputError, match=f"{name} must be a positive number"):
            type("Bad", (ss.Outcome,), {name: value})(bounds=(0, 1))


def test_whole_numbers_have_a_knee_too():
    from surveysynth.measuring.bins import Cells

    low = type("Low", (ss.Outcome,), {"knee": 5.0})
    ours, plain = (Cells.for_outcome(kind(bounds=(0, 100_000), whole=True)).bins for kind in (low, ss.Outcome))
    assert ours.knee == 5 and plain.knee == 50
    assert (ours.edges[:4] == [-0.5, 0.5, 1.5, 2.5]).all() and (np.mod(ours.edges, 1) == 0.5).all()


def test_a_mechanism(session, capsys):
    """The rest of its way is in tests/privacy/test_mechanisms_are_open.py."""
    alpha = session(MECHANISM)["release"].internal["records"]["alpha"]
    assert np.ptp(alpha) == 0 and alpha.iloc[0] <= 0.9
    assert "the common privacy weight, tuned on this file" in capsys.readouterr().out


def test_a_format(session, tmp_path, run):
    made = session(OUTCOME, FORMAT)
    release, text = made["release"], (tmp_path / "pay.txt").read_text(encoding="utf-8")
    page = release.write_tables("page.html", by="region").read_text(encoding="utf-8")
    for sentence in text.split("\n\n")[1:4]:  # who is protected, what is not, what error to expect
        assert sentence in page
    release.write("release")
    code, _, err = run("tables", "release", "--by", "region", "--out", "shell.txt")
    assert code == 0, err
    assert "Table 1: " in (tmp_path / "shell.txt").read_text(encoding="utf-8")
    with pytest.raises(ss.InputError, match=r"\.docx, \.txt: 't.pdf' ends in none"):
        release.write_tables("t.pdf")
    FORMATS[".txt"] = made["Format"](made["plain_text"], in_folder=True)
    public = release.write("with texts") / "public"
    assert "tables.html and tables.txt hold them as they are printed" in (public / "report.txt").read_text()
    assert "tables.txt" in json.loads((public / "manifest.json").read_text())["files"]
    assert ss.read_release("with texts").m == release.m


def test_a_format_in_full_gets_the_numbers_as_they_are(session, tmp_path):
    made = session(OUTCOME)
    from surveysynth.publication.formats import Format

    FORMATS[".json"] = Format(lambda table: table.to_json(orient="records"), in_full=True)
    rows = json.loads(made["release"].write_tables(tmp_path / "t.json", by="region").read_text())
    assert [row["estimate"] for row in rows] == pytest.approx([*made["release"].tables("region")["estimate"]], rel=1e-9)
    with pytest.raises(ss.InputError, match="a json has full numbers, without marks or notes"):
        made["release"].write_tables(tmp_path / "t.json", by="region", symbols="uk")
