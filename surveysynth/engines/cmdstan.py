"""CmdStan through cmdstanpy, for users who have installed it."""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EngineError, guarded
from .base import ADAPT_DELTA, Samples, diagnose, program_path
from .compiled import compiled
from .scratch import scratch_folder

if TYPE_CHECKING:
    from cmdstanpy import CmdStanMCMC


LEAST = (2, 33)  # first version of CmdStan with the array syntax and the log_prob method that are used here
TRIAL = "parameters { real x; } model { x ~ std_normal(); }\n"
INSTALL = "install one with cmdstanpy.install_cmdstan(), set CMDSTAN to its folder, or use engine='embedded'"


def find_cmdstan() -> tuple[Path, str]:
    """Return the folder and the version of the CmdStan that cmdstanpy finds.

    Raises
    ------
    EngineError
        There is no CmdStan, or it is too old.  The message says what to do.
    """
    import cmdstanpy

    named = os.environ.get("CMDSTAN")
    try:
        with _silence():
            home = Path(cmdstanpy.cmdstan_path())
    except ValueError:
        nothing = f"CMDSTAN is set to {named!r}, which is no folder of CmdStan: it has no makefile"
        raise EngineError(f"{nothing if named else 'cmdstanpy finds no CmdStan'}; {INSTALL}") from None
    found = re.search(r"^CMDSTAN_VERSION *:= *((\d+)\.(\d+)\S*)", (home / "makefile").read_text(), re.M)
    if found is None:
        raise EngineError(f"the makefile of {str(home)!r} says no version of CmdStan; {INSTALL}")
    if (int(found[2]), int(found[3])) < LEAST:
        least = ".".join(map(str, LEAST))
        raise EngineError(f"CmdStan {found[1]} in {str(home)!r} is too old: {least} or later is needed; {INSTALL}")
    return home, found[1]


def cmdstan_version() -> str | None:
    """Return the version of the installed CmdStan, or None if there is no CmdStan that can be used."""
    try:
        return find_cmdstan()[1]
    except EngineError:
        return None


def try_cmdstan() -> str:
    """Compile and run a small program, and return the version of CmdStan.

    Raises
    ------
    EngineError
        There is no CmdStan, or the program cannot be compiled or run.  The message says why.
    """
    engine = CmdStan()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "trial.stan"
        program.write_text(TRIAL)
        engine.sample(str(program), {}, chains=1, warmup=100, draws=100, seed=1)
    return engine.version


class CmdStan:
    """Engine that compiles a program once, in a minute or two, and keeps the executable in the user's cache folder."""

    name = "cmdstan"

    def __init__(self) -> None:
        self.home, self.version = find_cmdstan()

    def sample(
        self, program: str, data: Mapping[str, Any], *, chains: int, warmup: int, draws: int, seed: int
    ) -> Samples:
        """Draw from the posterior of a Stan program by NUTS; see :class:`surveysynth.engines.base.Engine`.

        Data and draws are confidential.  They pass through files that only this user can read, in a
        :func:`surveysynth.engines.scratch.scratch_folder` that is made after the program has been compiled.  Programs
        run one after the other, each with all its chains in parallel.

        Raises
        ------
        EngineError
            The program does not compile or could not be sampled.  If sampling failed, Stan's own message is not
            repeated, as it may quote the data.
        """

        def sample() -> Samples:
            model = compiled(program_path(program), self.home, self.version)
            with scratch_folder() as folder, _files_of_this_user():
                path = folder / "data.json"
                path.write_text(json.dumps({k: np.asarray(v).tolist() for k, v in data.items()}))
                fit = model.sample(
                    data=str(path), chains=chains, iter_warmup=warmup, iter_sampling=draws, seed=seed,
                    adapt_delta=ADAPT_DELTA, output_dir=str(folder), show_progress=False, sig_figs=18,
                )  # fmt: skip
                return to_samples(fit, self.version)

        def stopped(kind: str) -> EngineError:
            return EngineError(f"CmdStan could not sample the program {program!r}")

        with _silence():
            return guarded(sample, (RuntimeError, ValueError), stopped)


def to_samples(fit: CmdStanMCMC, version: str) -> Samples:
    """Convert a fit of cmdstanpy to :class:`Samples`.

    cmdstanpy concatenates the chains; here each parameter gets an array (chains, draws, ...).
    """
    values = {}
    for name, flat in fit.stan_variables().items():
        shape = (fit.chains, fit.num_draws_sampling, *flat.shape[1:])
        values[name] = np.asarray(flat, dtype=np.float64).reshape(shape)  # chains are concatenated in order
    divergences = int(np.sum(fit.method_variables()["divergent__"]))
    return Samples(values, diagnose(values, divergences), CmdStan.name, version)


_alone = threading.RLock()  # logger and umask belong to the process


@contextmanager
def _silence() -> Iterator[None]:
    """Within this context, silence the log of cmdstanpy, which may quote the data."""
    from cmdstanpy.utils import get_logger

    with _alone:
        logger = get_logger()  # its first call sets the level and adds a handler
        level = logger.level
        logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            logger.setLevel(level)


@contextmanager
def _files_of_this_user() -> Iterator[None]:
    """Within this context, create files with mode 0600, also in child processes.

    The umask is set for the whole process, since cmdstanpy cannot set it for CmdStan alone.
    """
    umask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(umask)
