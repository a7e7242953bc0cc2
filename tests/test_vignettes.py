"""Every Python vignette runs from top to bottom, and says what it is there to say; the site is built of these runs."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs" / "site"))

from notebooks import run, said  # noqa: E402

VIGNETTES = ROOT / "vignettes"
HTML = ROOT / "docs" / "_build" / "html"
SAYS = {  # at least this, whatever the draws
    "censored_releases.py": [  # the file's own, and what is policy
        "2,000 households; mean share 0.191, median 0.115, largest 0.96",
        "Censored() strict 2.00 1.00",
        "Censored(weighted=True) strict given alpha 2.00",
        "the clamp 8.00 8.00",
        "come from a policy, set on a historical file (tenants 2023): map linear",
        "whether there is a release at all",
        "of this year's households the clamp touches",
    ],
    "clustered_surveys.py": [  # the survey's own, and words of the reports
        "all all 9,189 87.18 0.49",
        "clusters ignored: the design has PSUs ('psuid', within which",
        "sqrt(1 + 2 / m): 1.29 for m = 3",
        "highbp: 2 categories, multinomial within 3 cells",
        "all 9,189 37.1 1.5",
        "add or remove all records of one 'household'",
        "epsilon 10.8: the privacy weights leave too little",
        "which PSUs there are, and how many records each has, is public",
    ],
    "counts_and_reweighting.py": [  # the file's own, and words of the reports
        "20,190 person-years, a sample of 1,500: mean 2.94, variance 24.0, 29.9% without a visit, at most 76",
        "the file 0.30 0.00 2.00 7.00 2.94 23.98",
        "(asked for: 36), asymptotic, m = 3",
        "which at a fixed epsilon it need not",
        "the survey weight is a function of the public predictors",
        "privacy weights (map inverse of each record's Lipschitz bound under the model without privacy weights)",
        "all 1,500 2.94 0.13",
        "5 visits or more: 20.0% of the population",
        "linear in log(1 + count)",
        "shared 20,521",
    ],
    "fbs_or_fbp.py": ["3.6 / 10.8 / 18", "refused", "normal scores"],
    "first_release.py": [
        "privacy.bounds: [lowest, highest] outcome",
        "What an epsilon buys",
        "integer Laplace noise",
        "strict, epsilon = 5",
        "not for publication",
    ],
    "identification_risk.py": [  # the file's own, and words of the reports
        "600 households, 8.5% without income, median 49,000, mean 77,190",
        "data 0.81 0.94 0.98 580",
        "top-coded 0.80 0.94 0.98 571",
        "pairwise weights made from the file itself: mean 0.",
        "by Mixture, outcomes income, no epsilon",
        "so nothing is released, and no epsilon is spent",
        "The rule does not protect a record that is unique",
    ],
    "samples_and_estimates.py": [  # what R says, and the census
        "90 of 108: pi from 0.20 to 1.00, 43 are certain",
        "truth: 29,958,547",
        "missing in 1,148 rows",
        "all 9,189 87.18 0.49",
        "BRR 32 0.4261 0.0027 31",
        "JKn 62 0.4235 0.0035 31",
        "race 2 1.36 1.13 1.65",
        "12,433 0",
        "'experience' is not a predictor of this release",
    ],
    "tabular_study.py": ["epsilon = 10.", "88 answers, epsilon 10.80 in all", "divergences 0", "24 domains"],
}


def test_there_are_vignettes():
    assert sorted(v.name for v in VIGNETTES.glob("*.py")) == sorted(SAYS)


@pytest.mark.slow
@pytest.mark.parametrize("vignette", SAYS)
def test_vignette_runs(vignette, tmp_path):
    printed = said(run((VIGNETTES / vignette).read_text(encoding="utf-8"), tmp_path))
    for expected in SAYS[vignette]:
        assert expected in printed
    assert "nan" not in printed.lower().split()  # no hole in a table
    assert not list(tmp_path.iterdir())  # it cleans up after itself


@pytest.fixture(scope="module")
def site():
    """Pages of the site by their place; vignettes that were run above are not run again."""
    command = [sys.executable, str(ROOT / "docs" / "site" / "make_site.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {page: page.read_text(encoding="utf-8") for page in HTML.rglob("*.html") if "_static" not in page.parts}


@pytest.mark.slow
def test_no_page_of_the_site_loads_from_elsewhere(site):
    tag, style = r'<(?:script|img|iframe|link)\b[^>]*(?:src|href)="(?:https?:)?//', r"@import|url\([\"\']?https?:"
    loaded = re.compile(f"{tag}|{style}")
    assert {page: found[0] for page, text in site.items() if (found := loaded.search(text))} == {}


@pytest.mark.slow
def test_links_of_the_site_lead_somewhere(site):
    places = {page: {"", "top", *re.findall(r'\b(?:id|name)="([^"]+)"', text)} for page, text in site.items()}
    broken = set()
    for page, text in site.items():
        for target in re.findall(r'<a\b[^>]*\bhref="(?![a-z]+:)([^"]*)"', text):
            file, _, place = unquote(target).partition("#")
            there = (page.parent / file).resolve() if file else page
            if not there.is_file() or (there in places and place not in places[there]):
                broken.add((page.relative_to(HTML).as_posix(), target))
    assert len(site) > 100 and broken == set()
