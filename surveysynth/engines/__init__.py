"""Engines that run the Stan programs: embedded (stanli) and CmdStan (cmdstanpy)."""

from ..errors import InputError
from . import scratch
from .base import Diagnostics, Engine, Samples
from .cmdstan import CmdStan, cmdstan_version
from .embedded import Embedded

__all__ = ["Diagnostics", "Engine", "Samples", "get_engine"]


def get_engine(name: str = "auto") -> Engine:
    """The engine of that name: ``embedded``, ``cmdstan`` or ``auto``.

    ``auto`` is CmdStan where cmdstanpy finds one, else the embedded engine.

    Raises
    ------
    InputError
        An unknown name.
    EngineError
        CmdStan was asked for and is not installed.
    """
    scratch.sweep()  # confidential files that a process left which was killed
    if name == "auto":
        name = "embedded" if cmdstan_version() is None else "cmdstan"
    engines: dict[str, type[Embedded] | type[CmdStan]] = {"embedded": Embedded, "cmdstan": CmdStan}
    if name not in engines:
        raise InputError(f"engine={name!r} is not one of auto, embedded, cmdstan")
    return engines[name]()
