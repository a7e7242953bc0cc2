"""The wheel on every Python that is here, in clean environments: it installs, releases, and gives the same bytes.

    python tests/wheels.py [python3.11 python3.13 ...]

One line an interpreter and number of threads: seconds, and the beginning of a hash of all public files of a release
from the same plan and test seed.  Exit code 1 where one fails or the hashes differ.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
WANTED = ("3.11", "3.12", "3.13")
MECHANISMS = {"strict": 9, "pseudo-posterior": 60}  # and their epsilons
PLAN = """
[survey]
file = "f.csv"
weights = "w"
[model]
formula = "pay ~ region + sex"
[privacy]
epsilon = {epsilon}
mechanism = "{mechanism}"
population_total = 12000
bounds = [0, 500000]
[tables]
by = ["region"]
[release]
folder = "release"
m = 2
"""


def interpreters() -> list[str]:
    """Those of the versions that are wanted, on the path or of pyenv."""
    found = []
    for version in WANTED:
        of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python3"))
        for place in filter(None, (shutil.which(f"python{version}"), *map(str, of_pyenv))):
            said = subprocess.run([place, "-V"], capture_output=True, text=True, check=False)
            if said.returncode == 0 and said.stdout.startswith(f"Python {version}."):
                found.append(place)
                break
    return found


def run(*command: str | Path, **settings: str) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=os.environ | settings, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def installed(python: str, wheel: Path, folder: Path) -> Path:
    """The command of a clean environment that holds the wheel and what the lock file says."""
    run(python, "-m", "venv", folder)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
    run(*pip, "--require-hashes", "-r", ROOT / "locks" / "demo.txt")
    run(*pip, "--no-deps", "--no-index", wheel)
    return folder / "bin" / "surveysynth"


def survey(folder: Path) -> None:
    rng = np.random.default_rng(1)
    n = 1500
    frame = pd.DataFrame({"region": rng.choice(list("abcd"), n), "sex": rng.choice(["f", "m"], n)})
    frame.assign(pay=rng.lognormal(10, 0.6, n).round(2), w=rng.uniform(2, 20, n).round(3)).to_csv(
        folder / "f.csv", index=False
    )


def hash_of(folder: Path) -> str:
    """Of all files of a release's public part, names and contents."""
    whole = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        whole.update(path.name.encode() + path.read_bytes())
    return whole.hexdigest()


def main(pythons: list[str]) -> int:
    found: dict[str, set[str]] = {mechanism: set() for mechanism in MECHANISMS}
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", here, ROOT)
        (wheel,) = here.glob("surveysynth-*.whl")
        survey(here)
        for number, python in enumerate(pythons):
            command = installed(python, wheel, here / f"env{number}")
            version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.strip()
            for mechanism, epsilon in MECHANISMS.items():
                (here / "plan.toml").write_text(PLAN.format(mechanism=mechanism, epsilon=epsilon))
                for threads in ("1", "2"):
                    begun, out = time.perf_counter(), here / f"{number}-{mechanism}-{threads}"
                    run(command, "release", here / "plan.toml", "--seed", "7", "--out", out,
                        **dict.fromkeys(THREADS, threads))  # fmt: skip
                    found[mechanism].add(hash_of(out / "public"))
                    seconds = time.perf_counter() - begun
                    print(f"{version}, {mechanism}, {threads} threads: {seconds:.0f} s, {hash_of(out / 'public')[:16]}",
                          flush=True)  # fmt: skip
    same = all(len(hashes) == 1 for hashes in found.values())
    print(f"{len(pythons)} interpreters: {'the same bytes' if same else 'NOT the same bytes'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or interpreters()))
