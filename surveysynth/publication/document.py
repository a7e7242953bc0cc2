"""Printed tables with titles, notes and other texts, as the common content of all output formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from ..estimation.quantities import SHARES
from ..estimation.tables import TOTAL
from ..privacy.report import PrivacyReport
from . import digits
from .digits import NUMBERS
from .footnotes import error_to_expect, listed, notes_of, protected, suppressed, unprotected
from .names import called, ordinal
from .quality import Symbols
from .wording import Wording

PERCENT = 100  # shares are printed in percent
IMPRINT = "source", "contact", "license", "date"
BETWEEN = " \N{MIDDLE DOT} "  # separates the parts of a subtitle, and of a label
IN_UNITS = ("mean", "total", "quantile")  # statistics in the unit of the outcome


@dataclass(frozen=True)
class Facts:
    """The facts about a release that are stated in printed tables.

    Attributes
    ----------
    outcomes : tuple of str
        Synthesized columns.
    kept : tuple of str
        Columns that are published unchanged.
    records : int
        Number of records in each data set.
    labels, units : mapping of str to str
        Labels of columns, and units of outcomes, by the name of the column.
    printed : mapping of str to str
        Texts that the agency gives: ``title``, ``population``, ``period``, ``source``, ``contact``, ``license`` and
        ``date``.  Unknown texts are absent.
    where : str
        Name of the column with the condition that selects records.  It is empty if the tables are of all records.
    """

    outcomes: tuple[str, ...]
    kept: tuple[str, ...]
    records: int
    labels: Mapping[str, str]
    units: Mapping[str, str]
    printed: Mapping[str, str] = field(default_factory=dict)
    where: str = ""

    def called(self, name: str) -> str:
        """Return the label of a column, or the name of the column if it has no label."""
        return called(name, self.labels)


@dataclass(frozen=True)
class Block:
    """One printed table: one statistic of one outcome in all cells.

    Attributes
    ----------
    name : str
        "table_1", ...
    title : str
    by : tuple of str
        Columns of ``cells`` with the labels of domains.
    headings : mapping of str to str
        Headings of the columns in ``by``.
    cells : pandas.DataFrame
        The texts of the cells: the ``by`` columns, ``estimate``, ``se``, ``ci_low``, ``ci_high``, ``n``.  If a number
        is suppressed or missing, its text is a symbol.
    numbers : pandas.DataFrame
        The numbers of the cells, without the ``by`` columns.  If the text is a symbol, the number is NaN.
    decimals : int
        Number of decimals; -2 means that numbers are rounded to hundreds.
    marks, quality : tuple of str
        For each row, the mark of its quality class, such as "E" ("" if the class has none), and the name of the class
        ("" without a class).  A class is a range of coefficients of variation.
    notes : tuple of tuple of int
        For each row, the numbers of its notes in the document.
    """

    name: str
    title: str
    by: tuple[str, ...]
    headings: Mapping[str, str]
    cells: pd.DataFrame
    numbers: pd.DataFrame
    decimals: int
    marks: tuple[str, ...]
    quality: tuple[str, ...]
    notes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Document:
    """The printed tables of a publication, with their title, notes and legend.

    Attributes
    ----------
    title : str
    subtitle : str
        The population, the period, and that the data are synthetic.  Every table and figure has it.
    warning : str
        States that a release made with a seed must not be published.  It is empty for other releases.
    imprint : mapping of str to str
        Source, contact, license and date, as far as they are known, by their headings.
    protected : tuple of str
        Three sentences: who is protected and how far, what is not protected, and what error to expect.
    blocks : tuple of Block
        The printed tables.
    notes : tuple of str
        Texts of note 1, note 2, ..., to which the rows of the blocks refer.
    suppressed : str
        The reason why cells are suppressed.  It is empty if no cell is suppressed.
    technical : str
        The privacy report.
    symbols : Symbols
        The symbols and marks of the tables.
    words : Wording
        The words of headings and notes, in the language of the publication.
    wide : bool
        True to put the categories of the last variable side by side, if they fit on the page.
    """

    title: str
    subtitle: str
    warning: str
    imprint: Mapping[str, str]
    protected: tuple[str, ...]
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]
    suppressed: str
    technical: str
    symbols: Symbols
    words: Wording
    wide: bool = False

    @property
    def legend(self) -> dict[str, str]:
        """The symbols and marks that occur in the tables, each with its meaning."""
        s = self.symbols
        used = {text for block in self.blocks for name in NUMBERS for text in block.cells[name]}
        used |= {mark for block in self.blocks for mark in block.marks}
        legend = {s.suppressed: self.suppressed, s.missing: self.words("symbols.missing")}
        legend |= {each.mark: self.classes[each.name] for each in s.classes}
        return {mark: meaning for mark, meaning in legend.items() if mark and mark in used}

    @property
    def classes(self) -> dict[str, str]:
        """The printed meaning of each quality class, by the name of the class in the wording file."""
        meanings, low = dict[str, str](), 0.0
        for each in self.symbols.classes:
            which = "below" if low == 0 else "above" if each is self.symbols.worst else "between"
            values = {"low": f"{100 * low:g}", "high": f"{100 * each.below:g}", "points": f"{50 * low:g}"}
            meanings[each.name] = self.words(f"symbols.{which}", meaning=self.words(f"quality.{each.name}"), **values)
            low = each.below
        return meanings


def imprint_lines(document: Document) -> list[str]:
    """Return the imprint as lines such as "Source: Labour force survey 2025"."""
    return [document.words("sheet.imprint", heading=heading, text=text) for heading, text in document.imprint.items()]


def document(
    table: pd.DataFrame, by: Sequence[str], report: PrivacyReport, facts: Facts, symbols: Symbols, words: Wording,
    *, wide: bool = False,
) -> Document:  # fmt: skip
    """Make a document of printed tables with titles, notes and legends.

    Parameters
    ----------
    table : pandas.DataFrame
        From :meth:`surveysynth.Release.tables`.
    by : list of str
        The variables that define the table's domains.
    report : PrivacyReport
    facts : Facts
        Facts about the release.
    symbols : Symbols
    words : Wording
    wide : bool
        True to put the categories of the last variable side by side, if they fit on the page.
    """
    places = table.attrs.get("digits")
    rows = dict(zip(table.index, notes_of(table, report, words), strict=True))
    notes = tuple(dict.fromkeys(note for row in rows.values() for note in row))
    numbered = {row: tuple(notes.index(note) + 1 for note in texts) for row, texts in rows.items()}
    blocks = tuple(
        _block(
            f"table_{number}", block, by, [numbered[row] for row in index], places, facts, symbols, words
        )
        for number, (index, block) in enumerate(digits.blocks(table), 1)
    )  # fmt: skip
    kept = [facts.called(name) for name in facts.kept]
    sentences = (
        protected(report.kind, report.epsilon, report.unit, words),
        unprotected(kept, facts.records, words),
        error_to_expect(table, report, symbols, words),
    )
    outcomes = words("titles.and").join(facts.called(name) for name in facts.outcomes)
    about = [facts.printed[name] for name in ("population", "period") if name in facts.printed]
    return Document(
        title=facts.printed.get("title") or words("titles.tables", outcomes=outcomes),
        subtitle=BETWEEN.join([*about, words("titles.synthetic")]),
        warning="" if report.publishable else words("notes.seeded"),
        imprint={words(f"headings.{name}"): facts.printed[name] for name in IMPRINT if name in facts.printed},
        protected=sentences,
        blocks=blocks,
        notes=notes,
        suppressed=suppressed(table, words),
        technical=str(report),
        symbols=symbols,
        words=words,
        wide=wide,
    )


def _block(
    name: str, block: pd.DataFrame, by: Sequence[str], notes: Sequence[tuple[int, ...]], places: int | None,
    facts: Facts, symbols: Symbols, words: Wording,
) -> Block:  # fmt: skip
    share, found = block["statistic"].iloc[0] in SHARES, symbols.ratings(block)
    block = block.assign(**{c: PERCENT * block[c] for c in NUMBERS}) if share else block
    places = digits.decimals(block, percent=True) if places is None else places
    hidden = block["flag"].str.contains("suppressed").to_numpy(dtype=bool)
    withheld = [symbols.withheld and each is symbols.worst for each in found]
    numbers = block[[*NUMBERS, "n"]].astype(float)
    numbers.loc[withheld, NUMBERS] = float("nan")
    numbers.loc[block["flag"].str.contains(digits.FIXED), digits.ERRORS] = float("nan")
    texts = {c: [digits.written(x, places) for x in numbers[c]] for c in NUMBERS}
    texts["n"] = [digits.written(x, 0) for x in numbers["n"]]
    instead = [
        symbols.suppressed if hide else symbols.worst.mark if bad else symbols.missing
        for hide, bad in zip(hidden, withheld, strict=True)
    ]
    labels = {c: [_label(x, words) for x in block[c]] for c in by}
    cells = pd.DataFrame(labels | {c: [a or b for a, b in zip(t, instead, strict=True)] for c, t in texts.items()})
    return Block(
        name=name,
        title=_title(block.iloc[0], by, facts, words),
        by=tuple(by),
        headings={c: facts.called(c) for c in by},
        cells=cells,
        numbers=numbers.reset_index(drop=True),
        decimals=places,
        marks=tuple("" if each is None or bad else each.mark for each, bad in zip(found, withheld, strict=True)),
        quality=tuple("" if each is None else words(f"quality.{each.name}") for each in found),
        notes=tuple(notes),
    )


def _label(value: object, words: Wording) -> str:
    """Return the text of a category on one line.  The total and an empty text are replaced by words, such as "All"."""
    if value == TOTAL:
        return words("headings.total")
    return " ".join(str(value).split()) or words("headings.blank")


def _title(row: pd.Series, by: Sequence[str], facts: Facts, words: Wording) -> str:
    """Return the title of a printed table, as in "Mean of income, euros, by region and sex"."""
    statistic, outcome = str(row["statistic"]), str(row["outcome"])
    values = {"outcome": facts.called(outcome)}
    if statistic == "proportion":
        title = words("titles.proportion", **values, category=row["category"])
    elif statistic == "quantile" and row["prob"] == 0.5:
        title = words("titles.median", **values)
    elif statistic == "quantile":
        title = words("titles.quantile", **values, nth=ordinal(100 * row["prob"]))
    elif statistic == "count":
        title = words("titles.count")
    else:
        title = words(f"titles.{statistic}", **values)
    if outcome in facts.units and statistic in IN_UNITS:
        title = words("titles.unit", title=title, unit=facts.units[outcome])
    if facts.where:
        title = words("titles.where", title=title, condition=facts.called(facts.where))
    if by:
        variables = listed([facts.called(name) for name in by], words)
        title = words("titles.by", title=title, variables=variables)
    return title
