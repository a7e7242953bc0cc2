"""The missing entries of a plan, and messages of the package, in the words of the questions on the web page."""

from __future__ import annotations

import re
from collections.abc import Mapping

from htmltools import Tag, tags

from .words import Words

STEPS = {  # entry -> key of its label, and number of the step that asks for it
    "survey.file": ("file.path", 1), "survey.weights": ("entry.weights", 1), "model.formula": ("columns.title", 1),
    "privacy.population_total": ("entry.population_total", 1), "privacy.bounds": ("fact.bounds", 2),
    "privacy.levels": ("fact.levels", 2), "privacy.epsilon": ("entry.epsilon", 4),
}  # fmt: skip
ASKED = {  # what messages of the package say -> key of the label of the question on the page
    r"(?:overwrite=True|--overwrite)(?: replaces a release)?": "release.overwrite",
    r"missing = 'category' in \[outcomes\.[^\]]+\]": "fact.missing",
    r"zeros = true in \[outcomes\.[^\]]+\]": "fact.zeros",
    r"name its column as unit in \[privacy\]": "entry.unit",
}


def lacking_list(lacking: Mapping[str, str], words: Words) -> Tag:
    """Return an HTML list of the entries that a plan lacks: the step of the page, the question, and what to enter."""
    items = []
    for entry, what in lacking.items():
        label, step = STEPS.get(entry, ("", 0))
        where = words("lacks", step=step, label=words(label)) if label else entry
        items.append(tags.li(tags.strong(where), ": ", tags.span(what.partition("; surveysynth")[0], lang="en")))
    return tags.ul(*items)


def on_this_page(text: str, words: Words) -> str:
    """Replace names of plan entries and options in a message of the package by the labels of the page's questions."""
    for pattern, key in ASKED.items():
        text = re.sub(pattern, f"'{words(key)}'", text)
    return text
