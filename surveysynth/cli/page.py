"""The command ``surveysynth app``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .printing import console, print_filled


def page_command(
    plan: Annotated[
        Path | None,
        typer.Argument(help="The plan's file, made if it is not there; default plan.toml.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(help="Port on this machine; default a free one.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open a web page on which a team plans a release together.  The page writes the plan's file.

    Only this machine can reach the page (127.0.0.1), and on it only the first browser that opens its address. Ctrl-C
    stops the page.
    """
    from ..app.server import run_page
    from ..progress import work_begins

    def tell(address: str) -> None:
        print_filled(
            "The page is at this address, which works once, for one browser. Ctrl-C stops the page as soon as its work "
            "is done; the plan is saved."
        )
        console.print(address, markup=False, highlight=False, soft_wrap=True)

    work_begins()  # here, because threads that work cannot set handlers of signals
    run_page(plan, port, tell, browser=browser)
