"""The texts of the web page in English, German and French, from ``words.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

LANGUAGES = {"en": "English", "de": "Deutsch", "fr": "Français"}
FILE = Path(__file__).with_name("words.toml")


@cache
def every_word() -> dict[str, dict[str, str]]:
    """Return the page's texts in all languages, as {key: {language: text}}."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


class Words:
    """The page's texts in one language: ``words("plan.saved", file="plan.toml")`` is a text with its parts filled in.

    Parameters
    ----------
    language : {"en", "de", "fr"}
    """

    def __init__(self, language: str) -> None:
        self.language = language

    def __call__(self, key: str, **parts: object) -> str:
        """Return the text with the name ``key``, with ``parts`` in place of its placeholders."""
        text = every_word()[key][self.language]
        return text.format_map(parts) if parts else text


def language_of(query: Mapping[str, str], accepted: str) -> str:
    """Return the language that the address asks for, or else the first known one that the browser accepts.

    Parameters
    ----------
    query : mapping
        The query of the address, as ``{"lang": "de"}``.
    accepted : str
        The header ``Accept-Language``.
    """
    wanted = [query.get("lang", ""), *(each.split(";")[0].strip()[:2].lower() for each in accepted.split(","))]
    return next((each for each in wanted if each in LANGUAGES), "en")
