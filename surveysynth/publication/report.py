"""Tables in the forms that offices publish: csv, xlsx, html, latex."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import InputError
from . import digits

SUFFIX = {"csv": ".csv", "xlsx": ".xlsx", "html": ".html", "latex": ".tex"}
HEADINGS = {
    "statistic": "Statistic", "outcome": "Outcome", "category": "Category", "prob": "Probability",
    "contrast": "Difference", "estimate": "Estimate", "se": "Standard error", "df": "df",
    "ci_low": "95% from", "ci_high": "95% to", "n": "Records", "flag": "Note",
}  # fmt: skip


def write_table(table: pd.DataFrame, path: str | Path, format: str, *, title: str = "", note: str = "") -> Path:
    """Write a table from ``estimate`` or ``Release.tables``.

    Parameters
    ----------
    table : pandas.DataFrame
    path : str or Path
    format : {"csv", "xlsx", "html", "latex"}
        csv and xlsx hold plain numbers in full precision under the frame's column names; html
        and latex are formatted for reading: numbers rounded to their standard errors (two digits of a quantity's least
        one; or ``table.attrs["digits"]`` decimals), and labels (``table.attrs["labels"]``) for the names of outcomes
        and ``by`` columns.
    title, note : str
        Heading and source note of the html and latex forms.

    Raises
    ------
    InputError
        An unknown format.
    """
    path = Path(path)
    if format not in SUFFIX:
        raise InputError(f"format={format!r} is not one of {', '.join(SUFFIX)}")
    if format == "csv":
        table.to_csv(path, index=False)
    elif format == "xlsx":
        with pd.ExcelWriter(path, engine="openpyxl") as book:
            table.to_excel(book, index=False, sheet_name="tables")
            for cell in (cell for row in book.sheets["tables"].iter_rows() for cell in row):
                if cell.data_type == "f":  # a label that begins with "=" is a text
                    cell.data_type = "s"
    else:
        path.write_text(_formatted(table, format, title, note), encoding="utf-8")
    return path


def _formatted(table: pd.DataFrame, format: str, title: str, note: str) -> str:
    from great_tables import GT, html

    labels, rounded = table.attrs.get("labels", {}), digits.shown(table)
    if format == "html":
        rounded[digits.NUMBERS] = rounded[digits.NUMBERS].replace("^-", "\N{MINUS SIGN}", regex=True)
    rounded[digits.NUMBERS] = rounded[digits.NUMBERS].replace("", "...")
    shown = rounded.drop(columns=[c for c in ("outcome", "flag") if c in table and not table[c].astype(bool).any()])
    if "prob" in shown:  # a table may hold means, too
        shown = shown.assign(prob=["" if pd.isna(p) else f"{p:g}" for p in shown["prob"]])
    said = {name: _heading(name, labels) for name in labels}
    headings: dict[str, Any] = said | HEADINGS  # an outcome may have the name of a column of the table
    if "outcome" in shown:
        shown = shown.assign(outcome=[said.get(name, name) for name in shown["outcome"]])
    if format == "html":  # which great_tables does not escape in headings
        headings = {name: html(escape(headings.get(name, name))) for name in shown.columns}
    gt = (
        GT(shown.astype({c: "object" for c in shown.columns if isinstance(shown[c].dtype, pd.CategoricalDtype)}))
        .cols_align("right", digits.NUMBERS)
        .fmt_number(["df"], decimals=0, use_seps=True)
        .fmt_integer(["n"])
        .sub_missing(missing_text="...")
        .cols_label({c: headings[c] for c in shown.columns if c in headings})
    )
    if title:
        gt = gt.tab_header(title)
    if note:
        gt = gt.tab_source_note(note)
    return str(gt.as_raw_html() if format == "html" else gt.as_latex())


def _heading(name: str, labels: dict[str, str]) -> str:
    """The label, with the name where another column has the same label."""
    return labels[name] if list(labels.values()).count(labels[name]) == 1 else f"{labels[name]} ({name})"
