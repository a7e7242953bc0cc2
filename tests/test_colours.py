"""Colours of figures: seen on white, and series that readers without green cones tell from one another."""

import itertools
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from replication.clusters import study as clusters
from replication.figures import identification, mechanisms, tabular
from surveysynth.publication.figures import comparison, domains, estimates
from surveysynth.studies.audit import outputs as audit
from surveysynth.studies.coverage import outputs as coverage

ROOT = Path(__file__).parents[1]
APART = 20  # CIELAB units: ten times a difference that is just seen between two large patches
# Machado, Oliveira & Fernandes 2009, table for deuteranomaly of severity 1.0, for linear RGB
DEUTERANOPIA = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
LUMINANCE = [0.2126, 0.7152, 0.0722]
XYZ = [[0.4124, 0.3576, 0.1805], LUMINANCE, [0.0193, 0.1192, 0.9505]]  # of sRGB (IEC 61966-2-1)


def linear(color):
    parts = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(color):
    """Contrast with white (WCAG 2.2, 1.4.3 and 1.4.11)."""
    return 1.05 / (LUMINANCE @ linear(color) + 0.05)


def lab(rgb):
    """CIELAB of linear RGB, under D65."""
    x = np.array(XYZ) @ np.clip(rgb, 0, 1) / np.sum(XYZ, axis=1)
    f = np.where(x > 216 / 24389, np.cbrt(x), (24389 / 27 * x + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(first, second):
    """Distance in CIELAB between two colours as readers without green cones see them."""
    seen = (lab(np.array(DEUTERANOPIA) @ linear(color)) for color in (first, second))
    return float(np.linalg.norm(np.subtract(*seen)))


def program(name):
    return runpy.run_path(str(ROOT / "benchmarks" / name))


def series():
    """For each figure with several series: the colour of each series, and what else differs."""
    yield "dot plot", domains.SERIES
    yield "estimates and truth", [*estimates.STYLES, (estimates.TRUTH, "|")]
    yield "comparison, estimates", [look[:2] for look in comparison.LOOKS]
    yield "comparison, distributions", [(comparison.FILE, "-"), (comparison.RELEASED, "--")]
    yield "coverage study", [(color, marker) for color, marker, _ in coverage.LOOKS.values()]
    yield "audit", audit.LOOKS.values()
    yield "coverage", [look[1:3] for look in program("coverage_figure.py")["MECHANISMS"].values()]
    yield "README", [look[1:3] for look in program("readme_figure.py")["SHOWN"].values()]
    yield "mechanisms", [look[:2] for look in mechanisms.MECHANISM_LOOKS.values()]
    yield "densities", [(color, str(dashes)) for color, _, dashes in mechanisms.MECHANISM_LOOKS.values()]
    yield "privacy weights", [look[:2] for look in mechanisms.WEIGHTING_LOOKS.values()]
    yield "identification", [look[:2] for look in identification.RISK_LOOKS.values()]
    yield "tabular", [(color, "") for color in tabular.COLORS.values()]  # markers show the setting
    yield "clusters", [(color, f"{marker}{dashes}") for _, color, marker, dashes in clusters.LINES.values()]


def alike(looks):
    """Return the pairs of series that are drawn alike for readers without green cones."""
    pairs = itertools.combinations(looks, 2)
    return [(a, b) for a, b in pairs if a[1] == b[1] and distance(a[0], b[0]) < APART]


@pytest.mark.parametrize("looks", [pytest.param(list(looks), id=name) for name, looks in series()])
def test_series_are_told_from_one_another_without_green_cones(looks):
    assert len(looks) > 1 and not alike(looks)


def test_colours_that_differ_by_green_alone_are_found():
    """A violet and a blue that only readers with three kinds of cones tell from one another; grey, in shades."""
    assert alike([("#0b6fa4", "o"), ("#7a5195", "o")]) and not alike([("#0b6fa4", "o"), ("#7a5195", "s")])
    assert distance("#000000", "#ffffff") == pytest.approx(100, abs=0.1)  # the matrix keeps greys


PROGRAMS = [
    *(ROOT / "surveysynth").rglob("*.py"), *(ROOT / "replication" / "figures").glob("*.py"),
    *(ROOT / "benchmarks").glob("*.py"), *(ROOT / "vignettes").glob("*.py"), ROOT / "replication/clusters/study.py",
]  # fmt: skip


def test_marks_of_figures_are_seen_on_white():
    """A contrast of at least 3, except for lines of a grid (WCAG 2.2, 1.4.11)."""
    found = {
        (file.name, color)
        for file in PROGRAMS
        for line in file.read_text(encoding="utf-8").splitlines()
        if ".grid(" not in line
        for color in re.findall(r'"(#[0-9a-f]{6})"', line)
    }
    assert len(found) > 40 and not {(file, color) for file, color in found if contrast(color) < 3}


def test_letters_of_the_page_are_read_on_white():
    """A contrast of at least 4.5 (WCAG 2.2, 1.4.3)."""
    for name in ("page", "dossier"):
        text = (ROOT / f"surveysynth/publication/{name}.html.jinja").read_text(encoding="utf-8")
        colors = set(re.findall(r"(?<![-\w])color: (#[0-9a-f]{6})", text))
        assert colors and all(contrast(color) >= 4.5 for color in colors)
