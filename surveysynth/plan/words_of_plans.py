"""Translation of error messages: arguments of Python functions become entries of plans or options of commands."""

from __future__ import annotations

import re

VALUE = r"'[^'()\n]*'|True\b|False\b|-?\d++(?:\.\d++)?|\[[^\]\n]*\]|\{[^}\n]*\}"
WORDS = re.compile(
    r"(?P<quoted>(?<!\w)'[^'\n]*')"  # a name or a path, which is not changed; no apostrophe within a word
    r"|overwrite=True"
    r"|\boutcomes=\{(?P<mark>['\"])(?P<outcome>[^'\"\n]+)(?P=mark): Outcome\((?:\.\.\., )?(?P<declared>[^()\n]+)\)\}"
    rf"|(?<!\.)\b(?P<name>[a-z]\w*)=(?P<value>{VALUE})(?!\w| is not)"  # a suggested value, not a given one; not a.b=c
    r"|\bmechanism=(?:surveysynth\.)?(?P<mechanism>[A-Z]\w*)\(\)"
    r"|\b[A-Z]\w*\(\.\.\., (?P<within>[^()\n]*)\)"  # FBS(..., zeros=True)
    r"|\bStrict\(\)"
)
WHOLE = {"overwrite=True": "--overwrite", "Strict()": "the strict mechanism"}


def in_words_of_plans(text: str) -> str:
    """Replace Python arguments in an error message by entries of a plan's file or by options of commands.

    ``FBS(..., weight='public')`` becomes ``weight = 'public' in [model]``, and ``overwrite=True`` becomes
    ``--overwrite``.
    """
    from ..privacy.mechanisms import in_plans
    from .sections import SECTIONS
    from .toml_file import key

    mechanisms: dict[str, str] = {}  # name of the class -> first name in plans
    for name, (mechanism, _) in in_plans().items():
        mechanisms.setdefault(mechanism.__name__, name)
    sections: dict[str, str] = {}
    for section, kind in SECTIONS.items():
        sections |= dict.fromkeys(kind.model_fields, section)

    def word(match: re.Match[str]) -> str:
        if match["quoted"]:
            return match[0]
        if match["mechanism"]:
            name = match["mechanism"]
            return f"mechanism = '{mechanisms[name]}' in [privacy]" if name in mechanisms else match[0]
        if match["outcome"]:
            declared = match["declared"].replace('"', "'").replace("True", "true").replace("=", " = ")
            return f"{declared} in [outcomes.{key(match['outcome'])}]"
        if match["within"]:
            return in_words_of_plans(match["within"])
        if match["name"] not in sections or match["name"] == "weights":  # also an argument of FBP
            return WHOLE.get(match[0], match[0])
        value = match["value"].replace("True", "true").replace("False", "false")
        value = re.sub(r"'?(\w+)'?: ", r"\1 = ", value) if value.startswith("{") else value
        return f"{match['name']} = {value} in [{sections[match['name']]}]"

    return WORDS.sub(word, text)
