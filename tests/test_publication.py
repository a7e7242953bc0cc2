"""Tables as they are printed: what a reader sees in the workbook, on the page and on paper, and in which words."""

import dataclasses
import itertools
import json
import math
import re
import shutil
import subprocess
import tomllib
import zipfile
import zlib
from html import escape, unescape
from html.parser import HTMLParser

import frictionless
import numpy as np
import openpyxl
import pandas as pd
import pytest
from csvw import CSVW
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import LineCollection, PathCollection
from PIL import Image
from surveys import make_design, make_frame, model
from test_release import odd_frame

import surveysynth as ss
from surveysynth.choices import PRINTED
from surveysynth.publication.arrangement import arranged
from surveysynth.publication.datapackage import _contributor
from surveysynth.publication.document import Facts, document
from surveysynth.publication.dossier_page import TAGGED, pdf
from surveysynth.publication.figures.domains import SERIES, dot_plot
from surveysynth.publication.footnotes import error_to_expect, most_guessed, protected
from surveysynth.publication.latex import latex
from surveysynth.publication.markdown import markdown
from surveysynth.publication.names import percentile
from surveysynth.publication.page import page
from surveysynth.publication.quality import SYMBOLS, symbols_of
from surveysynth.publication.wording import OWN, Wording
from surveysynth.publication.workbook import write_workbook
from surveysynth.release.suppression import MODELLED
from tests.surveys import PSEUDO

ODD = "=A1 & <b>50%</b>_x $$a$$ [b](c)"
LABELS = {"income": "Income, gross & net", "field": "Field <of> work", "gender": "Sex"}


@pytest.fixture(scope="module")
def release():
    frame = make_frame()
    frame["field"] = frame["field"].astype(str).replace({"NA": ODD})
    design = ss.SurveyDesign(frame, weights="wt", labels=LABELS)
    made = ss.synthesize(design, model(), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO)
    return dataclasses.replace(made, method=made.method | {"units": {"income": "euros"}, "source": "A survey"})


def numbers_of(text):
    return [float(x.replace(",", "")) for x in re.findall(r"[0-9][0-9,]*(?:\\.[0-9]+)?", text)]


class Page(HTMLParser):
    """Tables of a page as lists of rows of texts, their captions, every other tag counted, and the ids."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.captions, self.ids, self.tags, self.attributes, self._cell = [], [], [], [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        said = dict(attrs)
        self.tags.append(tag)
        self.attributes.setdefault(tag, []).append(said)
        self.ids += [said["id"]] if "id" in said else []
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th", "caption"):
            self._cell = ""

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.tables[-1][-1].append(" ".join(self._cell.split()))
            self._cell = None
        elif tag == "caption":
            self.captions.append(" ".join(self._cell.split()))
            self._cell = None

    def handle_data(self, data):
        if self._cell is not None:
            self._cell += data


# forms


def test_a_csv_holds_the_table_in_full(release, tmp_path):
    table = release.tables(["field", "gender"], min_cell=48)
    path = release.write_tables(tmp_path / "t.csv", ["field", "gender"], min_cell=48)
    numbers = [c for c in table if table[c].dtype.kind in "fiI"]
    back = pd.read_csv(path, dtype={"field": str}, keep_default_na=False, na_values={c: [""] for c in numbers})
    pd.testing.assert_frame_equal(back.astype({"n": "Int64"}), table, check_exact=True)


def test_a_workbook_holds_numbers_and_symbols_and_no_empty_cell(release, tmp_path):
    """Against the table itself: sheet by sheet, row by row."""
    table = release.tables(["field", "gender"], min_cell=48)
    book = openpyxl.load_workbook(release.write_tables(tmp_path / "t.xlsx", ["field", "gender"], min_cell=48))
    assert book.sheetnames == ["Cover", "Contents", "Notes", "Table 1", "Table 2", "Technical notes", "Glossary"]
    for name, statistic in (("Table 1", "count"), ("Table 2", "mean")):
        sheet, expected = book[name], table[table["statistic"] == statistic]
        assert not sheet.merged_cells.ranges and sheet.freeze_panes is not None
        (mark,) = sheet.tables.values()  # marked up, so that screen readers find headings
        header, *rows = sheet[mark.ref]
        assert len(rows) == len(expected) and header[0].value == "Field <of> work"
        for cells, row in zip(rows, expected.to_dict("records"), strict=True):
            values = [c.value for c in cells]
            assert all(v not in (None, "") for v in values)
            assert values[0].replace("\N{WORD JOINER}", "") == ("All" if row["field"] == "all" else row["field"])
            if pd.isna(row["estimate"]):
                assert values[2:] == ["[c]"] * 6
            elif "fixed by construction" in row["flag"]:  # it has no error of its own
                assert values[3:6] == ["[x]"] * 3 and values[2] == pytest.approx(row["estimate"], abs=5)
                assert statistic == "count" and values[0] == "All"
            else:
                places = len(str(cells[2].number_format).partition(".")[2])
                step = 10.0**-places if places else 1.0
                rounded = [c.value for c in cells[2:6]]
                assert all(c.data_type == "n" for c in cells[2:7])
                off = np.abs(np.array(rounded) - [row[c] for c in ("estimate", "se", "ci_low", "ci_high")])
                assert off.max() <= row["se"] / 20 + step / 2
                assert values[6] == row["n"]
    for sheet in book:
        assert not any(c.data_type == "f" for cells in sheet.iter_rows() for c in cells)


def test_nothing_in_a_workbook_is_cut_off(release, tmp_path):
    """Rows are as high as their texts need, columns as wide as their numbers, in the print of the tables."""
    written = doc(release, ["field", "gender"], statistic="total", min_cell=48)
    (block,) = written.blocks
    assert written.legend.keys() >= {"[c]"}
    long = ["A label of a row that needs two lines" + " or more" * (i % 3) for i in range(len(block.cells))]
    cells = block.cells.assign(field=long, estimate=["1,234,567,890,123", *block.cells["estimate"][1:]])
    block = dataclasses.replace(block, cells=cells, title=" ".join(["A title of two lines"] * 6))
    made = dataclasses.replace(written, blocks=(block, dataclasses.replace(block, name="table_2")), notes=("A note",))
    write_workbook(made, tmp_path / "t.xlsx")
    book = openpyxl.load_workbook(tmp_path / "t.xlsx")
    for name in ("Contents", "Table 1", "Glossary", "Technical notes"):
        sheet = book[name]
        (mark,) = sheet.tables.values()
        for cells in sheet[mark.ref]:
            for cell in cells:
                width, height = sheet.column_dimensions[cell.column_letter].width, sheet.row_dimensions[cell.row].height
                assert cell.alignment.vertical == "top"
                if isinstance(cell.value, str):
                    assert 15 * math.ceil(len(cell.value) / width) <= (height or 15), (name, cell.value)
    assert book["Table 1"].column_dimensions["C"].width > 1.2 * len("1,234,567,890,123")


def test_a_workbook_explains_every_word_for_quality(release, tmp_path):
    written = doc(release, ["field", "gender"], statistic="mean", times=3)
    write_workbook(written, tmp_path / "t.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "t.xlsx")["Table 1"]
    above = [str(sheet.cell(row, 1).value) for row in range(1, sheet.max_row + 1)]
    shown = set(written.blocks[0].quality)
    assert len(shown) > 1 and all(any(f"{word} (coefficient of" in text for text in above) for word in shown)


def test_a_workbook_says_who_made_it_when_is_nobodys_business(release, tmp_path):
    """The same tables make the same file: no clock, no name."""
    a, b = (release.write_tables(tmp_path / f"{x}.xlsx", "gender").read_bytes() for x in "ab")
    assert a == b
    properties = openpyxl.load_workbook(tmp_path / "a.xlsx").properties
    assert properties.creator is None and properties.title.startswith("Tables of Income")


def test_labels_in_scripts_that_gptables_takes_for_symbols(tmp_path):
    frame = make_frame()
    letters = {name: chr(0x391 + i) for i, name in enumerate(sorted(set(frame["field"].astype(str))))}  # Greek capitals
    frame["field"] = frame["field"].astype(str).map(letters)
    design = ss.SurveyDesign(frame, weights="wt")
    made = ss.synthesize(design, model(), epsilon=10.8, m=2, seed=1, mechanism=PSEUDO)
    sheet = openpyxl.load_workbook(made.write_tables(tmp_path / "t.xlsx", "field"))["Table 1"]
    (mark,) = sheet.tables.values()
    assert [row[0].value[0] for row in sheet[mark.ref][1:]][:3] == list(letters.values())[:3]


def test_a_page_is_whole_and_can_be_read_aloud(release, tmp_path):
    table = release.tables(["field", "gender"], min_cell=48)
    made = release.write_tables(tmp_path / "t.html", ["field", "gender"], min_cell=48, wide=True)
    text = made.read_text(encoding="utf-8")
    read = Page(text)
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert "<title>Tables of Income, gross &amp; net</title>" in text
    assert len(read.ids) == len(set(read.ids)) and read.tags.count("h1") == 1 and len(read.tables) == 2
    assert all(said.get("scope") in ("col", "row", "colgroup", "rowgroup") for said in read.attributes["th"])
    assert "script" not in read.tags and "link" not in read.tags  # it needs no other file
    spanners, headings, *rows = read.tables[1]
    title = "Mean of Income, gross & net, euros, by Field <of> work and Sex"
    assert read.captions[1].startswith(title) and read.captions[1].endswith("Synthetic data")
    regions = [said for said in read.attributes["div"] if said.get("role") == "region"]
    assert len(regions) == 2 and all(said["tabindex"] == "0" for said in regions)  # the keyboard scrolls them
    assert {said["aria-labelledby"] for said in regions} == {said["id"] for said in read.attributes["caption"]}
    genders = [x for x in dict.fromkeys(table["gender"].astype(str)) if x != "all"]
    assert spanners == ["Field <of> work", *genders, "All"]
    assert headings == ["Estimate", "95% interval", "Records"] * 3
    means = table[(table["statistic"] == "mean") & (table["gender"] == "all")].set_index("field")["estimate"]
    for label, *cells in rows:
        expected = means["all" if label == "All" else label]
        shown = math.nan if cells[-3] == "[c]" else numbers_of(cells[-3])[0]
        assert shown == pytest.approx(expected, rel=0.02, nan_ok=True)
    assert ODD.replace("<", "&lt;").replace(">", "&gt;").replace("&", "&amp;", 1) in text


def test_every_column_of_a_page_has_a_heading(release):
    for by, wide in itertools.product(([], ["gender"], ["field", "gender"]), (False, True)):
        for rows in Page(page(doc(release, by, wide=wide))).tables:
            assert all(rows[0]) and all(rows[1])


def test_a_variable_of_many_categories_goes_down(tmp_path):
    frame = make_frame().assign(area=np.resize([f"district {i}" for i in range(12)], 400))
    design = ss.SurveyDesign(frame, weights="wt")
    made = ss.synthesize(design, model("gender + area"), epsilon=20, m=2, seed=1, mechanism=PSEUDO)
    text = made.write_tables(tmp_path / "t.html", ["gender", "area"], statistic="mean").read_text(encoding="utf-8")
    (table,) = Page(text).tables
    intervals = ["95% interval from", "95% interval to"]
    assert table[0] == ["gender · area", "Estimate", "Standard error", *intervals, "Records"]
    groups = [row[0] for row in table[1:] if len(row) == 1]
    assert sorted(groups) == sorted([*frame["gender"].astype(str).unique(), "All"])
    assert sum(len(row) == 6 for row in table[1:]) == 3 * 13
    with pytest.warns(UserWarning, match="Mean of .*: with the last variable across it is wider than a page"):
        made.write_tables(tmp_path / "wide.html", ["gender", "area"], statistic="mean", wide=True)
    with pytest.raises(ss.InputError, match=r"a .xlsx file has all variables down: leave out wide"):
        made.write_tables(tmp_path / "wide.xlsx", ["gender", "area"], wide=True)


def longer(block, times):
    """A block that has its cells again and again, under long labels of their own."""
    cells = pd.concat([block.cells] * times, ignore_index=True)
    label = "district {} of the north-eastern and of the central provinces of the country"
    down = [label.format(i // len(block.cells)) for i in range(len(cells))]
    same = {name: getattr(block, name) * times for name in ("marks", "quality", "notes")}
    numbers = pd.concat([block.numbers] * times, ignore_index=True)
    return dataclasses.replace(block, cells=cells.assign(**{block.by[-1]: down}), numbers=numbers, **same)


def test_a_page_prints_as_tagged_pdf_with_no_table_torn_or_cut(release, tmp_path):
    """Laid out by WeasyPrint: at least five rows of a table on each of its pages, and every text within the margins."""
    weasyprint = pytest.importorskip("weasyprint", reason="pip install 'surveysynth[pdf]'")
    from weasyprint.formatting_structure import boxes as boxes_of

    made = doc(release, ["gender", "field"])
    blocks = [*(longer(block, 6) for block in made.blocks), *doc(release, ["field"]).blocks * 4]
    blocks = [dataclasses.replace(block, name=f"table_{i}") for i, block in enumerate(blocks)]
    text = page(dataclasses.replace(made, blocks=tuple(blocks)))
    laid_out = weasyprint.HTML(string=text).render(pdf_variant=TAGGED)
    pieces = {}  # rows on each page, by table
    for number, sheet in enumerate(laid_out.pages, 1):
        paper = sheet._page_box
        boxes = [*paper.descendants()]
        left, top = paper.content_box_x(), paper.content_box_y()
        shown = [box for box in boxes if isinstance(box, boxes_of.TextBox) and box.text == box.text.rstrip() != ""]
        assert all(left - 1 <= box.position_x and box.position_x + box.width <= left + paper.width + 1 for box in shown)
        for table in (box for box in boxes if isinstance(box, boxes_of.TableBox)):
            rows = sum(len(group.children) for group in table.children if not group.is_header)
            pieces.setdefault(table.element.find("caption").get("id"), []).append(rows)
        lowest = max(box.position_y for box in shown if box.position_y < top + paper.height)
        assert lowest > top + paper.height / 3 or number == len(laid_out.pages)
    torn = [each for each in pieces.values() if len(each) > 1]
    assert torn and torn == [*pieces.values()][: len(torn)]  # the long ones
    assert len(torn) <= 2 and min(map(min, torn)) >= 5
    assert pdf(text, tmp_path / "t.pdf") == ""
    streams = re.findall(rb"stream\n(.*?)\nendstream", (tmp_path / "t.pdf").read_bytes(), re.DOTALL)
    written = b"".join(zlib.decompressobj().decompress(each) for each in streams if each[:1] == b"x")
    assert all(part in written for part in (b"/MarkInfo", b"/StructTreeRoot", b"/Lang"))


@pytest.mark.parametrize("width", [200, 20])
def test_a_group_stands_together_with_its_margin(width):
    """Across and down: every group once, the total last, and every number in the row of its labels."""
    frame = make_frame().assign(area=np.resize(["east", "west", "north"], 400))
    design = ss.SurveyDesign(frame, weights="wt")
    made = ss.synthesize(design, model("area + field + gender"), epsilon=20, m=2, seed=1, mechanism=PSEUDO)
    written = doc(made, ["area", "field", "gender"], statistic="mean", wide=width == 200)
    (block,) = written.blocks
    sheet = arranged(block, written, width)
    groups = [group for group, _ in itertools.groupby(sheet.groups)]
    assert len(groups) == len(set(groups)) == (4 if width == 200 else 4 * 5) and groups[-1].endswith("All")
    said = block.cells.set_index(["area", "field", "gender"])["estimate"]
    for group, row, texts in zip(sheet.groups, sheet.rows, sheet.texts, strict=True):
        labels = (group, row, "f") if width == 200 else (*group.split(" · "), row)
        assert texts[0] == said[labels]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex (texlive-latex-recommended)")
def test_latex_compiles_and_breaks_over_pages(tmp_path):
    frame = make_frame().assign(area=np.resize([f"district_{i} & 100% #{i}" for i in range(40)], 400))
    heading = "A heading that is much longer than any label of a row below it, and needs several lines itself"
    design = ss.SurveyDesign(frame, weights="wt", labels={"area": heading})
    made = ss.synthesize(design, model("gender + area"), epsilon=20, m=2, seed=1, mechanism=PSEUDO)
    made.write_tables(tmp_path / "t.tex", ["gender", "area"], symbols="statcan")
    for _ in range(3):
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True)
        assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
    log = (tmp_path / "t.log").read_text(errors="replace")
    pages = int(re.search(r"\((\d+) pages", log)[1])
    assert pages >= 4 and "Overfull" not in log


def test_markdown_has_a_table_of_every_quantity(release):
    text = markdown(doc(release, ["field", "gender"], min_cell=48))
    assert "# Tables of Income, gross & net" in text and text.count("## Table ") == 2
    rules = [line for line in text.splitlines() if re.fullmatch(r"\|( :?-+:? \|)+", line)]
    assert len(rules) == 2
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(re.findall(r"\|", rules[0]))}
    below = text.partition("## Technical notes\n\n")[2].splitlines()
    assert "- Neighbour relations:" in below and below[below.index("- Neighbour relations:") + 1].startswith("  - ")


@pytest.mark.skipif(shutil.which("pandoc") is None, reason="needs pandoc")
def test_a_docx_comes_from_pandoc(release, tmp_path):
    path = release.write_tables(tmp_path / "t.docx", "gender")
    back = subprocess.run(["pandoc", str(path), "-t", "plain"], capture_output=True, text=True, check=True).stdout
    assert "Tables of Income, gross & net" in back and "Standard error" in back
    with zipfile.ZipFile(path) as file:
        text, styles = (file.read(f"word/{name}.xml").decode() for name in ("document", "styles"))
    assert 'w:orient="landscape"' in text  # numbers were broken in their middle on a page upright
    assert re.search(r'(?s)styleId="Compact"(?:(?!</w:style>).)*<w:sz w:val="20"', styles)


def test_shares_are_printed_in_percent(tmp_path):
    frame = make_frame().assign(job=pd.Categorical(np.resize(["yes", "no", "no"], 400)))
    design = ss.SurveyDesign(frame, weights="wt", labels={"job": "Has a job"})
    mixed = ss.FBS(["C(job)", "income"], "gender", prior="flat")
    made = ss.synthesize(design, mixed, epsilon=20, m=2, seed=1, mechanism=PSEUDO)
    table = made.tables("gender", statistic="proportion")
    text = made.write_tables(tmp_path / "t.md", "gender", outcome="job", statistic="proportion").read_text("utf-8")
    for category in ("no", "yes"):
        part = text.partition(f"Has a job: share of “{category}”, in percent, by gender")[2]
        rows = [line.split(" | ") for line in part.splitlines() if line.startswith("| ")][2:5]
        expected = 100 * table.loc[table["category"] == category, ["estimate", "se", "ci_low", "ci_high"]].to_numpy()
        shown = [[float(x.strip(" |")) for x in row[1:5]] for row in rows]
        assert np.abs(shown - expected).max() <= 0.05 + 1e-9


def test_what_cannot_be_written_is_refused_before_anything_is(release, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    for name, message in (("t.pdf", r"'t.pdf' ends in none"), ("t.docx", "pandoc, which is not installed")):
        with pytest.raises(ss.InputError, match=message):
            release.write_tables(tmp_path / name, "gender")
    for said, message in (
        ("us", "symbols='us' is not one of statcan, uk"), ({"hidden": "x"}, "it may have suppressed, missing"),
        ({"limit": 0}, "positive coefficient"), ({"missing": " "}, "must be a text"),
    ):  # fmt: skip
        with pytest.raises(ss.InputError, match=message):
            release.write_tables(tmp_path / "t.html", "gender", symbols=said)
    assert not list(tmp_path.iterdir())


def test_releases_hold_their_tables_as_they_are_printed(release, tmp_path):
    folder = release.write(tmp_path / "r", by="gender", symbols="statcan") / "public"
    assert {"tables.csv", "tables.xlsx", "tables.html"} < {p.name for p in folder.iterdir()}
    text = (folder / "tables.html").read_text(encoding="utf-8")
    assert "excellent (coefficient of variation below 5%)" in text or "very good" in text
    again = ss.read_release(tmp_path / "r").write(tmp_path / "again", by="gender", symbols="statcan") / "public"
    for name in ("tables.html", "tables.xlsx"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def test_tables_that_nobody_prints_are_written_for_programs_alone(release, monkeypatch, tmp_path):
    monkeypatch.setattr("surveysynth.release.folder.MOST_PRINTED", 5)
    folder = release.write(tmp_path / "r", by="field") / "public"
    assert {p.name for p in folder.glob("tables*")} == {"tables.csv"}
    assert "tables.xlsx" not in (folder / "report.txt").read_text(encoding="utf-8")
    assert ss.read_release(tmp_path / "r").m == 3


# quality


def row(estimate, se, **other):
    return {"statistic": "mean", "outcome": "y", "estimate": estimate, "se": se, "flag": "", **other}


@pytest.mark.parametrize(
    ("cv", "uk", "statcan"),
    [(0.0499, "precise", "A"), (0.0501, "reasonably_precise", "B"), (0.0999, "reasonably_precise", "B"),
     (0.1001, "acceptable", "C"), (0.1501, "acceptable", "D"), (0.1999, "acceptable", "D"),
     (0.2001, "low_reliability", "D"), (0.2501, "low_reliability", "E"), (0.3501, "low_reliability", "F")],
)  # fmt: skip
def test_classes_of_coefficients_of_variation(cv, uk, statcan):
    table = pd.DataFrame([row(100.0, 100 * cv), row(-100.0, 100 * cv)])
    assert [each.name for each in SYMBOLS["uk"].ratings(table)] == [uk] * 2
    assert [each.mark for each in SYMBOLS["statcan"].ratings(table)] == [statcan] * 2


def test_classes_of_totals_without_error_and_of_no_estimate():
    table = pd.DataFrame([row(100.0, 0.0), row(0.0, 3.0), row(np.nan, np.nan)])
    best, worst, none = SYMBOLS["uk"].ratings(table)
    assert best.name == "precise" and worst is SYMBOLS["uk"].worst and none is None


def test_a_share_of_everybody_is_printed_with_its_interval_and_without_a_mark(release):
    """By Clopper and Pearson, R's binom.test: all of n, at the least."""
    made = release.assign(here=lambda f: f["income"] > 0)
    for symbols in ("uk", "statcan"):
        (block,) = doc(made, ["gender"], symbols, outcome="here", statistic="proportion").blocks
        assert block.cells["estimate"].tolist() == ["100.0"] * 3 and block.cells["ci_high"].tolist() == ["100.0"] * 3
        n = [float(count) for count in block.cells["n"]]
        low = [float(text) for text in block.cells["ci_low"]]
        np.testing.assert_allclose(low, [100 * 0.025 ** (1 / count) for count in n], atol=0.051)
        assert block.marks == ("", "", "") and block.quality == ("", "", "")


def test_an_office_has_its_own_marks():
    own = symbols_of({"suppressed": "(c)", "unreliable": "*", "limit": 0.3})
    assert (own.suppressed, own.missing, own.worst.mark) == ("(c)", "[x]", "*")
    table = pd.DataFrame([row(1.0, 0.29), row(1.0, 0.31)])
    assert [each.mark for each in own.ratings(table)] == ["", "*"]
    assert [each.mark for each in symbols_of({"limit": 0.07}).ratings(table)] == ["[u]", "[u]"]


def doc(release, by, symbols=None, words=None, report=None, times=1, wide=False, **asked):
    table = release.tables(by, **asked)
    table["se"] *= times
    facts = Facts(release.outcomes, release.predictors, 400, LABELS, {"income": "euros"}, {"source": "A survey"},
                  where=table.attrs.get("where", ""))  # fmt: skip
    return document(table, by, report or release.privacy, facts, symbols_of(symbols), words or Wording(), wide=wide)


def test_unreliable_numbers_are_marked_or_withheld(release):
    by = ["field", "gender"]
    table = release.tables(by)
    cv = (5 * table["se"] / table["estimate"]).to_numpy()
    uk, statcan = (doc(release, by, which, times=5) for which in ("uk", "statcan"))
    marks = list(itertools.chain.from_iterable(block.marks for block in uk.blocks))
    assert [mark == "[u]" for mark in marks] == (cv >= 0.2).tolist() and any(marks)
    texts = [text for block in statcan.blocks for text in block.cells["estimate"]]
    assert [text == "F" for text in texts] == (cv >= 0.35).tolist() and "F" in texts
    for name in ("statcan", "uk"):  # what is marked is explained, and what is explained is there
        made = doc(release, by, name, times=5)
        shown = latex(made) + page(made)
        assert all(meaning.split(" (")[0] in shown for meaning in made.legend.values())


# words


@given(st.floats(0.001, 50))
def test_no_intruder_guesses_right_more_often(epsilon):
    """A bound that is printed is never below 1 / (1 + e^(-2 epsilon)), and at most its last digit above."""
    percent, weak = most_guessed(epsilon)
    exact = 100 / (1 + math.exp(-2 * epsilon))
    assert float(percent) >= exact * (1 - 1e-15) and float(percent) - exact <= max(0.1, 0.0) + 1e-9
    assert weak == (100 / (1 + math.exp(2 * epsilon)) < 1) and 50 < float(percent) <= 100


@pytest.mark.parametrize(("epsilon", "percent"), [(0.5, "73.2"), (1, "88.1"), (2, "98.3"), (5, "99.9955"), (20, "100")])
def test_bounds_as_they_are_printed(epsilon, percent):
    """By hand: 100 / (1 + e^-1) = 73.106, 88.080, 98.201, 99.99546."""
    assert most_guessed(epsilon)[0] == percent
    text = protected("strict", epsilon, None, Wording())
    assert f"{percent}% of cases instead of 50%" in text and ("promises little" in text) == (epsilon > 2.3)


def test_only_strict_releases_promise_a_bound(release):
    words = Wording()
    for kind in ("asymptotic", "strict given alpha", "none"):
        text = protected(kind, 1.0, None, words)
        assert "instead of 50%" not in text and "strictly" not in text
    assert "group of records with the same household" in protected("strict", 1.0, "household", words)
    asymptotic = doc(release, ["gender"]).protected
    assert "no strict bound" in asymptotic[0] and asymptotic[1].startswith("Published as collected, and so not")
    assert asymptotic[1].endswith(": Field <of> work and Sex, and the number of records in each of their cells.")
    assert re.search(r"half of the \d+ estimates have a standard error of at most \d+% of the estimate", asymptotic[2])


def test_the_middle_error_is_that_of_the_table(release):
    table = release.tables(["field", "gender"])
    cv = (table["se"] / table["estimate"])[table["se"] > 0]
    said = doc(release, ["field", "gender"]).protected[2]
    assert f"half of the {len(cv)} estimates" in said and f"at most {math.ceil(100 * cv.median())}%" in said
    assert f"Rated “low reliability”: {(cv >= 0.2).sum()} of {len(cv)}." in said


def test_small_shares_above_the_limit_are_told_beside_their_rating(release):
    """A share of 1% with a standard error of half a point has a CV of 50%, and that of its complement is below 1%."""
    table = pd.DataFrame({
        "statistic": ["proportion", "proportion", "mean", "proportion"], "estimate": [0.01, 0.99, 50.0, 0.2],
        "se": [0.005, 0.005, 20.0, 0.12], "df": 50.0, "ci_low": [0.0, 0.98, 10.0, 0.0],
        "ci_high": [0.02, 1.0, 90.0, 0.5], "flag": ["CV above 30%", "", "a; CV above 30%", "CV above 30%"],
    })  # fmt: skip
    said = error_to_expect(table, release.privacy, symbols_of("uk"), Wording())
    assert "Rated “low reliability”: 2 of 4. Small shares that are not among them" in said
    assert "more than 30% of the estimate: 1. A share is rated by its standard error in percentage points" in said
    unflagged = error_to_expect(table.assign(flag=""), release.privacy, symbols_of("uk"), Wording())
    assert unflagged.endswith("Rated “low reliability”: 2 of 4.")


def test_what_is_wrong_with_a_release_is_said_first(release):
    report = release.privacy
    seeded = doc(release, ["gender"])
    assert seeded.warning.startswith("NOT FOR PUBLICATION") and "NOT FOR PUBLICATION" in page(seeded)
    fine = doc(release, ["gender"], report=dataclasses.replace(report, publishable=True))
    assert fine.warning == "" and "NOT FOR PUBLICATION" not in fine.technical
    little = doc(release, ["gender"], report=dataclasses.replace(report, little_left=True))
    assert "not fit for official use" in little.protected[2]
    fragile = doc(release, ["gender"], report=dataclasses.replace(report, verdict="Sampler diagnostics failed: R-hat."))
    assert any("did not pass its checks" in note for note in fragile.notes)
    assert all(fragile.blocks[0].notes)


def test_notes_are_in_plain_words_and_numbered_alike_in_every_form(tmp_path):
    made = ss.synthesize(make_design(), model(), epsilon=10.8, m=1, seed=1, mechanism=PSEUDO, population_total=9000)
    written = doc(made, ["gender"])
    assert written.notes[0].startswith("Made from one synthetic data set") and len(written.notes) == 2
    total = written.blocks[0].notes[-1]
    assert total == (1, 2) and "1</sup>" not in page(written) and "[1][2]" in page(written)
    sheet = openpyxl.load_workbook(made.write_tables(tmp_path / "t.xlsx", "gender"))
    (mark,) = sheet["Table 1"].tables.values()
    assert sheet["Table 1"][mark.ref][-1][0].value == "All [note 1][note 2]"
    assert [[c.value for c in row] for row in sheet["Notes"].iter_rows(min_row=4)] == [
        ["[note 1]", written.notes[0]], ["[note 2]", written.notes[1]],
    ]  # fmt: skip


def translated(path, mend=lambda text: text):
    """Every text of the wording in Greek letters, but for its placeholders."""
    lines = []
    for line in OWN.read_text(encoding="utf-8").splitlines():
        name, equals, text = line.partition(" = ")
        if equals and not line.startswith(("#", "language")):
            line = (greek(name) if name.startswith('"') else name) + equals + greek(text)
        lines.append(line.replace('language = "en"', 'language = "el"'))
    path.write_text(mend("\n".join(lines)), encoding="utf-8")
    return path


def greek(text):
    letters = str.maketrans({x: chr(0x3B1 + i % 24) for i, x in enumerate("abcdefghijklmnopqrstuvwxyz")})
    return "".join(p if p.startswith("{") else p.lower().translate(letters) for p in re.split(r"(\{[a-z_]+\})", text))


def test_an_office_prints_in_its_own_words(release, tmp_path):
    """No word of ours is left, but those of the report and of the data."""
    path, by = translated(tmp_path / "words.toml"), ["field", "gender"]
    data = {*LABELS.values(), "A survey", "euros", "[c]", ODD, *make_frame()["field"].astype(str), "f", "m"}
    text = release.write_tables(tmp_path / "t.html", by, wording=path, min_cell=48).read_text(encoding="utf-8")
    assert '<html lang="el">' in text
    body = unescape(re.sub(r"(?s)<pre>.*</pre>|<style.*?</style>|<[^>]*>", " ", text))
    book = openpyxl.load_workbook(release.write_tables(tmp_path / "t.xlsx", by, wording=path))
    book.remove(book.worksheets[-2])  # the report
    cells = [str(c.value) for sheet in book for row in sheet.iter_rows() for c in row]
    for shown in (body, " ".join([*cells, *book.sheetnames])):
        for name in sorted(data, key=len, reverse=True):
            shown = shown.replace("\N{WORD JOINER}", "").replace(name, " ")
        left = set(re.findall(r"[A-Za-z]{2,}", shown))
        assert left <= {"None"}, left


@pytest.mark.parametrize(
    ("mend", "message"),
    [(lambda t: t.replace("total = ", "totals = ", 1), "headings.total is missing; headings.totals is not one"),
     (lambda t: t.replace("{percent}", "{per}", 1), r"needs .*\{percent\}"),
     (lambda t: t.replace("{percent}", "{percent", 1), "brace without its other one"),
     (lambda t: t + "\n[", "cannot be read"),
     (lambda t: t, None)],
)  # fmt: skip
def test_words_that_do_not_fit_are_refused_by_name(mend, message, tmp_path):
    path = translated(tmp_path / "words.toml", mend)
    if message is None:
        assert Wording(path).language == "el"
        return
    with pytest.raises(ss.InputError, match=message):
        Wording(path)


@pytest.mark.slow
def test_every_text_is_used(release, monkeypatch, tmp_path):
    """None of the wording is left over: all of it is printed by some release, in some form."""
    used, fill = set(), Wording.__call__
    monkeypatch.setattr(Wording, "__call__", lambda words, entry, **v: (used.add(entry), fill(words, entry, **v))[1])
    of, by = dataclasses.replace, ["field", "gender"]
    report = of(release.privacy, publishable=True)
    kinds = ("strict", "strict given alpha", "asymptotic", "per-instance", "none")
    reports = [of(report, kind=kind, mechanism="censored") for kind in kinds]
    reports += [of(report, kind="strict", epsilon=1.0, unit="household", verdict="Sampler diagnostics failed: R-hat.")]
    reports += [of(report, little_left=True), release.privacy]
    for each, symbols in itertools.product(reports, ("uk", "statcan")):
        latex(doc(release, by, symbols, report=each, times=5, min_cell=48, cv_limit=0.01, wide=symbols == "uk"))
    doc(dataclasses.replace(release, predictors=()), [], statistic=["total", "quantile"], quantiles=[0.25, 0.5])
    others = ["ratio", "variance", "gini", "quintile_share_ratio", "poverty_rate"]
    doc(release, ["gender"], statistic=others, denominator="income")
    doc(release.assign(low=lambda f: f.income < 20_000), ["gender"], where="low")
    one = ss.synthesize(make_design(), model(), epsilon=10.8, m=1, seed=1, mechanism=PSEUDO, population_total=5000)
    for times in (1, 9, np.nan, 0):
        made = doc(one, ["gender"], times=times)
        page(made)
        dot_plot(made, tmp_path / "f.png")
    flags = f"public total: fixed by construction, without sampling error; {MODELLED}"
    public = one.tables("gender").assign(flag=flags)
    public["gender"] = ["", *public["gender"][1:]]
    public["estimate"] = np.nan
    printed = dict.fromkeys(PRINTED, "text")
    facts = Facts(("income",), (), 400, {}, {}, printed)
    made = document(public, ["gender"], report, facts, symbols_of("uk"), Wording())
    write_workbook(made, tmp_path / "t.xlsx")
    dot_plot(made, tmp_path / "g.png")
    dot_plot(doc(release, by, statistic="mean", min_cell=48), tmp_path / "h.png")
    hidden = sum(doc(release, by, statistic="mean", min_cell=48).blocks[0].numbers["estimate"].isna())
    assert hidden and (tmp_path / "h.txt").read_text(encoding="utf-8").endswith(f" Not shown: {hidden}.\n")
    used |= {"titles.proportion", "error.small_shares"}  # of categories, which this release has none of
    texts = tomllib.loads(OWN.read_text(encoding="utf-8"))
    named = {section: said for section, said in texts.items() if section not in ("glossary", "language")}
    assert used == {f"{section}.{name}" for section, said in named.items() for name in said}


# figures


def luminance(color):
    """Relative luminance (WCAG 2.2, 1.4.11)."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def test_colours_of_figures_can_be_seen_on_white():
    assert all(1.05 / (luminance(color) + 0.05) >= 4.5 for color, _ in SERIES)
    assert len({marker for _, marker in SERIES}) == len(SERIES)


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_figure_says_in_words_what_it_shows(suffix, release, tmp_path):
    table = release.tables(["field", "gender"], statistic="mean")
    path = release.plot(tmp_path / f"f{suffix}", ["field", "gender"])
    text = (tmp_path / "f.txt").read_text(encoding="utf-8")
    assert text.startswith("Mean of Income, gross & net, euros, by Field <of> work and Sex: a dot and its 95% interval")
    assert f"each of {len(table)} estimates" in text
    low, high = (table.loc[table["estimate"].agg(which)] for which in ("idxmin", "idxmax"))
    found = [x for x in numbers_of(text.partition("estimates, from ")[2]) if x > 1000]
    assert found == pytest.approx([low["estimate"], high["estimate"]], rel=0.01)
    if suffix == ".svg":
        drawn = path.read_text(encoding="utf-8")
        assert '<svg role="img"' in drawn and f"<desc>{escape(text.strip())}</desc>" in drawn  # for screen readers
        assert "<dc:description>" in drawn and "Income, gross &amp; net" in drawn and "<dc:date>" not in drawn
        assert release.plot(tmp_path / "again.svg", ["field", "gender"]).read_text(encoding="utf-8") == drawn
    else:
        image = Image.open(path)
        assert image.size[0] >= 1800 and "a dot and its" in image.text["Description"]


def test_figures_draw_the_numbers_of_the_table(release, monkeypatch, tmp_path):
    """Every dot at its estimate, every line from end to end of its interval; symbols where cells are hidden."""
    table = release.tables(["field", "gender"], statistic="mean", min_cell=48)
    kept = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *a, **k: kept.append(figure))
    release.plot(tmp_path / "f.png", ["field", "gender"], min_cell=48)
    (panel,) = kept[0].axes
    dots = [c.get_offsets()[:, 0] for c in panel.collections if isinstance(c, PathCollection)]
    lines = [np.array(c.get_segments())[:, :, 0] for c in panel.collections if isinstance(c, LineCollection)]
    drawn = [*np.concatenate(dots).T[None], *np.concatenate(lines).T]
    for shown, name in zip(drawn, ("estimate", "ci_low", "ci_high"), strict=True):
        assert np.sort(shown).tolist() == pytest.approx(np.sort(table[name].dropna().to_numpy()).tolist())
    assert [text.get_text() for text in panel.texts] == ["[c]"] * table["estimate"].isna().sum()


def test_amounts_that_are_far_apart_have_a_logarithmic_axis(release, monkeypatch, tmp_path):
    kept = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *a, **k: kept.append(figure))
    release.plot(tmp_path / "f.png", "field")
    table = release.tables("field", statistic="total")
    table["estimate"] *= np.logspace(0, 3, len(table))
    table["ci_low"] = table["estimate"] / 2
    monkeypatch.setattr(ss.Release, "tables", lambda *a, **k: table)
    release.plot(tmp_path / "f.png", "field", statistic="total")
    assert [figure.axes[0].get_xscale() for figure in kept] == ["linear", "log"]


@pytest.mark.parametrize("statistic", ["mean", "total"])
def test_a_figure_can_be_read_where_labels_and_amounts_are_long(statistic, release, monkeypatch, tmp_path):
    """No number of an axis runs into the next, rows have most of the width, and the legend's dots are full."""
    kept = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *a, **k: kept.append(figure))
    made = doc(release, ["field", "gender"], statistic=statistic, times=6)
    (block,) = made.blocks
    long = {name: f"{name} associate professionals and technical occupations" for name in block.cells["field"]}
    columns = ["estimate", "se", "ci_low", "ci_high"]
    more = {c: [f"{1e5 * x:,.0f}" for x in block.numbers[c]] for c in columns}
    numbers = block.numbers.assign(**{c: 1e5 * block.numbers[c] for c in columns})
    numbers.loc[0, "ci_low"] = -1e9  # not on a logarithmic axis
    block = dataclasses.replace(
        block, numbers=numbers, cells=block.cells.assign(field=block.cells["field"].map(long), **more)
    )
    dot_plot(dataclasses.replace(made, blocks=(block,)), tmp_path / "f.png")
    (figure,) = kept
    (panel,) = figure.axes
    figure.draw_without_rendering()
    low, high = panel.get_xlim()
    shown = [t for x, t in zip(panel.get_xticks(), panel.get_xticklabels(), strict=True) if low <= x <= high]
    boxes = [text.get_window_extent() for text in shown]
    assert len(boxes) >= 2 and all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))
    assert panel.get_position().width > 0.4
    keys = [key.get_markerfacecolor() for key in panel.get_legend().legend_handles]
    assert keys == [color for color, _ in SERIES[: len(keys)]]


def test_a_figure_of_a_column_has_the_same_print_and_nothing_beyond_its_edges(release, monkeypatch, tmp_path):
    """8.5 cm: every text of 7 points or more, within the figure, and the legend above the panel."""
    kept = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *a, **k: kept.append(figure))
    dot_plot(doc(release, ["field", "gender"]), tmp_path / "f.png", 8.5)
    (figure,) = kept
    figure.draw_without_rendering()
    assert figure.get_size_inches()[0] == pytest.approx(8.5 / 2.54)
    (legend,) = figure.legends
    texts = [*legend.get_texts(), figure._supxlabel]
    for panel in figure.axes:
        low, high = panel.get_xlim()
        texts += [t for x, t in zip(panel.get_xticks(), panel.get_xticklabels(), strict=True) if low <= x <= high]
        texts += panel.get_yticklabels()
    assert min(text.get_size() for text in texts) >= 7
    edge = figure.get_window_extent()
    outside = [t.get_text() for t in texts if t.get_window_extent().x0 < edge.x0 or t.get_window_extent().x1 > edge.x1]
    assert not outside
    assert legend.get_window_extent().y0 > figure.axes[0].get_window_extent().y1
    with pytest.raises(ss.InputError, match="width is 3 cm, and 6 is the least"):
        release.plot(tmp_path / "f.png", "field", width=3)


def test_figures_are_svg_or_png(release, tmp_path):
    with pytest.raises(ss.InputError, match=r"written as .svg or .png: 'f.pdf'"):
        release.plot(tmp_path / "f.pdf", "field")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("probability", "name"),
    [
        (0.5, "median"), (0.1, "10th percentile"), (0.01, "1st percentile"), (0.22, "22nd percentile"),
        (0.03, "3rd percentile"), (0.11, "11th percentile"), (0.12, "12th percentile"), (0.99, "99th percentile"),
        (0.995, "99.5th percentile"), (0.29, "29th percentile"), (0.57, "57th percentile"),
    ],
)  # fmt: skip
def test_percentiles_have_names(probability, name):
    assert percentile(probability) == name


# metadata


def test_frictionless_and_csvw_find_a_release_valid(tmp_path):
    """By their own validators: every kind of column, names in any script, and a file that was changed is found."""
    design = ss.SurveyDesign(odd_frame(), weights="wt", labels={"income": "Einkommen", "share": "A share"})
    predictors = ["ordered", "coded", "employed", "age", "share", "text", "band"]
    for i, columns in enumerate((predictors[:3], predictors[3:5], predictors[5:])):
        made = ss.synthesize(design, model(" + ".join(columns)), epsilon=20, m=2, seed=1, mechanism=PSEUDO)
        about = {"title": "Löhne & Arbeit", "units": {"income": "euros"}, "license": "CC-BY-4.0", "source": "A survey"}
        about |= {"contact": "Amt für Löhne, <loehne@amt.example.org>"}
        made = dataclasses.replace(made, method=made.method | about)
        folder = made.write(tmp_path / f"r{i}", by=columns[-1:] if columns[-1] != "share" else "age") / "public"
        report = frictionless.validate(str(folder / "datapackage.json"))
        assert report.valid, report.flatten(["name", "type", "note"])
        assert {task.name for task in report.tasks} == {
            file.name.lower().replace(".", "-").replace("_", "-") for file in folder.iterdir()
        } - {"manifest-json", "datapackage-json", "csv-metadata-json"}
        assert CSVW(str(folder / "csv-metadata.json"), validate=True).is_valid
        said = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))
        (first,) = (each for each in said["resources"] if each["name"] == "synthetic-1-csv")
        fields = {field["name"]: field for field in first["schema"]["fields"]}
        assert fields["income"] == {"name": "income", "type": "number", "title": "Einkommen", "unit": "euros"}
        person = {"title": "Amt für Löhne", "email": "loehne@amt.example.org", "role": "maintainer"}
        assert said["contributors"] == [person] and said["licenses"] == [{"name": "CC-BY-4.0", "title": "CC-BY-4.0"}]
        assert said["name"] == "l-hne-arbeit" and "instead of 50%" not in said["description"]
    contacts = {"Ask us": None, "a@b.org": "a@b.org", "Office (a@b.org)": "a@b.org", "Office, c.d@e-f.uk": "c.d@e-f.uk"}
    for contact, email in contacts.items():
        entry = _contributor(contact)
        title = "Office" if "Office" in contact else contact
        assert entry == {"title": title} | ({"email": email} if email else {}) | {"role": "maintainer"}
    file = folder / "synthetic_1.csv"
    head, first, rest = file.read_text(encoding="utf-8").split("\n", 2)
    file.write_text("\n".join([head, re.sub(r"[0-9]+\.[0-9]+", "many", first), rest]), encoding="utf-8")
    assert not frictionless.validate(str(folder / "datapackage.json")).valid
    assert not CSVW(str(folder / "csv-metadata.json"), validate=True).is_valid
