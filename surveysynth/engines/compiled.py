"""Compiled CmdStan programs in the user's cache folder.

The folder name of a program ends in a key: a hash of everything that the executable depends on.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import EngineError
from ..progress import during
from ..storage import locked, whole_folder

if TYPE_CHECKING:
    from cmdstanpy import CmdStanModel

INCLUDE = re.compile(r'^[ \t]*#include[ \t]+["<]?([^">\s]+)[">]?[ \t]*(?://.*)?$', re.M)
COMPILERS = ("g++", "clang++", "c++")
UNUSED = 30 * 24 * 3600  # seconds after which an unused program is removed, such as one of an earlier version
OTHERWISE = "or use engine='embedded', which needs no compiler"


def compiled(source: Path, home: Path, version: str) -> CmdStanModel:
    """Return a compiled Stan program, from the user's cache folder if it is there.

    The program is compiled only if the cache has no executable with the same key, or if this executable does not start.

    Parameters
    ----------
    source : Path
        A Stan program, next to the files that it includes.
    home : Path
        The folder of CmdStan.
    version : str
        Full version of CmdStan.

    Raises
    ------
    EngineError
        There is no compiler, the program does not compile, the executable does not start, or the cache folder cannot
        be written.
    """
    from cmdstanpy import CmdStanModel
    from cmdstanpy.utils import EXTENSION

    text, make_local = with_includes(source), home / "make" / "local"
    settings = make_local.read_text() if make_local.is_file() else ""
    parts = [str(home.resolve()), version, settings, text]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surveysynth" / "stan"
    place = cache / f"{source.stem}-{key}"
    executable = place / f"{source.stem}{EXTENSION}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            os.utime(place)  # before another process removes it as unused
        lock = cache / f"{place.name}.lock"
        lock.touch()
        with locked(lock):  # another process may be compiling it
            if not _starts(executable):
                _need_compiler(source, settings)
                with whole_folder(place, replace=True) as staging:
                    _compile(source, text, staging)
                if not _starts(executable):
                    raise EngineError(
                        f"what CmdStan compiled does not run in {str(cache)!r}: is that a place for programs (noexec)? "
                        f"Set XDG_CACHE_HOME to another, {OTHERWISE}"
                    )
                _remove_unused(cache)
    except OSError as error:
        raise EngineError(
            f"compiled Stan programs cannot be kept in {str(cache)!r} ({error.strerror}); "
            f"set XDG_CACHE_HOME to a folder that can be written, {OTHERWISE}"
        ) from None
    return CmdStanModel(exe_file=str(executable))


def with_includes(program: Path, within: tuple[Path, ...] = ()) -> str:
    """Return the text of a program, with included files in place of ``#include`` lines.

    The ``#include`` line of a missing file stays, so that Stan's compiler reports the file.  Names of files are
    relative to the folder of the outermost program, also within included files.  ``within`` are the programs that
    include this one, with the outermost last.  A program that includes itself keeps the line as well.
    """
    outermost = within[-1] if within else program

    def text(line: re.Match[str]) -> str:
        file = outermost.parent / line[1]
        known = file.is_file() and file not in (program, *within)
        return with_includes(file, (program, *within)) if known else line[0]

    return INCLUDE.sub(text, program.read_text(encoding="utf-8"))


def _starts(executable: Path) -> bool:
    """Return True if an executable exists and runs.  It could be incomplete, or need a library that has moved."""
    try:
        return subprocess.run([executable, "info"], capture_output=True, check=False, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _need_compiler(source: Path, settings: str) -> None:
    make = os.environ.get("MAKE") or ("mingw32-make" if os.name == "nt" else "make")
    own = os.environ.get("CXX") or re.search(r"^[ \t]*CXX[ \t]*[:?]?=", settings, re.M)
    missing = [] if shutil.which(make) else [make]
    if not own and not any(map(shutil.which, COMPILERS)):
        missing.append("C++ compiler")
    if missing:
        raise EngineError(
            f"CmdStan has to compile {source.name!r} once, and finds no {' and no '.join(missing)}; install "
            f"{'them' if len(missing) > 1 else 'it'} (Debian: apt-get install make g++), {OTHERWISE}"
        )


def _compile(source: Path, text: str, folder: Path) -> None:
    """Compile a Stan program, and copy the executable to ``folder``.

    The program is compiled in a private folder whose name has no spaces, as make needs.
    """
    from cmdstanpy.compilation import compile_stan_file

    with tempfile.TemporaryDirectory(prefix="surveysynth-stan-") as name:
        program = Path(name) / source.name
        program.write_text(text, encoding="utf-8")
        output = ""
        with during(f"compiling the Stan program {source.stem}, once; this takes a minute or two"):
            try:
                executable = compile_stan_file(program)
            except ValueError as error:
                output = str(error)
        if output:  # the output is about the program alone, which holds no data
            raise EngineError(f"CmdStan cannot compile the program {source.name!r}:\n{_reason(output)}")
        shutil.copy(executable, folder)


def _reason(output: str) -> str:
    """Return the errors of Stan's compiler stanc in the output of make, or the end of the output."""
    lines = output.splitlines()
    begun = [k for k, line in enumerate(lines) if re.match(r"(Syntax|Semantic|.*[Ee]rror)", line)]
    ended = [k for k, line in enumerate(lines) if line.startswith("make:")]
    return "\n".join(lines[begun[0] if begun else 0 : ended[-1] if ended else None][-20:]).strip()


def _remove_unused(cache: Path) -> None:
    for place in cache.glob("*-*"):
        with suppress(OSError):  # another process was first
            if time.time() - place.stat().st_mtime > UNUSED:
                shutil.rmtree(place) if place.is_dir() else place.unlink()
