"""The documentation site, as far as it can be told without building it; tests/test_vignettes.py builds it."""

import re
import sys
from pathlib import Path, PurePosixPath

import pytest

import surveysynth as ss

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs" / "site"))

from make_site import from_r, sources  # noqa: E402

SOURCES = sources()
PAGES = {place: path for place, path in SOURCES.items() if place.endswith((".md", ".py"))}
OWN = [place for place, path in PAGES.items() if "site" in path.parts]
R_VIGNETTES = [f"r_bridge/vignettes/{path.stem}.md" for path in (ROOT / "r_bridge" / "vignettes").glob("*.Rmd")]
MADE = {"r/index.md", *R_VIGNETTES}  # when the site is built
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def entries(text):
    """Pages that the tables of contents of a page name."""
    lines = "".join(TOCTREE.findall(text)).splitlines()
    return [re.sub(r".*<(.+)>$", r"\1", line) for line in lines if line and not line.startswith(":")]


def test_every_page_is_in_one_table_of_contents():
    listed = [entry for place in OWN for entry in entries(PAGES[place].read_text(encoding="utf-8"))]
    assert len(listed) == len(set(listed))
    assert set(listed) == {place.rpartition(".")[0] for place in {*PAGES, *MADE} - {"index.md"}}


@pytest.mark.parametrize("place", OWN)
def test_links_of_the_pages_of_the_site_lead_somewhere(place):
    folder = PurePosixPath(place).parent
    targets = [target.partition("#")[0] for target in LINK.findall(PAGES[place].read_text(encoding="utf-8"))]
    places = {re.sub(r"(^|/)[\w.-]+/\.\./", r"\1", str(folder / target)) for target in targets}
    assert places <= {*SOURCES, *MADE}


def test_the_three_doors_are_on_the_first_page():
    doors = re.findall(r"^## (I .*)$", (ROOT / "docs" / "README.md").read_text(encoding="utf-8"), re.M)
    cards = re.findall(r"\{grid-item-card\} (.*)$", PAGES["index.md"].read_text(encoding="utf-8"), re.M)
    assert doors == cards and len(doors) == 3


def test_every_public_name_is_in_the_reference():
    listed = re.findall(r"^   (\w+)$", PAGES["reference/python.md"].read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == sorted(set(ss.__all__) - {"__version__"})


def test_a_vignette_of_r_becomes_a_page_with_its_title(tmp_path):
    (tmp_path / "x.Rmd").write_text('---\ntitle: "One, two"\noutput: html\n---\n\nText --- of it.\n')
    assert from_r(tmp_path / "x.Rmd") == "# One, two\n\n\nText --- of it.\n"
