"""Files that were damaged, cut short or edited: they are refused with a sentence, or read as what they were."""

import contextlib
import io
import json
import shutil
import tempfile
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import surveysynth as ss
from surveysynth.errors import SurveySynthError
from surveysynth.storage import sealed
from tests.fuzz.strategies import NUMBER, TEXT, cases, only_our_errors

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

N = 40
FRAME = pd.DataFrame(
    {
        "y": np.linspace(1, 2, N),
        "x": np.tile(["a", "b"], N // 2),
        "w": np.full(N, 10.0),
        "secret": [TEXT] * (N - 1) + [str(NUMBER)],
    }
)
HOME = Path(tempfile.mkdtemp(prefix="fuzz-"))


def damaged(draw, content: bytes) -> bytes:
    """Bytes flipped, cut out, put in twice, or another text in their place."""
    at, length = draw(st.integers(0, max(len(content) - 1, 0))), draw(st.integers(0, 40))
    put = draw(st.sampled_from(["flip", "cut", "end", "twice", "text", "nothing", "noise"]))
    if put == "flip":
        return content[:at] + bytes([content[at] ^ (1 << draw(st.integers(0, 7)))]) + content[at + 1 :]
    if put == "cut":
        return content[:at] + content[at + length + 1 :]
    if put == "end":
        return content[:at]
    if put == "twice":
        return content[: at + length] + content[at:] if length else content * 2
    if put == "text":
        return (
            content[:at]
            + draw(st.sampled_from([b'"', b"{", b"[" * 5000, b"NaN", b"1e999", b"\xff", b"\n", b"-"]))
            + content[at:]
        )
    return b"" if put == "nothing" else draw(st.binary(max_size=60))


@pytest.fixture(scope="module", autouse=True)
def home():
    yield
    shutil.rmtree(HOME, ignore_errors=True)


def released(format):
    design = ss.SurveyDesign(FRAME, weights="w")
    release = ss.synthesize(
        design,
        ss.FBS("y", "x", prior="flat"),
        epsilon=30,
        m=2,
        seed=1,
        mechanism=ss.PseudoPosterior(),
        accept_diagnostics=["information"],
    )
    return release.write(HOME / format, by="x", format=format) / "public"


@cases(1200)
@given(st.data(), st.sampled_from(["csv", "parquet"]))
def test_release_folders(data, format):
    """A changed file is never read: all but texts that no program reads."""
    public = HOME / format / "public"
    if not public.exists():
        released(format)
    file = data.draw(st.sampled_from(sorted(public.iterdir())))
    content = file.read_bytes()
    changed = damaged(data.draw, content)
    try:
        file.write_bytes(changed)
        with pytest.raises(SurveySynthError) if changed != content else contextlib.nullcontext():
            ss.read_release(public)
    finally:
        file.write_bytes(content)


VALUES = st.recursive(
    st.sampled_from([None, True, 0, 1, 2, -1, 10**30, 0.5, 1e308, "", "x", "3", "csv", "y", "strict", "none", TEXT]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["y", "x", "entry", "class"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@cases(1000)
@given(st.data())
def test_manifests_that_are_sealed_again(data):
    """Whoever made the checksum fit: an entry that is missing, of another type, or too much."""
    public = HOME / "csv" / "public"
    if not public.exists():
        released("csv")
    file = public / "manifest.json"
    content = file.read_bytes()
    said = {name: value for name, value in json.loads(content).items() if name != "checksum"}
    for name in data.draw(st.lists(st.sampled_from([*said, "reference", "more"]), min_size=1, max_size=3)):
        said[name] = data.draw(VALUES)
        if data.draw(st.integers(0, 4)) == 0:
            del said[name]
    try:
        file.write_text(sealed(said))
        with contextlib.suppress(SurveySynthError):
            release = ss.read_release(public)
            assert str(release.privacy) and repr(release) and release.m == 2
            with contextlib.suppress(SurveySynthError):
                release.tables("x")
    finally:
        file.write_bytes(content)


@cases(600)
@given(st.data())
def test_policies(data):
    file = HOME / "policy.npz"
    if not file.exists():
        ss.Policy(
            synthesizer=ss.FBS("y", "x"),
            epsilon=9.0,
            m=1,
            mechanism=ss.Censored(9.0, weighted=True),
            span=(0.5, 9.0),
            columns=("Intercept",),
            levels={},
            constants={},
            public_weights=False,
            digest=f"{0:032}:{1:064}",
            values={"B": np.ones((3, 2))},
            source="2025",
            delta=2.4,
            mean_alpha=0.9,
        ).save(file)
    changed = HOME / "changed.npz"
    changed.write_bytes(damaged(data.draw, file.read_bytes()))
    with only_our_errors():
        assert np.isfinite(ss.Policy.load(changed).values["B"]).all()


@cases(1200)
@given(st.data())
def test_ledgers(data):
    """What was spent is never forgotten: a ledger that was changed is refused, or has what it had."""
    file = HOME / "budget.jsonl"
    if not file.exists():
        ledger = ss.Ledger(file, "lfs", cap=9, create=True)
        for epsilon in (1.5, 2.5):
            ledger.spend(epsilon, 2 * epsilon, kind="strict", what="tables")
    changed = HOME / "changed.jsonl"
    changed.write_bytes(damaged(data.draw, file.read_bytes()))
    with only_our_errors():
        spent = ss.Ledger(changed, "lfs").spent.blank
        lines = changed.read_bytes().count(b'"type": "spend"')
        assert spent == 4 or lines < 2 or changed.read_bytes().count(b"\n") < 4  # whole lines at the end can be cut off


PLAN = """
[survey]
file = "f.csv"
weights = "w"
[model]
formula = "y ~ x"
[privacy]
epsilon = 5
mechanism = "pseudo-posterior"
population_total = 400
[release]
folder = "release"
m = 2
[tables]
by = ["x"]
"""


@cases(1200)
@given(st.data())
def test_plans(data):
    FRAME.to_csv(HOME / "f.csv", index=False)
    file = HOME / "plan.toml"
    text = PLAN.encode()
    if data.draw(st.booleans()):
        text = damaged(data.draw, text)
    else:
        said = tomllib.loads(PLAN)
        section = data.draw(st.sampled_from([*said, "more"]))
        name = data.draw(
            st.sampled_from(
                ["epsilon", "m", "by", "formula", "weights", "file", "mechanism", "bounds", "min_cell", "format", "x"]
            )
        )
        value = data.draw(
            st.sampled_from(
                [
                    '"x"',
                    "3",
                    "-1",
                    "[]",
                    "[1, 2]",
                    "{}",
                    "nan",
                    "inf",
                    "1e400",
                    "true",
                    '"nowhere"',
                    '"../x"',
                    "2020-01-01",
                ]
            )
        )
        text += f"\n[{section}]\n{name} = {value}\n".encode() if section == "more" else b""
        if section != "more":
            text = PLAN.replace(f"[{section}]\n", f"[{section}]\n{name} = {value}\n").encode()
    file.write_bytes(text)
    with only_our_errors():
        plan = ss.Plan.read(file)
        plan.to_toml()
        plan.check()


@cases(800)
@given(st.data())
def test_csv_files(data):
    file = HOME / "odd.csv"
    file.write_bytes(
        damaged(data.draw, FRAME.to_csv(index=False).encode(data.draw(st.sampled_from(["utf-8", "latin-1", "utf-16"]))))
    )
    given = {
        "separator": [None, ",", ";", "", "ab"],
        "decimal": [None, ".", ","],
        "thousands": [None, ".", " ", "x"],
        "text": [None, ["secret"], "nowhere"],
        "na": [None, [], ["a"]],
        "encoding": [None, "latin-1", "utf-16", "x"],
    }
    chosen = {name: data.draw(st.sampled_from(values)) for name, values in given.items()}
    with only_our_errors():
        ss.SurveyDesign.read(file, weights="w", **{name: value for name, value in chosen.items() if value is not None})


WORDS = [
    "plan",
    "check",
    "release",
    "resume",
    "compare",
    "study",
    "risk",
    "synthesize",
    "policy",
    "histogram",
    "ledger",
    "privacy-cost",
    "tables",
    "demo",
    "doctor",
    "--out",
    "--formula",
    "--weights",
    "--epsilon",
    "--bounds",
    "--by",
    "--set",
    "--seed",
    "--plan",
    "-m",
    "--help",
    "--version",
    "--outcome",
    "--survey",
    "--create",
    "--cap",
    "--population-total",
    "f.csv",
    "plan.toml",
    "budget.jsonl",
    "nowhere",
    ".",
    "",
    "y ~ x",
    "y",
    "w",
    "x",
    "3",
    "-1",
    "0,1e6",
    "nan",
    "privacy.epsilon=3",
    "privacy.epsilo=3",
    "=",
    "coverage",
    "--n",
    "--data",
    "/dev/null",
    "csv",
    "csv/public",
    "changed.npz",
    "--verify",
    "--known",
    "--radius",
    "ü",
    "--min-cell",
    "--cv-limit",
    "--statistic",
    "mean",
]


@cases(700)
@given(st.lists(st.sampled_from(WORDS), max_size=9))
def test_command_lines(words):
    """One sentence, exit code 0, 2 or 3, and no line of Python."""
    from surveysynth.cli import app as cli

    if words[:1] in (["demo"], ["study"]) and "--help" not in words:
        words = [*words, "--epsilon", "x"]  # they would make something
    (HOME / "here").mkdir(exist_ok=True)
    FRAME.to_csv(HOME / "here" / "f.csv", index=False)
    (HOME / "here" / "plan.toml").write_text(PLAN)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(HOME / "here"), pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.argv", ["surveysynth", *words])
        patched.setattr(cli, "errors", Console(file=err, width=200))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(SystemExit):
            cli.main()
    said = err.getvalue()
    assert "at fault" not in said and "Traceback" not in said, said
    assert TEXT not in said + out.getvalue() and "987654" not in said + out.getvalue()
