"""HTML input fields of the web page.  ``page.js`` sends each answer as (name of the question, its key, the value)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from htmltools import Tag, TagList, tags

from ..errors import InputError
from .number_text import number_in
from .project import Project
from .words import Words

Kind = Literal["text", "number", "percent", "column", "columns", "yes", "choice", "list"]
STAGES = 2  # number of sampling stages that can be named; the plan's file takes more


@dataclass(frozen=True)
class Entry:
    """A question whose answer is one entry of the plan.

    Attributes
    ----------
    name : str
        Name of the entry, as "survey.weights".  Its label is the word "entry.weights", its help "help.weights".
    kind : str
        What is asked for: a text, a number, a share in percent, a column, a column for each sampling stage, yes or no,
        one of ``choices``, or a list by commas.
    choices : tuple of str
        The answers of a "choice".
    """

    name: str
    kind: Kind = "text"
    choices: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """Name of the entry without its section."""
        return self.name.partition(".")[2]

    def shown(self, project: Project, words: Words) -> Tag:
        """Return the HTML of the question with its help text, and a place for the error message of a refused answer."""
        value, label = project.settings[self.name], words(f"entry.{self.short}")
        if value is not None and self.short in project.guessed:
            label = words("guessed", label=label)
        asked = {"send": "entry", "key": self.name, "help": words(f"help.{self.short}")}
        if self.kind == "yes":
            return check(label, bool(value), **asked)
        if self.kind in ("column", "columns"):
            named = {"": words("no_column")} | {c: project.called(c) for c in project.columns}
            many = 1 if self.kind == "column" else STAGES
            given = [value] if isinstance(value, str) else [*(value or ())]
            return select(label, named, [*given, *[""] * many][: max(many, len(given))], **asked)
        if self.kind == "choice":
            named = {"": words("not_given")} | {c: words(f"choice.{c}") for c in self.choices}
            return select(label, named, [value or ""], **asked)
        if self.kind == "list":
            return text(label, ", ".join(value or ()), **asked)
        if self.kind == "text":
            return text(label, value or "", **asked)
        if isinstance(value, Mapping):
            return tags.div(tags.p(tags.strong(label)), tags.p(words("in_file"), class_="help"), class_="question")
        shown = value if value is None or self.kind == "number" else round(value * 100, 10)
        return number(label, shown, **asked)

    def entered(self, answer: Any) -> Any:
        """Convert an answer to the value of the plan's entry.  Return None for an empty answer and for "no"."""
        if self.kind in ("number", "percent"):
            found = number_in("" if answer is None else str(answer))
            return found if found is None or self.kind == "number" else round(found / 100, 12)
        if self.kind in ("columns", "list"):
            given = answer.split(",") if isinstance(answer, str) else answer
            if self.kind == "columns" and "" in given and any(given[given.index("") :]):
                raise InputError("name the first stage before the second")
            return [each.strip() for each in given if each.strip()] or None
        return None if answer is None or answer is False or answer == "" else answer


def text(label: str, value: str, *, send: str, key: str, help: str) -> Tag:
    """Return the HTML of a question that is answered by a line of text."""
    place = place_of(send, key)
    control = tags.input(type="text", id=place, value=value, autocomplete="off", **_sent(send, key, help))
    return _question(place, tags.label(label, {"for": place}), control, help)


def lines(label: str, value: Iterable[object], *, send: str, key: str, help: str, rows: int = 4) -> Tag:
    """Return the HTML of a question that is answered by several lines of text."""
    place = place_of(send, key)
    control = tags.textarea("\n".join(map(str, value)), id=place, rows=str(rows), **_sent(send, key, help))
    return _question(place, tags.label(label, {"for": place}), control, help)


def number(label: str, value: float | None, *, send: str, key: str, help: str) -> Tag:
    """Return the HTML of a question that is answered by a number."""
    place, shown = place_of(send, key), "" if value is None else plain(value)
    control = tags.input(type="text", inputmode="decimal", id=place, value=shown, **_sent(send, key, help))
    return _question(place, tags.label(label, {"for": place}), control, help)


def pair(
    label: str, values: tuple[float, float] | None, first: str, second: str, *, send: str, key: str, help: str
) -> Tag:  # fmt: skip
    """Return the HTML of a question that is answered by two numbers, such as a lower and an upper bound."""
    place, shown = place_of(send, key), ("", "") if values is None else tuple(plain(each) for each in values)
    controls = [
        tags.label(
            word, " ",
            tags.input(
                type="text", inputmode="decimal", id=where, value=value, data_many="", **_sent(send, key, help)
            ),
        )
        for word, where, value in zip((first, second), (place, f"{place}_2"), shown, strict=True)
    ]  # fmt: skip
    return tags.fieldset(tags.legend(label), *controls, *_about(place, help), class_="question pair")


def check(label: str, value: bool, *, send: str, key: str, help: str) -> Tag:
    """Return the HTML of a checkbox for a yes-or-no question."""
    place = place_of(send, key)
    checked: dict[str, Any] = {"checked": ""} if value else {}
    control = tags.input(checked, type="checkbox", id=place, **_sent(send, key, help))
    return _question(place, tags.label(control, " ", label, {"for": place}), None, help)


def checks(label: str, named: Mapping[str, str], chosen: Iterable[str], *, send: str, key: str, help: str) -> Tag:
    """Return the HTML of a group of checkboxes, of which any number may be ticked."""
    place, chosen = place_of(send, key), {*chosen}
    boxes = [
        tags.label(
            tags.input(
                {"checked": ""} if each in chosen else {}, type="checkbox", value=each, id=f"{place}_{i}", data_many="",
                **_sent(send, key, ""),
            ),
            " ", name,
        )
        for i, (each, name) in enumerate(named.items())
    ]  # fmt: skip
    group = tags.div(*boxes, class_="checks")
    return tags.fieldset(tags.legend(label), group, *_about(place, help), class_="question")


def select(label: str, named: Mapping[str, str], chosen: list[str], *, send: str, key: str, help: str) -> Tag:
    """Return the HTML of a question with a drop-down list for each answer in ``chosen``."""
    place = place_of(send, key)
    controls = [
        choice(
            named, each, send=send, key=key, help=help, place=place if i == 0 else f"{place}_{i}",
            label=label if len(chosen) == 1 else f"{label}: {i + 1}",
        )
        for i, each in enumerate(chosen)
    ]
    if len(chosen) > 1:
        for control in controls:
            control.attrs["data-many"] = ""
    return _question(place, tags.label(label, {"for": place}), TagList(*controls), help)


def choice(
    named: Mapping[str, str], chosen: str, *, send: str, key: str, help: str, place: str, label: str = ""
) -> Tag:  # fmt: skip
    """Return the HTML of a drop-down list in which ``chosen`` is selected."""
    options = [
        tags.option({"selected": ""} if value == chosen else {}, name, value=value) for value, name in named.items()
    ]
    return tags.select(*options, id=place, aria_label=label, **_sent(send, key, help))


def button(label: str, *, send: str, key: str = "", main: bool = False, disabled: bool = False) -> Tag:
    """Return the HTML of a button that sends the name ``send`` and the key ``key`` to the server."""
    off: dict[str, Any] = {"disabled": ""} if disabled else {}
    kind = "btn btn-primary" if main else "btn btn-outline-primary"
    return tags.button(off, label, type="button", id=place_of(send, key), class_=kind, data_send=send, data_key=key)


def fault_place(place: str) -> Tag:
    """Return the HTML element for the error message of a refused answer.  Screen readers read it out at once."""
    return tags.p(id=f"fault-{place}", class_="fault", role="alert", lang="en")


def plain(number: float) -> str:
    """Return a number as text with up to 15 digits: whole numbers without a decimal point, small ones as 1.5e-10."""
    return f"{number:.15g}" if abs(number) < 1e15 else f"{number:.0f}"


def _question(place: str, label: Tag, control: Tag | TagList | None, help: str) -> Tag:
    return tags.div(label, control, *_about(place, help), class_="question")


def _about(place: str, help: str) -> tuple[Tag | None, Tag]:
    return tags.p(help, id=f"help-{place}", class_="help") if help else None, fault_place(place)


def _sent(send: str, key: str, help: str) -> dict[str, Any]:
    place = place_of(send, key)
    described = f"help-{place} fault-{place}" if help else f"fault-{place}"
    return {"data_send": send, "data_key": key, "aria_describedby": described}


def place_of(send: str, key: str) -> str:
    """Return the HTML id of the question with name ``send`` and key ``key``.  Different keys have different ids."""
    return f"{send}-{''.join(c if c.isascii() and c.isalnum() else f'_{ord(c):x}_' for c in key)}"
