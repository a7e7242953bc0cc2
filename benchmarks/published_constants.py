"""What the numbers of a release's manifest and report tell of one outlier: the AUC of each.

    python benchmarks/published_constants.py [--pairs 400] [--n 300,2000] [--kinds tuned,debias] [--out audit/]

Pairs of files: one as it is drawn, and the same with one record's outcome, or survey weight, times 10 or 100.  Each
is released, and every number that is published but is not estimated from the released draws is collected by itself:
the values of the manifest, the numbers within its and the report's sentences, which sentences there are, whether there
was a release at all, and what the synthetic weights add up to.  AUC is the probability that a number from a file with
the outlier exceeds one from a file without (or falls short of it, whichever is larger), with the 95% interval of
DeLong, DeLong & Clarke-Pearson (1988) over files; "paired" is the same within pairs, for who knows all other records.

Releases go to ``releases_*.jsonl`` in the folder as they are made, and a run that was stopped goes on there.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

import surveysynth as ss

Floats = NDArray[np.float64]

LIMIT = 0.55  # of the lower end of a number's interval
DECLARED = {"no total": "sum of the synthetic weights", "c1 given": "epsilon"}  # by the report of the release
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?%?")
FILES = {"as it is": None, "y x 10": ("y", 10), "y x 100": ("y", 100), "w x 10": ("w", 10), "w x 100": ("w", 100)}
MODEL = ss.FBS("y", "g + s", prior="flat")
SHORT: dict[str, Any] = {"m": 3, "draws": 125}
TUNED: dict[str, Any] = {"epsilon": 10.8, "mechanism": ss.PseudoPosterior(), **SHORT}
Make = Callable[[ss.SurveyDesign, dict[str, Any]], ss.Release]
KINDS: dict[str, Make] = {
    "no total": lambda design, more: ss.synthesize(design, MODEL, **TUNED, **more | {"population_total": None}),
    "tuned": lambda design, more: ss.synthesize(design, MODEL, **TUNED, **more),
    "debias": lambda design, more: ss.synthesize(design, MODEL, debias=True, **TUNED, **more),
    "re-weighted": lambda design, more: ss.synthesize(design, MODEL, reweight=10, **TUNED, **more),
    "loose": lambda design, more: ss.synthesize(design, MODEL, **TUNED | {"epsilon": 100}, **more),  # no alpha below 1
    "c1 given": lambda design, more: ss.synthesize(
        design, MODEL, mechanism=ss.PseudoPosterior(c1=1.8), debias=True, **SHORT, **more
    ),
    "weighted-e": lambda design, more: ss.synthesize(design, MODEL, **TUNED | {"mechanism": ss.WeightedE()}, **more),
    "missing": lambda design, more: ss.synthesize(
        _with_missing(design), ss.FBS("y", "g + s", prior="flat", missing="drop"), **TUNED, **more
    ),
    "categories": lambda design, more: ss.synthesize(
        design, ss.FBS(["y", "C(k)"], "g + s", prior="flat"), levels={"k": ["no", "yes"]}, **TUNED, **more
    ),
    "PSUs": lambda design, more: ss.synthesize(
        ss.SurveyDesign(design.frame, weights="w", psu="psu"), MODEL, **TUNED, **more,
        accept_diagnostics=["divergences", "rhat", "ess_bulk", "ess_tail"],
    ),
    "chains": lambda design, more: ss.synthesize(
        design, ss.FBS("y", "g + s", prior="independent"), **TUNED | {"draws": 500}, **more, warmup=500,
        accept_diagnostics=["divergences", "rhat", "ess_bulk", "ess_tail"],
    ),
    "censored": lambda design, more: ss.synthesize(
        design, ss.FBS("y", "g + s", prior="normal"), **TUNED | {"draws": 500, "mechanism": ss.Censored()}, **more,
        warmup=500,
    ),
}  # fmt: skip


def make_frame(n: int, pair: int) -> pd.DataFrame:
    """Lognormal outcomes in four groups by two, with informative weights; PSUs of ten, and a category."""
    rng = np.random.default_rng([n, pair])
    g, s = rng.permutation(np.arange(n) % 4), rng.integers(0, 2, n)
    u = 0.2 * rng.standard_normal(-(-n // 10))[np.arange(n) // 10]
    log_y = 10 + 0.3 * (g == 1) + 0.2 * s + u + 0.5 * rng.standard_normal(n)
    return pd.DataFrame({
        "y": np.exp(log_y), "w": np.exp(4 - 0.3 * (log_y - 10) + 0.3 * rng.standard_normal(n)), "g": g.astype(str),
        "s": s.astype(str), "k": np.where(rng.random(n) < 0.3, "yes", "no"), "psu": np.arange(n) // 10,
    })  # fmt: skip


def _with_missing(design: ss.SurveyDesign) -> ss.SurveyDesign:
    lacking = np.arange(design.n) % 20 == 19
    return ss.SurveyDesign(design.frame.assign(y=design.frame["y"].mask(lacking)), weights="w")


def published(release: ss.Release) -> dict[str, float]:
    """Every number of the manifest and the report by its place, and 1 for every text that there is."""
    found: dict[str, float] = {"released": 1.0}

    def text(place: str, said: str) -> None:
        words = NUMBER.sub("#", said)
        found[f"{place} says: {words}"] = 1.0
        for k, number in enumerate(NUMBER.findall(said)):
            found[f"{place}, number {k + 1} of: {words}"] = float(number.replace(",", "").rstrip("%"))

    def walk(place: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                walk(f"{place}/{key}", part)
        elif isinstance(value, list):
            for k, part in enumerate(value):
                walk(place if isinstance(part, str) else f"{place}/{k}", part)
        elif isinstance(value, bool | int | float):
            found[place] = float(value)
        elif isinstance(value, str):
            text(place, value)

    walk("manifest", json.loads(json.dumps(release.manifest())))
    for line in f"{release!r}\n{release.privacy}".splitlines():
        text("report", line)
    return found | {"sum of the synthetic weights": round(float(release.datasets[0].weights.sum()), 3)}


def one(n: int, pair: int, file: str, kind: str) -> dict[str, float]:
    """What is published of one file by one kind of release."""
    frame, changed = make_frame(n, pair), FILES[file]
    if changed is not None:
        column, factor = changed
        frame.loc[0, column] *= factor
    seed = np.random.SeedSequence([n, pair, [*FILES].index(file), [*KINDS].index(kind)]).generate_state(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # population_total is off where a weight was changed
            more = {"population_total": 50.0 * n, "seed": int(seed[0])}
            return published(KINDS[kind](ss.SurveyDesign(frame, weights="w"), more))
    except ss.SurveySynthError:
        return {"released": 0.0}


def made(path: Path, n: int, kind: str, pairs: int) -> Iterator[dict[str, Any]]:
    """The lines of a file of releases; those that are not there yet are made."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(line["pair"], line["file"]) for line in lines}
    yield from (line for line in lines if line["pair"] < pairs)
    with path.open("a") as out:
        for pair in range(pairs):
            for file in FILES:
                if (pair, file) not in done:
                    line = {"pair": pair, "file": file, "numbers": one(n, pair, file, kind)}
                    out.write(f"{json.dumps(line)}\n")
                    out.flush()
                    yield line


def auc(without: Floats, with_outlier: Floats) -> tuple[float, float, float]:
    """P(with > without) + P(equal) / 2, or 1 less that, and its 95% interval (DeLong, DeLong & Clarke-Pearson 1988)."""
    a, b = with_outlier.size, without.size
    ranks = rankdata(np.concatenate([with_outlier, without]))
    above = (ranks[:a] - rankdata(with_outlier)) / b
    below = 1 - (ranks[a:] - rankdata(without)) / a
    area = float(above.mean())
    half = 1.96 * float(np.sqrt(above.var(ddof=1) / a + below.var(ddof=1) / b))
    area = max(area, 1 - area)
    return area, max(area - half, 0.0), min(area + half, 1.0)


def table(n: int, kind: str, lines: list[dict[str, Any]]) -> pd.DataFrame:
    """AUC of every number, in pairs of which both were released; one that is not there is less than any other."""
    numbers = pd.DataFrame([line["numbers"] for line in lines])
    numbers.index = pd.MultiIndex.from_tuples([(line["file"], line["pair"]) for line in lines])
    numbers = numbers.fillna(-np.inf).sort_index()
    rows = []
    for file in [*FILES][1:]:
        both = numbers.loc["as it is", "released"].eq(1) & numbers.loc[file, "released"].eq(1)
        for number in numbers:
            without, outlier = numbers.loc["as it is", number], numbers.loc[file, number]
            if number != "released":
                without, outlier = without[both], outlier[both]
            area, low, high = auc(without.to_numpy(), outlier.to_numpy())
            higher = float((outlier > without).mean() + (outlier == without).mean() / 2)
            paired = max(higher, 1 - higher)
            row = {"n": n, "release": kind, "outlier": file, "number": number, "pairs": len(without)}
            rows.append(row | {"auc": area, "low": low, "high": high, "paired": paired})
    return pd.DataFrame(rows)


def main() -> None:
    """Make the releases that are missing, and print what tells of an outlier."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--n", default="300,2000")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--out", type=Path, default=Path("audit"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    tables = []
    for kind in asked.kinds.split(","):
        for n in map(int, asked.n.split(",")):
            path = asked.out / f"releases_{kind.replace(' ', '_')}_{n}.jsonl"
            tables.append(table(n, kind, [*made(path, n, kind, asked.pairs)]))
            found = pd.concat(tables, ignore_index=True)
            found.to_csv(asked.out / "auc.csv", index=False)
            new = tables[-1].sort_values("auc", ascending=False)
            tells = new[new["low"] > LIMIT]
            many = f"{new['number'].nunique()} numbers of {asked.pairs} pairs"
            print(f"\n{kind}, n = {n}: {many}; {len(tells)} AUCs with a lower limit above {LIMIT}")
            for row in tells.itertuples():
                said = " (the report says that it is not covered)" if DECLARED.get(kind, "never") in row.number else ""
                print(
                    f"  {row.outlier:8} {row.auc:.2f} ({row.low:.2f} to {row.high:.2f}), paired {row.paired:.2f}: "
                    f"{row.number[:120]}{said}", flush=True,
                )  # fmt: skip


if __name__ == "__main__":
    main()
