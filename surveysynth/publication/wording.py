"""The words of printed tables, which can be translated."""

from __future__ import annotations

import string
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..storage import as_path

OWN = Path(__file__).with_name("wording.toml")
FREE = "glossary"  # the section that may have any entries


class Wording:
    """Templates of the headings, titles and footnotes of printed tables, by name.

    Parameters
    ----------
    path : str or Path, optional
        A translated or changed copy of ``wording.toml``; by default ``wording.toml`` of this package.

    Raises
    ------
    InputError
        The file cannot be read; texts are missing, empty or unknown; the placeholders of a text differ from those in
        ``wording.toml``.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._sections = _read(OWN) if path is None else _checked(as_path(path))

    @property
    def language(self) -> str:
        """Code of the language, as for the attribute ``lang`` of html."""
        return str(self._sections["language"])

    @property
    def glossary(self) -> dict[str, str]:
        """The terms of the glossary with their meanings."""
        return dict(self._sections[FREE])

    def __call__(self, entry: str, **values: object) -> str:
        """Return the text with the name "section.name", with values in place of its placeholders."""
        section, _, name = entry.partition(".")
        return str(self._sections[section][name]).format(**values)


@cache
def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _checked(path: Path) -> dict[str, Any]:
    """Read a wording file.  Raise InputError if texts are missing, empty or unknown, or have wrong placeholders."""
    try:
        sections = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"the words in {str(path)!r} cannot be read: {error}") from None
    known, texts = _texts(_read(OWN)), _texts(sections)
    wrong = [f"{name} is missing" for name in known if name not in texts]
    wrong += [f"{name} is not one of the texts" for name in texts if name not in known]
    for name in set(known) & set(texts):
        if not isinstance(texts[name], str) or not texts[name]:
            wrong.append(f"{name} is no text")
        elif (has := _placeholders(name, texts[name])) != _placeholders(name, known[name]):
            needs = " and ".join(sorted(f"{{{each}}}" for each in _placeholders(name, known[name]))) or "no placeholder"
            wrong.append(f"{name} has {', '.join(sorted(has)) or 'no placeholder'}, and needs {needs}")
    if wrong:
        raise InputError(f"the words in {str(path)!r} do not fit: {'; '.join(sorted(wrong))}")
    return sections


def _texts(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return all texts of a wording file, with their names "section.name" as keys.

    The terms of the glossary are left out, because a translation may have other terms; the glossary is one entry.
    """
    texts: dict[str, Any] = {}
    for section, value in sections.items():
        if section == FREE and isinstance(value, dict):
            texts[FREE] = "free"
        elif isinstance(value, dict):
            texts |= {f"{section}.{name}": text for name, text in value.items()}
        else:
            texts[section] = value
    return texts


def _placeholders(name: str, text: str) -> set[str]:
    try:
        return {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}
    except ValueError:
        raise InputError(f"the text of {name} has a brace without its other one") from None
