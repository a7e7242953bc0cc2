"""The page docs/settings.md: every setting of a release, with its name in a plan, in Python and in R.

    python docs/site/settings.py         writes docs/settings.md

Entries and their descriptions are those of plans (``surveysynth/plan/sections.py``); arguments are read from the
signatures of the functions, and from the sources of the R package.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import surveysynth as ss
from surveysynth.plan.sections import BY_NAME, SECTIONS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "settings.md"
PLACES = {  # arguments whose entry in a plan has another name, or is one of several
    "accept_diagnostics": "release.accept", "edits": "edits.rules", "formula": "model.formula",
    "rule": "privacy.max_risk", "synthesizer": "model.formula", "title": "release.title", "missing": "model.missing",
}  # fmt: skip
SVYDESIGN = {"weights": "weights", "probs": "probs", "strata": "strata", "psu": "id", "fpc": "fpc"}  # R's survey
DOORS: dict[str, Callable[..., Any]] = {
    "synthesize": ss.synthesize, "measure": ss.measure, "fit": ss.fit, "Fit.release": ss.Fit.release,
    "SurveyDesign": ss.SurveyDesign, "SurveyDesign.read": ss.SurveyDesign.read, "Strict": ss.Strict,
    "PseudoPosterior": ss.PseudoPosterior, "Release.tables": ss.Release.tables, "FBS": ss.FBS,
    "Outcome": ss.Outcome,
}  # fmt: skip
HEAD = """# Every setting, and its one place

A setting has one name in Python, in R and in a plan. What is true of an outcome stands in `Outcome` or
`[outcomes.NAME]`, what is true of the design in `SurveyDesign` or `[survey]`, and what is promised in `epsilon` and
`mechanism` or `[privacy]`. `bounds=` alone is short for the bounds of the only outcome.

`docs/site/settings.py` writes this page from the package's own lists. A dash says that there is no such argument: the
plan has a model or a mechanism for it, or the other door has no use for it.
"""


def keywords(called: Callable[..., Any]) -> list[str]:
    """The arguments of a function that have names."""
    parameters = inspect.signature(called).parameters.values()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "self"]


def in_r(function: str) -> list[str]:
    """The arguments of a function of the R package."""
    for file in sorted((ROOT / "r_bridge" / "R").glob("*.R")):
        found = re.search(rf"^{re.escape(function)} <- function\((.*?)\) \{{", file.read_text("utf-8"), re.S | re.M)
        if found:
            bare = re.sub(r"\"[^\"]*\"|c\([^()]*\)", "", found[1])
            return [part.split("=")[0].strip() for part in bare.split(",") if part.strip()]
    raise LookupError(function)


def entry_of(argument: str, entries: list[str], door: str = "") -> str | None:
    """The entry of a plan that an argument of a function stands for."""
    if door.startswith("SurveyDesign") and argument == "scale":
        return "survey.replicate_scale"
    if argument in PLACES:
        return PLACES[argument]
    return next((entry for entry in entries if entry.split(".")[-1] == argument), None)


def rows() -> list[tuple[str, str, str, str]]:
    """Entry, Python, R and description of every setting."""
    entries = {
        f"{name}.{entry}": field for name, kind in SECTIONS.items() for entry, field in kind.model_fields.items()
    }
    others = [entry for entry in entries if entry.split(".")[0] not in BY_NAME]
    python: dict[str, list[str]] = {entry: [] for entry in entries}
    for door, called in DOORS.items():
        for argument in keywords(called):
            section = "outcomes" if door == "Outcome" else None
            entry = f"outcomes.{argument}" if section else entry_of(argument, others, door)
            if entry in python:
                python[entry].append(f"{door}({argument}=)")
    r = {f"outcomes.{name}": f"outcome({name} = )" for name in in_r("outcome")}
    r |= {f"survey.{name}": f"svydesign({argument} = )" for name, argument in SVYDESIGN.items()}
    for function in ("synthesize", "strict", "pseudo_posterior", "fbs", "tables"):
        for argument in in_r(function):
            if (entry := entry_of(argument, others)) is not None:
                r.setdefault(entry, f"{function}({argument} = )")
    return [
        (at(entry), python[entry][0] if python[entry] else "-", r.get(entry, "-"), str(field.description))
        for entry, field in entries.items()
    ]


def at(entry: str) -> str:
    """An entry as a plan has it."""
    section, _, name = entry.partition(".")
    return f"{name} in [{section}.NAME]" if section in BY_NAME else f"{name} in [{section}]"


def page() -> str:
    """The page."""
    out, heading = [HEAD], ""
    for entry, python, r, description in rows():
        section = entry.partition(" in ")[2]
        if section != heading:
            heading = section
            kind = SECTIONS[section.strip("[]").split(".")[0]]
            out.append(f"\n## {section}\n\n{kind.__doc__}\n\n| entry | Python | R | what it says |\n|---|---|---|---|")
        text = description.replace("|", "\\|")
        code = [f"`{word}`" if word != "-" else "-" for word in (entry.partition(" in ")[0], python, r)]
        out.append(f"| {' | '.join(code)} | {text} |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
