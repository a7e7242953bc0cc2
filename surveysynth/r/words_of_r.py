"""Translation of the messages of the package for users of R: functions, arguments and values get their R names."""

from __future__ import annotations

import re
from functools import cache

from ..models.registry import MODELS
from ..privacy.mechanisms import MECHANISMS

ARGUMENTS = {  # arguments that are set in another way in R
    "lonely_psu": "options(survey.lonely.psu = {})", "combined": "svrepdesign(combined.weights = {})",
}  # fmt: skip
CONSTRUCTORS = {"LogTransform()": '"log"', "FBP.paper(": 'fbp(weights = "paper", variance = "paper", '}
OTHER_NAMES = {"Sequential": "in_sequence", "StanModel": "python_model"}
MADE_IN_R = (
    "AsinhTransform", "CountRisk", "IdentificationRule", "IdentityTransform", "LipschitzRisk",
    "MarginalRisk", "NormalScores", "Outcome", "PairwiseRisk",
)  # fmt: skip
# words after a model's name in reports; the name itself may be a common word
VERB = r"(?= (?:is|has|needs|cannot|models|synthesizes)\b)"

TYPES = {  # types of columns, after the words "of type" in a message
    "bool": "logical", "boolean": "logical", "date32[day][pyarrow]": "Date", "category": "factor", "str": "character",
    "object": "character", "int64": "integer", "Int64": "integer", "float64": "double",
}  # fmt: skip
OBJECTS = {  # types of arguments, after the words ", not" in a message
    "bool": "logical", "str": "character", "int": "a number", "float": "a number", "dict": "a list", "list": "a vector",
    "NoneType": "NULL",
}  # fmt: skip
SENTENCES = [  # advice in Python code, and its wording for R
    (r"frame\['(\w+)'\]\.fillna\('missing'\), or in a plan \[columns\.\1\] missing = 'category'",
     r'design <- update(design, \1 = ifelse(is.na(\1), "missing", as.character(\1)))'),
    (r"\(frame\['(\w+)'\](?: - pd\.Timestamp\('1970-01-01'\))?\)\.dt\.days", r"as.numeric(\1)"),
    (r"or read the file with missing_codes=\{.*?\} where they are codes, decimal= and thousands= where they have marks",
     "or make codes NA"),
    (r"make the column categorical with them", "make the column a factor with them"),
]  # fmt: skip
TRUTH = "True|False|None"

QUOTED = r"(?<!\w)'[^'\n]*'(?!\w)"  # but no apostrophe as in "the paper's"
NESTED = r"\{[^{}\n]*\}|\[[^\[\]\n]*\]|\([^()\n]*\)"
VALUE = re.compile(rf"{QUOTED}|\"[^\"\n]*\"|(?:True|False|None)\b|\d[\d_]*(?:\.\d+)?(?:e-?\d+)?\b|{NESTED}|\.\.\.")
KEY = re.compile(r"""(['"])(\w+)\1: """)  # a key of a dict
WITHIN = re.compile(rf"(?P<call>\b[A-Z]\w*\((?:[^()\n]|\([^()\n]*\))*\))|{VALUE.pattern}")  # inside brackets


def in_words_of_r(text: str) -> str:
    """Translate a message for users of R.

    ``mechanism=PseudoPosterior(c1=0.5)`` becomes ``mechanism = pseudo_posterior(c1 = 0.5)``.  Quoted names are kept.
    """
    functions = _functions()
    for python, r in SENTENCES:
        text = re.sub(python, r, text)
    return _words().sub(lambda match: _word(match, functions), re.sub(r" \(--[^()\n]*\)", "", text))


@cache
def _functions() -> dict[str, str]:
    """Map the name of each Python class to the name of the R function that makes objects of this class."""
    named = {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in MADE_IN_R} | OTHER_NAMES
    named |= {mechanism.__name__: mechanism.in_r for mechanism in MECHANISMS.values()}
    return named | {model.kind.__name__: model.in_r for model in MODELS.values()}


@cache
def _words() -> re.Pattern[str]:
    in_reports = dict.fromkeys(str(model.kind.name) for model in MODELS.values())
    return re.compile(
        "|".join([
            rf"(?P<constructor>(?:surveysynth\.)?(?:{'|'.join(map(re.escape, CONSTRUCTORS))}))",
            rf"(?<![\w.'])(?P<argument>[a-z]\w*)=(?:(?P<value>{VALUE.pattern})(?!\w)|(?=[ ,;:).]|$)|(?=\w))",
            rf"(?P<quoted>{QUOTED})",
            rf"\b(?:surveysynth\.)?(?P<kind>{'|'.join(_functions())})\b(?P<called>\()?",
            rf"\b(?P<report>{'|'.join(in_reports)}){VERB}",
            r"(?P<category>\bC\((?P<column>`?[\w.]+`?)\))",
            r"(?P<counts>\bdesign\.frame\['(?P<counted>[\w.]+)'\]\.value_counts\(\))",
            r"(?P<truth>\bTrue or False\b)",
            rf"(?P<choices>(?<=\bis not one of )(?:{TRUTH})(?:, (?:{TRUTH}))*)",
            rf"(?P<type>(?<=\bof type )(?:{'|'.join(map(re.escape, TYPES))})(?![\w\[]))",
            rf"(?P<object>(?<=, not )(?:{'|'.join(OBJECTS)})\b)",
            r"(?P<nothing>(?<=\bbe )None\b|(?<=\bor )None\b)",
            r"(?P<numbers>\[-?[0-9.]+(?:, -?[0-9.]+)*\])",
        ])
    )  # fmt: skip


def _word(match: re.Match[str], functions: dict[str, str]) -> str:
    if match["constructor"]:
        return CONSTRUCTORS[match["constructor"].removeprefix("surveysynth.")]
    if match["argument"]:
        return _argument(match)
    if match["kind"]:
        return functions[match["kind"]] + ("(" if match["called"] else "()")
    if match["report"]:
        return next(f"{model.in_r}()" for model in MODELS.values() if model.kind.name == match["report"])
    if match["category"]:
        return f"factor({match['column']})"
    if match["counts"]:
        return f"table(design$variables${match['counted']})"
    if match["truth"]:
        return "TRUE or FALSE"
    if match["choices"]:
        return re.sub(TRUTH, lambda word: _value(word[0]), match["choices"])
    if match["type"]:
        return TYPES[match["type"]]
    if match["object"]:
        return OBJECTS[match["object"]]
    if match["nothing"]:
        return "NULL"
    return _value(match["numbers"]) if match["numbers"] else match[0]


def _argument(match: re.Match[str]) -> str:
    """Translate ``name=value`` to ``name = value``, and ``name=`` without a value to ``name``."""
    name, text = match["argument"], match.string
    if match["value"] is not None:
        value = _value(match["value"])
        return ARGUMENTS[name].format(value) if name in ARGUMENTS else f"{name} = {value}"
    return f"{name} = " if text[match.end() : match.end() + 1].isalnum() else name


def _value(text: str) -> str:
    """Translate a Python literal to an R literal."""
    if text[0] in "'\"":
        return f'"{text[1:-1]}"'
    if text in {"True", "False", "None"}:
        return {"True": "TRUE", "False": "FALSE", "None": "NULL"}[text]
    if text[0] in "{[(":
        inner = KEY.sub(r"\2 = ", text[1:-1]) if text[0] == "{" else text[1:-1]
        made = WITHIN.sub(lambda match: in_words_of_r(match[0]) if match["call"] else _value(match[0]), inner)
        return f"list({made})" if text[0] == "{" else f"c({made})"
    return text.replace("_", "")
