"""Calls of all public functions that are as they should be, and values that no argument should have."""

from __future__ import annotations

import datetime
import decimal
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import surveysynth as ss
from surveysynth.synthesis.fitting import fit
from tests.fuzz.strategies import NUMBER, TEXT

HOSTILE: dict[str, Any] = {
    "series": pd.Series([1.0]), "texts": pd.Series(["y", "w"]), "array": np.array([1.0, 2.0]),
    "empty array": np.array([]), "array of a text": np.array("y"), "array of texts": np.array(["y", "x"]),
    "matrix": np.eye(2), "lists": [[1], [2]], "list in a list": [["y"], "x"], "empty list": [], "dicts": [{"a": 1}],
    "dict": {"a": [1]}, "dict of dicts": {1: {}}, "empty dict": {}, "nan": float("nan"),
    "numpy's nan": np.float64("nan"),
    "infinity": float("inf"), "surrogate": "\ud800", "surrogates": ["\ud800"], "bytes": b"y", "huge": 10**400,
    "beyond 64 bits": 2**64, "negative": -1, "half": 1.5, "zero": 0, "object": object(), "class": object,
    "function": lambda *_: None, "complex": 1j, "NA": pd.NA, "NaT": pd.NaT, "None": None, "True": True, "set": {"y"},
    "range": range(3), "path": Path("nowhere"), "empty": "", "long": "x" * 5000, "nul": "a\0b", "newline": "a\nb",
    "frame": pd.DataFrame({"y": [1.0]}), "date": datetime.date(2026, 1, 1), "decimal": decimal.Decimal("NaN"),
    "iterator": iter([]), "generator": (name for name in ("y",)), "numpy's text": np.str_("y"), "tuple": ("y",),
    "index": pd.Index(["y"]), "lists of NA": [pd.NA], "None in a list": [None], "slice": slice(3), "ellipsis": ...,
    "column of lists": "lists", "column of dicts": "dicts", "column of a surrogate": "broken", "dates": "dates",
    "mixed column": "odd", "several odd columns": ["lists", "broken"],
}  # fmt: skip


def small_frame() -> pd.DataFrame:
    return pd.DataFrame({
        "y": [*np.linspace(1, 2, 29), NUMBER], "z": np.tile([1.0, 2.0, 4.0], 10), "x": np.tile(["a", "b", "c"], 10),
        "w": np.full(30, 10.0), "s": np.repeat([1, 2], 15), "p": np.repeat(range(10), 3), "k": np.tile([0, 1], 15),
        "lists": pd.Series([[1]] * 30), "dicts": pd.Series([{TEXT: 1}] * 30),
        "broken": pd.Series(["\ud800", *["a"] * 29], dtype=object),
        "dates": pd.Timestamp("2026-01-01"), "odd": pd.Series([1, "a", None] * 10, dtype=object),
    })  # fmt: skip


def calls(folder: Path) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Public functions, classes and methods, by name, with arguments that they take."""
    design = ss.SurveyDesign(small_frame(), weights="w", strata="s")
    pseudo = {"epsilon": None, "m": 1, "mechanism": ss.PseudoPosterior(c1=0.5), "accept_diagnostics": ["information"]}
    release = ss.synthesize(design, ss.FBS("y", "x", prior="flat"), **pseudo, seed=1)
    place = release.write(folder / "release", by="x")
    frame = design.frame
    frame.drop(columns="broken").head(12).to_csv(folder / "f.csv", index=False)
    known = {"known": ["x"], "value": "y"}
    of_fit = {"design": design, "synthesizer": ss.FBS("y", "x", prior="flat"), **pseudo}
    plan = ss.Plan(design, "y ~ x", epsilon=9, population_total=300, bounds=(0, 1e6))
    ledger = ss.Ledger(folder / "ledger.jsonl", "survey", 50, create=True)
    in_files = {"source": folder / "f.csv", "to": folder / "to.parquet"}
    public = {"epsilon": 5.0, "bounds": (0, 10), "population_total": 300}
    one = ss.estimate(design, "y", "x", "mean")
    return {
        "SurveyDesign": (ss.SurveyDesign, {"frame": frame, "weights": "w", "strata": "s", "psu": None}),
        "SurveyDesign.read": (ss.SurveyDesign.read, {"path": folder / "f.csv", "weights": "w"}),
        "SurveyDesign.from_frame": (ss.SurveyDesign.from_frame, {"frame": frame, "n": 5, "seed": 1}),
        "SurveyDesign.assign": (design.assign, {"new": lambda f: f.z}),
        "SurveyDesign.column": (design.column, {"name": "y"}),
        "SurveyDesign.numeric": (design.numeric, {"name": "y"}),
        "SurveyDesign.select": (design.select, {"names": ["y"]}),
        "SurveyDesign.labelled": (design.labelled, {"labels": {"y": "Income"}}),
        "estimate": (ss.estimate, {"design": design, "outcome": "y", "by": "x", "statistic": "mean"}),
        "difference": (ss.difference, {"design": design, "outcome": "y", "between": {"x": ("a", "b")}, "by": "k"}),
        "correlations": (ss.correlations, {"design": design, "outcome": ["y", "z"]}),
        "population_covariances": (ss.population_covariances, {"design": design, "outcome": ["y", "z"]}),
        "standard_deviations": (ss.standard_deviations, {"design": design, "outcome": ["y", "z"]}),
        "independence_test": (ss.independence_test, {"design": design, "row": "x", "column": "k"}),
        "joint_estimates": (ss.joint_estimates, {"design": design, "outcome": "y", "by": "x"}),
        "regression": (ss.regression, {"design": design, "formula": "y ~ x"}),
        "predictive_margins": (ss.predictive_margins, {"design": design, "formula": "y ~ z", "group": "x"}),
        "likelihood_ratio_test": (ss.likelihood_ratio_test, {"design": design, "formula": "y ~ x", "terms": "x"}),
        "wide": (ss.wide, {"table": one, "across": "x"}),
        "with_replicates": (ss.with_replicates, {"design": design, "function": lambda f, w: (w * f.y).sum()}),
        "FBS": (ss.FBS, {"outcome": "y", "predictors": "x"}),
        "FBP": (ss.FBP, {"outcome": "y", "predictors": "x"}),
        "BetaRegression": (ss.BetaRegression, {"outcome": "y", "predictors": "x", "bounds": (0, 10)}),
        "GammaRegression": (ss.GammaRegression, {"outcome": "y", "predictors": "x"}),
        "Mixture": (ss.Mixture, {"outcome": "y", "predictors": "x"}),
        "MultinomialRegression": (ss.MultinomialRegression, {"outcome": "k", "predictors": "x"}),
        "NegativeBinomialRegression": (ss.NegativeBinomialRegression, {"outcome": "k", "predictors": "x"}),
        "PoissonRegression": (ss.PoissonRegression, {"outcome": "k", "predictors": "x"}),
        "Sequential": (ss.Sequential, {"models": [ss.FBS("y ~ x"), ss.FBS("z ~ y")], "applies": {"z": "y > 1"}}),
        "NormalScores.load": (ss.NormalScores.load, {"path": folder / "nowhere.json"}),
        "AsinhTransform": (ss.AsinhTransform, {"scale": 10.0}),
        "IdentityTransform": (ss.IdentityTransform, {"scale": 10.0}),
        "Censored": (ss.Censored, {"epsilon": 5}),
        "PseudoPosterior": (ss.PseudoPosterior, {}),
        "Strict": (ss.Strict, {}),
        "WeightedE": (ss.WeightedE, {}),
        "CountRisk": (ss.CountRisk, {"radius": 0.2}),
        "LipschitzRisk": (ss.LipschitzRisk, {}),
        "MarginalRisk": (ss.MarginalRisk, {"known": ["x"]}),
        "PairwiseRisk": (ss.PairwiseRisk, {"known": ["x"]}),
        "IdentificationRule": (ss.IdentificationRule, {"known": ["x"], "max_risk": 0.5}),
        "Ledger": (ss.Ledger, {"path": folder / "ledger.jsonl", "survey": "survey"}),
        "Ledger.spend": (ledger.spend, {"blank": 0.001, "replace": 0.002, "kind": "strict", "what": "a table"}),
        "Ledger.set_cap": (ledger.set_cap, {"cap": 60.0, "what": "more"}),
        "Ledger.verify": (ledger.verify, {"releases": ()}),
        "Policy.load": (ss.Policy.load, {"path": folder / "nowhere"}),
        "Plan": (ss.Plan, {"design": design, "formula": "y ~ x", "epsilon": 9}),
        "Plan.set": (plan.set, {"epsilon": 5}),
        "Plan.write": (plan.check_place, {"folder": folder / "new"}),
        "Plan.read": (ss.Plan.read, {"path": folder / "nowhere.toml"}),
        "Plan.draft": (ss.Plan.draft, {"file": folder / "f.csv", "formula": "y ~ x"}),
        "fit": (ss.fit, {name: value for name, value in of_fit.items() if name != "accept_diagnostics"}),
        "synthesize": (ss.synthesize, of_fit),
        "synthesize, strict": (ss.synthesize, {"design": design, "synthesizer": "y ~ x", "m": 4, **public}),
        "Outcome": (ss.Outcome, {"bounds": (0, 10)}),
        "measure": (ss.measure, {"design": design, "formula": "y ~ x", **public}),
        "Measurements.release": (ss.measure(design, "y ~ x", **public).release, {"m": 4}),
        "read_measurements": (ss.read_measurements, {"path": folder / "nowhere"}),
        "expected_errors": (ss.expected_errors, {"design": design, "formula": "y ~ x", "by": "x", "m": 4, **public}),
        "privacy_cost": (ss.privacy_cost, {"design": design, "synthesizer": ss.FBS("y", "x", prior="flat"), "c1": 0.5}),
        "check_model": (ss.check_model, {"model": ss.FBS("y", "x", prior="flat"), "design": design}),
        "perturbed_histogram": (ss.perturbed_histogram, {
            "design": design, "outcome": "y", "epsilon": 1.0, "bounds": (0, 10), "population_total": 300, "m": 1,
        }),
        "laplace_tables": (ss.laplace_tables, {"design": design, "outcome": "y", "by": "x", "epsilon": 1.0}),
        "convert": (ss.convert, in_files),
        "read_release": (ss.read_release, {"path": place}),
        "resume": (ss.resume, {"path": folder / "nowhere"}),
        "compare": (ss.compare, {"design": design, "release": release}),
        "diff": (ss.diff, {"old": place, "new": place}),
        "dossier": (ss.dossier, {"path": folder / "nowhere", "design": design, "out": folder / "signed"}),
        "public_dossier": (ss.public_dossier, {"path": folder / "nowhere", "out": folder / "signed"}),
        "identification_risk": (ss.identification_risk, {"original": design, "synthetic": release, **known}),
        "match_risk": (ss.match_risk, {"original": design, "synthetic": release, **known}),
        "attribute_risk": (ss.attribute_risk, {"original": design, "synthetic": release, **known}),
        "pairwise_weights": (ss.pairwise_weights, {"original": design, "synthetic": release, **known}),
        "membership_attack": (ss.membership_attack, {"fit": None}),
        "Release.tables": (release.tables, {"by": "x"}),
        "Release.write": (release.write, {"path": folder / "nowhere" / "release", "by": "x"}),
        "Release.write_tables": (release.write_tables, {"path": folder / "t.md", "by": "x"}),
        "Release.differences": (release.differences, {"between": {"x": ("a", "b")}}),
        "Release.assign": (release.assign, {"new": lambda f: f.y}),
        "census_sample": (ss.datasets.census_sample, {"n": 50, "seed": 1}),
        "sdr_sample": (ss.datasets.sdr_sample, {"seed": 1}),
    }  # fmt: skip


def arguments(function: Callable[..., Any], sane: dict[str, Any]) -> list[str]:
    """Its arguments; those of what ``**settings`` goes to among them."""
    parameters = inspect.signature(function).parameters
    names = [name for name, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if "settings" in parameters and function in (ss.synthesize, ss.privacy_cost):
        names += list(inspect.signature(fit).parameters)
    return list(dict.fromkeys([*names, *sane]))


def hostile_calls(folder: Path) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Each argument of each function with each value in its place, in an order that is the same in every run."""
    for name, (function, sane) in calls(folder).items():
        for argument in arguments(function, sane):
            for kind, value in HOSTILE.items():
                yield f"{name}({argument}={kind})", function, {**sane, argument: value}
