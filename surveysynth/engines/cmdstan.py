"""CmdStan through cmdstanpy, for users who have installed it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EngineError, guarded
from .base import ADAPT_DELTA, Samples, diagnose, program_path
from .scratch import scratch_folder

if TYPE_CHECKING:
    from cmdstanpy import CmdStanMCMC, CmdStanModel


def cmdstan_version() -> str | None:
    """Version of the CmdStan that cmdstanpy finds, or None."""
    import cmdstanpy

    with _silence():
        try:
            cmdstanpy.cmdstan_path()
        except ValueError:
            return None
        version = cmdstanpy.utils.cmdstan_version()
    return "unknown" if version is None else ".".join(map(str, version))


class CmdStan:
    """Compiles a program once (30-60 s, cached in the user's cache folder), then runs it."""

    name = "cmdstan"

    def __init__(self) -> None:
        version = cmdstan_version()
        if version is None:
            raise EngineError(
                "cmdstanpy finds no CmdStan; install one with cmdstanpy.install_cmdstan(), set CMDSTAN, "
                "or use engine='embedded'"
            )
        self.version = version

    def sample(
        self, program: str, data: Mapping[str, Any], *, chains: int, warmup: int, draws: int, seed: int
    ) -> Samples:
        """Sample with NUTS; see :class:`surveysynth.engines.base.Engine`.

        Data and draws are confidential: they pass through files that only this user can read, in a
        :func:`surveysynth.engines.scratch.scratch_folder`.  One program runs at a time, its chains side by side.
        """

        def sample() -> Samples:
            model = _compiled(program_path(program), self.version)
            with scratch_folder() as folder, _files_of_this_user():
                path = folder / "data.json"
                path.write_text(json.dumps({k: np.asarray(v).tolist() for k, v in data.items()}))
                fit = model.sample(
                    data=str(path), chains=chains, iter_warmup=warmup, iter_sampling=draws, seed=seed,
                    adapt_delta=ADAPT_DELTA, output_dir=str(folder), show_progress=False, sig_figs=18,
                )  # fmt: skip
                return to_samples(fit, self.version)

        def stopped(kind: str) -> EngineError:
            return EngineError(f"CmdStan could not compile or sample the program {program!r}")

        with _silence():
            return guarded(sample, (RuntimeError, ValueError), stopped)


def to_samples(fit: CmdStanMCMC, version: str) -> Samples:
    """Turn a cmdstanpy fit (draws first, chains second) into :class:`Samples` (chains first)."""
    values = {}
    for name, flat in fit.stan_variables().items():
        shape = (fit.chains, fit.num_draws_sampling, *flat.shape[1:])
        values[name] = np.asarray(flat, dtype=np.float64).reshape(shape)  # chains are concatenated in order
    divergences = int(np.sum(fit.method_variables()["divergent__"]))
    return Samples(values, diagnose(values, divergences), CmdStan.name, version)


def _compiled(source: Path, version: str) -> CmdStanModel:
    from cmdstanpy import CmdStanModel

    files = [source, *sorted(source.parent.glob("*.stanfunctions"))]  # what a program may include
    text = "".join(file.read_text() for file in files)
    key = hashlib.sha256((version + text).encode()).hexdigest()[:16]
    base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "surveysynth" / key
    base.mkdir(parents=True, exist_ok=True)
    for file in files:
        if not (base / file.name).exists():
            shutil.copyfile(file, base / file.name)
    return CmdStanModel(stan_file=str(base / source.name), stanc_options={"include-paths": [str(base)]})


_alone = threading.RLock()  # logger and umask belong to the process


@contextmanager
def _silence() -> Iterator[None]:
    """cmdstanpy logs what Stan prints, which may quote the data."""
    from cmdstanpy.utils import get_logger

    with _alone:
        logger = get_logger()  # whose first call makes it speak: it sets the level and adds a handler
        level = logger.level
        logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            logger.setLevel(level)


@contextmanager
def _files_of_this_user() -> Iterator[None]:
    """Files are made with mode 0600, also those of child processes; cmdstanpy can set no umask for CmdStan alone."""
    umask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(umask)
