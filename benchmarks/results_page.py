"""The tables of docs/results.md that are made from filed cells: strict releases, and other packages.

    python benchmarks/results_page.py

It rewrites the text between the markers ``<!-- NAME -->`` and ``<!-- end -->`` of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pandas as pd

FIXED = 1e3  # a ratio of errors beyond this has a count that the design fixes in its denominator
HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "results.md"
POPULATIONS = {
    "workers": "weekly income", "workers in PSUs": "weekly income, two-stage sample",
    "households": "household income", "households in PSUs": "household income, two-stage sample",
    "persons": "personal income, epsilon for households", "earnings": "yearly pay, weights go with it",
    "adults": "yearly pay, 60% zeros, public weights", "visits": "visits to a doctor, 0 to 77",
    "shares": "a share of income", "poverty": "yes or no", "activity": "five categories",
}  # fmt: skip
EPSILONS = 10.8, 5, 3, 1
DISTRIBUTION = "quantile 0.1", "quantile 0.5", "quantile 0.9", "gini", "poverty_rate"
PEERS = [("mean", "education"), ("mean", "division"), ("mean", "all"), ("count", "education"), ("count", "division")]


def kind_of(cells: pd.DataFrame) -> pd.Series:
    """What each row of the filed cells estimates."""
    of_all = cells["margin"] == "all"
    center = cells["statistic"].isin(["mean", "proportion"])
    kind = pd.Series("", cells.index)
    kind[center & ~of_all] = "means or proportions by level"
    kind[center & of_all] = "mean or proportions of all"
    kind[(cells["statistic"] == "count") & ~of_all] = "counts by level"
    kind[cells["statistic"] == "total"] = "totals"
    kind[cells["statistic"].isin(DISTRIBUTION)] = "quantiles, Gini, poverty rate"
    return kind


def rows_of_cells(cells: pd.DataFrame) -> Iterator[str]:
    """One table for each kind of estimate: errors over the sample's own, and the coverage of intervals."""
    strict = cells[(cells["method"] == "strict") & (cells["rmse_ratio"] > 0) & (cells["rmse_ratio"] < FIXED)]
    for kind, mine in strict.groupby(kind_of(strict), sort=False):
        if not kind:
            continue
        yield f"| {kind} | {' | '.join(f'epsilon {epsilon:g}' for epsilon in EPSILONS)} |"
        yield "|---" * (1 + len(EPSILONS)) + "|"
        for population, what in POPULATIONS.items():
            there = mine[mine["population"] == population]
            for n, rows in there.groupby("n"):
                entries = [_entry(rows[rows["epsilon"] == epsilon]) for epsilon in EPSILONS]
                yield f"| {what}, n = {n:,} | {' | '.join(entries)} |"
        yield ""


def _entry(rows: pd.DataFrame) -> str:
    """Error ratio (root mean square) and coverage (mean) over margins and statistics, weighted by levels."""
    if rows.empty:
        return ""
    weight = rows["levels"] / rows["levels"].sum()
    return f"{_short(((rows['rmse_ratio'] ** 2) @ weight) ** 0.5)}, {_short(rows['coverage'] @ weight)}"


def summary_of_cells(cells: pd.DataFrame) -> Iterator[str]:
    """Numbers of samples and cells, the length of intervals, and the levels whose intervals hold too rarely."""
    strict = cells[(cells["method"] == "strict") & (cells["rmse_ratio"] < FIXED)]
    blocks = strict.groupby(["population", "n", "epsilon"])
    length = (strict["length_ratio"] / strict["rmse_ratio"]).median()
    yield (
        f"{blocks.ngroups} cells of {strict['samples'].min()} to {strict['samples'].max()} samples, "
        f"m = {strict['m'].iloc[0]:g}.  "
        f"The Monte Carlo error of a coverage is at most {_short(strict['coverage_se'].max(), 3)}.  "
        f"Intervals are {length:.2f} times as long, over the sample's own, as errors are (median).  In "
        f"{strict['below'].sum()} of {strict['levels'].sum():,} levels the interval holds less often than .93 and "
        "than the sample's own, beyond chance (Holm, 5% over the levels of a cell)."
    )


def rows_of_peers(peers: pd.DataFrame) -> Iterator[str]:
    """A row for each method: errors over the sample's own, and the coverage of intervals."""
    yield f"| | | {' | '.join(f'{s}s by {m}' if m != 'all' else f'{s} of all' for s, m in PEERS)} | seconds |"
    yield "|---" * (3 + len(PEERS)) + "|"
    for (n, epsilon), cell in peers.groupby(["n", "epsilon"], sort=False):
        at = f"n = {n:,}, epsilon {epsilon:g}"
        for method, part in cell[cell["method"] != "sample"].groupby("method", sort=False):
            by = part.set_index(["statistic", "margin"])
            entries = [f"{_short(by.loc[k, 'rmse_ratio'])}, {_short(by.loc[k, 'coverage'])}" for k in PEERS]
            yield f"| {at} | {method} | {' | '.join(entries)} | {part['seconds'].iloc[0]:.0f} |"
            at = ""
    yield ""
    yield f"{peers['samples'].min()} samples a row."


def _short(value: float, digits: int = 2) -> str:
    exact = Decimal(repr(round(float(value), 9)))  # so that a tie is a tie on every processor
    return f"{exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)}".removeprefix("0")


def page(text: str) -> str:
    """The page with its tables."""
    cells, peers = pd.read_csv(HERE / "coverage_cells" / "margins.csv"), pd.read_csv(HERE / "dp_peers.csv")
    made = {
        "cells": "\n".join([*rows_of_cells(cells), *summary_of_cells(cells)]),
        "peers": "\n".join(rows_of_peers(peers)),
    }
    for name, table in made.items():
        text = re.sub(
            f"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text, flags=re.S
        )
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
