"""The file of a plan: TOML with a comment at every entry.

An entry is a named value in a section of the file, such as ``epsilon = 3`` in ``[privacy]``.  Its full name is
``privacy.epsilon``.
"""

from __future__ import annotations

import json
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit

from ..choices import PRINTED
from ..errors import InputError
from .sections import BY_NAME, SECTIONS, Section
from .settings import Settings

SCHEMA = "plan.schema.json"
FILL_IN = "FILL IN"
EXAMPLES = {
    "columns": "[columns.sex]: merge = {other = ['x', 'y']}, missing = 'category'",
    "outcomes": "[outcomes.income]: bounds = [0, 1_000_000], zeros = true, missing = 'category'",
}
NOT_FOUND = {
    "survey.strata": "no column was found; give one if sampling was stratified",
    "survey.psu": "no column was found; give one if clusters were sampled first",
    "survey.fpc": "is not guessed; give a column if the sample is a large share of the population",
}
IN_PRINT = {
    "tables.labels": "words for columns, as {rb090 = 'Sex', py010n = 'Employee income'}; tables print them",
    "tables.units": "units of outcomes, as {py010n = 'euros a year'}; tables print them",
}
REPLICATE_HINTS = {
    "survey.combined": "false where they are factors of the weights, as 0 and 2",
    "survey.replicate_scale": "1 / R; Fay 1 / (R (1 - rho)^2), JK1 (R - 1) / R, successive differences 4 / R",
}


def read_toml(path: Path) -> Settings:
    """Read the settings in a plan's file.

    Raises
    ------
    InputError
        The file does not exist, is not TOML, is empty, or has wrong entries.
    """
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}; surveysynth plan FILE > {path.name} makes one")
    try:
        plan = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{str(path)!r} is not a plan: {error}") from None
    except RecursionError:
        raise InputError(f"{str(path)!r} is not a plan: it is nested too deeply") from None
    if not plan:
        raise InputError(
            f"{str(path)!r} is empty: surveysynth plan FILE > {path.name} makes a plan, if it has no error"
        )
    return Settings.from_entries({name: {} for name in ("survey", "model", "privacy")} | plan)


def parsed_value(text: str) -> Any:
    """Return the value of the text in the command-line option ``--set entry=text``.

    The text is read as a TOML value, or as a list without brackets.  If it is neither, the value is the text itself.

    Raises
    ------
    InputError
        The text has the brackets of a list or a table but is neither.
    """
    for written in (text, f"[{text}]"):
        try:
            return tomllib.loads(f"value = {written}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
    if (text[:1], text[-1:]) in (("{", "}"), ("[", "]")):
        raise InputError(f"--set {text}: write lists as [-9, -8], and tables as {{income = [-9, -8]}}")
    return text


def to_toml(
    settings: Settings, reasons: Mapping[str, str], lacking: Mapping[str, str], columns: Sequence[str] = ()
) -> str:
    """Return the text of a plan's file.

    Parameters
    ----------
    settings : Settings
        All entries.
    reasons : mapping of str to str
        Reasons for the entries that were chosen and not given, by full name of the entry.
    lacking : mapping of str to str
        What to enter, by full name of the entry, for entries that the agency must fill in.  Each of these becomes a
        line that is commented out.
    columns : sequence of str
        The columns of the file, which a comment lists.
    """
    document = tomlkit.document()
    document.add(tomlkit.comment(f":schema {SCHEMA}"))
    document.add(tomlkit.comment("to be reviewed; then: surveysynth check plan.toml, surveysynth release plan.toml"))
    document.add(tomlkit.comment("(for editors: surveysynth plan --schema > plan.schema.json)"))
    for name, kind in SECTIONS.items():
        document.add(tomlkit.nl())
        if name in BY_NAME:
            document.add(name, _by_name(kind, getattr(settings, name), EXAMPLES[name]))
        else:
            document.add(name, _section(name, settings, reasons, lacking, columns))
    return tomlkit.dumps(document).replace("# :schema", "#:schema")


def _section(
    name: str, settings: Settings, reasons: Mapping[str, str], lacking: Mapping[str, str], columns: Sequence[str]
) -> tomlkit.items.Table:
    section: Section = getattr(settings, name)
    table = tomlkit.table()
    table.add(tomlkit.comment(str(SECTIONS[name].__doc__)))
    if name == "survey":
        for line in textwrap.wrap(f"its columns: {', '.join(columns)}", 100) if columns else ():
            table.add(tomlkit.comment(line))
    for entry, field in type(section).model_fields.items():
        at, value = f"{name}.{entry}", getattr(section, entry)
        if value is not None:
            _add(table, entry, value, reasons.get(at) or str(field.description))
        elif at in lacking:
            table.add(tomlkit.comment(f"{entry} =   # {FILL_IN}: {lacking[at]}"))
        elif at in REPLICATE_HINTS and settings.survey.replicate_weights:
            table.add(tomlkit.comment(f"{entry} =   # {REPLICATE_HINTS[at]}"))
        elif at in NOT_FOUND and columns:
            table.add(tomlkit.comment(f"{entry} =   # {NOT_FOUND[at]}"))
        elif at in IN_PRINT and columns:
            table.add(tomlkit.comment(f"{entry} =   # {IN_PRINT[at]}"))
        elif name == "release" and entry in PRINTED and columns:
            table.add(tomlkit.comment(f"{entry} =   # {field.description}; tables print it"))
    return table


def _by_name(kind: type[Section], columns: Mapping[str, Section], example: str) -> tomlkit.items.Table:
    """Return all sections [columns.NAME], or all sections [outcomes.NAME], after a comment with an example."""
    table = tomlkit.table()
    table.add(tomlkit.comment(f"{kind.__doc__} As {example}"))
    for name, section in columns.items():
        entries = tomlkit.table()
        for entry, field in kind.model_fields.items():
            if (value := getattr(section, entry)) is not None:
                _add(entries, entry, value, str(field.description))
        table.add(name, entries)
    return table


def _add(table: tomlkit.items.Table, entry: str, value: Any, comment: str) -> None:
    table.add(entry, _inline(value))
    item: Any = table.value.item(entry)
    item.comment(comment)


def _inline(value: Any) -> Any:
    """Convert a value for TOML: mappings and lists are written on one line, whole numbers without a decimal point."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Section):
        value = value.model_dump(exclude_none=True)
    if isinstance(value, Mapping):
        made = tomlkit.inline_table()
        made.update({key: _inline(each) for key, each in value.items()})
        return made
    if isinstance(value, tuple | list):
        listed = tomlkit.array()
        listed.extend(_inline(each) for each in value)
        return listed
    return value


def key(name: str) -> str:
    """Return a name as the key of a TOML entry, with quotes if it needs them."""
    return tomlkit.key(name).as_string()


def schema() -> str:
    """Return the JSON schema of plans as text.  Text editors use it to complete and check a plan's file."""
    return json.dumps(Settings.model_json_schema(), indent=2) + "\n"
