"""Engines: named arrays, diagnostics that mean what they say, and errors that quote no data."""

import json
import logging
import stat
from pathlib import Path

import cmdstanpy
import numpy as np
import pytest

from surveysynth import EngineError, InputError
from surveysynth.engines import Diagnostics, base, cmdstan, embedded, get_engine

SETTINGS = {"chains": 2, "warmup": 300, "draws": 500, "seed": 3}
CANARY = "31337.1234"

NORMALS = """
data { int N; vector[N] centre; }
parameters { real a; vector[N] b; matrix[2, 3] m; cholesky_factor_corr[2] L; }
model {
  a ~ normal(-5, 2);
  b ~ normal(centre, 0.5);
  for (i in 1:2) for (j in 1:3) m[i, j] ~ normal(10 * i + j, 0.1);
  L ~ lkj_corr_cholesky(1);
}"""
CLIFF = "parameters { real x; } model { x ~ normal(0, 1); if (x > 0) target += -5000; }"
REJECTS = "data { real y; } parameters { real<lower=0, upper=1> x; } model { if (x > -1) reject(y); }"


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Make a program of this text the only one there is."""

    def write(text):
        path = tmp_path / "toy.stan"
        path.write_text(text)
        for module in (embedded, cmdstan):
            monkeypatch.setattr(module, "program_path", lambda name: path)
        return "toy"

    return write


# ---- draws


def test_draws_are_named_arrays_in_declared_shape(program):
    name, centre = program(NORMALS), np.array([1.0, 2.0, 4.0])
    draws = get_engine("embedded").sample(name, {"N": 3, "centre": centre}, **SETTINGS | {"draws": 1000})
    shapes = {"a": (), "b": (3,), "m": (2, 3), "L": (2, 2)}
    assert {k: v.shape for k, v in draws.values.items()} == {k: (2, 1000, *s) for k, s in shapes.items()}
    i, j = np.indices((2, 3)) + 1
    for name, mean, sd in [("a", -5, 2), ("b", centre, 0.5), ("m", 10 * i + j, 0.1)]:
        x = draws.values[name].reshape(-1, *shapes[name])
        assert (np.abs(x.mean(axis=0) - mean) < 5 * sd / np.sqrt(400)).all()  # the ESS is more: it passes
        assert (np.abs(x.std(axis=0) / sd - 1) < 5 / np.sqrt(2 * 400)).all()
    np.testing.assert_allclose(np.linalg.norm(draws.values["L"], axis=-1), 1)
    assert draws.engine == "stanli" and draws.version.startswith("0.24")
    d = draws.diagnostics
    assert d.failures == () and not d.exact


def test_seed_decides_the_draws(program):
    name, engine = program(NORMALS), get_engine("embedded")
    data = {"N": 1, "centre": np.zeros(1)}
    one, same, other = (engine.sample(name, data, **SETTINGS | {"seed": s}).values["a"] for s in (1, 1, 2))
    assert (one == same).all() and not (one == other).any()


# ---- diagnostics


def autoregressive(phi, chains=4, draws=5000, seed=7):
    """Stationary AR(1) chains: effective sample size S (1 - phi) / (1 + phi)."""
    x = np.random.default_rng(seed).normal(size=(chains, draws))
    x[:, 1:] *= np.sqrt(1 - phi**2)
    for t in range(1, draws):
        x[:, t] += phi * x[:, t - 1]
    return x


@pytest.mark.parametrize("phi", [-0.4, 0.0, 0.5, 0.9])
def test_effective_sample_size_of_autoregressive_chains(phi):
    d = base.diagnose({"x": autoregressive(phi)}, 0)
    assert d.ess_bulk == pytest.approx(20_000 * (1 - phi) / (1 + phi), rel=0.2)
    assert d.rhat == pytest.approx(1, abs=0.01)
    if phi == 0:
        assert d.ess_tail == pytest.approx(20_000, rel=0.2)
    assert d.failures == ()


def test_diagnostics_are_those_of_the_worst_entry_and_fixed_entries_have_none():
    good, bad = autoregressive(0, draws=500), autoregressive(0.95, draws=500)
    matrix = np.stack([np.ones_like(good), good, bad, np.zeros_like(good)], axis=-1).reshape(4, 500, 2, 2)
    worst = base.diagnose({"good": good, "matrix": matrix}, 2)
    alone = base.diagnose({"bad": bad}, 2)
    assert (worst.ess_bulk, worst.divergences) == (alone.ess_bulk, 2) and worst.rhat == alone.rhat > 1.01
    assert worst.ess_tail == alone.ess_tail and worst.failures[:3] == ("divergences", "rhat", "ess_bulk")


def test_chains_that_disagree_fail():
    """Two of four chains 3 sd off: between variance 3, so R-hat = sqrt(1 + 3) for normal draws; ranks lower it."""
    x = autoregressive(0, draws=1000)
    x[:2] += 3
    d = base.diagnose({"x": x}, 0)
    assert 1.5 < d.rhat < 2 and "rhat" in d.failures
    assert base.diagnose({"x": np.where(np.arange(4)[:, None] == 0, 3 * x, x)}, 0).rhat > 1.01  # scale, not place


def test_chains_that_never_move_or_have_no_number_fail():
    good = autoregressive(0)
    hole = np.where((np.arange(4)[:, None] == 2) & (np.arange(5000) == 999), np.nan, good)
    for values in ({"x": np.ones((4, 100))}, {"good": good, "x": good * np.nan}, {"good": good, "x": hole}):
        assert base.diagnose(values, 0).failures == ("rhat", "ess_bulk", "ess_tail")


@pytest.mark.parametrize(
    ("diagnostics", "failures"),
    [
        (Diagnostics(exact=True), ()),
        (Diagnostics(0, 1.01, 400, 400), ()),
        (Diagnostics(1, 1.0, 500, 500), ("divergences",)),
        (Diagnostics(0, 1.0101, 500, 500), ("rhat",)),
        (Diagnostics(0, 1.0, 399.9, 500), ("ess_bulk",)),
        (Diagnostics(0, 1.0, 500, 399.9), ("ess_tail",)),
        (Diagnostics(0, np.nan, np.nan, np.nan), ("rhat", "ess_bulk", "ess_tail")),
        (Diagnostics(3, np.inf, 0, 0), ("divergences", "rhat", "ess_bulk", "ess_tail")),
    ],
)
def test_failures(diagnostics, failures):
    assert diagnostics.failures == failures


def test_divergences_are_counted(program):
    """Every path over the edge of a cliff ends in a divergence: about one in two."""
    draws = get_engine("embedded").sample(program(CLIFF), {}, **SETTINGS)
    assert (draws.values["x"] < 0).all()
    assert 100 < draws.diagnostics.divergences <= 1000 and "divergences" in draws.diagnostics.failures


# ---- errors


def quotes_nothing(error):
    return CANARY[:5] not in str(error) and error.__cause__ is None and error.__context__ is None


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (REJECTS, {"y": float(CANARY)}),  # the program refuses every point, and its message quotes y
        ("data { real<upper=0> y; } parameters { real x; } model { x ~ normal(y, 1); }", {"y": float(CANARY)}),
        ("data { real y; } parameters { real x; } model { x ~ normal(y, 1); }", {"y": [float(CANARY)] * 2}),
        ("data { real z; } parameters { real x; } model { x ~ normal(z, 1); }", {"y": float(CANARY)}),
        ("parameters { real x; } model { x ~ normal(0, 1) }", {}),
    ],
)
def test_what_stan_says_about_the_data_is_not_repeated(program, text, data, capfd, caplog):
    with pytest.raises(EngineError, match="stanli could not sample the program 'toy'") as caught:
        get_engine("embedded").sample(program(text), data, **SETTINGS)
    assert quotes_nothing(caught.value)
    assert CANARY[:5] not in "".join(capfd.readouterr()) + caplog.text


def test_unknown_program_and_engine():
    with pytest.raises(EngineError, match="'nothing' is not in this installation"):
        get_engine("embedded").sample("nothing", {}, **SETTINGS)
    with pytest.raises(InputError, match="engine='jags' is not one of auto, embedded, cmdstan"):
        get_engine("jags")


# ---- CmdStan


@pytest.fixture
def no_cmdstan(monkeypatch, tmp_path):
    monkeypatch.delenv("CMDSTAN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def some_cmdstan(monkeypatch, tmp_path):
    """As much of an installation as cmdstanpy looks at."""
    (tmp_path / "makefile").write_text("CMDSTAN_VERSION := 2.36.0\n")
    monkeypatch.setenv("CMDSTAN", str(tmp_path))


def test_without_cmdstan_auto_is_embedded_and_cmdstan_says_what_to_do(no_cmdstan):
    assert get_engine("auto").name == get_engine().name == "stanli"
    with pytest.raises(EngineError, match=r"install_cmdstan\(\), set CMDSTAN to its folder, or use engine='embedded'"):
        get_engine("cmdstan")


def test_auto_is_embedded_also_where_there_is_a_cmdstan(some_cmdstan):
    """What a seeded run gives does not depend on what is installed."""
    assert get_engine("auto").name == get_engine().name == "stanli"
    assert (get_engine("cmdstan").name, get_engine("cmdstan").version) == ("cmdstan", "2.36.0")


def write_csv(path, columns, draws, divergent=()):
    """A file as CmdStan writes it; draws (S, parameters)."""
    head = """# stan_version_major = 2
# stan_version_minor = 36
# stan_version_patch = 0
# model = toy_model
# method = sample (Default)
#   sample
#     num_samples = {S}
#     num_warmup = 1000 (Default)
#     save_warmup = false (Default)
#     thin = 1 (Default)
#     algorithm = hmc (Default)
#       hmc
#         engine = nuts (Default)
#           nuts
#             max_depth = 10 (Default)
#         metric = diag_e (Default)
# id = 1 (Default)
lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__,{columns}
# Adaptation terminated
# Step size = 0.5
# Diagonal elements of inverse mass matrix:
# 1, 1
"""
    tail = """#
#  Elapsed Time: 0.1 seconds (Warm-up)
#                0.1 seconds (Sampling)
#                0.2 seconds (Total)
#
"""
    lines = [
        ",".join(["-1,0.9,0.5,3,7", str(int(s in divergent)), "2", *(repr(float(x)) for x in row)])
        for s, row in enumerate(draws)
    ]
    Path(path).write_text(head.format(S=len(draws), columns=columns) + "\n".join(lines) + "\n" + tail)
    return str(path)


COLUMNS = "a,b.1,b.2,m.1.1,m.2.1,m.1.2,m.2.2,m.1.3,m.2.3"  # CmdStan writes matrices by columns


def toy_chains(chains=3, draws=40, seed=4):
    """Draws by name, and the rows of the csv files that hold them."""
    rng = np.random.default_rng(seed)
    values = {"a": rng.normal(size=(chains, draws)), "b": rng.normal(size=(chains, draws, 2)),
              "m": rng.normal(size=(chains, draws, 2, 3))}  # fmt: skip
    flat = [values["a"][..., None], values["b"], values["m"].transpose(0, 1, 3, 2).reshape(chains, draws, 6)]
    return values, np.concatenate(flat, axis=2)


def test_cmdstan_files_become_named_arrays(tmp_path):
    """Real csv files through cmdstanpy: every number lands at its chain, draw and place in the matrix."""
    values, files = toy_chains()
    paths = [write_csv(tmp_path / f"toy_{c}.csv", COLUMNS, rows, {c, c + 1}) for c, rows in enumerate(files)]
    draws = cmdstan.to_samples(cmdstanpy.from_csv(paths), "2.36")
    assert draws.values.keys() == values.keys()
    for name, expected in values.items():
        np.testing.assert_array_equal(draws.values[name], expected)
    assert draws.diagnostics == base.diagnose(values, 6)
    assert (draws.engine, draws.version) == ("cmdstan", "2.36")


class Compiled:
    """Stands for a compiled program: notes how it is run, and leaves CmdStan's files."""

    def __init__(self, error=None):
        self.error = error

    def sample(self, data, chains, iter_sampling, output_dir, **settings):
        self.data, self.settings, self.folder = json.loads(Path(data).read_text()), settings, Path(output_dir)
        self.mode = stat.S_IMODE(self.folder.stat().st_mode)
        assert Path(data).parent == self.folder
        logging.getLogger("cmdstanpy").error("y is %s", CANARY)
        if self.error is not None:
            raise self.error
        files = toy_chains(chains, iter_sampling)[1]
        return cmdstanpy.from_csv([write_csv(self.folder / f"toy_{c}.csv", COLUMNS, f) for c, f in enumerate(files)])


def test_cmdstan_run(some_cmdstan, program, monkeypatch):
    """Data as Stan's JSON (rows of matrices), settings passed on, and a private folder that is gone afterwards."""
    compiled, M = Compiled(), np.arange(6.0).reshape(2, 3)
    monkeypatch.setattr(cmdstan, "compiled", lambda source, home, version: compiled)
    data = {"N": 2, "R": M, "n": np.int64(5), "A": np.float64(0.1), "none": np.empty((0, 2))}
    draws = get_engine("cmdstan").sample(program(""), data, **SETTINGS)
    assert compiled.data == {"N": 2, "R": [[0, 1, 2], [3, 4, 5]], "n": 5, "A": 0.1, "none": []}
    expected = {"iter_warmup": 300, "seed": 3, "adapt_delta": 0.95, "show_progress": False, "sig_figs": 18}
    assert compiled.settings == expected
    assert compiled.mode == 0o700 and not compiled.folder.exists()
    np.testing.assert_array_equal(draws.values["m"], toy_chains(2, 500)[0]["m"])


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_what_cmdstan_says_about_the_data_is_not_repeated(error, some_cmdstan, program, monkeypatch, capfd, caplog):
    compiled = Compiled(error(f"y is {CANARY}"))
    monkeypatch.setattr(cmdstan, "compiled", lambda source, home, version: compiled)
    with pytest.raises(EngineError, match="CmdStan could not sample the program 'toy'") as caught:
        get_engine("cmdstan").sample(program(""), {"y": float(CANARY)}, **SETTINGS)
    assert quotes_nothing(caught.value) and not compiled.folder.exists()
    assert CANARY[:5] not in "".join(capfd.readouterr()) + caplog.text
