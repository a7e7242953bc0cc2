"""The wheel carries the Stan programs and the R package, and finds them without the checkout."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FIND_FBS = """
import sys
from pathlib import Path
checkout = Path(sys.argv[1])
sys.path[:] = [p for p in sys.path if p and Path(p).resolve() != checkout]
import surveysynth
from surveysynth.engines.base import program_path
print(surveysynth.__file__)
print(program_path("fbs"))
from surveysynth.r.session import SOURCES
print(*SOURCES)
"""


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    (path,) = folder.glob("surveysynth-*.whl")
    return path


def test_wheel_carries_every_stan_program(wheel):
    with zipfile.ZipFile(wheel) as archive:
        shipped = {n: archive.read(n) for n in archive.namelist() if n.endswith(".stan")}
    assert shipped == {f"surveysynth/stan/{p.name}": p.read_bytes() for p in (ROOT / "stan").glob("*.stan")}
    assert "surveysynth/stan/fbs.stan" in shipped


def test_wheel_carries_the_r_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = [p for p in (ROOT / "r_bridge").rglob("*") if p.is_file()]
    assert {f"surveysynth/r_bridge/{p.relative_to(ROOT / 'r_bridge').as_posix()}" for p in package} <= names
    assert "surveysynth/r_bridge/DESCRIPTION" in names


def test_wheel_carries_types_licence_and_command(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = [n for n in names if n.endswith(".dist-info/entry_points.txt")]
        commands = archive.read(entry_points).decode().split("\n")
    assert "surveysynth/py.typed" in names
    assert any(n.endswith("/LICENSE") for n in names)
    assert "surveysynth = surveysynth.cli.app:main" in commands
    assert {n.split("/")[0] for n in names if ".dist-info/" not in n} == {"surveysynth"}


def test_installed_wheel_finds_its_stan_programs(wheel, tmp_path):
    target = tmp_path / "site"
    pip("install", "--no-deps", "--no-index", "--target", target, wheel)
    found = subprocess.run(
        [sys.executable, "-c", FIND_FBS, str(ROOT)],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(target)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    package, program, *sources = map(Path, found.stdout.split())
    assert package == target / "surveysynth" / "__init__.py"
    assert program == target / "surveysynth" / "stan" / "fbs.stan"
    assert program.read_bytes() == (ROOT / "stan" / "fbs.stan").read_bytes()
    assert [s.name for s in sources] == ["exchange.R", "design.R", "r.R"]
    assert all(s.is_file() and s.is_relative_to(target) for s in sources)


def test_the_readme_names_the_source_of_every_letter_in_docstrings():
    """(T 2.3), (E eq. 8): the letter of a paper, and where in it."""
    modules = (ROOT / "surveysynth").rglob("*.py")
    place = re.compile(r"\(([A-Z]) (?:eq\.|App\.|Algorithm|\d)")
    cited = {letter for module in modules for letter in place.findall(module.read_text(encoding="utf-8"))}
    sources = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Sources\n")[1]
    assert cited >= {"T", "C", "R", "E"}
    assert cited == set(re.findall(r"\(([A-Z])(?::| in)", sources))
