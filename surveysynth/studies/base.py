"""Studies of repeated samples.  The results of each sample are stored at once, so that a stopped study can continue.

A *replicate* is one sample with its results (in the audit: one batch of simulated attacks).

    out/settings.json           settings of every replicate, including the seed
    out/replicates/00001/ ...   one folder for each finished replicate, which is complete or does not exist

A public or simulated population needs no protection.  So the seed of a study may be stored in its folder, and the
study can be repeated and continued.
"""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._version import __version__
from ..errors import InputError, SurveySynthError
from ..progress import bar
from ..storage import is_free, whole_file, whole_folder
from ..tasks import run
from ..validation import check_seed, whole

SETTINGS = "settings.json"


@dataclass(frozen=True)
class Replicate:
    """The results of one sample.

    Attributes
    ----------
    number : int
        Number of the replicate, from 1.
    frames : dict of str to pandas.DataFrame
        Results, by name.
    failures : list of dict
        Failures with their reasons.
    seconds : float
        Computing time in seconds.
    """

    number: int
    frames: dict[str, pd.DataFrame]
    failures: list[dict[str, Any]]
    seconds: float


@dataclass(frozen=True)
class Replicates:
    """The results of all samples of a study.

    Attributes
    ----------
    settings : dict
        The settings of every replicate, including the seed, after conversion to JSON and back.
    kept : list of Replicate
        The replicates, in the order of their numbers.
    """

    settings: dict[str, Any]
    kept: list[Replicate]

    def all(self, name: str) -> pd.DataFrame:
        """Return the results named ``name`` from all replicates, in one table."""
        return stacked([one.frames.get(name, pd.DataFrame()) for one in self.kept])

    def first(self, name: str) -> pd.DataFrame:
        """Return the results named ``name`` from the first replicate."""
        return self.kept[0].frames.get(name, pd.DataFrame())

    def failures(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return a table with one row for each failure in any replicate."""
        return pd.DataFrame([row for one in self.kept for row in one.failures], columns=list(columns))

    @property
    def seconds(self) -> float:
        """Computing time in seconds, summed over all replicates and processes."""
        return sum(one.seconds for one in self.kept)


def repeat(
    work: Callable[[Any, int], Replicate],
    shared: Any,
    settings: dict[str, Any],
    replicates: int,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    out: str | Path | None = None,
) -> Replicates:
    """Make the replicates of a study, and read those that were stored in the folder earlier.

    Parameters
    ----------
    work, shared, workers, scheduler
        See :func:`surveysynth.tasks.run`.
    settings : dict
        The settings of every replicate, including the seed.
    replicates : int
        The number of replicates, which are numbered from 1.
    out : str or Path, optional
        The folder, which is made if it does not exist.  Each new replicate is stored there as soon as it is finished.
        Without a folder nothing is stored.

    Raises
    ------
    InputError
        The number of replicates or workers is below 1.  The folder contains something else, a study with other
        settings, or a damaged replicate.
    """
    whole(replicates, "replicates")
    whole(workers, "workers")
    settings = json.loads(json.dumps({**settings, "surveysynth": __version__}))
    with tempfile.TemporaryDirectory() if out is None else nullcontext(str(out)) as name:
        folder = Path(name)
        _claim(folder, settings)
        for unfinished in (folder / "replicates").glob(".*"):  # from a study that was killed
            shutil.rmtree(unfinished, ignore_errors=True)
        folders = {number: folder / "replicates" / f"{number:05d}" for number in range(1, replicates + 1)}
        todo = [number for number, path in folders.items() if not path.is_dir()]
        with bar("samples", replicates, replicates - len(todo)) as advance:
            for done in run(work, shared, todo, workers=workers, scheduler=scheduler):
                _keep(done, folders[done.number])
                advance()
        return Replicates(settings, [_read(number, path) for number, path in folders.items()])


@contextmanager
def recorded(failures: list[dict[str, Any]] | None, **what: Any) -> Iterator[None]:
    """Within this context, add an error to the list ``failures`` instead of raising it, unless the list is None.

    ``what`` are facts that are recorded with the error, such as the number of the replicate.
    """
    try:
        yield
    except SurveySynthError as error:
        if failures is None:
            raise
        failures.append(what | {"error": type(error).__name__, "reason": str(error)})


def stacked(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate frames.  The result is empty if no frame has rows."""
    frames = [frame for frame in frames if len(frame)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def seed_of(*key: int) -> int:
    """Derive a seed for one purpose: ``key`` is the study's seed, then numbers that identify the purpose."""
    entropy, *purpose = key
    return int(np.random.SeedSequence(entropy, spawn_key=purpose).generate_state(1, np.uint64)[0])


def entropy(out: str | Path | None, seed: int | None) -> int:
    """Return the given seed, otherwise the seed of the study in the folder, otherwise a new random seed."""
    check_seed(seed)
    if seed is not None:
        return int(seed)
    if out is not None and (Path(out) / SETTINGS).is_file():
        return int(_settings(Path(out))["seed"])
    return secrets.randbits(64)


def check_free(out: Path) -> None:
    """Raise InputError for a path that exists and is not an empty folder: a study is not mixed with other files."""
    if not is_free(out):
        raise InputError(f"{str(out)!r} exists and is not the folder of a study; choose another one")


def _settings(out: Path) -> dict[str, Any]:
    try:
        found = json.loads((out / SETTINGS).read_text(encoding="utf-8"))
        int(found["seed"])
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{SETTINGS} in {str(out)!r} is damaged; choose another folder") from None
    return dict(found)


def _claim(out: Path, settings: dict[str, Any]) -> None:
    """Make the folder of a study, or check that the existing folder has a study with the same settings.

    Raise InputError if the folder has a study with other settings, or other files.
    """
    if (out / SETTINGS).is_file():
        found = _settings(out)
        differing = [name for name in {**settings, **found} if settings.get(name) != found.get(name)]
        if differing:
            raise InputError(
                f"{str(out)!r} holds a study with other settings ({', '.join(differing)}); run it with the settings in "
                f"its {SETTINGS}, or choose another folder"
            )
        return
    check_free(out)
    (out / "replicates").mkdir(parents=True)
    with whole_file(out / SETTINGS, mode=0o666) as stream:
        stream.write(f"{json.dumps(settings, indent=2)}\n".encode())


def folder_and_seed(out: str | Path | None, seed: int | None) -> tuple[Path | None, int]:
    """Return the folder and the seed of a study that consists of several studies, each in a subfolder.

    Without a given seed, the seed is that of the study in the first subfolder, or else a new random seed.  Raise
    InputError if the folder is not empty and contains no study.
    """
    folder = None if out is None else Path(out)
    begun = [] if folder is None else sorted(folder.glob(f"*/{SETTINGS}"))
    if folder is not None and not begun:
        check_free(folder)
    return folder, entropy(begun[0].parent if begun else None, seed)


def _keep(done: Replicate, folder: Path) -> None:
    """Write a replicate to a folder, completely or not at all."""
    with whole_folder(folder, mode=0o755) as staging:
        for name, frame in done.frames.items():
            if len(frame):
                frame.to_parquet(staging / f"{name}.parquet", index=False)
        record = {"failures": done.failures, "seconds": done.seconds}
        (staging / "run.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _read(number: int, folder: Path) -> Replicate:
    try:
        frames = {file.stem: pd.read_parquet(file) for file in sorted(folder.glob("*.parquet"))}
        record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return Replicate(number, frames, record["failures"], record["seconds"])
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"replicate {number} cannot be read ({type(error).__name__}): delete {str(folder)!r}, and it is made again"
        ) from None
