"""Engines for Stan programs: embedded (stanli) and CmdStan (cmdstanpy)."""

from ..validation import one_of
from . import scratch
from .base import Diagnostics, Engine, Samples
from .cmdstan import CmdStan
from .embedded import Embedded

__all__ = ["Diagnostics", "Engine", "Samples", "get_engine"]


def get_engine(name: str = "auto") -> Engine:
    """The engine with a name: ``embedded``, ``cmdstan`` or ``auto``.

    ``auto`` is the embedded engine, so that seeded results do not depend on the installation.  CmdStan is not faster:
    it is for comparison, and for programs that the embedded engine cannot run.

    Raises
    ------
    InputError
        An unknown name.
    EngineError
        CmdStan cannot be used.
    """
    scratch.sweep()  # remove confidential files of killed processes
    one_of(name, ("auto", "embedded", "cmdstan"), "engine")
    return CmdStan() if name == "cmdstan" else Embedded()
