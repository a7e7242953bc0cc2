"""Compiled Stan programs: built once, again where what went into them changed, and refused with a reason."""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cmdstanpy.compilation
import pytest

from surveysynth import EngineError
from surveysynth.engines import cmdstan, compiled, get_engine
from surveysynth.engines.compiled import with_includes

WORKS = "#!/bin/sh\necho stan_version_major = 2\n"
VERSION = "2.36.0"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A program that includes a file, a folder that looks like CmdStan's, an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache of mine"))
    (tmp_path / "toy.stan").write_text("#include shared.stanfunctions\nparameters { real x; }\n")
    (tmp_path / "shared.stanfunctions").write_text("functions { }\n")
    (tmp_path / "other.stanfunctions").write_text("functions { }\n")
    (tmp_path / "home" / "make").mkdir(parents=True)
    (tmp_path / "home" / "makefile").write_text(f"CMDSTAN_VERSION := {VERSION}\n")
    monkeypatch.setenv("CMDSTAN", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def built(monkeypatch):
    """The texts of the programs that were compiled, by a stand-in for make that takes a moment."""
    texts = []

    def compile_stan_file(program):
        texts.append(Path(program).read_text())
        time.sleep(0.2)
        executable = Path(program).with_suffix("")
        executable.write_text(WORKS)
        executable.chmod(0o755)
        return str(executable)

    monkeypatch.setattr(cmdstanpy.compilation, "compile_stan_file", compile_stan_file)
    return texts


def build(here, home="home", version=VERSION):
    return Path(compiled.compiled(here / "toy.stan", here / home, version).exe_file)


def test_a_program_is_compiled_once_with_what_it_includes(here, built):
    assert build(here) == build(here)
    assert built == ["functions { }\n\nparameters { real x; }\n"]


def test_includes_are_those_of_stanc(tmp_path):
    """Within each other, in any spelling; what is not there, or includes itself, is left for stanc to refuse."""
    (tmp_path / "a.stan").write_text(
        '#include "b.stan"\n  #include <c.stan>\n#include nowhere.stan\n// #include c.stan\n'
    )
    (tmp_path / "b.stan").write_text("#include c.stan\n#include a.stan\n")
    (tmp_path / "c.stan").write_text("C")
    assert with_includes(tmp_path / "a.stan") == "C\n#include a.stan\n\nC\n#include nowhere.stan\n// #include c.stan\n"


def test_processes_that_need_the_same_program_wait_for_the_first(here, built):
    with ThreadPoolExecutor() as pool:  # a lock of a file is of its descriptor, so threads are as good
        found = list(pool.map(lambda _: build(here), range(4)))
    assert len(set(found)) == 1 and len(built) == 1


@pytest.mark.parametrize("how", ["program", "include", "make/local", "version", "moved"])
def test_whatever_goes_into_a_program_makes_a_new_one(how, here, built):
    first, home, version = build(here), "home", VERSION
    if how == "program":
        (here / "toy.stan").write_text("#include shared.stanfunctions\nparameters { real y; }\n")
    elif how == "include":
        (here / "shared.stanfunctions").write_text("functions { real f(); }\n")
    elif how == "make/local":
        (here / "home" / "make" / "local").write_text("CXXFLAGS += -O1\n")
    elif how == "version":
        version = "2.36.1"
    else:
        home = "moved"
        (here / "home").rename(here / home)
    assert build(here, home, version) != first and len(built) == 2


def test_a_file_that_is_not_included_does_not(here, built):
    first = build(here)
    (here / "other.stanfunctions").write_text("functions { real f(); }\n")
    assert build(here) == first and len(built) == 1


@pytest.mark.parametrize("content", ["", "#!/nowhere\n", "#!/bin/sh\nexit 1\n", "\x7fELF\x02\x01\x01"])
def test_an_executable_that_does_not_start_is_built_again(content, here, built):
    build(here).write_text(content)
    assert build(here).read_text() == WORKS and len(built) == 2


def test_what_nobody_ran_for_a_month_is_removed_when_another_is_built(here, built):
    old = build(here)
    (here / "toy.stan").write_text("parameters { real y; }")
    recent = build(here)
    for path in (old.parent, old.parent.with_name(f"{old.parent.name}.lock")):
        os.utime(path, (0, time.time() - compiled.UNUSED - 60))
    (here / "toy.stan").write_text("parameters { real z; }")
    new = build(here)
    assert not old.exists() and recent.exists() and new.exists()
    assert len(list(new.parents[1].iterdir())) == 4  # two, with their locks


# ---- what is wrong, and what to do


def test_no_compiler(here, built, monkeypatch):
    monkeypatch.setenv("PATH", str(here))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(EngineError, match=r"'toy.stan' once, and finds no make and no C\+\+ compiler; install them"):
        build(here)
    (here / "make").write_text("")
    (here / "make").chmod(0o755)
    with pytest.raises(EngineError, match=r"finds no C\+\+ compiler; install it \(Debian: apt-get install make g"):
        build(here)
    (here / "home" / "make" / "local").write_text("CXX = /opt/bin/icpx\n")
    assert build(here).exists()


def test_no_compiler_is_needed_for_what_is_compiled(here, built, monkeypatch):
    build(here)
    monkeypatch.setenv("PATH", "/bin")
    assert build(here).exists() and len(built) == 1


def test_a_cache_that_cannot_be_written(here, built, monkeypatch):
    (here / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "file"))
    with pytest.raises(EngineError, match=r"kept in '.*file/surveysynth/stan' \(Not a directory\); set XDG_CACHE"):
        build(here)


def test_a_program_that_does_not_compile_is_told_of_in_stancs_words(here, built, monkeypatch):
    said = """Failed to compile Stan model '/tmp/toy.stan'. Console:

--- Translating Stan model to C++ code ---
bin/stanc --o=toy.hpp toy.stan
Semantic error in 'toy.stan', line 2, column 4 to column 9:
     2:  foo(3);
Identifier 'foo' not in scope.
make: *** [make/program:66: toy.hpp] Error 1

Command ['make', 'toy']
\terror during processing No such file or directory
"""

    def fails(program):
        raise ValueError(said)

    monkeypatch.setattr(cmdstanpy.compilation, "compile_stan_file", fails)
    with pytest.raises(EngineError) as caught:
        build(here)
    assert str(caught.value) == (
        "CmdStan cannot compile the program 'toy.stan':\nSemantic error in 'toy.stan', line 2, column 4 to column 9:\n"
        "     2:  foo(3);\nIdentifier 'foo' not in scope."
    )
    assert caught.value.__context__ is None and not list((here / "cache of mine" / "surveysynth" / "stan").glob("*/"))


@pytest.mark.parametrize(
    ("makefile", "said"),
    [
        (None, "CMDSTAN is set to '.*home', which is no folder of CmdStan: it has no makefile; install one with"),
        ("nothing", "the makefile of '.*home' says no version of CmdStan; install one"),
        ("CMDSTAN_VERSION := 2.32.2\n", r"CmdStan 2.32.2 in '.*home' is too old: 2.33 or later is needed; install one"),
    ],
)
def test_a_cmdstan_that_cannot_be_used(makefile, said, here):
    (here / "home" / "makefile").unlink()
    if makefile:
        (here / "home" / "makefile").write_text(makefile)
    with pytest.raises(EngineError, match=said):
        get_engine("cmdstan")
    assert cmdstan.cmdstan_version() is None


@pytest.mark.parametrize("version", ["2.33.0", "2.100.1", "3.0.0-rc1"])
def test_the_least_version_and_later_ones(version, here):
    (here / "home" / "makefile").write_text(f"CMDSTAN_VERSION := {version}\n")
    assert get_engine("cmdstan").version == version


def test_confidential_data_are_on_the_disk_when_the_program_is_compiled_and_no_sooner(here, monkeypatch):
    folders = []

    def late(source, home, version):
        folders.append(len(compiled_folders()))
        raise EngineError("no")

    def compiled_folders():
        from surveysynth.engines import scratch

        return [x for place in scratch._places() for x in place.glob(f"surveysynth-{os.getpid()}-*")]

    monkeypatch.setattr(cmdstan, "compiled", late)
    with pytest.raises(EngineError, match="no"):
        get_engine("cmdstan").sample(str(here / "toy.stan"), {"y": 1.0}, chains=1, warmup=1, draws=1, seed=1)
    assert folders == [0]


# ---- a real one


TWICE = """
import sys
from surveysynth.engines.cmdstan import CmdStan

found = CmdStan().sample(sys.argv[1], {}, chains=1, warmup=100, draws=100, seed=1)
print(found.values["x"].shape)
"""


@pytest.mark.cmdstan
def test_two_processes_compile_at_once_and_what_is_cut_short_is_built_again(tmp_path):
    settings = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache of mine")}
    program = tmp_path / "toy.stan"
    program.write_text(cmdstan.TRIAL)
    command = [sys.executable, "-c", TWICE, str(program)]
    two = [subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=600)[0] for process in two] == ["(1, 100)\n"] * 2
    (executable,) = (tmp_path / "cache of mine" / "surveysynth" / "stan").glob("*/toy")
    os.truncate(executable, executable.stat().st_size // 2)
    assert subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout == "(1, 100)\n"
    shutil.rmtree(executable.parent)


@pytest.mark.cmdstan
def test_a_real_program_that_does_not_compile(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "toy.stan").write_text("parameters { real x; } model { x ~ foo(3); }")
    with pytest.raises(EngineError) as caught:
        get_engine("cmdstan").sample(str(tmp_path / "toy.stan"), {}, chains=1, warmup=1, draws=1, seed=1)
    assert str(caught.value).startswith("CmdStan cannot compile the program 'toy.stan':\nSemantic error in")
    assert "foo" in str(caught.value) and "make" not in str(caught.value)
