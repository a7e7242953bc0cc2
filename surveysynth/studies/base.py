"""Studies of repeated samples: replicates made one by one, kept in a folder, and gone on with after a stop.

    out/settings.json           what every replicate is made with, the seed included
    out/replicates/00001/ ...   one folder a finished replicate, whole or not there

A public or simulated population has nothing to protect.  So a study may be seeded, and its seed stays in its folder,
so that it can be done again and gone on with.
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
    """What came out of one sample.

    Attributes
    ----------
    number : int
        From 1.
    frames : dict of str to pandas.DataFrame
        What was found, by name.
    failures : list of dict
        What failed, and why.
    seconds : float
        Of work.
    """

    number: int
    frames: dict[str, pd.DataFrame]
    failures: list[dict[str, Any]]
    seconds: float


@dataclass(frozen=True)
class Replicates:
    """What came out of all samples of a study.

    Attributes
    ----------
    settings : dict
        What every replicate was made with, the seed included; as JSON reads it.
    kept : list of Replicate
    """

    settings: dict[str, Any]
    kept: list[Replicate]

    def all(self, name: str) -> pd.DataFrame:
        """What was found under a name, over the replicates."""
        return stacked([one.frames.get(name, pd.DataFrame()) for one in self.kept])

    def first(self, name: str) -> pd.DataFrame:
        """The same of the first replicate."""
        return self.kept[0].frames.get(name, pd.DataFrame())

    def failures(self, columns: Sequence[str]) -> pd.DataFrame:
        """One row a failure."""
        return pd.DataFrame([row for one in self.kept for row in one.failures], columns=list(columns))

    @property
    def seconds(self) -> float:
        """Of work, over all replicates and processes."""
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
    """Replicates 1 to R of a study: those that its folder holds, and the others, made and kept there one by one.

    Parameters
    ----------
    work, shared, workers, scheduler
        As for :func:`surveysynth.tasks.run`.
    settings : dict
        What every replicate is made with, the seed included.
    replicates : int
        R.
    out : str or Path, optional
        The folder, made where it is not there; without one nothing is kept.

    Raises
    ------
    InputError
        Numbers of replicates or workers below 1; a folder that holds something else, a study with other settings, or a
        damaged replicate.
    """
    whole(replicates, "replicates")
    whole(workers, "workers")
    settings = json.loads(json.dumps({**settings, "surveysynth": __version__}))
    with tempfile.TemporaryDirectory() if out is None else nullcontext(str(out)) as name:
        folder = Path(name)
        _claim(folder, settings)
        for left in (folder / "replicates").glob(".*"):  # by a study that was killed
            shutil.rmtree(left, ignore_errors=True)
        folders = {number: folder / "replicates" / f"{number:05d}" for number in range(1, replicates + 1)}
        todo = [number for number, place in folders.items() if not place.is_dir()]
        with bar("samples", replicates, replicates - len(todo)) as advance:
            for done in run(work, shared, todo, workers=workers, scheduler=scheduler):
                _keep(done, folders[done.number])
                advance()
        return Replicates(settings, [_read(number, place) for number, place in folders.items()])


@contextmanager
def recorded(failures: list[dict[str, Any]] | None, **what: Any) -> Iterator[None]:
    """Add what fails to a list, and why, and go on; without a list errors are raised."""
    try:
        yield
    except SurveySynthError as error:
        if failures is None:
            raise
        failures.append(what | {"error": type(error).__name__, "reason": str(error)})


def stacked(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all frames that have any."""
    frames = [frame for frame in frames if len(frame)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def seed_of(*key: int) -> int:
    """A seed of its own for everything that is random: the first key is the entropy, the others say what it is for."""
    entropy, *purpose = key
    return int(np.random.SeedSequence(entropy, spawn_key=purpose).generate_state(1, np.uint64)[0])


def entropy(out: str | Path | None, seed: int | None) -> int:
    """The seed that was given, that of the study in the folder, or one from the operating system."""
    check_seed(seed)
    if seed is not None:
        return int(seed)
    if out is not None and (Path(out) / SETTINGS).is_file():
        return int(_settings(Path(out))["seed"])
    return secrets.randbits(64)


def check_free(out: Path) -> None:
    """Refuse a place where there is something that is no study (InputError)."""
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
    """Make the folder of a study, or make sure that the one there is of this study."""
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
    """Folder and seed of a study with a folder for every cell: those of the cells that it holds, where it was begun."""
    folder = None if out is None else Path(out)
    begun = [] if folder is None else sorted(folder.glob(f"*/{SETTINGS}"))
    if folder is not None and not begun:
        check_free(folder)
    return folder, entropy(begun[0].parent if begun else None, seed)


def _keep(done: Replicate, folder: Path) -> None:
    """Write a replicate to its folder, which appears whole or not at all."""
    with whole_folder(folder, mode=0o755) as staging:
        for name, frame in done.frames.items():
            if len(frame):
                frame.to_parquet(staging / f"{name}.parquet", index=False)
        said = {"failures": done.failures, "seconds": done.seconds}
        (staging / "run.json").write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")


def _read(number: int, folder: Path) -> Replicate:
    try:
        frames = {file.stem: pd.read_parquet(file) for file in sorted(folder.glob("*.parquet"))}
        said = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return Replicate(number, frames, said["failures"], said["seconds"])
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"replicate {number} cannot be read ({type(error).__name__}): delete {str(folder)!r}, and it is made again"
        ) from None
