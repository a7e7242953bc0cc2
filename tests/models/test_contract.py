"""What a model has to bring, what it gets for nothing, and how its pieces are proved to fit together."""

import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gamma, lognorm, norm

import surveysynth as ss
from surveysynth.engines import Diagnostics
from surveysynth.models.base import Synthesizer
from surveysynth.models.draws import Draws, Synthetic
from surveysynth.models.records import Public
from surveysynth.models.registry import MODELS, model_from_file
from tests.surveys import PSEUDO

WEIGHTED = """
data { int<lower=1> n; int<lower=1> K; matrix[n, K] x; vector[n] z; vector[n] v; vector[n] alpha; }
parameters { vector[K] b; real<lower=0> s; vector[K] c; real g; real<lower=0> t; }
model {
  b ~ normal(0, 10); c ~ normal(0, 10); g ~ normal(0, 10); s ~ normal(0, 2); t ~ normal(0, 2);
  for (i in 1:n)
    target += alpha[i] * (normal_lpdf(z[i] | x[i] * b, s) + normal_lpdf(v[i] | x[i] * c + g * z[i], t));
}
"""


def file(n=120, seed=1, modelled=False):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    pay = np.exp(rng.normal(3 + 0.4 * group, 0.5))
    weight = np.exp(1 - 0.3 * np.log(pay) + rng.normal(0, 0.3, n)) if modelled else np.where(group == 1, 10.0, 20.0)
    return ss.SurveyDesign(pd.DataFrame({"pay": pay, "group": np.where(group, "b", "a"), "w": weight}), weights="w")


class Toy(Synthesizer):
    """Log-normal, one mean and one spread: exact draws."""

    outcomes = ("pay",)
    predictors = "group"
    measure = "log pay"

    def fit(self, records, alpha, sampler):
        z, S, A = np.log(records.y), sampler.chains * sampler.draws, alpha.sum()
        mean = alpha @ z / A
        s2 = alpha @ (z - mean) ** 2 / sampler.rng.chisquare(A - 1, S)
        values = {"mean": mean + np.sqrt(s2 / A) * sampler.rng.standard_normal(S), "sd": np.sqrt(s2)}
        exact = Diagnostics(ess_bulk=S, ess_tail=S, exact=True)
        return Draws(values, np.zeros(S, dtype=int), exact, "numpy", np.__version__)

    def log_density(self, records, draws):
        return norm.logpdf(np.log(records.y), draws["mean"][:, None], draws["sd"][:, None])

    def simulate(self, public, draw, rng):
        z = rng.normal(draw["mean"][0], draw["sd"][0], public.n)
        return Synthetic(np.exp(z)[:, None], public.public_weights)


def without(name):
    """The toy without one of its pieces."""
    pieces = {key: value for key, value in vars(Toy).items() if key != name and not key.startswith(("__", "_abc"))}
    return type("Bare", (Synthesizer,), pieces)


# what a model brings


def test_three_methods_release():
    release = ss.synthesize(file(), Toy(), epsilon=20, m=2, seed=1, mechanism=PSEUDO)
    assert release.privacy.kind == "asymptotic" and release.privacy.epsilon <= 20
    income = [design.numeric("pay") for design in release.datasets]
    assert all(12 < np.median(y) < 42 for y in income)  # the file's is 24; its log has an sd of .54
    assert "density is that of: log pay" in str(release.privacy)
    assert release.manifest()["transform"] == ["log pay"]


@pytest.mark.parametrize(
    ("piece", "named"),
    [("fit", r"fit\(records, alpha, sampler\) -> Draws"), ("log_density", r"log_density\(records, draws\)"),
     ("simulate", r"simulate\(public, draw, rng\)"), ("outcomes", "outcomes"), ("predictors", "predictors"),
     ("measure", "measure")],
)  # fmt: skip
def test_each_missing_piece_is_named_at_construction(piece, named):
    with pytest.raises(ss.InputError, match=f"the model Bare lacks {named}"):
        without(piece)()
    with pytest.raises(ss.InputError, match=r"lacks fit\(.*, log_density\(.*, simulate\("):
        type("Nothing", (Synthesizer,), {})()


def test_what_is_no_model_is_refused_before_anything_is_fitted():
    for other in ("FBS", Toy, object()):
        with pytest.raises(ss.InputError, match="the second argument is a model"):
            ss.fit(file(), other, epsilon=9, mechanism=PSEUDO)


def test_bounds_by_default_are_those_of_the_densities():
    """By record and by unit, in blocks of any size."""
    model, design = Toy(), file(50)
    records = model.prepare(design)
    rng = np.random.default_rng(2)
    draws = Draws({"mean": rng.normal(3, 0.1, 30), "sd": rng.uniform(0.4, 0.6, 30)}, np.zeros(30, dtype=int),
                  Diagnostics(), "", "")  # fmt: skip
    z = np.log(design.numeric("pay"))
    expected = np.array([norm.logpdf(z, m, s) for m, s in zip(draws["mean"], draws["sd"], strict=True)])
    unit = rng.permutation(50) // 3
    sums = np.array([[row[unit == u].sum() for u in range(unit.max() + 1)] for row in expected])
    for block in (10, 4_000_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("surveysynth.models.base.BLOCK", block)
            np.testing.assert_allclose(model.lipschitz(records, draws), np.abs(expected).max(axis=0), rtol=1e-12)
            np.testing.assert_allclose(model.lipschitz(records, draws, unit), np.abs(sums).max(axis=0), rtol=1e-12)
            before, after = rng.uniform(size=(2, 50))
            moved = model.log_ratio(records, before, after, draws)
            np.testing.assert_allclose(moved, expected @ (after - before), rtol=1e-9)


def test_simulate_gets_nothing_confidential():
    seen = []

    class Curious(Toy):
        def simulate(self, public, draw, rng):
            seen.append(public)
            return super().simulate(public, draw, rng)

    ss.synthesize(file(), Curious(), epsilon=20, m=1, seed=1, mechanism=PSEUDO)
    assert type(seen[0]) is Public and not {"y", "log_w", "unit"} & set(vars(seen[0]))
    for model in (ss.FBS("pay", "group"), ss.FBP("pay", "group"), ss.NegativeBinomialRegression("pay", "group")):
        whole = ss.SurveyDesign(file(200, modelled=True).frame.assign(pay=lambda f: f["pay"].round()), weights="w")
        public = model.prepare(whole).public
        assert not {"y", "log_w", "Y", "pair", "count"} & set(vars(public))


@pytest.mark.parametrize(
    ("mechanism", "settings", "match"),
    [(ss.Censored(epsilon=9), {"population_total": 9000}, "Toy is not fitted under the censored mechanism"),
     (PSEUDO, {"epsilon": 9, "debias": True}, "Toy has no debias")],
)  # fmt: skip
def test_capabilities_are_asked_before_the_fit(mechanism, settings, match, monkeypatch):
    monkeypatch.setattr(Toy, "fit", lambda *_: pytest.fail("there was a fit"))
    with pytest.raises((ss.InputError, ss.ModelError), match=match):
        ss.synthesize(file(), Toy(), mechanism=mechanism, **settings)


OF_RECORDS = [
    Toy, lambda: ss.BetaRegression("pay", bounds=(0, 1e4)), lambda: ss.PoissonRegression("pay"),
    lambda: ss.NegativeBinomialRegression("pay"), lambda: ss.GammaRegression("pay"), lambda: ss.Mixture("pay"),
    lambda: ss.MultinomialRegression("C(pay)"),
    lambda: ss.Sequential([ss.FBS("pay ~ group"), ss.GammaRegression("tax ~ pay")]),
]  # fmt: skip


@pytest.mark.parametrize("make", OF_RECORDS)
def test_strict_takes_a_formula_and_no_model_of_records(make):
    with pytest.raises(ss.ModelError, match=r"give the formula, .* what kind each outcome is, outcomes="):
        ss.synthesize(file(), make(), epsilon=5, population_total=9000)


# a Stan program


def stan_model(folder, program=WEIGHTED, **changes):
    path = folder / "pay.stan"
    path.write_text(program)

    def data(records, alpha):
        x = records.x
        return {"n": records.n, "K": x.shape[1], "x": x, "z": np.log(records.y), "v": records.log_w, "alpha": alpha}

    def log_density(records, draws):
        z, s, t = np.log(records.y), draws["s"][:, None], draws["t"][:, None]
        logs = norm.logpdf(z, draws["b"] @ records.x.T, s)
        return logs + norm.logpdf(records.log_w, draws["c"] @ records.x.T + draws["g"][:, None] * z, t)

    def simulate(public, draw, rng):
        z = rng.normal(public.x @ draw["b"], draw["s"])
        return np.exp(z), public.x @ draw["c"] + draw["g"] * z

    pieces = {"data": data, "log_density": log_density, "simulate": simulate, "weight": "modelled",
              "measure": "log pay"} | changes  # fmt: skip
    return ss.StanModel(path, outcome="pay", predictors="group", **pieces)


@pytest.mark.slow
def test_a_stan_program_releases(tmp_path):
    design = file(modelled=True)
    release = ss.synthesize(
        design, stan_model(tmp_path), epsilon=30, m=2, seed=1, population_total=2000, tolerance=0.2, mechanism=PSEUDO
    )
    ours = release.tables("group", statistic="mean").set_index("group")["estimate"]
    theirs = ss.estimate(design, "pay", "group").set_index("group")["estimate"]
    assert np.abs(np.log(ours / theirs)).max() < 0.35  # standard error of a mean 5%, and privacy's noise
    assert release.method["method"] == "pay"
    assert all(d.weights.sum() == pytest.approx(2000) for d in release.datasets)


def test_the_pieces_of_a_right_model_fit_together(tmp_path):
    said = str(ss.check_model(stan_model(tmp_path), file(modelled=True)))
    assert "to rounding" in said and "mass one" in said and "follow the density" in said
    assert "within" in str(ss.check_model(Toy(), file()))


def forgotten(records, draws):
    """Without the density of the weight."""
    return norm.logpdf(np.log(records.y), draws["b"] @ records.x.T, draws["s"][:, None])


def of_dollars(records, draws):
    """Per dollar, where the measure says log: the program's target moves with alpha by a constant more."""
    z, t = np.log(records.y), draws["t"][:, None]
    logs = lognorm.logpdf(records.y, draws["s"][:, None], scale=np.exp(draws["b"] @ records.x.T))
    return logs + norm.logpdf(records.log_w, draws["c"] @ records.x.T + draws["g"][:, None] * z, t)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"log_density": forgotten}, "do not belong together: under other privacy weights.* the density of the weight"),
        ({"log_density": of_dollars}, r"not normalized: it integrates to .* over log y"),
        ({"simulate": lambda public, draw, rng: (np.exp(rng.normal(public.x @ draw["b"], 2 * draw["s"])),
                                                 public.x @ draw["c"])}, "simulate and log_density .* do not belong"),
        ({"log_density": lambda records, draws: np.zeros((draws.size, 3))}, "must be an array of draws by records"),
        ({"log_density": lambda records, draws: np.tile(records.y - records.y.mean(), (draws.size, 1))},
         "depends on which other records it is called with"),
    ],
    ids=["forgotten weight density", "another scale", "simulate", "shape", "others"],
)  # fmt: skip
def test_pieces_that_do_not_fit_are_found(changes, match, tmp_path):
    with pytest.raises(ss.ModelError, match=match):
        ss.check_model(stan_model(tmp_path, **changes), file(modelled=True))


def test_a_forgotten_factor_of_a_model_in_numpy_is_found():
    class Half(Toy):
        def log_density(self, records, draws):
            return 0.5 * super().log_density(records, draws)

    with pytest.raises(ss.ModelError, match="fit and log_density of Half do not belong together"):
        ss.check_model(Half(), file())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "changes", "match"),
    [
        (WEIGHTED.replace("g * z[i]", "h * z[i]"), {}, r"does not compile. Semantic .* 'pay.stan', line 7.*\"h\""),
        (WEIGHTED, {"data": lambda records, alpha: {"n": records.n}}, r"pay.stan: data= has no entry 'K'"),
        (WEIGHTED, {"data": lambda records, alpha: {
            "n": records.n, "K": 2, "x": records.x, "z": np.log(records.y)[:5], "v": records.log_w, "alpha": alpha}},
         r"the entry 'z' of data= has the size \(5\), and the program declares \(120\)"),
        (WEIGHTED + "generated quantities { vector[n] fitted = x * b; }", {}, "fitted has an entry for every record"),
    ],
    ids=["compile", "missing", "size", "per record"],
)  # fmt: skip
def test_errors_of_a_program_name_line_and_entry(program, changes, match, tmp_path):
    with pytest.raises(ss.ModelError, match=f"(?s){match}"):
        model = stan_model(tmp_path, program, **changes)
        ss.fit(file(modelled=True), model, epsilon=30, seed=1, mechanism=PSEUDO)


def test_what_stan_prints_at_run_time_is_masked(tmp_path):
    loud = WEIGHTED.replace("model {", 'model {\n  if (s > 0) reject("Xerxes earns ", z);')
    with pytest.raises(ss.SurveySynthError) as caught:
        ss.fit(file(modelled=True), stan_model(tmp_path, loud), epsilon=30, seed=1, mechanism=PSEUDO)
    assert "Xerxes" not in str(caught.value) and caught.value.__context__ is None


def test_a_weight_that_is_not_public_has_to_be_modelled(tmp_path):
    with pytest.raises(ss.InputError, match="does not model them: put what the weights depend on into the formula"):
        ss.fit(file(modelled=True), stan_model(tmp_path, weight="public"), epsilon=30, mechanism=PSEUDO)


# a model in a file


@pytest.mark.slow
def test_a_model_in_a_file_from_the_shell(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    file(200).frame.to_csv("f.csv", index=False)
    (tmp_path / "mine.py").write_text(
        "import surveysynth as ss\npay = ss.GammaRegression('pay', 'group')\nmake = ss.GammaRegression\nn = 1\n"
    )
    words = ["synthesize", "f.csv", "--weights", "w", "--formula", "pay ~ group", "--epsilon", "20"]
    words += ["--set", "privacy.mechanism=pseudo-posterior"]
    for name in ("mine.py:pay", "mine.py:make", "gamma"):
        assert run(*words, "--set", f"model.name={name}", "--seed", "1", "--out", name.replace(":", "_"))[0] == 0
    tables = [(tmp_path / name / "public" / "tables.csv").read_text() for name in ("mine.py_pay", "gamma")]
    assert tables[0] == tables[1]
    for name, said in (("mine.py:n", "n is neither a synthesizer nor a function"), ("no.py:pay", "no file 'no.py'"),
                       ("gama", "'gama' is not one of fbs")):  # fmt: skip
        code, _, err = run(*words, "--set", f"model.name={name}", "--out", "x")
        assert code == 2 and said in " ".join(err.replace("│", " ").split())


BROKEN = """from __future__ import annotations
from dataclasses import dataclass
import surveysynth as ss

@dataclass(frozen=True)  # a class of the user's own, whose annotations are looked up in its module
class Mine(ss.GammaRegression):
    rate: float = 1

def broken(outcome, predictors):
    return [][4711]

def picky(outcome):
    return None

other = Mine("pay", "1")
several = lambda outcome, predictors: ss.FBS(outcome, predictors)
"""


def test_what_is_wrong_with_a_model_in_a_file_is_told_without_its_messages(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(BROKEN)
    mine = model_from_file(f"{file}:Mine", ["pay"], "group")
    assert mine == sys.modules["surveysynth_model_own"].Mine("pay", "group")
    assert model_from_file(f"{file}:several", ["a", "b"], "g").outcomes == ("a", "b")
    for name, said in (("broken", "broken: IndexError in line 10$"), ("picky", "picky: TypeError$"),
                       ("other", "a model of pay given '1', and one of pay given 'group' was asked for"),
                       ("none", "none is neither a synthesizer")):  # fmt: skip
        with pytest.raises(ss.InputError, match=said) as caught:
            model_from_file(f"{file}:{name}", ["pay"], "group")
        assert caught.value.__context__ is None
    file.write_text("a = 1\nb = = 2\n")
    with pytest.raises(ss.InputError, match=r"own.py:pay: SyntaxError in line 2$"):
        model_from_file(f"{file}:pay", ["pay"], "group")
    with pytest.raises(ss.InputError, match=r"write file.py:name"):
        model_from_file(str(file), ["pay"], "group")


def test_the_list_of_models_is_the_one_of_python_and_of_r():
    folder = Path(__file__).parents[2] / "r_bridge"
    exported = set(re.findall(r"export\((\w+)\)", (folder / "NAMESPACE").read_text()))
    made = r"^(\w+) <- function\((?:(?!^}).)*?synthesizer\(\"(\w+)\""
    there = re.findall(made, (folder / "R" / "synthesizers.R").read_text(), re.M | re.S)
    listed = {(model.in_r, model.kind.__name__) for model in MODELS.values()}
    assert {in_r for in_r, _ in listed} <= exported
    assert {each for each in there if each[1] != "model_from_file"} == listed
    public = {name for name in ss.__all__ if isinstance(getattr(ss, name), type(Synthesizer))}
    assert public == {kind for _, kind in listed} | {"Synthesizer", "StanModel", "Sequential"}


@pytest.mark.parametrize(
    ("call", "said"),
    [(lambda: ss.synthesize(file(), ss.FBS("pay", "group"), epsilonn=1, mechanism=PSEUDO),
      "synthesize() got an unexpected keyword argument 'epsilonn'; did you mean 'epsilon'?"),
     (lambda: ss.synthesize(file(), ss.FBS("pay", "group"), warm_up=1, mechanism=PSEUDO),
      "synthesize() got an unexpected keyword argument 'warm_up'; did you mean 'warmup'?"),
     (lambda: ss.privacy_cost(file(), ss.FBS("pay", "group"), debias=True),
      "privacy_cost() got an unexpected keyword argument 'debias'"),
     (lambda: ss.FBS("pay", "group", priors="flat"),
      "FBS() got an unexpected keyword argument 'priors'; did you mean 'prior'?"),
     (lambda: ss.FBP.paper("pay", "group", prio="flat"),
      "FBP.paper() got an unexpected keyword argument 'prio'; did you mean 'prior'?"),
     (lambda: ss.StanModel("pay.stan", outcomes="pay"),
      "StanModel() got an unexpected keyword argument 'outcomes'; did you mean 'outcome'?"),
     (lambda: Toy(pay=1), "Toy() takes no arguments"),
     (lambda: ss.SurveyDesign.read("f.csv", weight="w"),
      "SurveyDesign.read() got an unexpected keyword argument 'weight'; did you mean 'weights'?"),
     (lambda: ss.Release.tables(None, byy="group"), "Release.tables() got an unexpected keyword argument 'byy'")],
)  # fmt: skip
def test_a_wrong_argument_is_told_of_the_function_that_was_called(call, said):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == said


def test_a_model_shows_the_arguments_of_its_constructor():
    assert list(inspect.signature(ss.GammaRegression).parameters)[:3] == ["outcome", "predictors", "missing"]
    assert list(inspect.signature(ss.FBP).parameters)[:3] == ["outcome", "predictors", "prior"]


# an example


@pytest.mark.slow
def test_the_gamma_regression():
    rng = np.random.default_rng(4)
    for modelled in (False, True):
        frame = file(400, 3, modelled).frame.assign(pay=lambda f: rng.gamma(3, np.where(f["group"] == "b", 9, 5) / 3))
        design, model = ss.SurveyDesign(frame, weights="w"), ss.GammaRegression("pay", "group")
        said = str(ss.check_model(model, design))
        assert "mass one" in said and "follow the density" in said
        records = model.prepare(design)
        draws = ss.fit(design, model, mechanism=ss.PseudoPosterior(c1=1e9), seed=1).draws
        means = np.exp(draws["b"] @ records.X.T).mean(axis=0)
        of_rows = [frame["pay"][records.row == g].mean() for g in range(2)]
        np.testing.assert_allclose(means, of_rows, rtol=0.02)
        shape = gamma.fit(frame["pay"] / np.array(of_rows)[records.row], floc=0)[0]
        assert draws["shape"].mean() == pytest.approx(shape, rel=0.05)
    with pytest.raises(ss.InputError, match=r"'pay' is not positive in 1 row \(row numbers 1;"):
        model.prepare(ss.SurveyDesign(frame.assign(pay=frame["pay"].where(frame.index > 0, 0.0)), weights="w"))


def test_a_forgotten_weight_density_of_a_model_in_numpy_is_found():
    class Forgetful(ss.GammaRegression):
        def log_density(self, records, draws):
            return super().log_density(replace(records, log_w=None), draws)

    with pytest.raises(ss.ModelError, match=r"do not belong together.* the density of the weight"):
        ss.check_model(Forgetful("pay", "group"), file(200, modelled=True))
    for model in (ss.FBS("pay", "group", prior="flat"), ss.FBP("pay", "group", prior="flat")):
        assert "within" in str(ss.check_model(model, file(200, modelled=True)))
