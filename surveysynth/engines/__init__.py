"""Engines that run the Stan programs: embedded (stanli) and CmdStan (cmdstanpy)."""

from ..validation import one_of
from . import scratch
from .base import Diagnostics, Engine, Samples
from .cmdstan import CmdStan
from .embedded import Embedded

__all__ = ["Diagnostics", "Engine", "Samples", "get_engine"]


def get_engine(name: str = "auto") -> Engine:
    """Return an engine by name: ``embedded``, ``cmdstan`` or ``auto``.

    ``auto`` is the embedded engine, so that the results of a seeded run do not depend on installed software.  CmdStan
    is not faster: it is for comparison, and for programs that the embedded engine cannot run.  The call first removes
    the folders with confidential files that killed processes have not removed.

    Raises
    ------
    InputError
        An unknown name.
    EngineError
        CmdStan was asked for and cannot be used.
    """
    scratch.sweep()
    one_of(name, ("auto", "embedded", "cmdstan"), "engine")
    return CmdStan() if name == "cmdstan" else Embedded()
