"""Commands that refuse an option that is given twice.

The parser would use the last value and silently ignore the first, so an outcome could be missing from a release.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption
from typer.models import CommandFunctionType

from ..errors import InputError


class Once(TyperCommand):
    """A command that raises InputError if an option is given twice, unless the option takes several values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: D102
        given = self.make_parser(ctx).parse_args(args=[*args])[2]
        options = [param for param in given if isinstance(param, TyperOption) and not param.multiple]
        twice = [name for name, number in Counter(option.opts[-1] for option in options).items() if number > 1]
        if twice:
            raise InputError(
                f"{', '.join(twice)}: given more than once, and only the last would count; give an option once, and "
                "several values of it by commas"
            )
        return super().parse_args(ctx, args)


class Commands(typer.Typer):
    """An application whose commands refuse options that are given twice."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Register a command of the class :class:`Once`.  The arguments are those of ``typer.Typer.command``."""
        return super().command(name, cls=Once, **settings)
