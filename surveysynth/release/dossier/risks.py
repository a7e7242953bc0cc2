"""The part of a dossier on risks of single records: identification, Lipschitz bounds, and a membership attack.

A dossier is the document that a disclosure review board signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ...design.discrete import is_label
from ...design.survey_design import SurveyDesign
from ...privacy.membership import MembershipAttack
from ...publication.dossier_page import Block, Grid, Paragraph, Picture
from ...publication.figures.comparison import risk_histogram
from ..identification import attribute_risk, identification_risk, match_risk, ordered_release, pattern_sizes
from ..labels import labelled
from ..release import Release
from .case import Case

WORST = 10  # number of records that are listed
HIGH = 0.5  # records with a larger risk of identification are counted
RADIUS = 0.2  # radius of the ball around a true value, as a share of the value
MEASURES = {"identification": identification_risk, "attribute": attribute_risk, "match": match_risk}
BOUNDS = {
    "lipschitz": "unprotected bound of the log density", "bound": "bound after protection", "alpha": "privacy weight",
}  # fmt: skip
NO_RISKS = Paragraph(
    "Risks of identification were not computed: they need internal/rows.csv and a synthesized number that every record "
    "has."
)
NO_FIT = Paragraph(
    "Membership: the release was drawn from noisy tables, so no records were fitted, and there is no fit to attack. "
    "The noise bounds any attack; surveysynth study audit plays such games on made-up files."
)
NO_ATTACK = Paragraph(
    "Membership: no attack was made for this dossier. surveysynth.membership_attack(fit) leaves the most exposed "
    "records out and fits again; it takes as long as some ten fits (--membership with a plan)."
)


@dataclass(frozen=True)
class Risks:
    """Risks of identification of the records in a release, for an intruder who knows the columns ``known``.

    ``table`` has a row for each record of the confidential file: its position ``row`` (from 0), the number of synthetic
    records that match it in the known columns (``pattern_size``), and three measures of risk: ``identification``,
    ``attribute`` and ``match``.  A measure is computed for each numeric outcome in ``values``; the largest is kept.
    ``with_more`` has the same measures for an intruder who also knows the synthesized categorical outcomes ``also``.

    ``dealt`` and ``dealt_with_more`` have the same measures if the outcomes of the confidential file, permuted at
    random among its records, take the place of the synthetic outcomes.  They are the risks from an intruder who knows
    no more than the distribution of the outcomes in the whole file.  Their rows are those of ``judged``.
    """

    table: pd.DataFrame
    known: list[str]
    values: list[str]
    also: list[str]
    with_more: pd.DataFrame
    dealt: pd.DataFrame
    dealt_with_more: pd.DataFrame

    @classmethod
    def computed(cls, case: Case, design: SurveyDesign) -> Risks | None:
        """Compute the risks of the records in a release.

        Return None if the release has no numeric outcome that every record has, or if its folder lacks
        internal/rows.csv, which says to which confidential record a synthetic record belongs.
        """
        release = case.release
        frame = design.frame
        frame = frame.assign(**labelled(frame, release, [*release.categorical, *release.predictors]))
        numbers = [name for name in release.outcomes if name not in (*release.categorical, *release.with_missing)]
        values = [name for name in numbers if not is_label(frame[name])]
        if not values or not (case.folder / "internal" / "rows.csv").is_file():
            return None
        known = [c for c in release.predictors if not pd.api.types.is_float_dtype(frame[c].dtype)]
        ordered, also = ordered_release(case.folder), list(release.categorical)
        size = pattern_sizes(frame, ordered, known=known, value=values[0]).to_numpy()
        table = _measured(frame, ordered, known, values).assign(row=np.arange(design.n), pattern_size=size)
        own = frame.loc[table["identification"].notna().to_numpy(), [*known, *also, *values]].reset_index(drop=True)
        own = own.assign(**{name: own[name].astype(str) for name in also})
        dealt = _dealt(own, [*also, *values], release.m)
        return cls(
            table, known, values, also,
            _measured(frame, ordered, [*known, *also], values) if also else pd.DataFrame(),
            _measured(own, dealt, known, values),
            _measured(own, dealt, [*known, *also], values, also) if also else pd.DataFrame(),
        )  # fmt: skip

    @property
    def judged(self) -> pd.DataFrame:
        """The table of risks, without the records that the release left out."""
        return self.table.dropna(subset="identification")

    @property
    def knowledge(self) -> str:
        """The names of the columns that the intruder knows, as one text."""
        return ", ".join(self.known) or "nothing that is published"


def _measured(
    frame: pd.DataFrame, files: Release | list[pd.DataFrame], known: list[str], values: list[str],
    synthesized: Sequence[str] = (),
) -> pd.DataFrame:  # fmt: skip
    """Return a table of risks, with a row for each record.  Each risk is the largest over the columns in ``values``.

    ``synthesized`` names the known columns that were synthesized, if ``files`` are frames.
    """
    each = {
        name: [measure(frame, files, known=known, value=value, synthesized=synthesized, radius=RADIUS)
               for value in values]
        for name, measure in MEASURES.items()
    }  # fmt: skip
    return pd.DataFrame({name: np.max(found, axis=0) for name, found in each.items()})


def _dealt(frame: pd.DataFrame, outcomes: list[str], m: int) -> list[pd.DataFrame]:
    """Return m copies of a file in which the outcomes are permuted at random among the records.

    The outcomes of one record stay together.
    """
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(frame)) for _ in range(m)]
    return [frame.assign(**{name: frame[name].to_numpy()[order] for name in outcomes}) for order in orders]


def risks_of_records(
    risks: Risks | None, records: pd.DataFrame | None, release: Release, attack: MembershipAttack | None, scratch: Path
) -> tuple[Block, ...]:
    """Report the risks of identification of single records, and the bounds from which epsilon is computed.

    Parameters
    ----------
    risks : Risks, optional
        The risks of identification.  None means that they could not be computed.
    records : pandas.DataFrame, optional
        For each record, its privacy weight and the bounds of its log density, if the release has them.
    release : Release
    attack : MembershipAttack, optional
        The result of a membership attack.  None means that no attack was made.
    scratch : Path
        Folder for figures.
    """
    identification = [NO_RISKS] if risks is None else _identification(risks, records, scratch)
    bounds = [] if records is None else _bounds(records)
    return (*identification, *bounds, *([NO_FIT] if release.measured is not None else _membership(attack)))


def _identification(risks: Risks, records: pd.DataFrame | None, scratch: Path) -> list[Block]:
    """Report identification, attribute and match risks, and the records with the largest identification risk."""
    measures = Paragraph(
        f"The intruder here knows {risks.knowledge} of a record, and its true {' or '.join(risks.values)} up to "
        f"{RADIUS:.0%}. Identification: the probability that the synthetic record that stands for it is picked "
        "(Hu, Savitsky & Williams 2022b, eq. 8; a record alone in its pattern has 0, for there is no other to be "
        "told from). Attribute: the share of the synthetic values of its pattern that are near its true one. "
        "Match: the probability that whoever takes one of these at random takes its own (Reiter & Mitra 2009). "
        "Rows “without the release” say what the same intruder reaches who has only the distribution of the whole "
        "file: the file's values are dealt to the records at random. "
        "These are measures of this one release; the guarantee of section 3 does not rest on them."
    )
    advice = Paragraph(
        "What to do: a risk near its row “without the release” needs nothing, as the release tells of single records "
        "no more than everybody may know. If identification or match is far above it, spend less epsilon, or merge "
        f"levels of {risks.knowledge}, or synthesize one of these columns. If only the attribute risk is, the public "
        "columns predict the value: ask whether that may be known of such a group."
    )
    more = Paragraph(
        f"Who knows the true {', '.join(risks.also)} too, synthesized in the files, "
        "looks among the synthetic records that have it: in a data set in which the record's "
        "own has another its risks of identification and match are 0."
    )
    alone = Paragraph(
        f"Records alone in their pattern of {risks.knowledge}: {int((risks.judged['pattern_size'] == 1).sum()):,}. "
        "Whoever knows these columns sees in the files that such a person is in the survey, with synthetic values. "
        "That is public by declaration, and not protected; merged levels avoid it."
    )
    drawn = risk_histogram(risks.judged[["identification", "attribute"]], scratch / "risks.svg")
    return [
        measures, _quantiles(risks), advice, *([more] if risks.also else []), alone,
        Picture(drawn, "Histograms of the risks"), _most_at_risk(risks, records),
    ]  # fmt: skip


def _quantiles(risks: Risks) -> Grid:
    more_known, measures = risks.with_more.dropna(), []
    for found, dealt, also in (
        (risks.judged, risks.dealt, ""),
        (more_known, risks.dealt_with_more, f", {', '.join(risks.also)} known too"),
    ):
        for what in MEASURES if len(found) else ():
            measures += [(f"{what}{also}", found[what]), ("- without the release", dealt[what])]
    rows = [
        (what, f"{x.mean():.3f}", f"{x.median():.3f}", f"{x.quantile(0.9):.3f}", f"{x.max():.3f}",
         f"{(x > HIGH).sum():,} of {len(x):,}")
        for what, x in measures
    ]  # fmt: skip
    return Grid(("risk", "mean", "median", "90%", "largest", f"above {HIGH:g}"), tuple(rows), numbers=5)


def _most_at_risk(risks: Risks, records: pd.DataFrame | None) -> Grid:
    """List the records with the largest risk of identification.

    Each row also has the attribute risk of the record, the same two risks without the release, and those columns of
    ``BOUNDS`` (bounds of the log density, privacy weight) that vary between records.
    """
    table = risks.judged.assign(**{f"dealt_{what}": risks.dealt[what].to_numpy() for what in MEASURES})
    shown = table if records is None else table.merge(records, on="row", how="left")
    more = [c for c in BOUNDS if c in shown and shown[c].nunique() > 1]
    measured = "identification", "dealt_identification", "attribute", "dealt_attribute"
    worst = shown.sort_values("identification", ascending=False, kind="stable").head(WORST)
    return Grid(
        ("row of the file (from 0)", "records alike in what is known", "identification", "without the release",
         "attribute", "without the release", *more),
        tuple(
            (f"{int(r['row'])}", f"{int(r['pattern_size'])}",
             *(f"{r[c]:.3f}" for c in measured), *(f"{r[c]:.3g}" for c in more))
            for r in worst.to_dict("records")
        ),
        title="The records most at risk of identification", numbers=6 + len(more),
    )  # fmt: skip


def _membership(attack: MembershipAttack | None) -> list[Block]:
    """Report the result of a membership attack, or say how to make an attack."""
    if attack is None:
        return [NO_ATTACK]
    about = Paragraph(
        "Of the fit that was given; --membership makes a new one by the plan, not that behind the release. "
        + " ".join(str(attack).splitlines())
    )
    columns = [c for c in ("row", "advantage", "auc", "advantage_refit", "auc_refit") if c in attack.records]
    top = attack.records[columns].head(WORST)
    grid = Grid(
        tuple(c.replace("_", " ") for c in columns),
        tuple(
            tuple("-" if pd.isna(x) else f"{x:.0f}" if c == "row" else f"{x:.3f}" for c, x in row.items())
            for row in top.to_dict("records")
        ),
        title="The records most exposed to the attack", numbers=len(columns),
    )  # fmt: skip
    return [about, grid]


def _bounds(records: pd.DataFrame) -> list[Block]:
    """Report each record's bounds on the log density, from which epsilon is computed."""
    columns = [c for c in BOUNDS if c in records]
    same = [c for c in columns if records[c].nunique() == 1]
    blocks: list[Block] = []
    if same:
        values = ", ".join(f"{BOUNDS[c]} {records[c].iloc[0]:.4g}" for c in same)
        blocks.append(Paragraph(f"Epsilon is made of bounds of single records. For every record the same: {values}."))
    varying = [c for c in columns if c not in same]
    if varying:
        rows = tuple((BOUNDS[c], *(f"{records[c].quantile(q):.3g}" for q in (0, 0.1, 0.5, 0.9, 1))) for c in varying)
        blocks.append(Grid(
            ("of records", "least", "10%", "median", "90%", "largest"), rows, numbers=5,
            title="Bounds that epsilon is made of",
        ))  # fmt: skip
        worst = records.sort_values(varying[0], ascending=varying[0] == "alpha", kind="stable").head(WORST)
        blocks.append(Grid(
            ("row of the file (from 0)", *(BOUNDS[c] for c in varying)),
            tuple((f"{int(r['row'])}", *(f"{r[c]:.3g}" for c in varying)) for r in worst.to_dict("records")),
            title="The most influential records", numbers=1 + len(varying),
        ))  # fmt: skip
    return blocks
