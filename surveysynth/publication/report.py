"""Tables in the forms that offices publish: csv, xlsx, html, latex."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ..errors import InputError

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
        and latex are formatted for reading.
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
    from great_tables import GT

    numbers = ["estimate", "se", "ci_low", "ci_high"]
    shown = table.drop(columns=[c for c in ("outcome", "flag") if c in table and not table[c].astype(bool).any()])
    if "prob" in shown:  # a table may hold means, too
        shown = shown.assign(prob=["" if pd.isna(p) else f"{p:g}" for p in shown["prob"]])
    gt = (
        GT(shown.astype({c: "object" for c in shown.columns if isinstance(shown[c].dtype, pd.CategoricalDtype)}))
        .fmt_number(numbers, n_sigfig=5, use_seps=True)
        .fmt_number(["df"], decimals=0, use_seps=True)
        .fmt_integer(["n"])
        .sub_missing(missing_text="...")
        .cols_label({c: HEADINGS[c] for c in shown.columns if c in HEADINGS})
    )
    if title:
        gt = gt.tab_header(title)
    if note:
        gt = gt.tab_source_note(note)
    return str(gt.as_raw_html() if format == "html" else gt.as_latex())
