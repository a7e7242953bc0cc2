"""Fixtures for comparing with R, and for running commands."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from surveysynth.cli import app as cli
from surveysynth.release import folder as release_folder

R_BRIDGE = Path(__file__).parents[1] / "r_bridge"
R_SETTINGS = {
    "SURVEYSYNTH_PYTHON": sys.executable,
    "_R_CHECK_FORCE_SUGGESTS_": "false",
    "_R_CHECK_PACKAGE_DEPENDS_IGNORE_MISSING_ENHANCES_": "true",  # srvyr, which Debian does not have
}

PROGRESS = re.compile(r"^ *\d+ s  (.+)\n", re.M)
KEPT = re.compile(r"^The privacy weights keep \d+% of the file's information \(not for publication\)\.\n", re.M)
WIDE = "2000"  # columns of a terminal in which a message is on one line
LONGEST = ("test_r_package.py", "test_vignettes.py")  # files that two workers are not to begin with at the end


def pytest_collection_modifyitems(items):
    """Files in the order in which they are handed to the workers: those that take minutes first."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Reports without lone surrogates, of which the fuzz harness has many and which end a worker of pytest-xdist."""
    report = yield
    if report.failed:
        report.longrepr = str(report.longrepr).encode("utf-8", "backslashreplace").decode()
    report.sections = [(k, v.encode("utf-8", "backslashreplace").decode()) for k, v in report.sections]
    return report


@pytest.fixture
def unprinted(request, monkeypatch):
    """Tables of releases are in csv alone, as of large ones: a workbook and a page take half of the time of writing."""
    if "printed" not in request.keywords:
        monkeypatch.setattr(release_folder, "MOST_PRINTED", -1)


@pytest.fixture(scope="session")
def r():
    """``rpy2.robjects`` with R's survey and its data sets; skips only where R or rpy2 is not installed."""
    if importlib.util.find_spec("rpy2") is None:
        pytest.skip("rpy2 is not installed: pip install 'surveysynth[r]'")
    if shutil.which("R") is None and "R_HOME" not in os.environ:
        pytest.skip("R is not installed: apt-get install r-base-core r-cran-survey")
    from rpy2 import rinterface_lib, robjects

    rinterface_lib.callbacks.consolewrite_print = lambda text: None
    rinterface_lib.callbacks.consolewrite_warnerror = lambda text: None
    robjects.r("suppressPackageStartupMessages(library(survey)); data(api); data(nhanes); data(election)")
    return robjects


@pytest.fixture(scope="session")
def r_frame(r, tmp_path_factory):
    """The value of an R expression as a pandas frame, by way of a csv file."""
    path = tmp_path_factory.mktemp("r") / "frame.csv"

    def frame(expression):
        r.r["write.csv"](r.r(expression), str(path), **{"row.names": False, "na": ""})
        return pd.read_csv(path)

    return frame


@pytest.fixture(scope="session")
def to_r(r, tmp_path_factory):
    """Assign a pandas frame to a name in R, by way of a csv file."""
    path = tmp_path_factory.mktemp("r") / "frame.csv"

    def assign(name, frame):
        frame.to_csv(path, index=False)
        r.globalenv[name] = r.r["read.csv"](str(path), **{"na.strings": ""})

    return assign


def queries_of(module, monkeypatch, added=0.0):
    """Noise of a module is a number, and every query goes on record: (values, sensitivity, epsilon)."""
    asked = []

    def record(values, sensitivity, epsilon, rng=None):
        asked.append((values, sensitivity, epsilon))
        return values + added, 0.0

    monkeypatch.setattr(module, "laplace", record)
    return asked


def without_r():
    """The environment without R's libraries, which rpy2 puts before those of a Python that is started."""
    return {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}


def decoded(file):
    """All that a reader gets out of a public file: its text, a parquet's metadata and values, a workbook's parts."""
    if file.suffix == ".xlsx":
        with zipfile.ZipFile(file) as parts:
            return "".join(parts.read(name).decode("utf-8") for name in parts.namelist())
    text = file.read_bytes().decode("utf-8", errors="replace")
    if file.suffix == ".parquet":
        import pyarrow.parquet as pq  # beside rpy2 it cannot be imported in every process of a study

        table = pq.read_table(file)
        text += str(pq.read_metadata(file).metadata) + str(table.schema) + table.to_pandas().to_csv()
        text += "".join(str(column.chunk(0)) for column in table.columns)
    return text


def run_r(*arguments, cwd=None, **settings):
    """What a command of R printed; it must not fail."""
    settings = os.environ | R_SETTINGS | settings
    done = subprocess.run([*map(str, arguments)], cwd=cwd, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def rscript(r, tmp_path_factory):
    """Run an R script in a folder, with the package of r_bridge/ and survey attached."""
    library = tmp_path_factory.mktemp("library")
    run_r("R", "CMD", "INSTALL", "--no-docs", f"--library={library}", R_BRIDGE)

    def script(text, folder):
        file = Path(folder) / "script.R"
        file.write_text(f"suppressMessages(library(survey)); library(surveysynth)\n{text}")
        return run_r("Rscript", "--vanilla", file, cwd=folder, R_LIBS=str(library))

    return script


@pytest.fixture
def open_to_all():
    """New files are readable and writable by everybody (umask 000), as in some batch systems and containers."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder):
    """The modes of folders, the folder itself among them, and of files."""
    paths = [Path(folder), *Path(folder).rglob("*")]
    return tuple({oct(p.stat().st_mode & 0o777) for p in paths if p.is_dir() == folders} for folders in (True, False))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of its own to work in, and a wide terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", WIDE)
    return tmp_path


@pytest.fixture
def run(monkeypatch, capfd):
    """Run a command in this process: its exit code, what it printed, what it complained of.

    What its lines of progress say is kept apart, in ``run.progress``; how much information is kept is left out.
    """
    monkeypatch.setenv("COLUMNS", WIDE)

    def command(*words, program=cli.main):
        monkeypatch.setattr(sys, "argv", ["surveysynth", *map(str, words)])
        try:
            program()
            code = 0
        except SystemExit as left:
            code = left.code or 0
        said = capfd.readouterr()
        assert "Traceback" not in said.out + said.err
        command.progress = PROGRESS.findall(said.err)
        return code, said.out, KEPT.sub("", PROGRESS.sub("", said.err))

    return command


@pytest.fixture
def run_cli(request, run, folder):
    """Run the ``COMMAND`` of the test's module, in a folder of its own."""
    return partial(run, *request.module.COMMAND)


def words_of(options):
    """Options of a command, as words."""
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]


def squeezed(text):
    """Without line breaks, and without the frame that typer draws around its errors."""
    return " ".join(re.sub(r"│\n│", "", text).split())


def looks_like_a_figure(path):
    """A picture at 150 dpi that is neither blank nor a blot."""
    from matplotlib import image

    pixels = image.imread(path)[..., :3]
    inked = (pixels < 0.95).any(axis=2).mean()
    assert min(pixels.shape[:2]) > 400 and 0.01 < inked < 0.6, (path.name, inked)


@pytest.fixture(scope="module")
def rstan(request, r):
    """R with rstan loaded and the module's row-by-row ``PROGRAM`` compiled, as ``rowwise``."""
    if not r.r("nzchar(system.file(package = 'rstan'))")[0]:
        pytest.skip("R's package rstan is not installed: apt-get install r-cran-rstan libboost-dev g++")
    r.r("suppressPackageStartupMessages(library(rstan)); rstan_options(boost_lib = '/usr/include')")
    program = Path(request.module.__file__).with_name(request.module.PROGRAM)
    r.r(f"rowwise <- suppressWarnings(stan_model('{program}', save_dso = FALSE))")
    return r
