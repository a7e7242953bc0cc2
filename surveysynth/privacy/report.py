"""The privacy report: the guarantee, the protected units, the assumptions and the limits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from decimal import ROUND_CEILING, Decimal
from typing import Any

from ..choices import Kind
from .mechanisms import MECHANISMS
from .mechanisms.base import LEAST_INFORMATION

NOTHING = (
    "None: what is published of a record was drawn given its confidential value, and no epsilon bounds what that "
    "reveals. Privacy weights lower measured risks, such as the probability of identification; they are no guarantee."
)

SUM_OF_WEIGHTS = (
    "the sum of the synthetic weights: it is the sum of the survey weights, as no population_total was given. It is "
    "published exactly, and an intruder who knows all other weights finds a record's by subtraction"
)
PUBLIC_SUM = "the sum of the survey weights is public, as they are: the weights in the files add up to it"


def public_epsilon(exact: float, requested: float | None) -> float:
    """Return the epsilon to publish: ``exact``, rounded up at two decimals, but at most the requested epsilon."""
    rounded = float(Decimal(str(float(exact))).quantize(Decimal("0.01"), ROUND_CEILING))
    return rounded if requested is None else min(rounded, requested)


@dataclass(frozen=True)
class PrivacyReport:
    """The privacy of a release: public facts and, in ``internal``, facts for the agency only.

    Attributes
    ----------
    kind : str
        ``asymptotic``, ``strict``, ``strict given alpha`` or ``none``.
    epsilon : float
        Epsilon of the whole release.  Neighbouring files differ in one record (or one protected unit): its confidential
        values are blanked or, under the pseudo posterior, the record is added or removed.  The number is the requested
        epsilon for this m, because the epsilon that was reached depends on the file and is only in ``internal``.  If no
        epsilon was requested, the number is the epsilon that was reached, rounded up at two decimals, and
        ``data_dependent`` says so.  The number is infinite for kind ``none``.
    mechanism : str
        ``noisy tables``, ``pseudo posterior``, ``weighted-e``, ``censored`` or ``perturbed histogram``.
    epsilon_replace_one : float
        Epsilon for neighbouring files that differ in the values of one record (unit): twice epsilon, or ``replaced``.
    epsilon_requested : float or None
        The epsilon that was requested.
    m : int
        Number of synthetic data sets.
    draws : int
        Number of posterior draws, including the released draws, over which the Lipschitz bound is a maximum.  It
        is 0 if epsilon does not rest on such a bound.
    verdict : str
        A sentence on whether the sampler's diagnostics passed.
    assumptions : list of str
        Facts that are taken as public or as given.
    data_dependent : list of str
        Results that were computed from the confidential file and are not covered by epsilon.
    publishable : bool
        False for a seeded run: anyone who knows the seed can undo the randomness.
    little_left : bool
        True if privacy weights keep less than 30% of the file's information.  Such a release is refused unless the
        agency gives ``accept_diagnostics=["information"]``.
    unit : str or None
        Column of the protected units, if they are groups of records.
    delta : float or None
        Probability with which epsilon may fail to hold, for all m data sets together.  None means that epsilon always
        holds (delta = 0).
    replaced : float or None
        ``epsilon_replace_one`` under Gaussian noise.  It is None if ``epsilon_replace_one`` is twice
        ``epsilon``.
    internal : dict
        Exact numbers, for the agency only.  They are neither pickled nor copied.
    """

    kind: Kind
    epsilon: float
    epsilon_requested: float | None
    m: int
    draws: int
    verdict: str
    assumptions: list[str]
    data_dependent: list[str]
    publishable: bool
    little_left: bool = False
    unit: str | None = None
    mechanism: str = "pseudo posterior"
    delta: float | None = None
    replaced: float | None = None
    internal: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of the report without internal facts, for pickling and copying."""
        return vars(self) | {"internal": {}}

    @property
    def guarantee(self) -> str:
        """The guarantee and its limits in words."""
        mechanism = MECHANISMS[self.mechanism]
        if self.kind == "none" and "none" not in mechanism.guarantees:
            return NOTHING
        text = mechanism.guarantee(self.kind, self.delta, self.replaced)
        if self.unit is None:
            return text.format(unit="record", units="records")
        fitted = " (their log densities add up)" if mechanism.fits_records else ""
        return text.format(unit=f"group of records with the same {self.unit!r}{fitted}", units="such groups")

    @property
    def epsilon_replace_one(self) -> float:
        """Epsilon for neighbouring files that differ in the values of one record (unit)."""
        return 2 * self.epsilon if self.replaced is None else self.replaced

    @property
    def spent(self) -> str:
        """A phrase with epsilon, the kind of guarantee and delta if there is one; "no epsilon" for kind ``none``."""
        return "no epsilon" if self.kind == "none" else f"epsilon = {self.epsilon:g} ({self.kind}{self._up_to})"

    @property
    def _up_to(self) -> str:
        return "" if self.delta is None else f", delta = {self.delta:.3g}"

    @property
    def neighbours(self) -> dict[str, float]:
        """Epsilons by neighbour relation, such as "replace one record"; empty if there is no guarantee."""
        if self.kind == "none":
            return {}
        records = f"all records of one {self.unit!r}"
        if MECHANISMS[self.mechanism].neighbours == "add or remove":
            what = "one record" if self.unit is None else records
            relations = f"add or remove {what}", f"replace {what}"
        else:
            values = "confidential values"
            values = f"one record's {values}" if self.unit is None else f"the {values} of {records}"
            relations = f"blank {values}", f"replace {values}"
        return dict(zip(relations, (self.epsilon, self.epsilon_replace_one), strict=True))

    @property
    def publication(self) -> str:
        """A statement on whether the files may be published."""
        if not self.publishable:
            return "reproducible, not for publication: made with a seed, and whoever knows it can undo the randomness"
        if self.little_left:
            return (
                f"randomness from the operating system; but the privacy weights keep less than {LEAST_INFORMATION:.0%} "
                "of the file's information, which the agency accepted: estimates can be far off, by more than their "
                "intervals say. Not fit for official tables"
            )
        return "randomness from the operating system; fit for publication once the assumptions hold"

    def public(self) -> dict[str, Any]:
        """Return the report as a dictionary without internal facts, for the manifest."""
        report = asdict(self)
        del report["internal"], report["publishable"]
        if not self.little_left:
            del report["little_left"]
        if self.kind == "none":
            report["epsilon"] = None  # JSON has no infinity
        for name in ("unit", "delta", "replaced"):
            if report[name] is None:
                del report[name]
        report["diagnostics"] = report.pop("verdict")
        report["draws_behind_the_maximum"] = report.pop("draws")
        return report | {
            "guarantee": self.guarantee,
            "neighbours": self.neighbours,
            "publication": self.publication,
        }

    def __str__(self) -> str:
        asked = "" if self.epsilon_requested is None else f" (asked for: {self.epsilon_requested:g})"
        spent = "no epsilon" if self.kind == "none" else f"epsilon = {self.epsilon:g}{asked}, {self.kind}{self._up_to}"
        lines = [
            f"Privacy of this release: {spent}, m = {self.m}",
            self.guarantee,
            *(["Neighbour relations:"] if self.neighbours else []),
            *(f"  - {name}: epsilon = {value:g}" for name, value in self.neighbours.items()),
            f"Maximum over {self.draws:,} posterior draws, the released ones among them. {self.verdict}"
            if self.draws
            else self.verdict,
            "Taken as public or as given:",
            *(f"  - {line}" for line in self.assumptions),
            f"Computed from the confidential file{'' if self.kind == 'none' else ', and not covered by epsilon'}:",
            *(f"  - {line}" for line in self.data_dependent or ["nothing"]),
            f"Publication: {self.publication}.",
        ]
        return "\n".join(lines)

    __repr__ = __str__
