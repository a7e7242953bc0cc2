"""Messages on wrong entries of a plan.  A message names the entry and says what is allowed.

An entry is a named value in a section of the plan; its full name is "section.name", such as "privacy.epsilon".  Its
place is the sequence of these names, such as ("privacy", "bounds", 1) for the second number in a list.
"""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from .sections import SECTIONS, LaterModel, Section

Place = tuple[int | str, ...]  # path of an entry: names of sections and entries, and positions in lists

KINDS = {  # messages in place of those in which pydantic uses the names of Python's types
    "bool_type": "should be true or false", "dict_type": "should be a table, as {other = ['x', 'y']}",
    "list_type": "should be a list, as ['x', 'y']", "string_type": "should be a text",
}  # fmt: skip
REMOVED = {  # entries of plans of version 0.2, and what to write instead
    "parts": "take out [parts]: a large parquet file is read like any other",
    "privacy.mechanism=per-instance": "write 'strict' or 'pseudo-posterior' for privacy.mechanism = 'per-instance'",
    "privacy.alpha_0": "take out privacy.alpha_0, which belonged to 'per-instance'",
    "privacy.reference": "take out privacy.reference: privacy.earlier is the folder of an earlier year's release",
    "privacy.overlap": "take out privacy.overlap: epsilon of an earlier year's release is always added",
    "privacy.between_psus": "take out privacy.between_psus: the spread between PSUs is in the noisy tables",
    "privacy.shares": "take out privacy.shares: importance = {income = 2} in [privacy] says which outcome matters more",
    "model.transform=scores": "take out transform = 'scores'",
    "model.missing=impute": "take out missing = 'impute': missing = 'category' in [outcomes.NAME] keeps missing values",
    "model.weight=curved": "take out weight = 'curved'",
    "model.weight=linear": "take out weight = 'linear', which is how FBS and FBP have it",
}


def removed_entries(plan: Mapping[str, Any]) -> list[str]:
    """Return a text on what to write instead, for each entry of the plan that is valid only in version 0.2."""
    return [line for entry, line in REMOVED.items() if _is_there(plan, entry)]


def _is_there(plan: Mapping[str, Any], entry: str) -> bool:
    """Return True if a plan has the entry "section.name" or, for "section.name=value", the entry with this value."""
    path, _, value = entry.partition("=")
    section, _, name = path.partition(".")
    entries = plan.get(section)
    if not name or not isinstance(entries, Mapping):
        return entries is not None and not name
    found = entries.get(name)
    return isinstance(found, str) and found == value if value else found is not None


def faults(errors: Sequence[Any], plan: Mapping[str, Any]) -> dict[str, str]:
    """Convert pydantic's errors to messages.  Return the message for each wrong entry, by full name of the entry.

    If an entry permits several types of values, pydantic has an error for each type.  The message is about the type
    that fits best.  ``plan`` has the entries of each section, as read from the file.
    """
    found: dict[Place, list[Any]] = {}
    for error in errors:
        found.setdefault(_place(error, plan), []).append(error)
    deepest = {place: group for place, group in found.items() if not any(_within(other, place) for other in found)}
    return {_entry(place): _message(place, group) for place, group in deepest.items()}


def _place(error: Any, plan: Any) -> Place:
    """Return where in a plan pydantic found an error: the names of section and entry, and positions in lists.

    pydantic's location also has the types of values that it tried, which are left out.
    """
    place: list[int | str] = []
    for part in error["loc"]:
        there = isinstance(plan, Mapping) and part in plan
        there |= isinstance(plan, list | tuple) and isinstance(part, int) and part < len(plan)
        if there:
            plan = plan[part]
        if there or (error["type"] == "missing" and isinstance(part, str) and part is error["loc"][-1]):
            place.append(part)
    return tuple(place)


def _within(place: Place, outer: Place) -> bool:
    return len(place) > len(outer) and place[: len(outer)] == outer


def _entry(place: Place) -> str:
    """Return the full name of the entry at a place, such as "privacy.bounds, number 2" (counted from 1)."""
    return "".join(f", number {part + 1}" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def _message(place: Place, errors: Sequence[Any]) -> str:
    """Return the message on the entry at a place.  It may show the entry's value, because a plan is public."""
    kinds = [error for error in errors if error["type"].endswith("_type") or error["type"] == "literal_error"]
    right_kind = [error for error in errors if error not in kinds] or errors
    error, fields = right_kind[0], _fields(place[:-1])
    value = error["input"]
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(place[-1]), list(fields), 1)
        meant = f"did you mean {near[0]}?" if near else f"these are {', '.join(fields)}"
        return f"there is no such entry; {meant}" if len(place) > 1 else "there is no such entry"
    if error["type"] == "missing" and isinstance(error["loc"][-1], int):
        return f"{reprlib.repr(value)} has no number {error['loc'][-1] + 1}: {fields[str(place[1])].description}"
    if error["type"] == "missing":
        lacks = fields.get(str(place[-1]))
        return f"is missing: {lacks.description}" if lacks and lacks.description else "is missing"
    if error["type"] == "model_type":
        kind = "a formula, or a table {formula = ...}" if place[:2] == ("model", "later") else "a table of entries"
        return f"Input should be {kind}, not {reprlib.repr(value)}"
    if len(right_kind) > 1 and (entry := fields.get(str(place[-1]))):  # the value is of none of the allowed kinds
        return f"{reprlib.repr(value)} is of no allowed kind: {entry.description}"
    if error["type"] == "too_short":  # pydantic's message gives the number of items as the value
        return f"List should have at least {error['ctx']['min_length']} items, not {reprlib.repr(value)}"
    text = KINDS.get(error["type"]) or str(error["msg"]).removeprefix("Value error, ")
    if isinstance(value, Mapping | Section):
        return text
    near = difflib.get_close_matches(str(value), re.findall("'([^']*)'", str(error.get("ctx", {}).get("expected"))), 1)
    return f"{text}, not {reprlib.repr(value)}" + (f"; did you mean {near[0]!r}?" if near else "")


def _fields(place: Place) -> Mapping[str, Any]:
    """Return pydantic's fields of the section at a place such as ("privacy",), by name.

    The result is empty if there is no such section.
    """
    if place[:2] == ("model", "later"):
        return LaterModel.model_fields
    return SECTIONS[str(place[0])].model_fields if place and place[0] in SECTIONS else {}
