"""Expected standard errors of a plan's tables at several epsilons, computed in the background of the web page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pandas as pd

from ..design.discrete import is_label
from ..errors import InputError
from ..plan.expected_errors import Rehearsal, clear_change, pooled, typical_ratios
from ..plan.plan import Plan
from ..plan.settings import Settings
from ..plan.strict import model_of, planned_rehearsals
from .work import without_values

PAIRS = 4  # least number of made-up files that are released with and without public totals
BUDGETS = 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0  # values of epsilon on the slider


class Forecast:
    """Expected standard errors of a plan's tables at several epsilons, which a background thread computes.

    Nothing confidential is read: each number comes from releases of made-up files (see
    :func:`surveysynth.expected_errors`).

    Attributes
    ----------
    version : int
        Number of results so far, by which a page sees that there is another.
    fault : str
        Why there are no results, or an empty text.
    """

    def __init__(self) -> None:
        self.version, self.fault = 0, ""
        self._asked: object = None  # the plan, apart from epsilon
        self._at = 0.0  # the epsilon at which savings are computed
        self._run: object = None  # the thread that works; others stop
        self._found: dict[float, list[Rehearsal]] = {}
        self._without: list[Rehearsal] = []  # without further public totals, next to self._savings
        self._savings: dict[str, list[Rehearsal]] = {}
        self._turn = threading.Lock()  # one thread computes at a time

    def ask(self, plan: Plan, epsilon: float) -> None:
        """Start a thread that computes the expected errors of a plan, unless they are being computed or are known."""
        wanted = _fingerprint(plan.settings)
        if wanted == self._asked and (not self.finished or epsilon == self._at):
            return
        if wanted != self._asked:
            self._found = {}
        self._asked, self._at, self._without, self._savings = wanted, epsilon, [], {}
        self.fault, self._run = "", object()
        self.version += 1
        results = _results(plan, epsilon, self._found, self._without, self._savings)
        threading.Thread(target=self._work, args=(results, self._run), daemon=True).start()

    def errors(self, epsilon: float) -> pd.DataFrame | None:
        """Return expected errors at an epsilon (see :func:`surveysynth.expected_errors`), or None if not computed."""
        found = self._found.get(epsilon)
        return pooled([each.cells for each in found]) if found else None

    def shares(self, epsilon: float) -> pd.DataFrame | None:
        """Return the share of the privacy budget of each noisy table, or None if it is not computed yet."""
        found = self._found.get(epsilon)
        return found[0].shares if found else None

    def savings(self, epsilon: float) -> dict[str, dict[str, tuple[float, float, bool]]]:
        """Compare standard errors without and with public totals of a column's levels, by column and statistic.

        Each entry is (without, with, clear).  The first two are root mean squares, over cells, of the ratios of
        standard errors of release and sample, without and with public totals.  The third is True if they differ by
        more than chance.  Columns whose errors are not computed yet are left out.
        """
        before = [each.cells for each in self._without] if epsilon == self._at else []
        found: dict[str, dict[str, tuple[float, float, bool]]] = {}
        for column, rehearsed in [*self._savings.items()] if before else ():
            after = [each.cells for each in rehearsed]
            if not after:  # the first one is being added
                continue
            ratios = [typical_ratios(pooled(cells[: len(after)])) for cells in (before, after)]
            found[column] = {
                statistic: (ratios[0][statistic], ratios[1][statistic], clear_change(before, after, statistic))
                for statistic in ratios[0]
            }
        return found

    @property
    def finished(self) -> bool:
        """True if nothing is being computed."""
        return self._run is None

    def _work(self, results: Iterator[tuple[list[Rehearsal], Rehearsal]], run: object) -> None:
        try:
            while True:
                with self._turn:
                    result = next(results, None) if run is self._run else None
                if result is None or run is not self._run:
                    return
                keep, made = result
                keep.append(made)
                self.version += 1
        except Exception as error:
            if run is self._run:
                self.fault = without_values(error)
        finally:
            if run is self._run:
                self._run = None
                self.version += 1


def _results(
    plan: Plan, epsilon: float, found: dict[float, list[Rehearsal]], without: list[Rehearsal],
    savings: dict[str, list[Rehearsal]],
) -> Iterator[tuple[list[Rehearsal], Rehearsal]]:  # fmt: skip
    """Yield pairs (list, simulated release of a made-up file).  The caller appends the release to the list.

    The first made-up file comes first for every budget, then the other files, then public totals of every column.
    """
    budgets = sorted({*BUDGETS, epsilon} - {*found}, key=lambda each: abs(each - epsilon))
    waiting = {each: _rehearsed(plan, each) for each in budgets}
    while waiting:
        for budget, rehearsed in [*waiting.items()]:
            made = next(rehearsed, None)
            if made is None:
                del waiting[budget]
            else:
                yield found.setdefault(budget, []), made
    if columns := _without_totals(plan):
        for made in _rehearsed(plan, epsilon, least=PAIRS):
            yield without, made
    for column in columns:
        with suppress(InputError):  # a column whose totals cannot be given saves nothing
            for made in _rehearsed(plan, epsilon, least=PAIRS, public_term=column):
                yield savings.setdefault(column, []), made


def _fingerprint(settings: Settings) -> object:
    """Return a key that is equal for two plans if all entries that affect expected errors, except epsilon, agree."""
    entries = settings.model_dump(exclude={"privacy": {"epsilon", "ledger", "survey", "cap"}, "release": True})
    entries["m"] = settings.release.m
    entries["tables"] = settings.tables.by
    return repr(entries)


def _rehearsed(plan: Plan, epsilon: float, **more: Any) -> Iterator[Rehearsal]:
    settings = plan.settings.set({"privacy.epsilon": epsilon})
    return planned_rehearsals(settings, plan.public_facts(settings).design, **more)


def _without_totals(plan: Plan) -> list[str]:
    """Return the categorical predictors for whose levels the plan gives no population totals."""
    settings, design = plan.settings, plan.public_facts(plan.settings).design
    if settings.model.weight == "public":
        return []
    model, known = model_of(settings, design), [*(settings.privacy.population_totals or {})]
    known += [str(design.strata_name)] if isinstance(settings.privacy.population_total, dict) else []
    columns = [c for c in model.predictor_columns if c not in (*model.outcomes, *known)]
    return [column for column in columns if is_label(design.column(column))]
