"""The tables of docs/strict.md that are made from filed cells: strict releases, and peers beside them.

    python benchmarks/strict_table.py

It rewrites what stands between the markers ``<!-- cells -->``, ``<!-- kinds -->`` and ``<!-- peers -->`` and their
ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

FIXED = 1e3  # beyond it an error is over one that is none: of counts that the design fixes
HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "strict.md"
POPULATIONS = {"workers": ("education", "division"), "households": ("age", "region")}
KINDS = [("mean", 0), ("mean", 1), ("mean", "all"), ("count", 0), ("count", 1)]
OTHERS = {  # populations of other kinds: what they are, and the statistics beside those of their kind
    "visits": "counts, none to 77", "shares": "shares", "earnings": "amounts, weights that go with them",
    "adults": "amounts, 60% zeros, public weights", "persons": "amounts of members of households that epsilon protects",
    "poverty": "yes or no", "activity": "five categories",
}  # fmt: skip
DISTRIBUTION = "quantile 0.1", "quantile 0.5", "quantile 0.9", "gini", "poverty_rate"


def rows_of_cells(cells: pd.DataFrame) -> Iterator[str]:
    """A row a cell: errors over the sample's own, and what intervals hold."""
    first, second = "by education or age", "by division or region"
    yield f"| | means {first} | {second} | of all | counts {first} | {second} |"
    yield "|---|---|---|---|---|---|"
    strict = cells[cells["method"] == "strict"]
    for population, margins in POPULATIONS.items():
        mine = strict[strict["population"] == population]
        for n, epsilon in sorted(set(zip(mine["n"], mine["epsilon"], strict=True)), key=lambda key: (key[0], -key[1])):
            texts = [
                _cell(strict, population, n, epsilon, statistic, margins[at] if isinstance(at, int) else at)
                for statistic, at in KINDS
            ]
            yield f"| {population}, n = {n:,}, epsilon {epsilon:g} | {' | '.join(texts)} |"


def _cell(strict: pd.DataFrame, population: str, n: int, epsilon: float, statistic: str, margin: str) -> str:
    at = {"population": population, "n": n, "epsilon": epsilon, "statistic": statistic, "margin": margin}
    one = strict[(strict[list(at)] == pd.Series(at)).all(axis=1)].iloc[-1]
    return f"{_short(one['rmse_ratio'])}, hold {_short(one['coverage'])}, {_short(one['length_ratio'])} long"


def rows_of_kinds(cells: pd.DataFrame) -> Iterator[str]:
    """A row a cell of other kinds: errors over the sample's own (root mean square over margins), and what is held."""
    yield "| | means or proportions, by level | of all | counts by level | totals | quantiles, Gini, poverty rate |"
    yield "|---|---|---|---|---|---|"
    strict = cells[(cells["method"] == "strict") & (cells["rmse_ratio"] > 0) & (cells["rmse_ratio"] < FIXED)]
    for population, what in OTHERS.items():
        mine = strict[strict["population"] == population]
        for n, epsilon in sorted(set(zip(mine["n"], mine["epsilon"], strict=True)), key=lambda key: (key[0], -key[1])):
            cell = mine[(mine["n"] == n) & (mine["epsilon"] == epsilon)]
            of_all, means = cell["margin"] == "all", cell["statistic"].isin(["mean", "proportion"])
            parts = [
                cell[means & ~of_all], cell[means & of_all], cell[(cell["statistic"] == "count") & ~of_all],
                cell[cell["statistic"] == "total"], cell[cell["statistic"].isin(DISTRIBUTION)],
            ]  # fmt: skip
            texts = [_held(part) if len(part) else "" for part in parts]
            yield f"| {what} ({population}), n = {n:,}, epsilon {epsilon:g} | {' | '.join(texts)} |"


def _held(part: pd.DataFrame) -> str:
    """Over several margins and statistics, each weighted by its levels."""
    weight = part["levels"] / part["levels"].sum()
    ratio, length = (((part[name] ** 2) @ weight) ** 0.5 for name in ("rmse_ratio", "length_ratio"))
    return f"{_short(ratio)}, hold {_short(part['coverage'] @ weight)}, {_short(length)} long"


def summary_of_cells(cells: pd.DataFrame) -> Iterator[str]:
    """What holds over all cells."""
    strict = cells[(cells["method"] == "strict") & cells["statistic"].isin(["mean", "count"])]
    strict = strict[strict["population"].isin(POPULATIONS)]
    least, most = strict["samples"].min(), strict["samples"].max()
    samples = f"{least}" if least == most else f"{least} to {most}"
    levels = strict["levels"].sum()
    yield (
        f"{samples} samples a cell, "
        f"{len(strict.groupby(['population', 'n', 'epsilon']))} cells, m = "
        f"{strict['m'].iloc[0]:g}; Monte Carlo errors of coverage up to {_short(strict['coverage_se'].max(), 3)}. "
        f"Levels whose intervals hold less than .93, or than those of the sample where these hold less, beyond chance "
        f"(Holm, 5% over all levels of a cell): {strict['below'].sum()} of {levels}."
    )


def rows_of_peers(peers: pd.DataFrame) -> Iterator[str]:
    """A row a method: errors over the sample's own, and what intervals hold."""
    yield "| | | means by education | by division | of all | counts by education | by division | seconds |"
    yield "|---|---|---|---|---|---|---|---|"
    for (n, epsilon), cell in peers.groupby(["n", "epsilon"], sort=False):
        at = f"n = {n:,}, epsilon {epsilon:g}"
        for method, part in cell[cell["method"] != "sample"].groupby("method", sort=False):
            by = part.set_index(["statistic", "margin"])
            keys = [(s, POPULATIONS["workers"][m] if isinstance(m, int) else m) for s, m in KINDS]
            texts = [f"{_short(by.loc[k, 'rmse_ratio'])}, hold {_short(by.loc[k, 'coverage'])}" for k in keys]
            yield f"| {at} | {method} | {' | '.join(texts)} | {part['seconds'].iloc[0]:.0f} |"
            at = ""
    yield ""
    lost = peers[peers["released"] < peers["samples"]].drop_duplicates(["n", "epsilon", "method"])
    failed = [f"{row['method']} released {row['released']} at n = {row['n']:,}" for row in lost.to_dict("records")]
    yield f"{peers['samples'].min()} samples a row{'; ' if failed else ''}{', '.join(failed)}."


def _short(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


def page(text: str) -> str:
    """The page with both tables."""
    cells, peers = pd.read_csv(HERE / "coverage_cells" / "margins.csv"), pd.read_csv(HERE / "dp_peers.csv")
    made = {
        "cells": "\n".join([*rows_of_cells(cells), "", *summary_of_cells(cells)]),
        "kinds": "\n".join(rows_of_kinds(cells)),
        "peers": "\n".join(rows_of_peers(peers)),
    }
    for name, table in made.items():
        text = re.sub(
            f"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text, flags=re.S
        )
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
