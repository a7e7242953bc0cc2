"""The dossier of a release: what a disclosure review board signs, and its public twin.

The dossier is made from the release folder, its internal part and the confidential file.  The twin is made from the
public files alone: it never sees anything else, so it cannot hold anything else.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from warnings import warn

import numpy as np
import pandas as pd

from .._version import __version__
from ..design.discrete import is_label
from ..design.survey_design import SurveyDesign
from ..errors import PrivacyError
from ..privacy.accounting.ledger import Ledger
from ..privacy.membership import MembershipAttack
from ..publication.dossier import (
    Block,
    Dossier,
    Grid,
    Items,
    Lines,
    Paragraph,
    Picture,
    Section,
    Signatures,
    html,
    listed,
    pdf,
)
from ..publication.figures.comparison import distribution_curves, estimates_beside, joint_grids, risk_histogram
from ..publication.footnotes import SUPPRESSED
from ..storage import as_path, check_new, private_folder, whole_folder
from .charging import PUBLIC
from .checksums import described
from .comparison import PROPER, SMOOTHED, Comparison, compare
from .contents import kept_columns
from .folder import MANIFEST
from .identification import attribute_risk, identification_risk, match_risk, ordered_release, pattern_sizes
from .manifest import public_folder, read_manifest
from .printed import printed
from .release import Release, read_release
from .suppression import QUALITY_RULE

NAME = "dossier"
CONFIDENTIAL = "CONFIDENTIAL - for the disclosure review board only - computed from the confidential file"
OPEN = "Public - made from the published files alone"
NOTICE = (
    "NOT FOR PUBLICATION. The dossier is computed from the confidential file and names rows of single records. Its "
    "public twin is made by surveysynth dossier --public."
)
WORST = 10  # records that are named
HIGH = 0.5  # risk of identification that is counted
RADIUS = 0.2  # of the ball around a true value, a share of it
MEASURES = {"identification": identification_risk, "attribute": attribute_risk, "match": match_risk}
ENTRIES = 12  # of a ledger, the last
CELLS = 15  # that are shown, the farthest off
PACKAGES = "numpy", "pandas", "scipy", "statsmodels", "samplics", "opendp", "cmdstanpy", "stanli"
ROLES = "Prepared by", "Owner of the survey data", "Disclosure review board", "Disclosure review board (chair)"
DECISIONS = (
    "Approved: the folder public/ with the checksums listed here may leave the building",
    "Approved on the conditions written below",
    "Not approved",
)


@dataclass(frozen=True)
class Case:
    """What a dossier is about."""

    folder: Path
    release: Release
    manifest: dict[str, Any]

    @property
    def public(self) -> Path:
        """The folder that is published."""
        return public_folder(self.folder)

    @property
    def title(self) -> str:
        """Of the release."""
        return str(self.release.method.get("title") or f"Synthetic {', '.join(self.release.outcomes)}")

    @property
    def seal(self) -> str:
        """The checksum of the manifest, which is that of all public files."""
        return str(self.manifest["checksum"]["sha256"])


def dossier(
    path: str | Path,
    design: SurveyDesign,
    out: str | Path,
    *,
    ledger: Ledger | None = None,
    by: str | Sequence[str] | None = None,
    attack: MembershipAttack | None = None,
    files: Sequence[str | Path] = (),
) -> Path:
    """Write the document that a disclosure review board signs before a release leaves the building.  Internal.

    It says what is public, the guarantee with its neighbours, the balance of the ledger, risks of records, diagnostics,
    how far the release is from the file, suppression, versions and checksums, with assumptions as boxes to tick
    and room for signatures.

    Parameters
    ----------
    path : str or Path
        The release folder, with its internal part.
    design : SurveyDesign
        The confidential file, its rows in the order in which the release was made from it.
    out : str or Path
        A new folder (mode 0700, files 0600): dossier.html, dossier.pdf where WeasyPrint is installed, and the whole
        comparison.
    ledger : Ledger, optional
        The survey's; it is verified against the release.
    by : str or list of str, optional
        Variables of the comparison; default :meth:`Release.table_predictors`.
    attack : MembershipAttack, optional
        By :func:`surveysynth.membership_attack`.
    files : list of paths, optional
        Further files whose checksums are listed: the confidential file, the plan.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        No release; ``out`` exists; a file that is not the one that the release was made from.

    Warns
    -----
    UserWarning
        There is no PDF, and what to install.

    Examples
    --------
    Of a release in a folder, and the confidential file that it was made from:

    >>> ss.dossier("release", design, "for-the-board", by="gender")  # doctest: +SKIP
    """
    out = as_path(out, "out")
    check_new(out)
    case = _case(as_path(path))
    comparison = compare(design, case.release, by)
    risks = _Risks.of(case, design)
    internal = _internal(case.folder)
    with TemporaryDirectory() as scratch:
        sections = [
            Section("What you decide", _decide(case, comparison, risks, ledger, internal)),
            Section("What is published, and why it may be", _published(case, sign=True)),
            Section("The guarantee", (*_guarantee(case), *_balance(case, ledger))),
            Section("Risks of records", _risks(risks, internal, case.release, attack, Path(scratch))),
            Section("Diagnostics of the fit", _diagnostics(case, internal)),
            Section("The release beside the confidential file", _compared(comparison, Path(scratch))),
            Section("Suppression and quality", _suppression(case)),
            Section("Assumptions: tick what you have checked", _assumptions(case, sign=True)),
            Section("Versions and checksums", _versions(case, [Path(file) for file in files], sign=True)),
            Section("Decision and signatures", _signatures(), new_page=True),
        ]
        made = Dossier(
            f"Disclosure review: {case.title}", _subtitle(case), CONFIDENTIAL, f"manifest SHA-256 {case.seal[:16]}",
            True, tuple(sections),
        )  # fmt: skip
        page = html(made)
    with private_folder(out, NOTICE) as staging:
        lacking = _write(page, staging)
        (staging / "comparison").mkdir(0o700)
        comparison.write_into(staging / "comparison")
    if lacking:
        warn(lacking, stacklevel=2)
    return out


def public_dossier(path: str | Path, out: str | Path) -> Path:
    """Write the twin of the dossier for a website, from the public files of a release alone.

    Parameters
    ----------
    path : str or Path
        The release folder, or its ``public`` folder as it was published.
    out : str or Path
        A new folder: dossier.html, and dossier.pdf where WeasyPrint is installed.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        No release; ``out`` exists.

    Warns
    -----
    UserWarning
        There is no PDF, and what to install.

    Examples
    --------
    >>> ss.public_dossier("release", "for-the-website")  # doctest: +SKIP
    """
    out = as_path(out, "out")
    check_new(out)
    case = _case(as_path(path))
    held_back = (
        "The agency has looked at more than this before publication: risks of single records, and the release beside "
        "the confidential file. That stays inside, as it is computed from confidential values."
    )
    sections = (
        Section("What is published", _published(case, sign=False)),
        Section("The guarantee", _guarantee(case)),
        Section("Diagnostics of the fit", (Paragraph(case.release.privacy.verdict),)),
        Section("Suppression and quality", _suppression(case)),
        Section("What is assumed, and what epsilon does not cover", _assumptions(case, sign=False)),
        Section("Versions and checksums", _versions(case, [], sign=False)),
        Section("What is not here", (Paragraph(held_back),)),
    )
    made = Dossier(
        f"How this release protects: {case.title}", _subtitle(case), OPEN, f"manifest SHA-256 {case.seal[:16]}", False,
        sections,
    )  # fmt: skip
    with whole_folder(out, mode=PUBLIC) as staging:
        lacking = _write(html(made), staging)
    if lacking:
        warn(lacking, stacklevel=2)
    return out


def _write(page: str, folder: Path) -> str:
    """The html and, if it can be made, the PDF; or why it cannot."""
    (folder / f"{NAME}.html").write_text(page, encoding="utf-8")
    return pdf(page, folder / f"{NAME}.pdf")


def _case(folder: Path) -> Case:
    release = read_release(folder)
    return Case(folder, release, read_manifest(public_folder(folder) / MANIFEST))


def _subtitle(case: Case) -> str:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{case.release.m} synthetic data sets of {case.release.datasets[0].n:,} records. This document: {now}."


def _internal(folder: Path) -> dict[str, Any]:
    """Exact numbers and risks of records that the release keeps inside; as far as they are there."""
    found: dict[str, Any] = {}
    if (folder / "internal" / "privacy.json").is_file():
        found["privacy"] = json.loads((folder / "internal" / "privacy.json").read_text())
    if (folder / "internal" / "records.csv").is_file():
        found["records"] = pd.read_csv(folder / "internal" / "records.csv")
    return found


# what is decided


def _decide(
    case: Case, comparison: Comparison, risks: _Risks | None, ledger: Ledger | None, internal: dict[str, Any]
) -> tuple[Block, ...]:
    p = case.release.privacy
    lines = [
        ("Release", str(case.folder.absolute())),
        ("Guarantee", p.spent),
        *((f"to {relation}", f"epsilon = {value:g}") for relation, value in p.neighbours.items()),
        ("Synthesized", ", ".join(case.release.outcomes)),
        ("Published as collected", ", ".join(kept_columns(case.release)) or "nothing"),
        ("Ledger", _balance_line(ledger)),
        ("Manifest SHA-256", case.seal),
    ]
    found = _findings(case, comparison, risks, ledger, internal)
    ask = (
        "You decide whether the folder public/ may leave the building. What is in it is protected by the promise "
        "below, if the assumptions at the end hold: please tick them one by one. Everything else in this document is "
        "evidence that helps to judge, and must stay inside."
    )
    return (
        Paragraph(ask),
        Grid((), tuple(lines)),
        Paragraph("What stands out:" if found else "Nothing stands out in the checks below.", strong=not found),
        *([listed(found, boxes=True)] if found else []),
    )


def _findings(
    case: Case, comparison: Comparison, risks: _Risks | None, ledger: Ledger | None, internal: dict[str, Any]
) -> list[str]:
    """What a reader must not overlook, each a sentence."""
    p, said = case.release.privacy, []
    if not p.publishable or p.little_left:
        said.append(f"Publication: {p.publication}")
    if p.kind == "none":
        said.append("There is no guarantee: no epsilon bounds what is revealed of a record")
    elif p.kind != "strict":
        said.append(f"The guarantee is of kind {p.kind}: section 3 says what it is not")
    sentence = printed(case.release, case.release.tables([]), []).protected[0]
    if "promises little" in sentence:
        said.append(f"Epsilon = {p.epsilon:g} is large: the bound alone promises little (section 3 says how little)")
    if "failed" in p.verdict:
        said.append(f"Diagnostics: {p.verdict}")
    if ledger is None:
        entered = "ledger" in case.release.method
        said.append(
            "No ledger was given with this dossier, although the release was entered in one" if entered else
            "The release was not entered in a ledger: nothing adds its epsilon to earlier ones"
        )  # fmt: skip
    elif fault := _fault(case, ledger):
        said.append(f"Ledger: {fault}")
    for row in comparison.summary.to_dict("records"):
        if row["misses"] > row["most"]:
            what = f"{row['statistic']} of {row['outcome']}" if row["outcome"] else row["statistic"]
            said.append(
                f"{what}: {row['misses']} of {row['cells']} intervals miss the file's own estimate, where chance "
                f"allows {row['most']} (section 6): users would be misled there"
            )
    if risks is None:
        said.append(
            "Risks of identification could not be computed: the internal part of the release, or a number, is lacking"
        )
    elif high := int((risks.table["identification"] > HIGH).sum()):
        said.append(f"{high:,} records have a probability of identification above {HIGH:g} (section 4)")
    blocked = internal.get("privacy", {}).get("releases_blocked_by_a_rule_before") or 0
    if blocked:
        said.append(f"{blocked} releases of this fit were blocked by a rule before: do not publish that")
    return said


# what is published


def _published(case: Case, *, sign: bool) -> tuple[Block, ...]:
    release = case.release
    rows = [(name, *_of_column(release, name)) for name in release.datasets[0].frame.columns]
    room = "it is public because (fill in)" if sign else ""
    kept = kept_columns(release)
    grid = [(name, what, why, *(["" if name in kept else "-"] if sign else [])) for name, what, why in rows]
    headings = ("column", "what is in the files", "why it may be", *([room] if sign else []))
    others = [
        "the number of records of every cell of these columns, and of the whole sample",
        "m, the model, its public settings and constants, epsilon, and this list: all are in public/manifest.json",
    ]
    if release.categorical:
        others.append(f"the names of the categories of {', '.join(release.categorical)}; who has which is not public")
    sentences = printed(release, release.tables([]), []).protected
    return (
        Paragraph(sentences[1]),
        Grid(headings, tuple(grid), high=sign),
        Paragraph("Public besides:"),
        listed(others),
        Paragraph("All files that are published are listed with their checksums in the section on versions."),
    )


def _of_column(release: Release, name: str) -> tuple[str, str]:
    """What a column of the files is, and why it may be there."""
    design, weights = release.datasets[0], str(release.method["weights"])
    heading = design.labels.get(name, "")
    called = f"{heading}: " if heading else ""
    if name in release.outcomes:
        return f"{called}synthetic values", "drawn from the protected model, no record has its own"
    if name in release.derived:
        return f"{called}computed from the other columns", "follows from what is published"
    if name == design.weights_name:
        if weights == "public":
            return f"{called}the survey weight as it is", "the agency declares it public"
        if weights == "equal":
            return f"{called}one number for all records", "population total over records, both public"
        return f"{called}synthetic weights", "drawn from the protected model"
    if name in release.predictors:
        return f"{called}values as collected, record by record", "the agency declares it public; outcomes depend on it"
    if name in (*design.fpc_names,):
        return f"{called}values as collected", "design column, needed for standard errors; declared public"
    if name in (design.strata_name, *design.psu_names):
        return f"{called}strata or sampling units, labels recoded", "design column, needed for standard errors"
    return f"{called}weights for counts", "follow from the design, as the report says"


# the guarantee


def _guarantee(case: Case) -> tuple[Block, ...]:
    p = case.release.privacy
    sentence = printed(case.release, case.release.tables([]), []).protected[0]
    blocks: list[Block] = [Paragraph(sentence, strong=True), Paragraph(p.guarantee)]
    if p.neighbours:
        asked = "" if p.epsilon_requested is None else f"; asked for: {p.epsilon_requested:g}"
        blocks.append(Grid(
            ("two files that differ in this cannot be told apart by more than", "epsilon", "factor e^epsilon"),
            tuple((name, f"{x:g}", f"{np.exp(x):,.{0 if x > 5 else 2}f}") for name, x in p.neighbours.items()),
            title=f"Neighbours (kind: {p.kind}{asked})", numbers=2,
        ))  # fmt: skip
    lines = [("mechanism", p.mechanism), ("protected unit", p.unit or "record"), ("synthetic data sets", f"{p.m}")]
    lines += [("delta", f"{p.delta:.3g}")] if p.delta is not None else []
    lines += [("model", f"{case.release.method['method']}")]
    together = case.release.method.get("supersedes")
    if together:
        lines.append(
            ("supersedes", f"a release of epsilon = {together['epsilon']:g}; together {together['together']:g}")
        )
    blocks.append(Grid((), tuple(lines)))
    return tuple(blocks)


def _fault(case: Case, ledger: Ledger) -> str:
    try:
        ledger.verify({str(case.folder): case.release})
    except PrivacyError as error:
        return str(error)
    return ""


def _balance_line(ledger: Ledger | None) -> str:
    if ledger is None:
        return "not given"
    spent = "unknown" if ledger.spent.blank is None else f"{ledger.spent.blank}"
    cap = "no cap" if ledger.cap is None else f"cap {ledger.cap}, {ledger.left} left"
    return f"{ledger.survey}: spent {spent}, {cap}"


def _balance(case: Case, ledger: Ledger | None) -> tuple[Block, ...]:
    if ledger is None:
        return (Paragraph("Ledger: none was given, so what earlier releases of this survey spent is not shown here."),)
    number = (case.release.method.get("ledger") or {}).get("entry")
    rows = tuple(
        (
            f"{row['number']}{' (this release)' if row['number'] == number else ''}",
            str(row["time"])[:16].replace("T", " "), row["what"], row["kind"],
            *("unknown" if pd.isna(row[c]) else f"{row[c]:g}" for c in ("blank", "sum_blank", "sum_replace")),
        )
        for row in ledger.entries().tail(ENTRIES).to_dict("records")
    )  # fmt: skip
    fault = _fault(case, ledger)
    return (
        Grid(
            ("entry", "time", "what", "kind", "epsilon (blanking)", "sum (blanking)", "sum (replacing)"), rows,
            numbers=3,
            title=f"Ledger of {_balance_line(ledger)}",
        ),
        Paragraph(
            f"The ledger does not go with this release: {fault}" if fault else
            "The ledger is whole, and holds this release. Epsilons about the same people add up; the cap is on "
            "blanking.",
            strong=bool(fault),
        ),
    )  # fmt: skip


# risks


@dataclass(frozen=True)
class _Risks:
    """Risks of records: ``row, pattern_size`` and three measures, the largest over outcomes.

    ``also`` are synthesized categories, and ``of_more`` the measures of an intruder who knows them besides.
    """

    table: pd.DataFrame
    known: list[str]
    values: list[str]
    also: list[str]
    of_more: pd.DataFrame

    @classmethod
    def of(cls, case: Case, design: SurveyDesign) -> _Risks | None:
        """None where there is no internal order of records, or no synthesized number."""
        release = case.release
        frame = design.frame
        values = [name for name in release.outcomes if name not in release.categorical and not is_label(frame[name])]
        if not values or not (case.folder / "internal" / "rows.csv").is_file():
            return None
        known = [c for c in release.predictors if not pd.api.types.is_float_dtype(frame[c].dtype)]
        ordered = ordered_release(case.folder)

        def measured(known: list[str]) -> pd.DataFrame:
            found = {}
            for name, measure in MEASURES.items():
                each = [measure(frame, ordered, known=known, value=value, radius=RADIUS).to_numpy() for value in values]
                found[name] = np.max(each, axis=0)
            return pd.DataFrame(found)

        size = pattern_sizes(frame, ordered, known=known, value=values[0]).to_numpy()
        table = measured(known).assign(row=np.arange(design.n), pattern_size=size)
        also = list(release.categorical)
        return cls(table, known, values, also, measured([*known, *also]) if also else pd.DataFrame())


def _risks(
    risks: _Risks | None, internal: dict[str, Any], release: Release, attack: MembershipAttack | None, scratch: Path
) -> tuple[Block, ...]:
    records = internal.get("records")
    bounds = [] if records is None else _of_bounds(records)
    of_attack = _of_membership(attack) if release.measured is None else [NO_ATTACK]
    return (*_of_identification(risks, records, scratch), *bounds, *of_attack)


def _of_identification(risks: _Risks | None, records: pd.DataFrame | None, scratch: Path) -> list[Block]:
    """Risks of identification, of an attribute and of a match, and the records with the largest."""
    blocks: list[Block] = []
    if risks is None:
        blocks.append(Paragraph(
            "Risks of identification were not computed: they need internal/rows.csv and a synthesized number."
        ))  # fmt: skip
    else:
        table = risks.table.dropna(subset="identification")
        knows = ", ".join(risks.known) or "nothing that is published"
        blocks.append(Paragraph(
            f"The intruder here knows {knows} of a record, and its true {' or '.join(risks.values)} up to "
            f"{RADIUS:.0%}. Identification: the probability that the synthetic record that stands for it is picked "
            "(Hu, Savitsky and Williams 2022b, eq. 8; a record alone in its pattern has 0, for there is no other to be "
            "told from). Attribute: the share of the synthetic values of its pattern that are near its true one. "
            "Match: the probability that whoever takes one of these at random takes its own (Reiter and Mitra 2009). "
            "These are measures of this one release; the guarantee of section 3 does not rest on them."
        ))  # fmt: skip
        more_known = risks.of_more.dropna()
        measures = [(what, table[what]) for what in MEASURES]
        measures += [(f"{what}, {', '.join(risks.also)} known too", more_known[what]) for what in more_known]
        rows = [
            (what, f"{x.mean():.3f}", f"{x.median():.3f}", f"{x.quantile(0.9):.3f}", f"{x.max():.3f}",
             f"{(x > HIGH).sum():,} of {len(x):,}")
            for what, x in measures
        ]  # fmt: skip
        blocks.append(Grid(("risk", "mean", "median", "90%", "largest", f"above {HIGH:g}"), tuple(rows), numbers=5))
        if risks.also:
            blocks.append(Paragraph(
                f"Who knows the true {', '.join(risks.also)} too, synthesized in the files, "
                "looks among the synthetic records that have it: in a data set in which the record's "
                "own has another its risks of identification and match are 0."
            ))  # fmt: skip
        alone = int((table["pattern_size"] == 1).sum())
        blocks.append(Paragraph(
            f"Alone in a pattern of {knows}: {alone:,} of the file. Whoever knows these columns sees in the files that "
            "such a person is in the survey, with synthetic values. That is public by declaration, and not protected."
        ))  # fmt: skip
        blocks.append(Picture(
            risk_histogram(table[["identification", "attribute"]], scratch / "risks.svg"), "Histograms of the risks"
        ))  # fmt: skip
        shown = table if records is None else table.merge(records, on="row", how="left")
        more = [c for c in ("lipschitz", "bound", "alpha") if c in shown and shown[c].nunique() > 1]
        worst = shown.sort_values("identification", ascending=False, kind="stable").head(WORST)
        blocks.append(Grid(
            ("row of the file (from 0)", "records alike in what is known", "identification", "attribute", *more),
            tuple(
                (f"{int(r['row'])}", f"{int(r['pattern_size'])}", f"{r['identification']:.3f}", f"{r['attribute']:.3f}",
                 *(f"{r[c]:.3g}" for c in more))
                for r in worst.to_dict("records")
            ),
            title="The records most at risk of identification", numbers=4 + len(more),
        ))  # fmt: skip
    return blocks


NO_ATTACK = Paragraph(
    "Membership: the release was drawn from noisy tables, so no records were fitted, and there is no fit to attack. "
    "The noise bounds any attack; surveysynth study audit plays such games on made-up files."
)


def _of_membership(attack: MembershipAttack | None) -> list[Block]:
    """What a membership attack found, or how to make one."""
    blocks: list[Block] = []
    if attack is None:
        blocks.append(Paragraph(
            "Membership: no attack was made for this dossier. surveysynth.membership_attack(fit) leaves the most "
            "exposed records out and fits again; it takes as long as some ten fits (--membership with a plan)."
        ))  # fmt: skip
    else:
        blocks.append(Paragraph(
            "Of the fit that was given; --membership makes a new one by the plan, not that behind the release. "
            + " ".join(str(attack).splitlines())
        ))  # fmt: skip
        columns = [c for c in ("row", "advantage", "auc", "advantage_refit", "auc_refit") if c in attack.records]
        top = attack.records[columns].head(WORST)
        blocks.append(Grid(
            tuple(c.replace("_", " ") for c in columns),
            tuple(
                tuple("-" if pd.isna(x) else f"{x:.0f}" if c == "row" else f"{x:.3f}" for c, x in row.items())
                for row in top.to_dict("records")
            ),
            title="The records most exposed to the attack", numbers=len(columns),
        ))  # fmt: skip
    return blocks


def _of_bounds(records: pd.DataFrame) -> list[Block]:
    """Bounds of the log density that epsilon is made of, record by record."""
    columns = [c for c in ("lipschitz", "bound", "alpha") if c in records]
    same = [c for c in columns if records[c].nunique() == 1]
    meaning = {
        "lipschitz": "unprotected bound of the log density",
        "bound": "bound after protection",
        "alpha": "privacy weight",
    }
    blocks: list[Block] = []
    if same:
        said = ", ".join(f"{meaning[c]} {records[c].iloc[0]:.4g}" for c in same)
        blocks.append(Paragraph(f"Epsilon is made of bounds of single records. For every record the same: {said}."))
    varying = [c for c in columns if c not in same]
    if varying:
        rows = tuple((meaning[c], *(f"{records[c].quantile(q):.3g}" for q in (0, 0.1, 0.5, 0.9, 1))) for c in varying)
        blocks.append(Grid(
            ("of records", "least", "10%", "median", "90%", "largest"), rows, numbers=5,
            title="Bounds that epsilon is made of",
        ))  # fmt: skip
        worst = records.sort_values(varying[0], ascending=varying[0] == "alpha", kind="stable").head(WORST)
        blocks.append(Grid(
            ("row of the file (from 0)", *(meaning[c] for c in varying)),
            tuple((f"{int(r['row'])}", *(f"{r[c]:.3g}" for c in varying)) for r in worst.to_dict("records")),
            title="The most influential records", numbers=1 + len(varying),
        ))  # fmt: skip
    return blocks


# diagnostics, comparison, suppression


def _diagnostics(case: Case, internal: dict[str, Any]) -> tuple[Block, ...]:
    said = {
        "divergences": "divergent transitions", "rhat": "R-hat, largest", "ess_bulk": "bulk effective draws, least",
        "ess_tail": "tail effective draws, least", "mean_alpha": "mean privacy weight",
        "weighted_down": "share of records weighted down", "epsilon_exact": "epsilon that was reached, exactly",
        "redrawn_by_edits": "share of records redrawn by edit rules",
    }  # fmt: skip
    numbers = internal.get("privacy", {})
    rows = tuple(
        (name, f"{numbers[key]:,.4g}" if isinstance(numbers[key], int | float) else str(numbers[key]))
        for key, name in said.items() if numbers.get(key) is not None
    )  # fmt: skip
    verdict = Paragraph(case.release.privacy.verdict)
    return (verdict, Grid(("number (internal)", "value"), rows, numbers=1)) if rows else (verdict,)


def _compared(comparison: Comparison, scratch: Path) -> tuple[Block, ...]:
    rows = tuple(
        (f"{r['statistic']} of {r['outcome']}" if r["outcome"] else r["statistic"], f"{r['cells']}", f"{r['misses']}",
         f"{r['by_chance']:.1f}", f"{r['most']}", f"{r['std_diff']:.2f}", f"{r['overlap']:.0%}", f"{r['se_ratio']:.2f}")
        for r in comparison.summary.to_dict("records")
    )  # fmt: skip
    blocks: list[Block] = [
        Paragraph(
            "Does the release give what the file gives? Its 95% intervals should miss the file's own estimate in at "
            "most 5% of the cells, by chance. More misses than chance allows mean that the model is wrong there, and "
            "that users would be misled. The last three columns are medians over the cells."
        ),
        Grid(
            ("estimate", "cells", "misses", "expected at most", "chance allows", "off, in se of the file",
             "overlap of intervals", "se over the file's"), rows, numbers=7,
            title=f"By {', '.join(comparison.by) or 'no variable'}",
        ),
        Picture(estimates_beside(comparison.cells, scratch / "estimates.svg"), "Release less file, cell by cell"),
    ]  # fmt: skip
    judged = comparison.cells[comparison.cells["std_diff"].notna()]
    missed, size = judged["holds"].fillna(True).astype(bool), -judged["std_diff"].abs()
    far = judged.iloc[np.lexsort((size, missed))].head(CELLS)
    far_rows = tuple(
        (f"{r['statistic']} of {r['outcome']}" if r["outcome"] else r["statistic"],
         ", ".join(str(r[c]) for c in comparison.by) or "all", _figures(r["estimate"]), _figures(r["se"]),
         _figures(r["estimate_release"]), _figures(r["se_release"]), f"{r['std_diff']:+.1f}",
         "" if pd.isna(r["holds"]) else "yes" if r["holds"] else "NO")
        for r in far.to_dict("records")
    )  # fmt: skip
    blocks.append(Grid(
        ("estimate", "cell", "file", "its se", "release", "its se", "off, in se of the file", "held"), far_rows,
        numbers=6,
        title=f"Misses, and the cells that are farthest off: {len(far_rows)} (all are in comparison/cells.csv)",
    ))  # fmt: skip
    blocks.append(Paragraph(
        "A cell may be many standard errors of the file off and still be held: the release's own standard error is "
        "larger there, and tells users so. A miss is a cell whose own interval does not tell them."
    ))  # fmt: skip
    if len(comparison.curves):
        blocks.append(Picture(
            distribution_curves(comparison.curves, scratch / "curves.svg"), "Distribution functions of file and release"
        ))  # fmt: skip
        blocks.append(Grid(
            ("distribution of", "largest distance to the file", "between two data sets (the release's own noise)"),
            tuple((r["outcome"], f"{r['largest']:.3f}", "-" if pd.isna(r["between"]) else f"{r['between']:.3f}")
                  for r in comparison.distributions.to_dict("records")),
            numbers=2,
        ))  # fmt: skip
    blocks.append(Grid(
        ("file and release told apart by", "pMSE", "expected", "ratio"),
        tuple((r["outcome"], f"{r['pmse']:.2g}", f"{r['expected']:.2g}", f"{r['ratio']:.1f}")
              for r in comparison.pmse.to_dict("records")),
        numbers=3,
    ))  # fmt: skip
    smoothed = f" Here {SMOOTHED}." if comparison.smoothed else ""
    blocks.append(Paragraph(
        f"The ratio says how well records of the file can be told from synthetic ones: {PROPER}. Raab, Nowok and "
        f"Dibben (2021) call up to 3 good and up to 10 satisfactory.{smoothed}"
    ))  # fmt: skip
    blocks.append(Grid(
        ("columns", "how they go together", "file", "release", "se between data sets"),
        tuple((f"{r['first']} and {r['second']}", r["measure"], f"{r['file']:.3f}", f"{r['release']:.3f}",
               "-" if pd.isna(r["se"]) else f"{r['se']:.3f}") for r in comparison.joint.to_dict("records")),
        numbers=3, title="Joint distributions",
    ))  # fmt: skip
    if comparison.grids:
        blocks.append(Picture(joint_grids(comparison.grids, scratch / "joint.svg"), "Joint distributions"))
    return tuple(blocks)


def _figures(x: float) -> str:
    """Four figures, or as many as there are before the point."""
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.4g}"


def _suppression(case: Case) -> tuple[Block, ...]:
    file = case.public / "tables.csv"
    flags = pd.read_csv(file, keep_default_na=False)["flag"].astype(str)
    hidden = [found for found in (SUPPRESSED.search(text) for text in flags) if found]
    said = f"public/tables.csv has {len(flags):,} cells. "
    if hidden:
        least = hidden[0]["min_cell"]
        said += (
            f"{len(hidden):,} of them are blank: those of fewer than {least} records, and those from which these could "
            f"be computed. {QUALITY_RULE}"
        )
    else:
        said += "None is suppressed: what protects is the epsilon of the files, not the size of cells."
    counts = pd.Series([part for text in flags for part in text.split("; ") if part and not SUPPRESSED.match(part)])
    rows = tuple((str(text), f"{number:,}") for text, number in counts.value_counts().items()) if len(counts) else ()
    names = case.release.table_predictors()
    expected = printed(case.release, case.release.tables(names), names).protected[2]
    return (
        Paragraph(said),
        Paragraph(expected),
        *([Grid(("flags in the tables", "cells"), rows, numbers=1)] if rows else []),
    )


# what is signed


def _assumptions(case: Case, *, sign: bool) -> tuple[Block, ...]:
    p = case.release.privacy
    room = "Checked by, and how:" if sign else ""
    not_covered = p.data_dependent or ["nothing"]
    return (
        Paragraph("The guarantee, and the accuracy of estimates, rest on this:"),
        Items(tuple(p.assumptions), boxes=sign, room=room),
        Paragraph(
            "Computed from the confidential file" + ("" if p.kind == "none" else ", and not covered by epsilon:")
        ),
        Items(tuple(not_covered), boxes=sign),
    )


def _versions(case: Case, files: Sequence[Path], *, sign: bool) -> tuple[Block, ...]:
    method = case.release.method
    engine = method.get("engine", {})
    made = [("release made by", f"surveysynth {method['package']['surveysynth']}")]
    made += [("engine", f"{engine['name']} {engine['version']}")] if engine else []
    size = {name: f"{(case.public / name).stat().st_size:,}" for name in (*case.manifest["files"], MANIFEST)}
    sums = [(name, size[name], said["sha256"]) for name, said in case.manifest["files"].items()]
    sums.append((f"{MANIFEST} (its own checksum, at its end)", size[MANIFEST], case.seal))
    if not sign:
        return Grid((), tuple(made)), Grid(("file", "bytes", "SHA-256"), tuple(sums), code=True)
    made += [("dossier made by", f"surveysynth {__version__}, Python {platform.python_version()}")]
    made += [("packages now", ", ".join(f"{name} {version(name)}" for name in PACKAGES))]
    inside = [
        (f"internal/{file.relative_to(case.folder / 'internal')}", described(file)["sha256"])
        for file in sorted((case.folder / "internal").rglob("*")) if file.is_file()
    ]  # fmt: skip
    others = [(str(file), described(file)["sha256"]) for file in files]
    return (
        Grid((), tuple(made)),
        Grid(("published file", "bytes", "SHA-256"), tuple((f"public/{name}", *of) for name, *of in sums), code=True,
             title="Files that this approval is about; they were verified against the manifest just now"),
        Grid(("file", "SHA-256"), (*inside, *others), code=True, title="Files that stay inside"),
    )  # fmt: skip


def _signatures() -> tuple[Block, ...]:
    return (
        Items(DECISIONS, boxes=True),
        Paragraph("Conditions and remarks:"),
        Lines(4),
        Signatures(ROLES),
    )
