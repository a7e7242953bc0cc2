"""Marks planted in every confidential column are looked for in every public byte, log line and exception."""

import itertools
import json
import logging
import re
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

import surveysynth as ss
from surveysynth.cli import app as cli
from surveysynth.engines import embedded
from tests.conftest import decoded, without_r
from tests.surveys import PSEUDO

N, SEED = 240, 918273645
MODEL = ss.FBS("income", "age + region", prior="flat")
ROLES = {"weights": "wt", "strata": "stratum", "psu": "psu"}
SETTINGS = {"epsilon": 12, "m": 3, "clusters": "model", "seed": SEED}


def make_frame():
    """Public: age (one value a record, so that rows can be followed) and region.  All else is confidential."""
    rng = np.random.default_rng(0)
    at = np.arange(N)
    frame = pd.DataFrame({
        "name": [f"Xerxes Qvist {i:03}" for i in at],
        "ssn": 770_000_001 + 7 * at,
        "wealth": rng.lognormal(12, 1, N),
        "income": rng.lognormal(10, 0.5, N),
        "age": rng.permutation(np.round(np.linspace(20, 80, N), 2)),
        "region": pd.Categorical(rng.choice(["north", "south"], N), ["north", "south", "Atlantis-unused"]),
        "stratum": [f"Geheimbezirk {i // 60}" for i in at],
        "psu": [f"Zelle-{i // 4:02}-verdeckt" for i in at],
    })  # fmt: skip
    frame["wt"] = np.exp(3 - 0.3 * np.log(frame["income"]) + rng.normal(0, 0.3, N))
    frame.index = pd.Index([f"row-label-{i:03}" for i in at], name="index-name-mark")
    frame.columns.name = "columns-name-mark"
    frame.attrs = {"source": "attrs-mark"}
    return frame


MARKS = re.compile(
    "Xerxes|Qvist|Atlantis|Geheimbezirk|Zelle-|verdeckt|row-label|name-mark|attrs-mark|secret-cell|"
    f"{SEED}|" + "|".join(str(770_000_001 + 7 * i) for i in range(N)), re.IGNORECASE
)  # fmt: skip
FRAME = make_frame()
CONFIDENTIAL = np.sort(FRAME[["wealth", "income", "wt"]].to_numpy().ravel())
DIGITS = {f"{x:.8g}" for x in CONFIDENTIAL}
NUMBER = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?|\d{4,}")


def marks_in(text):
    """Marks in a text, and numbers that agree with a confidential one to 8 digits, in any unit of ten."""
    found = {m.group() for m in MARKS.finditer(text)}
    return found | {x for x in NUMBER.findall(text) if f"{float(x):.8g}" in DIGITS}


def test_the_marks_are_found_where_they_are():
    text = FRAME.to_csv()
    assert {"Xerxes", "Qvist", "Geheimbezirk", "Zelle-", "row-label", "770000001"} <= marks_in(text)
    for column in ("wealth", "income", "wt"):
        assert marks_in(FRAME[column].to_csv(index=False, header=False)), column
        assert marks_in(f"about {FRAME[column].iloc[7]:.9g} dollars"), column


@pytest.fixture(scope="module")
def release():
    return ss.synthesize(ss.SurveyDesign(FRAME, **ROLES), MODEL, **({"mechanism": PSEUDO} | SETTINGS))


@pytest.fixture(scope="module", params=["csv", "parquet"])
def public(request, release, tmp_path_factory):
    path = tmp_path_factory.mktemp("release") / "release"
    return release.write(path, by="region", format=request.param, min_cell=3) / "public"


# what is published


def test_no_public_byte_holds_a_mark(public):
    files = sorted(public.iterdir())
    assert len(files) == 10
    for file in files:
        assert not marks_in(decoded(file)), file.name


def test_no_public_number_is_a_confidential_one(public):
    for file in public.glob("synthetic_*"):
        frame = pd.read_csv(file) if file.suffix == ".csv" else pd.read_parquet(file)
        values = frame[["income", "wt"]].to_numpy().ravel()
        at = np.searchsorted(CONFIDENTIAL, values).clip(1, len(CONFIDENTIAL) - 1)
        nearest = np.minimum(np.abs(values - CONFIDENTIAL[at]), np.abs(values - CONFIDENTIAL[at - 1]))
        assert (nearest > 1e-9 * values).all()


@pytest.mark.slow
def test_the_public_twin_of_a_dossier_holds_no_mark_and_the_dossier_is_locked(release, tmp_path):
    folder = release.write(tmp_path / "release", by="region", min_cell=3)
    FRAME.to_csv(tmp_path / "file.csv", index=False)
    run = subprocess.run(
        [sys.executable, "-m", "surveysynth", "dossier", str(folder), "--public", "--out", str(tmp_path / "page")],
        capture_output=True, text=True, check=True, env=without_r(),
    )  # fmt: skip
    assert not marks_in(run.stdout.replace(str(tmp_path), "") + run.stderr)
    for file in (tmp_path / "page").iterdir():
        assert not marks_in(re.sub("[0-9a-f]{64}", "", decoded(file))), file.name
    made = ss.dossier(folder, ss.SurveyDesign(FRAME, **ROLES), tmp_path / "signed", files=[tmp_path / "file.csv"])
    assert made.stat().st_mode & 0o777 == 0o700
    for path in made.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    assert not re.search(str(SEED), decoded(made / "dossier.html"))


@pytest.mark.slow
def test_a_release_of_counts_by_counted_risks_and_re_weighted_holds_no_mark(tmp_path):
    frame = FRAME.assign(visits=np.random.default_rng(1).negative_binomial(2, 0.2, N))
    design = ss.SurveyDesign(frame, weights="wt")
    release = ss.synthesize(
        design, ss.NegativeBinomialRegression("visits", "age + region"), epsilon=24, m=3, seed=SEED, reweight=2,
        mechanism=ss.PseudoPosterior(map="linear", risk=ss.CountRisk(0.2, floor=1)),
    )  # fmt: skip
    public = release.write(tmp_path / "release", by="region") / "public"
    assert release.privacy.internal["reweighting_steps"] >= 1
    for file in public.iterdir():
        assert not MARKS.findall(decoded(file)), file.name
    weights = np.concatenate([data.weights for data in release.datasets])
    assert (np.abs(weights[:, None] / frame["wt"].to_numpy() - 1).min(axis=1) > 1e-9).all()
    internal = release.privacy.internal
    said = str(release) + str(release.privacy) + json.dumps(release.manifest())
    assert not any(f"{internal[name]:.6g}" in said for name in ("k", "mean_alpha", "weighted_down", "delta"))


TUNED = {
    "debias": (ss.FBS("income", "region", prior="flat"), {"debias": True, "clusters": "ignore"}),
    "shares": (ss.FBS(["income", "C(rich)"], "region", prior="flat"), {"clusters": "ignore"}),
    "PSUs": (ss.FBS("income", "region", prior="flat"), {"accept_diagnostics": ["rhat", "ess_bulk", "ess_tail"]}),
    "re-weighted": (ss.FBS("income", "region", prior="flat"), {"reweight": 3, "clusters": "ignore"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TUNED)
def test_no_public_file_holds_a_constant_that_was_tuned_on_the_file(kind, tmp_path):
    """c1 tells an outlier: neither it nor the bound and epsilon that were reached are in any file, in few digits."""
    model, settings = TUNED[kind]
    design = ss.SurveyDesign(column(rich=lambda f: f["wealth"] > 2e5), **ROLES)
    settings = SETTINGS | {"epsilon": 24, "warmup": 200, "draws": 250} | settings
    release = ss.synthesize(design, model, **({"mechanism": PSEUDO} | settings))
    folder = release.write(tmp_path / "release", by="region")
    internal = json.loads((folder / "internal" / "privacy.json").read_text())
    named = {"c1": 3, "delta": 5, "epsilon_exact": 5, "mean_alpha": 3, "delta_unweighted": 4, "k": 3}
    tuned = {f"{internal[name]:.{digits}g}" for name, digits in named.items() if internal[name] is not None}
    words = "".join((folder / "public" / name).read_text() for name in ("manifest.json", "report.txt")) + repr(release)
    numbers = {float(x) for x in re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", words)}
    assert 24 in numbers  # they are found where they are
    assert not {f"{x:.{digits}g}" for x in numbers for digits in (3, 4, 5)} & tuned
    exact = {f"{internal[name]:.9g}" for name in named if internal[name] is not None}
    for file in (folder / "public").iterdir():
        assert not {x for x in NUMBER.findall(decoded(file)) if f"{float(x):.9g}" in exact}, file.name


def test_a_public_file_has_no_column_but_its_own(public, release):
    for file, data in zip(sorted(public.glob("synthetic_*")), release.datasets, strict=True):
        frame = pd.read_csv(file) if file.suffix == ".csv" else pd.read_parquet(file)
        assert sorted(frame.columns) == ["age", "income", "psu", "region", "stratum", "wt"]
        assert frame.index.equals(pd.RangeIndex(N)) and data.frame.index.name is None
        assert frame.attrs == data.frame.attrs == {}


def test_row_order_and_label_order_cannot_be_recovered(release):
    """Followed by age, a row's place in a public file says nothing of its place in the confidential one."""
    where = {age: i for i, age in enumerate(FRAME["age"])}
    places = [data.frame["age"].map(where).to_numpy() for data in release.datasets]
    for a, b in itertools.combinations([np.arange(N), *places], 2):
        assert sorted(a) == sorted(b)
        assert abs(spearmanr(a, b).statistic) < 0.2  # 3 standard errors
    for data, place in zip(release.datasets, places, strict=True):
        original = pd.Series(place // 4)  # the PSU's place in the confidential file
        code = data.frame.groupby(original)["psu"].unique()
        assert (code.str.len() == 1).all()
        assert abs(spearmanr(code.index, code.str[0]).statistic) < 0.4  # 3 standard errors


@pytest.mark.slow
def test_what_python_shows_of_the_objects_holds_no_mark(release):
    design = ss.SurveyDesign(FRAME, **ROLES)
    fit = ss.fit(design, MODEL, **({"mechanism": PSEUDO} | SETTINGS))
    shown = [repr(design), repr(fit), repr(release), str(release), str(release.privacy), repr(release.privacy)]
    shown += [release.tables("region").to_csv(), json.dumps(release.manifest()), str(release.tables().attrs)]
    shown += [repr(ss.privacy_cost(design, MODEL, **SETTINGS)), repr(release.datasets[0]), repr(MODEL)]
    assert not marks_in("\n".join(shown))


@pytest.mark.slow
def test_log_lines_hold_no_mark(caplog, tmp_path, capfd):
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("canary").debug("Xerxes")  # this one is caught
        sampled = ss.FBS("income", "region", prior="independent")
        accepted = ["divergences", "rhat", "ess_bulk", "ess_tail"]
        settings = SETTINGS | {"warmup": 100, "draws": 100, "epsilon": 40, "accept_diagnostics": accepted}
        ss.synthesize(ss.SurveyDesign(FRAME, **ROLES), sampled, **({"mechanism": PSEUDO} | settings)).write(
            tmp_path / "r"
        )
    messages = [record.getMessage() for record in caplog.records if record.name != "canary"]
    assert marks_in(caplog.text) == {"Xerxes"}
    said = capfd.readouterr()
    assert not marks_in("\n".join([*messages, said.out, said.err]))


# what fails


def shown(error):
    """What is shown of an exception: its text, and its traceback with the causes and contexts that belong to it."""
    return f"{error} {error!r} {error.args} " + "".join(traceback.format_exception(error))


def column(**columns):
    return make_frame().assign(**columns)


def text_at(column_name):
    frame = make_frame().astype({column_name: object})
    frame[column_name] = frame[column_name].where(frame["ssn"] > 770_000_050, "secret-cell 12")
    return frame


def synthesize(frame, synthesizer=MODEL, roles=ROLES, **settings):
    return ss.synthesize(ss.SurveyDesign(frame, **roles), synthesizer, **({"mechanism": PSEUDO} | SETTINGS | settings))


def formula(predictors):
    return lambda _: synthesize(make_frame(), ss.FBS("income", predictors, prior="flat"))


def engine_that_quotes(_):
    class Quoting:
        def __init__(self, **_):
            raise RuntimeError(f"initialization failed: y = {FRAME['income'].iloc[3]!r}, secret-cell")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded.stanli, "Model", Quoting)
        synthesize(make_frame(), ss.FBS("income", "region", prior="paper"), engine="embedded")


def corrupt(name, content):
    def call(folder):
        (folder / name).write_bytes(content)
        ss.SurveyDesign.read(folder / name, **ROLES)

    return call


CSV = make_frame().to_csv().encode()
FAILING = {
    "weights that are text": lambda _: synthesize(text_at("wt")),
    "outcome that is text": lambda _: synthesize(text_at("income")),
    "negative weight": lambda _: synthesize(column(wt=lambda f: -f["wt"])),
    "infinite weight": lambda _: synthesize(column(wt=lambda f: f["wt"].where(f["ssn"] > 770_000_050, np.inf))),
    "missing weight": lambda _: synthesize(column(wt=lambda f: f["wt"].where(f["ssn"] > 770_000_050))),
    "weights as probabilities": lambda _: synthesize(make_frame(), roles={"probs": "income"}),
    "missing stratum": lambda _: synthesize(column(stratum=lambda f: f["stratum"].where(f["ssn"] > 770_000_050))),
    "lonely psu": lambda _: synthesize(column(psu=lambda f: f["stratum"])),
    "fpc that varies": lambda _: synthesize(make_frame(), roles=ROLES | {"fpc": "ssn"}),
    "fpc too small": lambda _: synthesize(column(size=2), roles=ROLES | {"fpc": "size"}),
    "fpc that is text": lambda _: synthesize(make_frame(), roles=ROLES | {"fpc": "name"}),
    "missing outcome": lambda _: synthesize(column(income=lambda f: f["income"].where(f["ssn"] > 770_000_050))),
    "outcome without a log": lambda _: synthesize(column(income=lambda f: f["income"] - 20_000)),
    "constant outcome": lambda _: synthesize(column(income=FRAME["income"].iloc[0])),
    "outcome in a role": lambda _: synthesize(make_frame(), ss.FBS("wt", "age", prior="flat")),
    "outcome that is a name": lambda _: synthesize(make_frame(), ss.FBS("name", "age", prior="flat")),
    "weight as predictor": formula("wt"),
    "predictor missing": lambda _: synthesize(column(age=lambda f: f["age"].where(f["ssn"] > 770_000_050))),
    "predictor that is no number": formula("np.log(name)"),
    "predictor with a bad function": formula("age + float(name)"),
    "predictor with a spline of names": formula("bs(name, df=4)"),
    "predictor that is infinite": formula("I(1 / (age - age))"),
    "predictors that are the names": formula("name"),
    "epsilon out of reach": lambda _: synthesize(make_frame(), epsilon=0.01),
    "clusters": lambda _: synthesize(make_frame(), clusters="some"),
    "unit with gaps": lambda _: synthesize(column(gaps=lambda f: f["name"].where(f["ssn"] > 770_000_050)), unit="gaps"),
    "public without a column": lambda _: synthesize(make_frame(), public=["age"]),
    "table by an id": lambda _: synthesize(make_frame()).tables("ssn"),
    "estimate of names": lambda _: ss.estimate(ss.SurveyDesign(make_frame(), **ROLES), "name"),
    "estimate by a column with gaps": lambda _: ss.estimate(
        ss.SurveyDesign(column(gaps=lambda f: f["name"].where(f["ssn"] > 770_000_050)), **ROLES), "income", "gaps"
    ),
    "engine that quotes the data": engine_that_quotes,
    "csv cut in a quote": corrupt("a.csv", CSV[:20_000] + b'"Xerxes\n' + CSV[20_000:]),
    "csv with too many cells": corrupt("b.csv", CSV + b"Xerxes," * 40 + b"\n"),
    "csv in another encoding": corrupt("c.csv", CSV + "Xerxes Qvïst".encode("latin-1")),
    "csv of nothing": corrupt("d.csv", b""),
    "parquet that is csv": corrupt("e.parquet", CSV),
    "stata that is csv": corrupt("f.dta", CSV),
    "spss that is csv": corrupt("g.sav", CSV),
    "sas that is csv": corrupt("h.sas7bdat", CSV),
    "unknown kind": corrupt("i.txt", CSV),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", FAILING)
def test_exceptions_hold_no_mark(case, tmp_path):
    with pytest.raises(ss.SurveySynthError) as caught:
        FAILING[case](tmp_path)
    error = caught.value
    assert not marks_in(shown(error))
    while error := error.__cause__ or error.__context__:  # what Python keeps but does not show
        assert not marks_in(shown(error))


# the command line

GOOD = {
    "weights": "wt", "strata": "stratum", "psu": "psu", "formula": "income~age+region", "epsilon": "12", "by": "region",
    "seed": str(SEED), "out": "release",
}  # fmt: skip
SYNTHESIZE = "synthesize f.csv --set model.prior=flat --set privacy.mechanism=pseudo-posterior"


def command(**options):
    """The words of a good run, with options replaced; --set is there more than once."""
    return [*SYNTHESIZE.split(), *(word for k, v in (GOOD | options).items() for word in (f"--{k}", v))]


RUNS = {
    "good": (0, command()),
    "weights missing": (2, command(weights="weight")),
    "weights that are text": (2, command(weights="name")),
    "outcome that is text": (2, command(formula="name~age+region")),
    "formula that fails": (2, command(formula="income~np.log(name)")),
    "clusters": (2, command(set="model.clusters=some")),
    "by an id": (2, command(by="ssn")),
    "epsilon out of reach": (2, command(epsilon="0.01")),
}


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_the_command_line_says_nothing_of_the_marks(run, tmp_path, monkeypatch, capfd):
    code, words = RUNS[run]
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("f.csv", index=False)
    monkeypatch.setattr(sys, "argv", ["surveysynth", *words])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert (left.value.code or 0) == code
    said = capfd.readouterr()
    assert said.out if code == 0 else said.err
    assert not marks_in(said.out + said.err)
    assert Path("release").exists() == (code == 0)


@pytest.mark.slow
def test_a_fault_of_our_own_is_told_without_its_message(tmp_path):
    """As a process of its own: nothing catches what the command line lets through."""
    FRAME.to_csv(tmp_path / "f.csv", index=False)
    program = (
        "import sys; from surveysynth.cli import app as cli; from surveysynth.synthesis import fit_request\n"
        "def fault(*_): raise KeyError('Xerxes Qvist 003')\n"
        "fit_request.check_public = fault; cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *command()], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 1 and not done.stdout
    assert "KeyError in errors.py, line" in done.stderr and "Traceback" not in done.stderr
    assert not marks_in(done.stderr)
