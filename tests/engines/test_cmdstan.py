"""CmdStan itself: every program of stan/ on the smallest files, what the first fit says, and how a run ends.

Tests marked ``cmdstan`` need one (``pytest -m cmdstan``); each has a relative that does without.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from surveysynth import (
    FBP,
    FBS,
    BetaRegression,
    GammaRegression,
    NegativeBinomialRegression,
    PoissonRegression,
    StanModel,
    SurveyDesign,
)
from surveysynth.engines import base
from surveysynth.engines.cmdstan import cmdstan_version
from surveysynth.models.draws import Sampler
from tests.engines.agreement import Noting, compare

ROOT = Path(base.__file__).parents[2]
PROGRAMS = sorted(base.program_path("fbs").parent.glob("*.stan*"))
CANARY = "31337.1234"


@pytest.fixture(autouse=True)
def real_cmdstan(request):
    if request.node.get_closest_marker("cmdstan") and cmdstan_version() is None:
        pytest.skip("cmdstanpy finds no CmdStan: cmdstanpy.install_cmdstan()")


# ---- the programs


N = 300
RNG = np.random.default_rng(1)
FRAME = pd.DataFrame(
    {
        "y": RNG.lognormal(1, 0.5, N), "share": RNG.beta(2, 3, N), "count": RNG.poisson(5, N),
        "w": RNG.lognormal(2, 0.3, N), "same": 1.0, "psu": np.arange(N) % 10, "stratum": np.arange(N) % 10 // 5,
        "label": RNG.choice(["a", "b"], N), "field": np.array(list("abc"))[np.arange(N) % 3],
    }
)  # fmt: skip
PAPER = {"prior": "paper"}
SMALLEST = {  # program, and what makes it the smallest: model, clamp, weights, further roles
    "fbs, no predictor": ("fbs", FBS("y", "1"), None, "w", {}),
    "fbs, no predictor and no weight": ("fbs", FBS("y", "1"), None, "same", {}),
    "fbs_censored, no predictor": ("fbs_censored", FBS("y", "1"), 2, "w", {}),
    "fbs_censored, no predictor and no weight": ("fbs_censored", FBS("y", "1"), 2, "same", {}),
    "fbs_censored, full rank": ("fbs_censored", FBS("y", "field"), 2, "w", {}),
    "fbs_effects, no predictor": ("fbs_effects", FBS("y", "1"), None, "w", {"psu": "psu"}),
    "fbs_effects, strata": ("fbs_effects", FBS("y", "1"), None, "w", {"psu": "psu", "strata": "stratum"}),
    "fbp, no predictor": ("fbp", FBP("y", "1", **PAPER), None, "w", {}),
    "fbp, no predictor and no weight": ("fbp", FBP("y", "1", **PAPER), None, "same", {}),
    "fbp_censored, no predictor": ("fbp_censored", FBP("y", "1", **PAPER), 2, "w", {}),
    "fbp_censored, no predictor and no weight": ("fbp_censored", FBP("y", "1", **PAPER), 2, "same", {}),
    "fbp_censored, full rank": ("fbp_censored", FBP("y", "field", **PAPER), 2, "w", {}),
    "beta, no predictor": ("beta", BetaRegression("share", bounds=(0, 1)), None, "same", {}),
    "beta, a predictor": ("beta", BetaRegression("share", "field", bounds=(0, 1)), None, "same", {}),
    "beta_censored, no predictor": ("beta_censored", BetaRegression("share", bounds=(0, 1)), 2, "same", {}),
    "beta_censored, a predictor": ("beta_censored", BetaRegression("share", "field", bounds=(0, 1)), 2, "same", {}),
    "counts, no predictor": ("counts", NegativeBinomialRegression("count", "1"), None, "same", {}),
    "counts, no predictor, Poisson": ("counts", PoissonRegression("count", "1"), None, "same", {}),
    "gamma, no predictor": ("gamma", GammaRegression("y", "1"), None, "same", {}),
    "gamma, a predictor": ("gamma", GammaRegression("y", "field"), None, "w", {}),
    "categories, two of them": ("categories", FBS(["y", "C(label)"], "1", prior="flat"), None, "w", {"psu": "psu"}),
    "fbs_censored, an empty last row": ("fbs_censored", FBS("y", "field"), 2, "w", {}),
    "fbp_censored, an empty last row": ("fbp_censored", FBP("y", "field", **PAPER), 2, "w", {}),
}


USERS = """
data { int n; int K; matrix[n, K] x; vector[n] y; vector[n] alpha; }
parameters { vector[K] b; real<lower=0> s; }
model { b ~ normal(0, 5); s ~ lognormal(0, 1); target += dot_product(alpha, square((log(y) - x * b) / s)) / -2;
        target += -sum(alpha) * log(s); }
"""


def users(folder):
    """A model that a user brings along."""
    program = folder / "users_own.stan"
    program.write_text(USERS)

    def data(records, alpha):
        return {"n": records.n, "K": records.x.shape[1], "x": records.x, "y": records.y, "alpha": alpha}

    nothing = {"log_density": lambda records, draws: None, "simulate": lambda public, draw, rng: None}
    return StanModel(program, outcome="y", predictors="field", measure="log y", data=data, **nothing)


COMPARED = {  # program: a case of it that has predictors, where there is one
    "fbs": ("fbs", FBS("y", "field"), None, "w", {}),
    "fbs_censored": SMALLEST["fbs_censored, full rank"],
    "fbs_effects": ("fbs_effects", FBS("y", "field"), None, "w", {"psu": "psu"}),
    "fbp": ("fbp", FBP("y", "field", **PAPER), None, "w", {}),
    "fbp_censored": SMALLEST["fbp_censored, full rank"],
    "beta": SMALLEST["beta, a predictor"],
    "beta_censored": SMALLEST["beta_censored, a predictor"],
    "counts": ("counts", NegativeBinomialRegression("count", "field"), None, "same", {}),
    "gamma": SMALLEST["gamma, a predictor"],
    "categories": (
        "categories", FBS(["y", "C(label)"], "1", prior="flat"), None, "w", {"psu": "psu", "strata": "stratum"}
    ),
    "a user's own": ("a user's own", users, None, "same", {}),
}


def given(case, folder):
    """The program of a case, and its data."""
    _, model, clamp, weights, roles = COMPARED[case]
    model = model(folder) if model is users else model
    alpha, noting = np.random.default_rng(2).uniform(0.3, 1, N), Noting("embedded")
    data, sampler = model.prepare(SurveyDesign(FRAME, weights=weights, **roles)), Sampler(
        lambda: noting, np.random.default_rng(3), 2, 100, 20
    )
    model.fit(data, alpha, sampler) if clamp is None else model.censored(data, alpha, clamp, sampler)
    (once,) = noting.given
    return once


@pytest.mark.cmdstan
@pytest.mark.parametrize("case", COMPARED)
def test_both_engines_agree(case, tmp_path):
    """Means and standard deviations within 4.5 Monte Carlo errors, log densities to 1e-10 of their size."""
    found = compare(*given(case, tmp_path))
    assert found.z < 4.5 and found.log_density < 1e-10, found


def test_every_program_is_compared():
    assert {path.stem for path in PROGRAMS if path.suffix == ".stan"} == {*COMPARED} - {"a user's own"}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["embedded", pytest.param("cmdstan", marks=pytest.mark.cmdstan)])
@pytest.mark.parametrize("case", SMALLEST)
def test_every_program_runs_on_the_smallest_files(case, engine):
    program, model, clamp, weights, roles = SMALLEST[case]
    alpha = np.random.default_rng(2).uniform(0.3, 1, N)
    if case.endswith("empty last row"):  # the rows that a record has come one by one, and the last has none
        alpha[FRAME["field"] == "c"] = 0
    data = model.prepare(SurveyDesign(FRAME, weights=weights, **roles))
    noting = Noting(engine)
    sampler = Sampler(lambda: noting, np.random.default_rng(3), 2, 200, 100)
    posterior = model.fit(data, alpha, sampler) if clamp is None else model.censored(data, alpha, clamp, sampler)
    assert [given[0] for given in noting.given] == [program]
    assert posterior.size == 200 and all(np.isfinite(v).all() for v in posterior.values.values())


def test_every_program_is_among_the_smallest():
    assert {path.stem for path in PROGRAMS if path.suffix == ".stan"} == {case[0] for case in SMALLEST.values()}


NEVER_PAST_THE_END = re.compile(r"1 : \w+|(\w+) \+ 1 : \1 \+ \w+|\((\w+) - 1\) \* (\w+) \+ 1 : \2 \* \3")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_no_range_begins_past_the_end(path):
    """CmdStan up to 2.37 refuses x[K + 1 : K] of a vector of K, which is empty; tail(x, 0) runs everywhere.

    So a range has the form 1:p, p + 1 : p + q or (p - 1) * q + 1 : p * q, q being a size from 1 on; a:z stands
    where `if (a <= z)` does.
    """
    code = re.sub(r"//.*", "", path.read_text())
    if "if (a <= z)" in code:
        code = code.replace("a:z", "")
    ranges = [
        re.sub(r"\s*:\s*", " : ", part.strip())
        for inside in re.findall(r"\[([^\[\]]*:[^\[\]]*)\]", code)
        for part in inside.split(",")
        if ":" in part and part.strip(" :") and "?" not in part
    ]
    assert [one for one in ranges if not NEVER_PAST_THE_END.fullmatch(one)] == []


# ---- what the first fit of a process says


SAY = """
data { real income; }
parameters { real<lower=0, upper=1> x; }
model { print("the income is ", income); if (x > %s) reject("last conditional variance is ", income); }
"""
RUN = """
import sys
from pathlib import Path
from surveysynth import EngineError
from surveysynth.engines import cmdstan, scratch

scratch.MEMORY = Path("nowhere")  # so that files are where the test looks for them
cmdstan.program_path = lambda name: Path(sys.argv[1])
try:
    cmdstan.CmdStan().sample("say", {"income": %s}, chains=2, warmup=%d, draws=100, seed=1)
    print("done")
except EngineError as error:
    print(error)
"""


def fresh(program, *arguments, **settings):
    """A process of its own: pytest gives the root logger handlers, and cmdstanpy then adds none."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | settings
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.mark.cmdstan
@pytest.mark.parametrize(
    ("limit", "said"), [(0.5, "done"), (-1, "CmdStan could not sample the program 'say'")]
)
def test_the_first_fit_of_a_process_says_nothing_of_the_data(limit, said, tmp_path):
    (tmp_path / "say.stan").write_text(SAY % limit)
    done = fresh(RUN % (CANARY, 100), tmp_path / "say.stan")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, said, "")


def test_the_first_message_of_cmdstanpy_is_silenced(tmp_path):
    """As above, without CmdStan: what stands for a compiled program logs as cmdstanpy does, and fails."""
    (tmp_path / "makefile").write_text("CMDSTAN_VERSION := 2.36.0\n")
    logs = f"""
import logging
from cmdstanpy.utils import get_logger

class Compiled:
    def sample(self, **settings):
        get_logger().warning("the income is {CANARY}")
        logging.getLogger("cmdstanpy.model").error("last conditional variance is {CANARY}")
        raise RuntimeError("{CANARY}")

cmdstan.compiled = lambda source, home, version: Compiled()
"""
    program = RUN % (CANARY, 100)
    at = program.index("try:")
    done = fresh(program[:at] + logs + program[at:], "none", CMDSTAN=str(tmp_path))
    said = "CmdStan could not sample the program 'say'"
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, said, "")


def test_cmdstanpy_speaks_again_afterwards(tmp_path):
    """What a user does with cmdstanpy by themselves is theirs."""
    program = """
from cmdstanpy.utils import get_logger
from surveysynth.engines import cmdstan
cmdstan.cmdstan_version()
get_logger().warning("hello")
"""
    done = fresh(program, CMDSTAN=str(tmp_path))
    assert done.returncode == 0 and done.stderr.strip().endswith("cmdstanpy - WARNING - hello")


# ---- how a run ends (test_scratch.py has more, without CmdStan)


SLOW = """
data { real income; }
parameters { vector[200] x; }
model { real s = 0; for (i in 1:200000) s += square(x[1 + i % 200]); x ~ normal(income, 1); target += 0 * s; }
"""


def of_cmdstan(folder):
    """The processes that have the folder in their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder) in (process / "cmdline").read_text():
                found.append(int(process.name))
        except OSError:
            pass
    return found


@pytest.mark.cmdstan
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_nothing(number, tmp_path):
    (tmp_path / "slow.stan").write_text(SLOW)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    settings = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    process = subprocess.Popen([sys.executable, "-c", RUN % (CANARY, 10**6), tmp_path / "slow.stan"], env=settings)
    try:
        deadline = time.monotonic() + 300  # it is compiled first
        while len(files := list(temporary.glob("surveysynth-*/*.csv"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        (folder,) = temporary.glob("surveysynth-*")
        assert len(files) == 2 and CANARY in (folder / "data.json").read_text()
        assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
        children = of_cmdstan(folder)
        process.send_signal(number)
        assert process.wait(10) == -number
        if number == signal.SIGKILL:
            for child in children:
                os.kill(child, signal.SIGKILL)
            sweep = "from surveysynth.engines import get_engine; get_engine('embedded')"  # in all places
            assert subprocess.run([sys.executable, "-c", sweep], env=settings, check=False).returncode == 0
        assert children and of_cmdstan(folder) == []
        assert list(temporary.glob("surveysynth-*")) == []
    finally:
        process.kill()
        process.wait(10)
