"""Every work that is cited, by author and year, stands in docs/sources.md in full, and nothing else does."""

import re
import unicodedata
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
PLACES = ("surveysynth", "stan", "r_bridge", "benchmarks", "tests", "docs", "vignettes")
TEXT = {".py", ".pyi", ".stan", ".stanfunctions", ".R", ".Rd", ".Rmd", ".orig", ".md", ".toml", ".jinja", ".rst"}
PAGE = ROOT / "docs" / "sources.md"

YEAR = r"(?:1[6-9]|20)\d\d[a-z]?(?![\w-])"
NAME = r"(?:(?:de|van|von) )?[A-ZÀ-ÖØ-Þ][\w-]+"
CITATION = re.compile(
    rf"(?P<who>{NAME}(?:(?:, (?:and |& )?| and | & ){NAME})*)(?P<others> et al\.?)?"
    rf"(?:['\u2019]s)?,? \(?(?P<years>{YEAR}(?:, {YEAR})*)"
)
# A year that opens a bracket after a word: of a citation, whatever the names before it look like.
OPEN = re.compile(rf"(?<=[\w.*\"”] )(?<!\bin )(?<!\bor )\({YEAR}[,;)]")
NO_AUTHORS = {"Census", "Einkünfte", "Income", "March", "May", "SDR"}  # words before a year that is none of a citation

ENTRY = re.compile(rf"^- (?P<authors>.+?) \((?P<year>{YEAR})\)\. (?P<work>.+)$")
AUTHOR = re.compile(r"([^\s,&.][^,&.]*), (?:[A-Z]\.[ -]?)+")
IDENTIFIER = re.compile(
    r"\[doi:10\.\d{4,9}/\S+\]\(https://doi\.org/\S+\)|\[arXiv:\d{4}\.\d{4,5}\]\(\S+\)|<https?://\S+>"
    r"|\bISBN [\d-]{9,16}[\dX]\b"
)


def plain(name: str) -> str:
    """Without accents, as docstrings write names."""
    return "".join(letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter))


def prose(text: str) -> str:
    """Lines joined: what marks a comment, or parts of a string, goes."""
    text = re.sub(r'"\n[ \t]*f?"', "", text)
    return re.sub(r"\n[ \t]*(?:#'|#|//|>|\*(?!\*))?[ \t]*", " ", text)


def cited(text: str) -> set[str]:
    """The works that a text cites, as it names them: "Bun & Steinke 2016", "Woo et al. 2009"."""
    return {
        f"{plain(match['who'])}{' et al.' if match['others'] else ''} {year}"
        for match in CITATION.finditer(prose(text))
        if match["who"] not in NO_AUTHORS
        for year in match["years"].split(", ")
    }


def entries(page: str) -> dict[str, str]:
    """What each work is to be cited as, and its entry."""
    found = {}
    for line in re.sub(r"\n  +", " ", page).splitlines():
        if match := ENTRY.match(line):
            names = [plain(name) for name in AUTHOR.findall(match["authors"])] or [match["authors"]]
            *first, last = names
            who = f"{names[0]} et al." if len(names) > 3 else f"{', '.join(first)} & {last}" if first else last
            assert f"{who} {match['year']}" not in found
            found[f"{who} {match['year']}"] = match["work"]
        else:
            assert not line.startswith("-"), line
    return found


SOURCES = entries(PAGE.read_text(encoding="utf-8"))


@cache
def texts() -> dict[str, str]:
    found = (path for place in PLACES for path in (ROOT / place).rglob("*") if path.suffix in TEXT)
    paths = [*ROOT.glob("*.md"), *(path for path in found if "_build" not in path.parts)]
    kept = [path for path in paths if path not in (PAGE, Path(__file__)) and "__pycache__" not in path.parts]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in kept}


@cache
def cited_anywhere() -> dict[str, str]:
    """Each work that is cited, and a file that cites it."""
    return {work: file for file, text in texts().items() for work in cited(text)}


def test_every_citation_is_in_the_sources_and_written_one_way():
    assert not {work: file for work, file in cited_anywhere().items() if work not in SOURCES}


def test_every_source_is_cited():
    assert not set(SOURCES) - set(cited_anywhere())


@pytest.mark.parametrize("work", SOURCES)
def test_a_source_can_be_found(work):
    assert IDENTIFIER.search(SOURCES[work])


def test_links_lead_to_the_doi_that_is_printed():
    pairs = re.findall(r"\[(?:doi|arXiv):(\S+)\]\(https://(?:doi\.org|arxiv\.org/abs)/(\S+)\)", PAGE.read_text("utf-8"))
    assert pairs and all(shown.replace("&lt;", "<").replace("&gt;", ">") == unquote(link) for shown, link in pairs)
    assert len({shown for shown, _ in pairs}) == len(pairs)


def test_sources_are_in_alphabetical_order():
    lines = re.findall(r"^- .*", plain(PAGE.read_text("utf-8")).replace(" &", ",").lower(), re.M)
    heads = [(re.split(r",| \(", line)[0], line.split(" (")[0], line) for line in lines]
    assert heads == sorted(heads)


def test_years_in_brackets_belong_to_citations():
    """Nothing that looks like a citation is missed."""
    missed = []
    for file, text in texts().items():
        whole = prose(text)
        spans = [match.span() for match in CITATION.finditer(whole)] if OPEN.search(whole) else []
        missed += [
            f"{file}: {whole[match.start() - 40 : match.end()]}"
            for match in OPEN.finditer(whole)
            if not any(low <= match.start() < high for low, high in spans)
        ]
    assert not missed


@pytest.mark.parametrize(
    ("text", "works"),
    [
        ("the rule of Reiter (2005, section 2).", {"Reiter 2005"}),
        ("Reiter's (2005) rule", {"Reiter 2005"}),
        ("Source: Binder 1996.", {"Binder 1996"}),
        ("Source: Hu, Savitsky & Williams 2022a, eq. 7; Wahba 1978.", {"Hu, Savitsky & Williams 2022a", "Wahba 1978"}),
        ("# (Koch, Freeman\n    # and Freeman 1975)", {"Koch, Freeman and Freeman 1975"}),
        ("(Karr et\n    al. 2006, in the form of Snoke et al. (2018))", {"Karr et al. 2006", "Snoke et al. 2018"}),
        ('"as Reiter & "\n    "Mitra (2009) do"', {"Reiter & Mitra 2009"}),
        ("Langel & Tillé (2011, 2013)", {"Langel & Tille 2011", "Langel & Tille 2013"}),
        ("Bun & Steinke's (2016) epsilon", {"Bun & Steinke 2016"}),
        ("//' (Bou-Rabee & Sanz-Serna, 2017)", {"Bou-Rabee & Sanz-Serna 2017"}),
        ("the census of 2000, n = 2000, released on 2026-11-29, (2000, 3), seed=1996, March 2021", set()),
    ],
)
def test_citations_are_found(text, works):
    assert cited(text) == works


def test_what_is_not_there_is_missed():
    """An invented citation, and an entry that was deleted."""
    assert cited("as Nobody & Noone (1999) say") == {"Nobody & Noone 1999"} and "Nobody & Noone 1999" not in SOURCES
    page = PAGE.read_text(encoding="utf-8")
    top, *blocks = re.split(r"^(?=- )", page, flags=re.M)
    for k, block in enumerate(blocks):
        left = entries("".join([top, *blocks[:k], *blocks[k + 1 :]]))
        assert set(cited_anywhere()) - set(left) == set(entries(block)) and len(entries(block)) == 1
