"""The settings of a plan: the values of all entries of all sections, after a check of their types.

An entry is a named value in a section of the plan.  Its full name is ``section.name``, such as "privacy.epsilon".  The
sections for columns and outcomes exist once for each of them: "columns.age.missing", "outcomes.income.bounds".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import Field, ValidationError

from ..errors import InputError
from .faults import faults, removed_entries
from .sections import (
    BY_NAME,
    SECTIONS,
    Column,
    Edits,
    Model,
    OutcomeSettings,
    Privacy,
    ReleaseSettings,
    Section,
    Survey,
    Tables,
)


class Settings(Section):
    """All entries of a plan, by section.

    Raises
    ------
    InputError
        From :meth:`from_entries`: unknown entries, or values of the wrong kind.
    """

    survey: Survey
    columns: dict[str, Column] = Field({}, description="changes to columns when the file is read, by column")
    outcomes: dict[str, OutcomeSettings] = Field({}, description="public facts about outcomes, by outcome")
    model: Model
    privacy: Privacy
    edits: Edits = Edits()
    tables: Tables = Tables()
    release: ReleaseSettings = ReleaseSettings()

    @classmethod
    def from_entries(cls, sections: Mapping[str, Any]) -> Self:
        """Make settings from a mapping of each section to its entries.

        Raise InputError for entries that are unknown, have a wrong value, or belong to an earlier version of plans.
        """
        if removed := removed_entries(sections):
            raise InputError(f"the plan is of an earlier version: {'; '.join(removed)}")
        try:
            return cls.model_validate(dict(sections))
        except ValidationError as error:
            wrong = faults(error.errors(), sections)
        raise InputError(f"the plan is not valid: {'; '.join(f'{entry}: {text}' for entry, text in wrong.items())}")

    @classmethod
    def empty(cls) -> Self:
        """Make settings without any entry."""
        return cls.from_entries({"survey": {}, "model": {}, "privacy": {}})

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield the full name and the value of every entry.  An entry that is not given has the value None."""
        for section, kind in SECTIONS.items():
            if section in BY_NAME:
                for name, entries in getattr(self, section).items():
                    yield from ((f"{section}.{name}.{entry}", getattr(entries, entry)) for entry in kind.model_fields)
                continue
            for entry in kind.model_fields:
                yield f"{section}.{entry}", getattr(getattr(self, section), entry)

    def __getitem__(self, entry: str) -> Any:
        """Return the value of an entry such as "privacy.epsilon" or "columns.age.missing".

        Return None if the plan has no section for this column or outcome.
        """
        section, _, name = entry.partition(".")
        if section in BY_NAME:
            column, _, name = name.rpartition(".")
            named = getattr(self, section)
            return getattr(named[column], name) if column in named else None
        return getattr(getattr(self, section), name)

    def set(self, entries: Mapping[str, Any]) -> Self:
        """Return the settings with other values of some entries, given by full name.

        The value None removes an entry.  The name "columns" replaces the entries of all columns, and the name
        "outcomes" the entries of all outcomes.  Raise InputError if a name or a value is wrong.
        """
        sections: dict[str, dict[str, Any]] = self.model_dump(exclude_none=True)
        for entry, value in entries.items():
            section, _, name = str(entry).partition(".")
            column, _, column_entry = name.rpartition(".")
            if entry in BY_NAME:
                sections[entry] = {name: OutcomeSettings.entries(each) for name, each in (value or {}).items()}
            elif section in BY_NAME and column:
                sections[section].setdefault(column, {})[column_entry] = value
            elif section in BY_NAME or not name or section not in SECTIONS:
                raise InputError(
                    f"{entry!r} is no entry of a plan: write section.entry, of {', '.join(SECTIONS)}; "
                    "columns.name.entry and outcomes.name.entry"
                )
            else:
                sections.setdefault(section, {})[name] = value
        return self.from_entries({name: _without_none(section) for name, section in sections.items()})


def _without_none(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    return {name: _without_none(value) for name, value in part.items() if value is not None}
