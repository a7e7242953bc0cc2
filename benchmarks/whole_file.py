"""A whole household file under one epsilon: 13 variables, repeated samples, what intervals of 60 statistics hold.

    python benchmarks/whole_file.py --samples 10 --mechanisms strict,strict-gaussian --out benchmarks/whole_file.csv

It goes on where it was stopped; the file holds the samples that are done, at epsilon 10.8.

The population is 200,000 households, resampled from the 6,000 of laeken's eusilc, which R reads: region, size, sex and
age of the first adult (public), what that person does, earners and children (3 stands for 3 and more), five components
of the household's income, and their total.  Earnings are asked where somebody earns; members are more than children,
and no fewer than earners and children together.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import surveysynth as ss
from surveysynth.datasets.draw import draw_sample
from surveysynth.studies.coverage.populations import POPULATION_SEED, _eusilc

HOUSEHOLDS, MOST = 200_000, 3
NUTS1 = {  # Austria's three regions of that level
    **dict.fromkeys(["Burgenland", "Lower Austria", "Vienna"], "East"),
    **dict.fromkeys(["Carinthia", "Styria"], "South"),
    **dict.fromkeys(["Upper Austria", "Salzburg", "Tyrol", "Vorarlberg"], "West"),
}
COMPONENTS = ["earnings", "business", "pensions", "benefits", "capital"]
BOUNDS = {
    "earnings": (1, 160_000), "business": (1, 115_000),
    "pensions": (1, 95_000), "benefits": (1, 100_000), "capital": (1, 120_000),
}  # fmt: skip
LEVELS = {
    "activity": ["works", "retired", "other"], "earners": [*range(MOST + 1)], "children": [*range(MOST + 1)],
}  # fmt: skip
RULES = ["earners + children <= members", "children < members", "earners > 0 or (earnings == 0 and business == 0)"]
DELTA = {"strict": None, "strict-gaussian": 1e-10}  # of noisy tables: Laplace noise, Gaussian noise
EARNED = "earnings", "business"
FORMULAS = [  # of noisy tables: public columns and earlier outcomes
    "activity ~ region + sex * members + age * members",
    "earners ~ sex + age * members + age * activity",
    "children ~ sex + age * members + earners",
    "pensions ~ region + sex + age * members + age * activity + earners",
    "earnings ~ region + sex + members + age * earners + activity",
    "business ~ sex + members + age + activity + earners + earnings",
    "benefits ~ sex + members + age * activity + earners + children + pensions",
    "capital ~ sex + members + age + earnings + pensions",
]
GIVEN = "age + sex + members + log(members)"
MORE = {  # that amounts are given under privacy weights, in the order in which they are drawn
    "pensions": "C(activity) + earners", "earnings": "age * earners + children",
    "business": "earners + log(earnings + 1000)",
    "benefits": "age * C(activity) + earners + children + log(pensions + 1000)",
    "capital": "log(earnings + 1000) + log(pensions + 1000)",
}  # fmt: skip


def schema() -> dict[str, ss.Outcome]:
    """What is public of the outcomes; amounts that are earned are asked where somebody earns."""
    amounts = {
        name: ss.Outcome(bounds=bounds, zeros=True, **(
            {"applies": "earners > 0", "elsewhere": 0} if name in EARNED else {}
        )) for name, bounds in BOUNDS.items()
    }  # fmt: skip
    return {name: ss.Outcome(levels=levels) for name, levels in LEVELS.items()} | amounts


def population() -> pd.DataFrame:
    """The households."""
    numbers = ["db030", "hsize", "age", "pl030", "hy040n", "hy050n", "hy070n", "hy090n"]
    numbers += [f"py{kind}n" for kind in ("010", "050", "090", "100", "110", "120", "130", "140")]
    kinds = dict.fromkeys(numbers, "numeric")
    person = _eusilc("eusilc", db040="character", rb090="character", **kinds)
    person = person.fillna({column: 0.0 for column in kinds if column != "age"})
    person["earns"] = (person["py010n"] > 0) | (person["py050n"] > 0)
    person["child"] = person["age"] < 16
    person["benefit"] = person[["py090n", "py120n", "py130n", "py140n"]].sum(axis=1)
    person["pension"] = person["py100n"] + person["py110n"]
    of = person.groupby("db030", sort=True)
    head = person[~person["child"]].groupby("db030", sort=True).first()
    whole = of[["py010n", "py050n", "pension", "benefit", "earns", "child"]].sum().loc[head.index]
    frame = pd.DataFrame({
        "region": head["db040"].map(NUTS1), "members": head["hsize"], "sex": head["rb090"],
        "age": pd.cut(head["age"], [0, 35, 50, 65, 120], right=False).astype(str),
        "activity": np.select([head["pl030"].isin([1, 2]), head["pl030"] == 5], ["works", "retired"], "other"),
        "earners": np.minimum(whole["earns"], MOST), "children": np.minimum(whole["child"], MOST),
        "earnings": whole["py010n"], "business": np.maximum(whole["py050n"], 0), "pensions": whole["pension"],
        "benefits": whole["benefit"] + head["hy050n"] + head["hy070n"], "capital": head["hy040n"] + head["hy090n"],
    })  # fmt: skip
    frame[COMPONENTS] = frame[COMPONENTS].where(frame[COMPONENTS] >= 1, 0.0)
    rng = np.random.default_rng(POPULATION_SEED)
    drawn = frame.sample(HOUSEHOLDS, replace=True, random_state=rng, ignore_index=True)
    drawn["total"] = drawn[COMPONENTS].sum(axis=1)
    drawn["size"] = drawn["members"] * np.exp(0.2 * rng.standard_normal(HOUSEHOLDS))
    return drawn


def pseudo() -> ss.Sequential:
    """The same outcomes, earners with the weight first; whether there is an amount is a category of its own.

    Nobody below 35 is retired and has benefits in most samples: without zeros of their own that cell has no amounts.
    """
    models: list[ss.Synthesizer] = [
        ss.FBS("C(earners) ~ age + sex + C(members) + region", prior="flat"),
        ss.MultinomialRegression(f"C(activity) ~ {GIVEN} + earners"),
        ss.MultinomialRegression(f"C(children) ~ {GIVEN} + earners + C(activity)"),
    ]
    for name, more in (MORE | {"benefits": MORE["benefits"].replace("age *", "age +")}).items():
        models += [
            ss.MultinomialRegression(f"C(has_{name}) ~ {GIVEN} + {more}"),
            ss.FBS(f"{name} ~ {GIVEN} + {more}", prior="flat"),
        ]
    applies = {name: f"has_{name} == 'yes'" for name in COMPONENTS}
    return ss.Sequential(models, applies=applies, elsewhere=dict.fromkeys(applies, 0))


def total(frame: pd.DataFrame) -> pd.Series:
    """The sum of the components."""
    return frame[COMPONENTS].sum(axis=1)


def statistics(tables: Callable[[str, str, str], pd.DataFrame]) -> pd.DataFrame:
    """The 60 published statistics: ``statistic, estimate, ci_low, ci_high``."""
    parts = []
    asked = [(by, outcome, "mean") for outcome in ["total", *COMPONENTS] for by in ("age", "sex")]
    asked += [("age", outcome, "mean") for outcome in ("earners", "children")] + [("sex", "activity", "proportion")]
    for by, outcome, what in asked:
        table = tables(by, outcome, what)
        cells = table[by].astype(str)
        if what == "proportion":
            names = outcome + " " + table["category"].astype(str) + ", " + cells
            keep = (cells != "all") | (table["category"] != "other")
        else:
            names, keep = outcome + ", " + by + " " + cells, (cells != "all") | (by == "age")
        part = table[["estimate", "ci_low", "ci_high"]].assign(statistic=names)[keep]
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def correlations(frame: pd.DataFrame) -> dict[str, float]:
    """Rank correlations of all pairs of numbers."""
    matrix = frame[["earners", "children", *COMPONENTS, "total"]].corr("spearman")
    names = list(matrix)
    return {f"{a}, {b}": matrix.loc[a, b] for k, a in enumerate(names) for b in names[k + 1 :]}


def one(people: pd.DataFrame, mechanism: str, seed: int, n: int, epsilon: float, m: int) -> pd.DataFrame:
    """A sample released: a row a statistic and a row a correlation, beside the truth and the sample's own."""
    sample = draw_sample(people, n=n, strata="region", size="size", rng=np.random.default_rng(seed))
    truths = statistics(lambda by, outcome, what: ss.estimate(everybody(people), outcome, by, what))
    truths = truths.set_index("statistic")
    own = statistics(lambda by, outcome, what: ss.estimate(sample, outcome, by, what)).set_index("statistic")
    start, said, broken, files = time.process_time(), "released", 0, m
    settings = {"epsilon": epsilon, "population_total": float(HOUSEHOLDS), "edits": RULES}
    try:
        if mechanism in DELTA:
            delta = DELTA[mechanism]
            release = ss.synthesize(sample, FORMULAS, outcomes=schema(), mechanism=ss.Strict(delta=delta), **settings)
        else:
            has = {f"has_{c}": np.where(sample.frame[c] > 0, "yes", "no") for c in COMPONENTS}
            file = ss.SurveyDesign(sample.frame.assign(**has), **sample.roles())
            release = ss.synthesize(
                file, pseudo(), m=m, clusters="ignore", mechanism=ss.PseudoPosterior(), warmup=600, draws=800,
                accept_diagnostics=["information"], levels=LEVELS | {name: ["no", "yes"] for name in has}, **settings
            )
    except ss.SurveySynthError as error:
        said = f"refused: {error}"[:120]
        found = own.assign(estimate=np.nan, ci_low=np.nan, ci_high=np.nan)
        there = dict.fromkeys(correlations(sample.frame), np.nan)
    else:
        release, files = release.assign(total=total), release.m
        found = statistics(
            lambda by, outcome, what: release.tables(by, outcome=outcome, statistic=what)
        ).set_index("statistic")
        frames = [each.frame for each in release.datasets]
        there = pd.DataFrame([correlations(frame) for frame in frames]).mean().to_dict()
        broken = sum(
            int((f["earners"] + f["children"] > f["members"]).sum())
            + int(((f["earners"] == 0) & ((f["earnings"] > 0) | (f["business"] > 0))).sum())
            + int(((f["members"] == 1) & (f["children"] > 0)).sum())
            for f in frames
        )
    seconds = time.process_time() - start
    rows = found.join(truths["estimate"].rename("truth")).join(own.add_prefix("own_")).reset_index()
    joint = pd.DataFrame({
        "statistic": [f"correlation {pair}" for pair in there], "estimate": list(there.values()),
        "own_estimate": [correlations(sample.frame)[pair] for pair in there],
    })  # fmt: skip
    return pd.concat([rows, joint]).assign(
        mechanism=mechanism, seed=seed, n=n, epsilon=epsilon, m=files, seconds=round(seconds), broken=broken, said=said
    )


def everybody(people: pd.DataFrame) -> ss.SurveyDesign:
    """The population as a census."""
    return ss.SurveyDesign(people.assign(one=1.0), weights="one")


def summary(results: pd.DataFrame) -> str:
    """Coverage over statistics and samples, of the release and of the samples themselves; joint figures; edits."""
    out = []
    for (mechanism, n), of in results.groupby(["mechanism", "n"]):
        joint = of["statistic"].str.startswith("correlation")
        table, pairs = of[~joint & of["estimate"].notna()], of[joint & of["estimate"].notna()]
        covered = (table["ci_low"] <= table["truth"]) & (table["truth"] <= table["ci_high"])
        own = (table["own_ci_low"] <= table["truth"]) & (table["truth"] <= table["own_ci_high"])
        kind = table["statistic"].str.split(",").str[0].str.split(" ").str[0]
        length = (table["ci_high"] - table["ci_low"]) / (table["own_ci_high"] - table["own_ci_low"])
        by = pd.DataFrame({
            "coverage": covered, "own": own, "bias": table["estimate"] / table["truth"] - 1, "length": length,
        }).groupby(kind)  # fmt: skip
        means = by.mean().assign(length=by["length"].median(), bias=by["bias"].median())
        off = (pairs["estimate"] - pairs["own_estimate"]).abs()
        released, asked = table["seed"].nunique(), of["seed"].nunique()
        broken = table.groupby("seed")["broken"].first().sum()
        seconds = of.groupby("seed")["seconds"].first().mean()
        out.append(
            f"{mechanism}, n = {n:,}: {released} of {asked} samples released; {table['statistic'].nunique()} "
            f"statistics: coverage {covered.mean():.3f}, the samples' own {own.mean():.3f}, median length of intervals "
            f"over theirs {length.median():.2f}; records that break an edit: {broken}; rank correlations off by "
            f"{off.mean():.3f} on average, {off.max():.3f} at most; {seconds:.0f} CPU seconds\n"
            f"{means.round(3).to_string()}"
        )
    return "\n\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--first", type=int, default=1, help="seed of the first sample")
    parser.add_argument("--n", type=int, default=12_000)
    parser.add_argument("--epsilon", type=float, default=10.8)
    parser.add_argument("--m", type=int, default=4, help="data sets under privacy weights; 20 of noisy tables")
    parser.add_argument("--mechanisms", default="strict,pseudo")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    people = population()
    for seed in range(given.first, given.first + given.samples):
        for mechanism in given.mechanisms.split(","):
            done = pd.read_csv(given.out) if given.out.exists() else pd.DataFrame(columns=["seed", "mechanism", "n"])
            there = (done["seed"] == seed) & (done["mechanism"] == mechanism) & (done["n"] == given.n)
            if there.any():
                continue
            rows = one(people, mechanism, seed, given.n, given.epsilon, given.m)
            rows.to_csv(given.out, mode="a", header=not given.out.exists(), index=False)
    print(summary(pd.read_csv(given.out)))


if __name__ == "__main__":
    main()
