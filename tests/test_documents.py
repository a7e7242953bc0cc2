"""What README, docs and CONTRIBUTING name is there: pages, headings, files, names of the package, one version."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest
import yaml

import surveysynth as ss

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "decisions").glob("*.md"),
        ROOT / "r_bridge" / "README.md",
        *ROOT.glob("benchmarks/*/*.md"),
    ]
)
CODE = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PLACE = re.compile(
    r"\b((?:docs|benchmarks|vignettes|tests|stan|locks|surveysynth|r_bridge)/[\w./-]*\w\.(?:py|md|R|toml|png|stan|json|pyi|sh))\b"
)
NAME = re.compile(r"\bss((?:\.[A-Za-z_]\w*)+)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """Of headings, as forges make them: small letters, hyphens for spaces, no other punctuation."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):  # a place outside
            continue
        file, _, anchor = target.partition("#")
        there = page.parent / file if file else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    assert not broken_links(page)


def test_broken_links_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One, two\n[a](#one-two) [b](#three) [c](gone.md) ![d](page.md) [e](https://x.org)\n```\n[f](g)\n```\n"
    )
    assert broken_links(page) == ["#three", "gone.md"]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name_of)
def test_files_that_are_named_are_there(page):
    named = PLACE.findall(page.read_text(encoding="utf-8"))
    missing = {each for each in named if not (ROOT / each).exists()}
    assert missing <= {"surveysynth/models/x.py", "stan/x.stan"}  # a model that the reader is to add


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name_of)
def test_names_of_the_package_are_there(page):
    missing = []
    for dotted in NAME.findall(page.read_text(encoding="utf-8")):
        thing = ss
        for part in dotted.split(".")[1:]:
            thing = getattr(thing, part, None)
        if thing is None:
            missing.append(f"ss{dotted}")
    assert not missing


def test_every_page_is_behind_one_of_the_doors():
    linked = set(LINK.findall((ROOT / "docs" / "README.md").read_text(encoding="utf-8")))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    vignettes = {f"../vignettes/{vignette.name}" for vignette in (ROOT / "vignettes").glob("*.py")}
    assert pages | vignettes <= linked


def test_the_map_of_the_rooms_is_that_of_the_contracts():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    rooms, floors = ([re.findall(r"\w+", layer) for layer in each["layers"]] for each in contracts[:2])
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|.*\|.*\|$", text.partition("room of `surveysynth/`")[2], re.M)
    named = [name.strip("/`").removesuffix(".py") for row in rows for name in re.findall(r"`[\w./]+`", row)]
    assert named == [room for layer in rooms[:-1] for room in layer] + ["errors", "choices", "_version"]
    (told,) = re.findall(r"^`models/` has floors of its own, from the top: (.*)\.$", text, re.M)
    models = next(layer for layer in floors if "gamma" in layer)
    told = [re.findall(r"`(\w+)`", floor) for floor in told.split("; ")]
    assert [sorted(floor or models) for floor in told] == [sorted(floor) for floor in floors]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


@pytest.mark.slow
def test_the_five_lines_of_the_readme_print_such_a_table(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code, printed = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.S).groups()
    assert len(code.splitlines()) == 5
    exec(code, {})
    rows, shown = capsys.readouterr().out.splitlines(), printed.splitlines()
    assert rows[0].split() == shown[0].split()
    assert [row[:19] for row in rows] == [row[:19] for row in shown]  # the levels; numbers are drawn


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    r_package = re.search(r"^Version: (\S+)$", (ROOT / "r_bridge" / "DESCRIPTION").read_text(encoding="utf-8"), re.M)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    news = (ROOT / "r_bridge" / "NEWS.md").read_text(encoding="utf-8").splitlines()[0]
    assert {ss.__version__, r_package[1], citation["version"], news.split()[-1]} == {project}


def test_the_citation_has_what_its_format_asks_for():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert all({"type", "title", "authors"} <= set(each) for each in citation["references"])
    sources = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
    assert all(" ".join(sources.split()).count(each["title"]) == 1 for each in citation["references"])


def test_the_tables_of_strict_releases_are_those_of_the_filed_cells():
    """`python benchmarks/results_page.py` changes nothing."""
    made = runpy.run_path(str(ROOT / "benchmarks" / "results_page.py"))
    text = made["PAGE"].read_text(encoding="utf-8")
    assert made["page"](text) == text and text.count("| weekly income, n = ") >= 8
