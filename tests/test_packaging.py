"""The wheel carries the Stan programs and the R package, and finds them without the checkout."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FIND_FBS = """
import sys
from pathlib import Path
checkout = Path(sys.argv[1])
sys.path[:] = [p for p in sys.path if p and Path(p).resolve() != checkout]
import surveysynth
from surveysynth.engines.base import program_path
print(surveysynth.__file__)
print(program_path("fbs"))
from surveysynth.r.session import SOURCES
print(*SOURCES)
"""


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    (path,) = folder.glob("surveysynth-*.whl")
    return path


@pytest.mark.slow
def test_wheel_carries_every_stan_program(wheel):
    with zipfile.ZipFile(wheel) as archive:
        shipped = {n: archive.read(n) for n in archive.namelist() if n.endswith(".stan")}
    assert shipped == {f"surveysynth/stan/{p.name}": p.read_bytes() for p in (ROOT / "stan").glob("*.stan")}
    assert "surveysynth/stan/fbs.stan" in shipped


def test_wheel_carries_the_r_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = [p for p in (ROOT / "r_bridge").rglob("*") if p.is_file()]
    assert {f"surveysynth/r_bridge/{p.relative_to(ROOT / 'r_bridge').as_posix()}" for p in package} <= names
    assert "surveysynth/r_bridge/DESCRIPTION" in names


def test_wheel_carries_types_licence_and_command(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = [n for n in names if n.endswith(".dist-info/entry_points.txt")]
        commands = archive.read(entry_points).decode().split("\n")
    assert "surveysynth/py.typed" in names
    assert any(n.endswith("/LICENSE") for n in names)
    assert "surveysynth = surveysynth.__main__:main" in commands
    assert {n.split("/")[0] for n in names if ".dist-info/" not in n} == {"surveysynth"}


def test_wheel_carries_the_page_on_limitations(wheel):
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("surveysynth/docs/limitations.md") == (ROOT / "docs" / "limitations.md").read_bytes()


@pytest.mark.slow
def test_sdist_carries_documents_tests_and_lock_files(tmp_path):
    build = "import sys, hatchling.build; print(hatchling.build.build_sdist(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", build, tmp_path], cwd=ROOT, capture_output=True, text=True, check=True)
    with tarfile.open(tmp_path / done.stdout.split()[-1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    programs = dict.fromkeys(("tests", "benchmarks", "replication"), "*.py")
    patterns = {"docs": "*", "locks": "*", "stan": "*.stan", **programs}
    for folder, pattern in patterns.items():
        wanted = {f"{folder}/{path.name}" for path in (ROOT / folder).glob(pattern) if path.is_file()}
        assert wanted and wanted <= names
    written = {"README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "SECURITY.md"}
    assert written | {"Makefile", "setup.sh"} <= names


# ---- supply chain

PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.M)


def pinned(name):
    """Versions of a lock file, by package."""
    found = PINNED.findall((ROOT / "locks" / f"{name}.txt").read_text())
    return {package.lower(): version for package, version in found}


@pytest.mark.parametrize("name", ["demo", "docs", "test"])
def test_lock_files_have_a_hash_for_every_package(name):
    packages = re.split(r"\n(?=\S)", (ROOT / "locks" / f"{name}.txt").read_text().strip())
    assert len(packages) == len(pinned(name)) > 50
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", package) for package in packages)


def test_lock_files_agree_with_each_other_and_with_what_the_package_asks_for():
    demo, docs, test = (pinned(name) for name in ("demo", "docs", "test"))
    assert demo.items() <= docs.items() <= test.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = project["optional-dependencies"].values()
    names = {re.split(r"[\[<>=!~ ]", each)[0].lower().replace("_", "-") for each in project["dependencies"]}
    extras = {re.split(r"[\[<>=!~ ]", each)[0].lower() for group in groups for each in group}
    assert names <= {each.replace("_", "-") for each in demo} and extras <= set(test)


@pytest.mark.slow
def test_the_sbom_names_every_package_of_the_lock_file_with_its_hash(tmp_path):
    made = tmp_path / "sbom.json"
    command = ["requirements", ROOT / "locks" / "demo.txt", "--pyproject", ROOT / "pyproject.toml", "--of", "JSON"]
    program = Path(sys.executable).with_name("cyclonedx-py")
    done = subprocess.run([program, *command, "-o", made], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(made.read_text())
    assert said["bomFormat"] == "CycloneDX" and said["metadata"]["component"]["name"] == "surveysynth"
    found = {each["name"].lower(): each for each in said["components"]}
    assert {name: each["version"] for name, each in found.items()} == pinned("demo")
    assert all(each["externalReferences"][0]["hashes"] for each in found.values())


@pytest.mark.slow
def test_installed_wheel_finds_its_stan_programs(wheel, tmp_path):
    target = tmp_path / "site"
    pip("install", "--no-deps", "--no-index", "--target", target, wheel)
    found = subprocess.run(
        [sys.executable, "-c", FIND_FBS, str(ROOT)],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(target)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    package, program, *sources = map(Path, found.stdout.split())
    assert package == target / "surveysynth" / "__init__.py"
    assert program == target / "surveysynth" / "stan" / "fbs.stan"
    assert program.read_bytes() == (ROOT / "stan" / "fbs.stan").read_bytes()
    assert [s.name for s in sources] == ["exchange.R", "design.R", "calibration.R", "r.R"]
    assert all(s.is_file() and s.is_relative_to(target) for s in sources)


# A paper called by one letter: "(T 2.3)", "E eq. 8", "paper C", "C's printed counts", "as in T", "(R: contracts on 6)".
ALONE = r"(?<![\w.'\"`$])"
BY_LETTER = re.compile(
    rf"{ALONE}[TECRM],? (?:eq\.|equations? \d|App\.|[Aa]ppendix|[Aa]lgorithms? \d|Tables? \d|Fig\.|[Ff]igures? \d|Supp)"
    r"|\([TECRM] \d+(?:\.\d+)*(?:[:;,)]| and | to )"
    rf"|{ALONE}[TEC],? \d\.\d\b"
    r"|\b[Pp]apers? [TECRM]\b"
    rf"|{ALONE}[TEM]'s\b|{ALONE}C's (?!long double)"
    r"|\bR's (?:Tables?|printed|figures?|findings?|sections?|condition|[Aa]lgorithm|authors|own rule|rule|LW|c1)\b"
    r"|\b(?:[Aa]s in|than in|equations? \d+ of|[Tt]ables? \d+ of) [TECM]\b(?![(\[=])"
    rf"|{ALONE}[TEC] (?:does|says|prints|writes|has|takes|names|compares|lets|advises|uses|counts|finds|refers)\b"
    r"|\bof R \((?:[Aa]lgorithm|section|eq)|\bR's \"[CL]W\"|\bas in R(?=[.;,] ``reweight)"
    r"|\bR (?:does not say|says that|contracts on|has no such)\b|\bthat R fits\b"
    r"|(?:  |# )[TEC]: "
    r"|(?<!\w)\((?:[TECRM](?:\)| in the | below\))|[TEC]: |R: contracts)"
)
TEXT = {".py", ".pyi", ".stan", ".stanfunctions", ".R", ".Rd", ".Rmd", ".md", ".toml"}
PLACES = (
    "surveysynth", "stan", "r_bridge", "replication", "benchmarks", "tests", "docs", "vignettes", "README.md",
    "CHANGELOG.md", "pyproject.toml",
)  # fmt: skip
OLD = (
    "every fit under R's rule", "where R has no such column", "covered better here than in T, by",
    "the fully Bayes model (T 2.1, App. C).", "likelihood (C eq. 3.6, ``stan/x``)", "(R Algorithm 1)", "IR_i (E eq. 8)",
    "(paper C, 4.1 and Supp 1)", "the population of T 4.1", "as in T 2.2, which", "beside C's counts", "R's Table 1",
    "a mixture of regressions (E), again", "(R: contracts on 6)", "(M, algorithm 2).", "(T in the docstrings",
    "Variances divide by R, as T does", "C does not say what it counts", "as in table 4 of T.", "(R 2.1)",
    'the "CW" of R (Algorithm 3)', 'R\'s "LW" is', "is one step, as in R; ``reweight=10``", "(2009), to which C refers",
    '"  C: Unweighted about 7.5 to 15"', "CHAINS = 2  # C: 4 chains", "R's c1 = 1", "the model that R fits to it",
    "R's printed figures",
)  # fmt: skip
MATHEMATICS = (
    "(Hu, Savitsky & Williams 2022a, section 2.1, eq. 2-3; appendix C)", "R's ``survey``", "R 4.2 and later", "as in R",
    "T = u_bar + b / m", "float array (R, D)", "(S, C, D)", "C's long double", "rng.normal(size=(C, 2))", "E[exp(x)]",
)  # fmt: skip


# Where the papers' methods and studies are, no sentence is about the language R.
OF_PAPERS = {"privacy", "counts", "mixture", "beta", "reweighting", "censoring", "risk_efficient", "tabular", "stan"}


def cited_by_letter(text: str, path: Path = Path()) -> list[str]:
    found = [match.group() for match in BY_LETTER.finditer(text)]
    return found + (re.findall(r"\bR's(?= |$)", text) if OF_PAPERS & set(path.parts) else [])


def with_next(lines: list[str]) -> list[str]:
    """Each line with the first words of the next: "as in" and "T" may stand apart."""
    heads = [" ".join(line.lstrip(" #'/").split()[:3]) for line in [*lines[1:], ""][: len(lines)]]
    return [f"{line} {head}" for line, head in zip(lines, heads, strict=True)]


@pytest.mark.parametrize("place", PLACES)
def test_papers_are_cited_by_author_and_year(place):
    """Letters are for mathematics: R replicates, C PSUs, T = mean(u) + b / m, E[x]."""
    path = ROOT / place
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.suffix in TEXT and p != Path(__file__)]
    assert files
    found = {
        f"{file.relative_to(ROOT)}:{number}": cited
        for file in files
        for number, line in enumerate(with_next(file.read_text(encoding="utf-8").splitlines()), 1)
        if (cited := cited_by_letter(line, file.relative_to(ROOT)))
    }
    assert not found


@pytest.mark.parametrize("old", OLD)
def test_citations_by_letter_are_found(old):
    assert cited_by_letter(old)


def test_citations_by_letter_are_found_across_lines_and_where_papers_are_spoken_of():
    assert [len(cited_by_letter(line)) for line in with_next(["    # as in", "    # T, by cell"])] == [1, 0]
    assert cited_by_letter("where R's just misses it", Path("surveysynth/privacy/x.py"))
    assert not cited_by_letter("where R's just misses it", Path("surveysynth/design/x.py"))


@pytest.mark.parametrize("fine", MATHEMATICS)
def test_mathematics_is_left_alone(fine):
    assert not cited_by_letter(fine)
