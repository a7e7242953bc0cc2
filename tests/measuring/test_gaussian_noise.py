"""Gaussian noise: its law, what it spends, and releases whose promise has a delta."""

import math

import numpy as np
import pandas as pd
import pytest

import surveysynth as ss
from surveysynth import InputError, Outcome
from surveysynth.measuring.table_noise import TableBudget, composed, noise_variance, noisy, simulated_noise

TOTAL, DELTA = 100_000.0, 1e-10


def people(n, seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"region": rng.choice(list("ab"), n), "job": rng.choice(["yes", "no"], n)})
    frame["pay"] = np.exp(10 + 0.3 * (frame["region"] == "a") + 0.5 * rng.standard_normal(n))
    w = np.exp(0.3 * rng.standard_normal(n))
    return ss.SurveyDesign(frame.assign(w=w * (TOTAL / w.sum())), weights="w")


def measured(design, **settings):
    schema = {"job": Outcome(levels=["yes", "no"]), "pay": Outcome(bounds=(0, 1_000_000))}
    given = {"epsilon": 6.0, "delta": DELTA, "population_total": TOTAL, "outcomes": schema, "seed": 1}
    return ss.measure(design, ["job ~ region", "pay ~ region + job"], **given | settings)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0, 3.0])
def test_the_law_of_the_noise(epsilon):
    """OpenDP's, and that of refits, against P(k) prop. to exp(-k^2 / (2 s^2)), summed up; Laplace's has other tails."""
    s = math.sqrt(2) / epsilon
    k = np.arange(-int(15 * s) - 5, int(15 * s) + 6)
    p = np.exp(-(k**2) / (2 * s**2))
    p /= p.sum()
    assert noise_variance(epsilon, gaussian=True) == pytest.approx(p @ k**2, rel=1e-9)
    n = 20_000
    for drawn in (
        noisy(np.zeros(n, dtype=np.int64), epsilon, gaussian=True),
        simulated_noise(np.random.default_rng(1), epsilon, n, gaussian=True),
    ):
        assert drawn.var() == pytest.approx(p @ k**2, abs=4 * math.sqrt((p @ k**4 - (p @ k**2) ** 2) / n))
        beyond = p[np.abs(k) > 2.5 * s].sum()
        assert np.mean(np.abs(drawn) > 2.5 * s) == pytest.approx(beyond, abs=4 * math.sqrt(beyond / n) + 1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.8])
@pytest.mark.parametrize("delta", [1e-12, 1e-6])
def test_what_tables_spend_by_opendp_is_what_was_asked_for(epsilon, delta):
    """And no less than the exact delta of a Gaussian mechanism says (Balle & Wang 2018, theorem 8)."""
    budget = TableBudget(epsilon, delta)
    kinds = [(0.5, 1), (0.2, 3), (0.02, 4)]
    parts = [(e, 1, False) for (_, many), e in zip(kinds, budget.split(kinds), strict=True) for _ in range(many)]
    blank, replaced = composed(parts, delta)
    assert epsilon * (1 - 1e-6) < blank <= epsilon < replaced < 2 * epsilon
    rho = sum(e**2 / 4 for e, _, _ in parts)
    assert rho == pytest.approx(budget.rho, rel=1e-6)
    mu = math.sqrt(2 * rho)
    phi = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))  # noqa: E731
    exact = phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)
    assert exact <= delta


def test_of_many_tables_gaussian_noise_is_smaller_and_of_few_larger():
    few, many = (
        [noise_variance(budget.split([(1 / K, K)])[0], gaussian=budget.gaussian) for budget in both]
        for K, both in ((4, (TableBudget(5), TableBudget(5, DELTA))), (60, (TableBudget(5), TableBudget(5, DELTA))))
    )
    assert few[0] < few[1] and many[0] > many[1]


def test_a_score_can_go_from_one_end_to_the_other_in_one_cell():
    """Its distance is 2 where that of counts is the root of 2: four times rho, and epsilon more than twice."""
    of_counts, of_scores = (composed([(1.0, 1000, scored)], DELTA) for scored in (False, True))
    assert of_counts[0] == of_scores[0]
    for (_, replaced), rho in ((of_counts, 0.5), (of_scores, 1.0)):
        assert replaced == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1 / DELTA)), rel=0.1)


def test_a_release_says_delta_everywhere(tmp_path):
    design = people(500)
    ledger = ss.Ledger(tmp_path / "ledger.json", survey="a", cap=20, create=True)
    found = measured(design, ledger=ledger)
    tables = found.source.tables
    assert all(table.gaussian for table in tables.tables) and tables.epsilon <= 6.0
    assert "delta = 1e-10" in repr(found)
    release = found.release(4, seed=1)
    text, relations = str(release.privacy), release.privacy.neighbours
    assert "integer Gaussian noise" in text and "up to probability delta = 1e-10" in text
    assert 6.0 < list(relations.values())[1] < 12.0
    back = ss.read_release(release.write(tmp_path / "r"))
    assert back.privacy == release.privacy and back.measured.tables.delta == DELTA
    assert [t.variance for t in back.measured.tables.tables] == [t.variance for t in tables.tables]
    assert back.more(4, seed=2).m == 8
    entry = ledger.entries().iloc[0]
    assert "delta = 1e-10" in entry["what"] and float(entry["blank"]) == 6.0


def test_delta_may_stand_in_the_mechanism():
    design = people(400)
    schema = {"pay": Outcome(bounds=(0, 1_000_000))}
    given = {"epsilon": 6.0, "population_total": TOTAL, "mechanism": ss.Strict(delta=DELTA)}
    release = ss.synthesize(design, "pay ~ region", outcomes=schema, m=4, seed=1, **given)
    assert release.privacy.delta == DELTA
    with pytest.raises(InputError, match="delta is a probability"):
        measured(design, delta=0.1)


@pytest.mark.slow
def test_estimates_are_right_and_carry_the_noise():
    """Of thirty measurements of one file, estimates vary as their standard errors without sampling say, about."""
    design = people(1_500, seed=2)
    own = ss.estimate(design, "pay", "region", "mean").set_index("region")
    z = []
    for seed in range(30):
        table = measured(design, seed=seed).release(4, seed=seed).tables("region", outcome="pay", statistic="mean")
        table = table.set_index("region")
        z.append((table["estimate"] - own["estimate"]) / np.sqrt(table["se"] ** 2))
    z = np.array(z)
    assert np.abs(z.mean(axis=0)).max() < 0.6 and np.sqrt((z**2).mean(axis=0)).max() < 1.3


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 1e-4), (1e-4, 1e-30), (50.0, 1e-4)])
def test_the_least_and_the_largest_budgets_are_kept(epsilon, delta):
    budget = TableBudget(epsilon, delta)
    (each,) = budget.split([(1.0, 1)])
    assert epsilon * (1 - 1e-4) < composed([(each, 1, False)], delta)[0] <= epsilon


def test_importance_multiplies_epsilon_of_gaussian_tables_too():
    design = people(300)
    one, two = (measured(design, importance=of).source.tables for of in (None, {"pay": 3.0}))
    ratio = [t.variable("pay").tables[0].epsilon / t.variable("job").tables[0].epsilon for t in (one, two)]
    assert ratio[1] / ratio[0] == pytest.approx(3.0) and two.epsilon == pytest.approx(6.0)
