"""The parts that a dossier and its public version share: columns, guarantee, suppression, assumptions, versions.

A dossier is the document that a disclosure review board signs.  A part is a tuple of blocks: paragraphs and tables.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

from ..._version import __version__
from ...publication.dossier_page import Block, Grid, Paragraph, listed
from ...publication.footnotes import SUPPRESSED, error_to_expect
from ...publication.quality import symbols_of
from ...publication.wording import Wording
from ..checksums import described
from ..folder import MANIFEST
from ..release import Release
from ..suppression import QUALITY_RULE
from .case import Case

NUMBERS = "estimate", "se", "df", "ci_low", "ci_high"  # columns of tables.csv that are blank in suppressed cells
PACKAGES = "numpy", "pandas", "scipy", "statsmodels", "samplics", "opendp", "cmdstanpy", "stanli"


def columns(case: Case) -> tuple[Block, ...]:
    """List every column of the files, and the reason why it may be published."""
    release = case.release
    rows = tuple((name, *_column(release, name)) for name in release.datasets[0].frame.columns)
    others = [
        "the number of records of every cell of these columns, and of the whole sample",
        "m, the model, its public settings and constants, epsilon, and this list: all are in public/manifest.json",
    ]
    if release.categorical:
        others.append(f"the names of the categories of {', '.join(release.categorical)}; who has which is not public")
    return (
        Paragraph(case.sentences[1]),
        Grid(("column", "what is in the files", "why it may be"), rows),
        Paragraph("Also public:"),
        listed(others),
        Paragraph("All files that are published are listed with their checksums in the section on versions."),
    )


def _column(release: Release, name: str) -> tuple[str, str]:
    """Return the content of a column, and the reason why it may be published."""
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


def guarantee(case: Case) -> tuple[Block, ...]:
    """State the guarantee, the epsilon of each kind of neighbouring files, and the settings of the release."""
    p = case.release.privacy
    blocks: list[Block] = [Paragraph(p.guarantee)]
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


def suppression(case: Case) -> tuple[Block, ...]:
    """Count the suppressed cells of the published tables, and the cells with each flag (a text on their quality)."""
    file = case.public / "tables.csv"
    table = pd.read_csv(file, keep_default_na=False, na_values={name: [""] for name in NUMBERS})
    flags = table["flag"].astype(str)
    hidden = [found for found in (SUPPRESSED.search(text) for text in flags) if found]
    text = f"public/tables.csv has {len(flags):,} cells. "
    if hidden:
        least = hidden[0]["min_cell"]
        text += (
            f"{len(hidden):,} of them are blank: those of fewer than {least} records, and those from which these could "
            f"be computed. {QUALITY_RULE}"
        )
    else:
        text += "None is suppressed: what protects is the epsilon of the files, not the size of cells."
    counts = pd.Series([part for text in flags for part in text.split("; ") if part and not SUPPRESSED.match(part)])
    rows = tuple((str(text), f"{number:,}") for text, number in counts.value_counts().items()) if len(counts) else ()
    return (
        Paragraph(text),
        Paragraph(error_to_expect(table, case.release.privacy, symbols_of(None), Wording())),
        *([Grid(("flags in the tables", "cells"), rows, numbers=1)] if rows else []),
    )


def assumptions(case: Case) -> tuple[Block, ...]:
    """List the assumptions, and everything that epsilon does not cover."""
    p = case.release.privacy
    return (
        Paragraph("The guarantee, and the accuracy of estimates, rest on this:"),
        listed(p.assumptions),
        Paragraph(
            "Computed from the confidential file" + ("" if p.kind == "none" else ", and not covered by epsilon:")
        ),
        listed(p.data_dependent or ["nothing"]),
    )


def versions(case: Case, files: Sequence[Path], *, sign: bool) -> tuple[Block, ...]:
    """List versions of software, and checksums of files.

    ``sign`` is True for the dossier, False for its public version.  With ``sign``, the internal files of the release
    and ``files`` are listed, too.
    """
    method = case.release.method
    engine = method.get("engine", {})
    made = [("release made by", f"surveysynth {method['package']['surveysynth']}")]
    made += [("engine", f"{engine['name']} {engine['version']}")] if engine else []
    size = {name: f"{(case.public / name).stat().st_size:,}" for name in (*case.manifest["files"], MANIFEST)}
    sums = [(name, size[name], file["sha256"]) for name, file in case.manifest["files"].items()]
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
        Grid(("published file", "bytes", "SHA-256"), tuple((f"public/{name}", *rest) for name, *rest in sums),
             code=True, title="Files that this approval is about; they were verified against the manifest just now"),
        Grid(("file", "SHA-256"), (*inside, *others), code=True, title="Files that stay inside"),
    )  # fmt: skip
