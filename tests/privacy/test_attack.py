"""An attack on the strict guarantee: neighbouring files, a lower bound on epsilon from draws, and the attack's power.

The attacker knows both files, of which one is real, and the mechanism.  By Neyman and Pearson his best events are
level sets of the privacy loss log p(output | D) - log p(output | D').  One half of the draws under D and under D'
chooses the level, the other half bounds the probabilities of the event by Clopper & Pearson (1934), so that

    epsilon >= log(lower bound of P_D(event) / upper bound of P_D'(event))

but for an error of known probability, whatever was chosen.  A claim below that is rejected.  Each claim is also put
to the same attack with its noise or its clamp wrong by 30%, and must then be rejected in 95 of 100 repetitions.

Each file goes through ``fit``, ``laplace_tables`` or ``perturbed_histogram`` on its own, so that all that depends on
the data is computed anew.  What a fit would sample, program and data, is caught, and its target is evaluated on a
grid of parameters that both files have in common.  The distribution over the grid's points with masses as the target
says is the same mechanism under another prior: it has the same epsilon, however coarse the grid is, and can be drawn
from exactly.

For one record taken out, loss = l - log E_D' exp(l), with l the record's clamped term.  It comes near epsilon = 2 M
where D' has l = -M but for a few draws, in which l = M.  The files were planned for that.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import stanli
from scipy.special import expit, logsumexp
from scipy.stats import beta as beta_distribution
from scipy.stats import binom, laplace, logistic, multivariate_normal, norm, pareto

import surveysynth as ss
from surveysynth import BetaRegression, Censored, Policy, SurveyDesign
from surveysynth.design.replicates.preston import preston
from surveysynth.engines import base, get_engine
from surveysynth.models.draws import Sampler
from surveysynth.release import laplace as noise
from surveysynth.synthesis import fit_request, histogram
from surveysynth.synthesis import fitting as synthesis

LEVEL = 1e-6  # probability that an attack rejects a claim that is true
WRONG = 1.3
REPETITIONS, POWER = 100, 0.95
GRID_DRAWS, NOISE_DRAWS = 1_000_000, 100_000  # of each file
LEVELS, CELLS = 800, 300
ROUNDING = 1e-8  # of log densities

pytestmark = pytest.mark.filterwarnings("ignore:population_total is far from")  # planted weights are


# ---- the attack


@dataclass(frozen=True)
class Losses:
    """Privacy losses of outputs: ``counts(rng, N)`` of N draws under D and under D', by level, rising: (2, levels)."""

    counts: Callable
    largest: float  # exact supremum of their size


def on_a_grid(log_p, log_q, draws=None):
    """Of two distributions over the same points, drawn exactly, or of ``draws(N)``, points under either of them."""
    loss = log_p - log_q
    largest = float(np.abs(loss).max())
    level = np.searchsorted(np.linspace(-largest, largest, LEVELS), loss)
    masses = [np.bincount(level, np.exp(x), LEVELS + 1) for x in (log_p, log_q)]

    def counts(rng, N):
        if draws is None:
            return np.array([rng.multinomial(N, x / x.sum()) for x in masses])
        return np.array([np.bincount(level[points], minlength=LEVELS + 1) for points in draws(N)])

    return Losses(counts, largest)


def epsilon_at_least(losses, rng, N, level=LEVEL):
    """A lower bound on epsilon from N draws of each file, above the true one with probability ``level`` at most."""
    n = N // 2

    def events(counts):
        above = counts[:, ::-1].cumsum(axis=1)[:, ::-1]
        return np.hstack([above, (n - above)[::-1]])  # loss at least so large; or smaller, and the files swapped

    k, j = events(losses.counts(rng, n)) + 0.5
    best = np.argmax(np.log(k / j) - norm.isf(level / 4) * (np.sqrt(1 / k) + np.sqrt(1 / j)))  # any choice is valid
    k, j = events(losses.counts(rng, n))[:, best]
    low = beta_distribution.ppf(level / 2, k, n - k + 1) if k > 0 else 0.0
    high = beta_distribution.ppf(1 - level / 2, j + 1, n - j) if j < n else 1.0
    return float(np.log(low / high)) if low > 0 else -np.inf


def attack(claim, right, wrong, N, first=None):
    """A claim holds and is all but reached; with 30% wrong it is rejected. ``first`` are the mechanism's own draws."""
    assert right.largest <= claim + ROUNDING < wrong.largest
    rng = np.random.default_rng(11)
    found = epsilon_at_least(first or right, rng, N)
    again = [epsilon_at_least(right, rng, N) for _ in range(REPETITIONS)]
    broken = [epsilon_at_least(wrong, rng, N) for _ in range(REPETITIONS)]
    alarms, power = np.mean(np.array(again) > claim), np.mean(np.array(broken) > claim)
    said = (
        f"claimed {claim:.3f}, exact supremum {right.largest:.3f}, lower bound {found:.3f}; wrong by 30%: "
        f"{np.median(broken):.3f}; power {power:.2f}, false alarms {alarms:.2f}"
    )
    print(said)
    assert found <= claim and alarms == 0 and power >= POWER and found > 0.7 * claim, said


def rejected(claim, losses, N=GRID_DRAWS):
    """A claim that is false is found out."""
    found = epsilon_at_least(losses, np.random.default_rng(12), N)
    said = f"claimed {claim:.3f}, lower bound {found:.3f}"
    print(said)
    assert found > claim, said


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_attack_keeps_its_level_and_has_power(epsilon):
    """Randomized response, whose epsilon is exact: rejected no more often than the level, at 90% of it always."""
    truth = expit(epsilon)
    log_p, log_q = np.log([truth, 1 - truth]), np.log([1 - truth, truth])
    losses, rng, level = on_a_grid(log_p, log_q), np.random.default_rng(3), 0.05
    found = np.array([epsilon_at_least(losses, rng, 100_000, level) for _ in range(1000)])
    assert (found > epsilon).sum() <= binom.ppf(1 - LEVEL, 1000, level)
    assert (found > 0.9 * epsilon).all()


# ---- what a fit samples


class Stop(Exception):
    pass


class Catch:
    """An engine that keeps what it is given, but for programs that are to run."""

    name, version = "catch", "0"

    def __init__(self, *run):
        self.run = run

    def sample(self, program, data, **settings):
        if program in self.run:
            self.drawn = get_engine("embedded").sample(program, data, **settings)
            return self.drawn
        self.program, self.data = program, dict(data)
        raise Stop


def design_of(y, w=1.0, **columns):
    return SurveyDesign(pd.DataFrame({"y": y, "w": w} | columns), weights="w")


def caught(design, *run, total=1000.0, **settings):
    """What ``fit`` gives to the engine."""
    engine = Catch(*run)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
        patch.setattr(fit_request, "get_engine", lambda name: engine)
        synthesis.fit(design, population_total=total, seed=1, **settings)
    return engine


def program(engine):
    path = base.program_path(engine.program)
    return stanli.Model(stan_file=str(path), data=engine.data, include_paths=[str(path.parent)])


def normalized(log_density):
    return log_density - logsumexp(log_density)


# ---- Beta

PLAIN = BetaRegression("y", bounds=(0, 1))
MIDDLE = np.linspace(0.3, 0.7, 10)
WITH, WITHOUT = np.append(MIDDLE, 0.0), MIDDLE  # the planted outlier
b, log_excess = (x.ravel() for x in np.meshgrid(np.linspace(-8, 8, 101), np.linspace(-8, 6, 121), indexing="ij"))
LAMBDA, PHI = 0.1 + np.exp(log_excess), expit(b)


def beta_masses(engine):
    """Log masses of (b, log(lambda - 0.1)) on the grid, by the program; the Jacobian of its coordinates is constant."""
    data, model = engine.data, program(engine)
    z = np.linalg.solve(data["root"], np.stack([b, log_excess]) - data["centre"][:, None])
    return normalized(np.array([model.log_prob_grad(x)[0] for x in z.T]))


def beta_terms(y):
    """log p of records on the grid, by scipy: (records, points)."""
    return beta_distribution.logpdf(np.clip(y, 1e-6, 1 - 1e-6)[:, None], LAMBDA * PHI, LAMBDA * (1 - PHI))


def censored(epsilon, m, synthesizer=PLAIN, **options):
    return {"synthesizer": synthesizer, "mechanism": Censored(**options), "epsilon": epsilon, "m": m}


def by_policy(epsilon, m):
    """A policy as a historical file might have set it; its draws are written down here."""
    rng = np.random.default_rng(5)
    draws = {"b": rng.normal(0, 0.1, (50, 1)), "lambda": rng.uniform(3, 6, 50)}
    mechanism = Censored(epsilon, weighted=True, map="inverse", c1=8.0)
    policy = Policy(
        PLAIN, epsilon, m, mechanism, (0.1, 30.0), ("Intercept",), {}, {}, True, "00:11", draws, "last year", 1.0, 0.5
    )
    return {"policy": policy}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "m", "replaced", "settings"),
    [
        pytest.param(2.0, 1, False, censored, id="outlier removed"),
        pytest.param(4.0, 2, False, censored, id="outlier removed, m = 2"),
        pytest.param(1.0, 1, True, censored, id="outlier replaced"),
        pytest.param(2.0, 1, False, by_policy, id="outlier removed, policy"),
    ],
)
def test_censored_beta(epsilon, m, replaced, settings):
    """One of m draws spends epsilon / m, and twice that where a record is replaced."""
    here, there = design_of(WITH), design_of(np.append(WITHOUT, 0.5) if replaced else WITHOUT)

    def losses(factor):
        files = [caught(design, **settings(epsilon * factor, m)) for design in (here, there)]
        assert {file.program for file in files} == {"beta_censored"}
        return on_a_grid(*(beta_masses(file) for file in files))

    claim = epsilon / m * (2 if replaced else 1)
    attack(claim, losses(1), losses(WRONG), GRID_DRAWS)


@pytest.mark.slow
def test_what_a_record_does_to_the_target_of_censored_beta_is_its_clamped_term():
    for M in (0.5, 1.0, 2.0):
        here, there = (beta_masses(caught(design_of(y), **censored(2 * M, 1))) for y in (WITH, WITHOUT))
        term = np.clip(beta_terms(WITH[-1:])[0], -M, M)
        assert term.min() == -M and term.max() == M
        assert np.ptp(here - there - term) < ROUNDING


def unweighted(y, M):
    """No clamp, by stan/beta.stan; and the clamp that is claimed."""
    engine = Catch()
    data = PLAIN.prepare(design_of(y))
    with pytest.raises(Stop):
        PLAIN.fit(data, np.ones(len(y)), Sampler(lambda: engine, np.random.default_rng(1)))
    assert engine.program == "beta"
    return beta_masses(engine), M


def clamp_of_the_sum(y, M):
    """All records together clamped to n times what one may add."""
    prior = logistic.logpdf(b) + pareto.logpdf(LAMBDA, 1.5, scale=0.1) + log_excess
    return normalized(prior + np.clip(beta_terms(y).sum(axis=0), -len(y) * M, len(y) * M)), M


def weights_from_the_file(y, M):
    """Privacy weights from the file's own risks, under a clamp that is policy: "strict given alpha"."""
    assert Censored(weighted=True).kind == "strict given alpha"
    return beta_masses(caught(design_of(y), "beta", **censored(2 * M, 1, weighted=True))), M


def clamp_from_the_file(y, M):
    """The same, and the clamp is the file's own largest alpha_i |log p_i|."""
    engine = caught(design_of(y), "beta", **censored(2 * M, 1, weighted=True))
    alpha, s, drawn = engine.data["alpha"], engine.data["s"], engine.drawn.values
    phi, lam = expit(drawn["b"].reshape(-1, 1)), drawn["lambda"].reshape(-1, 1)
    log_p = beta_distribution.logpdf(np.exp(s / alpha), lam * phi, lam * (1 - phi))
    engine.data["bound"] = float((alpha * np.abs(log_p)).max())
    return beta_masses(engine), engine.data["bound"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", [unweighted, clamp_of_the_sum, weights_from_the_file, clamp_from_the_file], ids=lambda f: f.__name__
)
def test_what_gives_no_guarantee_is_found_out(mechanism):
    """An outlier beside records that are spread evenly: it is not clamped, or moves what the others add, too."""
    y = np.linspace(0.05, 0.95, 40)
    (here, M), (there, M_there) = mechanism(np.append(y, 0.0), 0.5), mechanism(y, 0.5)
    rejected(2 * max(M, M_there), on_a_grid(here, there))


# ---- FBS

NORMAL = ss.FBS("y", "1", prior="normal", transform=ss.IdentityTransform(scale=1))
ALIKE = np.linspace(-0.2, 0.2, 5)  # few enough to leave nearly all probability to the prior, under which l = -M


def cells(*pieces):
    """Points of an uneven axis, and the logarithms of their widths."""
    x = np.concatenate(pieces)
    return x, np.log(np.gradient(x))


def fbs_log_density(engine, model, B, L, sigma_beta=None, L_Omega=None):
    """Log density of (B, log L, log sigma_beta) by stan/fbs_censored.stan, up to a constant of the file.

    The inverse of the program's map from its coordinates (u, v, t, z), and the Jacobian of that as far as it
    depends on the file: those of L -> (u, v) and of B -> root^-1 B do so by a constant only.
    """
    d, (K, D) = engine.data, B.shape
    sigma_beta = np.full((K, D), 10.0) if sigma_beta is None else sigma_beta
    L_Omega = np.eye(K) if L_Omega is None else L_Omega
    M = np.linalg.solve(d["L_hat"], L)
    root = [sigma_beta[:, [j]] * L_Omega for j in range(D)]
    Q = np.linalg.inv(L @ L.T)
    precision = np.block([[Q[j, k] * root[j].T @ d["C0"] @ root[k] for k in range(D)] for j in range(D)])
    C = np.linalg.cholesky(np.eye(K * D) + precision)
    h = np.concatenate([root[j].T @ d["P"] @ Q[:, j] for j in range(D)])
    z = C.T @ np.concatenate([np.linalg.solve(root[j], B[:, j]) for j in range(D)]) - np.linalg.solve(C, h)
    u, v = np.sqrt(2 * d["A"]) * np.log(np.diag(M)), np.sqrt(d["A"]) * M[np.tril_indices(D, -1)]
    values = {"u": u, "v": v, "t": [], "L_Omega": L_Omega if d["correlated"] else np.eye(1), "z": z}
    stretch = 0.0  # log |d t / d log sigma_beta|
    if d["scaled"]:
        s, r = sigma_beta / d["b"], d["ratio"]
        values["t"] = np.where(s > 1, np.log(s), np.where(s > r, 1 - 1 / s, np.log(s / r) / r + 1 - 1 / r))
        stretch = -np.log(np.where(s > 1, 1, np.where(s > r, s, r))).sum()
    flat = {name: np.asarray(x, dtype=float).flatten(order="F").tolist() for name, x in values.items()}
    return model.log_prob_grad(model.unconstrain(flat))[0] + np.log(np.diag(C)).sum() + stretch


def fbs_masses(engine):
    """Log masses of (B, log sigma) on a grid, fine where the records are."""
    model = program(engine)
    B, dB = cells(np.linspace(-40, -2, 10), np.linspace(-1, 1, 41), np.linspace(2, 40, 10))
    log_sigma, ds = cells(np.linspace(-5, 0, 51), np.linspace(0.5, 6, 12))
    points = [
        fbs_log_density(engine, model, np.array([[x]]), np.array([[np.exp(y)]])) + dx + dy
        for x, dx in zip(B, dB, strict=True)
        for y, dy in zip(log_sigma, ds, strict=True)
    ]
    return normalized(np.array(points))


@pytest.mark.slow
def test_censored_fbs():
    """One more record like the others: D' is mostly prior, where it is at the lower clamp; else it is at the upper."""

    def losses(factor):
        files = [caught(design_of(y), **censored(factor, 1, NORMAL)) for y in (np.append(ALIKE, 0.0), ALIKE)]
        assert {file.program for file in files} == {"fbs_censored"} and {file.data["D"] for file in files} == {1}
        return on_a_grid(*(fbs_masses(file) for file in files))

    attack(1.0, losses(1), losses(WRONG), GRID_DRAWS)


PUBLIC_X = np.tile([0.0, 1.0, 2.0, 3.0], 4)


def joint_file(y, log_w):
    """16 records of which the first is given; weights are modelled, N / n is 50."""
    rng = np.random.default_rng(6)
    e = rng.normal(0, 0.4, (15, 2)) @ [[1, 0.5], [0, 0.8]]
    ys, ws = np.append(y, e[:, 0] + 0.2 * PUBLIC_X[1:]), np.append(log_w, 4 + e[:, 1] - 0.1 * PUBLIC_X[1:])
    return design_of(ys, np.exp(ws), x=PUBLIC_X), np.column_stack([ys, ws - np.log(50)])


def clamped(record, x, B, L, M):
    return np.clip(multivariate_normal.logpdf(record, np.array([1, x]) @ B, L @ L.T), -M, M)


def parameters(Y, rng):
    """(B, L, sigma_beta, L_Omega): wide, narrow, and such that one or the other record is right at its mean."""
    B = np.linalg.lstsq(np.column_stack([np.ones(16), PUBLIC_X]), Y, rcond=None)[0] + rng.normal(0, 0.1, (2, 2))
    B[0] += rng.choice([0, 1]) * (Y[0] - B[0])
    L = np.exp(rng.uniform(-3, 2)) * np.array([[1, 0], [rng.normal(0, 0.5), np.exp(rng.normal(0, 0.3))]])
    rho = rng.uniform(-0.9, 0.9)
    return B, L, np.exp(rng.normal(0, 1, (2, 2))), np.array([[1, 0], [rho, np.sqrt(1 - rho**2)]])


def by_own_mean(design, model, M):
    """A clamped fit in which weights are divided by their own mean, which every record moves."""
    engine, data = Catch(), model.prepare(design)
    with pytest.raises(Stop):
        model.censored(data, np.ones(design.n), M, Sampler(lambda: engine, np.random.default_rng(1)))
    return engine


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["normal", "independent", "paper"])
def test_exact_loss_of_censored_fbs_with_modelled_weights(monkeypatch, prior):
    """A record's outcome and weight replaced: the target moves by its two clamped terms, 4 M at most, which is reached.

    A clamp that is 30% wider is above that, and so is a weight that is divided by the mean weight of its own file.
    """
    monkeypatch.setattr(
        "surveysynth.models.normal.censored_fit._separated", lambda *modes: False
    )  # so few records are refused, else
    model, M = ss.FBS("y", "x", prior=prior, transform=ss.IdentityTransform(scale=1)), 1.5
    (one, Y), (other, Z) = joint_file(6.0, 9.0), joint_file(-0.1, 4.1)
    rng = np.random.default_rng(8)
    drawn = [parameters(file, rng) for file in (Y, Z) for _ in range(150)]

    def of_prior(B, L, sigma_beta, L_Omega):
        scaled, correlated = prior != "normal", prior == "paper"
        return B, L, sigma_beta if scaled else None, L_Omega if correlated else None

    def losses(fit):
        files = [fit(one), fit(other)]
        assert {file.program for file in files} == {"fbs_censored"} and {file.data["D"] for file in files} == {2}
        log_p, log_q = (
            [fbs_log_density(file, program_of_file, *of_prior(*theta)) for theta in drawn]
            for file, program_of_file in ((file, program(file)) for file in files)
        )
        return np.array(log_p) - np.array(log_q)

    by_hand = np.array([clamped(Y[0], 0.0, B, L, M) - clamped(Z[0], 0.0, B, L, M) for B, L, *_ in drawn])
    loss = losses(lambda design: caught(design, total=50 * 16, **censored(2 * M, 1, model)))
    assert np.ptp(loss - by_hand) < ROUNDING
    assert np.ptp(loss) == pytest.approx(4 * M)
    wider = losses(lambda design: caught(design, total=50 * 16, **censored(2 * M * WRONG, 1, model)))
    assert np.ptp(wider) == pytest.approx(4 * M * WRONG)
    assert np.ptp(losses(lambda design: by_own_mean(design, model, M))) > 4 * M * WRONG


# ---- Laplace noise


@dataclass(frozen=True)
class Queries:
    """What a mechanism asked for: values, sensitivities and epsilons, (queries,) each."""

    values: np.ndarray
    sensitivity: np.ndarray
    epsilon: np.ndarray

    @property
    def scale(self):
        return self.sensitivity / self.epsilon

    def some(self, which):
        return Queries(self.values[which], self.sensitivity[which], self.epsilon[which])

    def drawn(self, N):
        """N outputs by the package's own noise: (queries, N)."""
        rows = zip(self.values, self.sensitivity, self.epsilon, strict=True)
        return np.array([noise.laplace(np.full(N, value), *how)[0] for value, *how in rows])


def asked(module, mechanism):
    """The queries of a mechanism, with the same replicates for every file, as they do not depend on the data."""
    said = []

    def record(values, sensitivity, epsilon):
        said.append(np.stack(np.broadcast_arrays(np.ravel(values), sensitivity, epsilon)))
        return values, 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "laplace", record)
        seeded = lambda stages, R, rng, *lonely: preston(stages, R, np.random.default_rng(8), *lonely)  # noqa: E731
        patch.setattr(noise, "preston", seeded)
        mechanism()
    return Queries(*np.hstack(said))


def of_noise(here, there, wrong=1.0, sampled=False):
    """Losses of outputs that are rounded to cells: exact ones, or of the package's own noise."""
    a, z = np.minimum(here.values, there.values), np.maximum(here.values, there.values)
    reach = 3 * np.maximum(here.scale, there.scale)
    edges = [np.linspace(*ends, CELLS) for ends in zip(a - reach, z + reach, strict=True)]

    def log_masses(queries):
        log_p = np.zeros(1)
        for value, scale, e in zip(queries.values, queries.scale / wrong, edges, strict=True):
            low, high = np.append(-np.inf, e), np.append(e, np.inf)
            from_above = laplace.sf(low, value, scale) - laplace.sf(high, value, scale)  # no digits lost in either tail
            mass = np.where(low >= value, from_above, laplace.cdf(high, value, scale) - laplace.cdf(low, value, scale))
            log_p = (log_p[:, None] + np.log(mass)).ravel()
        return log_p

    def draws(N):
        shape = (CELLS + 1,) * len(edges)
        for queries in (here, there):
            cell = [np.searchsorted(e, x) for e, x in zip(edges, queries.drawn(N), strict=True)]
            yield np.ravel_multi_index(cell, shape)

    return on_a_grid(log_masses(here), log_masses(there), draws if sampled else None)


def attack_noise(claim, here, there, sampled):
    right, wrong = of_noise(here, there), of_noise(here, there, WRONG)
    attack(claim, right, wrong, NOISE_DRAWS, of_noise(here, there, sampled=True) if sampled else None)


def exact_loss(here, there):
    """Of Laplace noise with the same scales for both files."""
    np.testing.assert_array_equal(here.scale, there.scale)
    return float((np.abs(here.values - there.values) / here.scale).sum())


def survey(w, y, n=40):
    """A file whose first record is given."""
    rng = np.random.default_rng(4)
    return design_of(np.append(y, rng.uniform(20, 60, n - 1)), np.append(w, rng.uniform(1, 2, n - 1)))


def tables(design, **settings):
    return asked(noise, lambda: noise.laplace_tables(design, "y", None, 4.0, replicates=4, **settings))


@pytest.mark.slow
def test_strict_laplace_tables():
    """A record goes from one corner of the box to the other: count and total each reach their epsilon."""
    box = {"kind": "strict", "bounds": {"weight": (1, 50), "y": (0, 100)}}
    here, there = tables(survey(50.0, 100.0), **box), tables(survey(1.0, 0.0), **box)
    assert here.values.size == 10 and exact_loss(here, there) <= 4 + ROUNDING
    for points, claim in (([5], 1.0), ([0, 5], 2.0)):
        one, other = here.some(points), there.some(points)
        assert one.epsilon.sum() == claim == pytest.approx(exact_loss(one, other))
        attack_noise(claim, one, other, sampled=len(points) == 1)  # the package's noise takes 30 microseconds a draw


def test_local_laplace_tables_are_found_out():
    """The local sensitivity of a count differs in the neighbour's file; that of a mean can be 0 while it moves."""
    here, there = tables(survey(50.0, 40.0)).some([0]), tables(survey(1.5, 40.0)).some([0])
    assert here.sensitivity > 40 * there.sensitivity > 0
    rejected(here.epsilon[0], of_noise(here, there), NOISE_DRAWS)

    here, there = tables(design_of([10.0, 1.0], [1.0, 10.0])), tables(design_of([10.0, 10.0], [1.0, 1.0]))
    mean = here.epsilon.size // 2
    assert here.sensitivity[mean] == there.sensitivity[mean] == 0
    here, there = here.some([mean]), there.some([mean])
    certain = [np.sum(queries.drawn(NOISE_DRAWS // 2) == here.values[0]) for queries in (here, there)]
    counts = np.array([[NOISE_DRAWS // 2 - k, k] for k in certain])
    rejected(here.epsilon[0], Losses(lambda rng, N: counts, np.inf), NOISE_DRAWS)


# ---- the perturbed histogram


def bins_of(design, **settings):
    return asked(
        histogram,
        lambda: ss.perturbed_histogram(
            design, "y", epsilon=1.0, bounds=(0, 100), population_total=1e4, bins=5, **settings
        ),
    )


@pytest.mark.slow
def test_perturbed_histogram_one_record_removed():
    y = np.append(np.random.default_rng(4).uniform(20, 60, 40), 99.0)
    here, there = bins_of(design_of(y)), bins_of(design_of(y[:-1]))
    assert exact_loss(here, there) <= 1 + ROUNDING
    moved = here.values != there.values
    attack_noise(1.0, here.some(moved), there.some(moved), sampled=True)


def test_perturbed_histogram_of_weights_one_record_replaced():
    """Twice epsilon, as two bins move, by the largest weight."""
    here, there = (bins_of(survey(90.0, y), weight_bound=30.0) for y in (99.0, 1.0))
    assert exact_loss(here, there) <= 2 + ROUNDING
    moved = here.values != there.values
    assert moved.sum() == 2
    attack_noise(2.0, here.some(moved), there.some(moved), sampled=False)
