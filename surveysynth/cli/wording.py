"""Messages of the package in the words of plans and of the command line: entries and options, not arguments."""

from __future__ import annotations

import re

MECHANISMS = {
    "PseudoPosterior": "pseudo-posterior", "Censored": "censored", "WeightedE": "weighted-e", "Strict": "strict",
}  # fmt: skip
VALUE = r"'[^'()]*'|True|False|-?[\d.]+\d|\[[^\]]*\]|\{[^}]*\}"
ARGUMENT = re.compile(rf"\b(\w+)=({VALUE})(?! is not)")  # what is asked for, not what was given


def in_words_of_plans(text: str) -> str:
    """``FBS(..., weight='public')`` is ``weight = 'public' in [model]``, ``overwrite=True`` is ``--overwrite``."""
    from ..synthesis.settings import Settings

    sections: dict[str, str] = {}
    for name, part in Settings.model_fields.items():
        sections |= dict.fromkeys(part.annotation.model_fields, name)  # type: ignore[union-attr]

    def entry(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        if name not in sections:
            return match[0]
        value = re.sub(r"'?(\w+)'?: ", r"\1 = ", value) if value.startswith("{") else value
        return f"{name} = {value.replace('True', 'true').replace('False', 'false')} in [{sections[name]}]"

    text = text.replace("overwrite=True", "--overwrite")
    text = re.sub(r"\b[A-Z]\w+\(\.\.\., ([^()]*)\)", r"\1", text)
    text = re.sub(r"mechanism=(?:surveysynth\.)?(\w+)\(\)", lambda m: f"mechanism='{MECHANISMS.get(m[1], m[1])}'", text)
    return ARGUMENT.sub(entry, text).replace("Strict()", "the strict mechanism")
