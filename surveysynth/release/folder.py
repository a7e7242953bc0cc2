"""Write the folder of a release, completely or not at all, and read a release back from the public part.

release/
  public/    only what may be published: manifest.json, report.txt, tables.csv, tables.xlsx, tables.html,
             synthetic_1.csv, ..., measurements.json (if tables were measured), and the machine-readable
             datapackage.json and csv-metadata.json
  internal/  (mode 0700) record-level risks and weights, row order, unused draws, exact numbers
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc

from ..choices import PRINTED
from ..design.survey_design import SurveyDesign
from ..errors import InputError, PrivacyError, SurveySynthError
from ..privacy.accounting.ledger import Ledger
from ..privacy.accounting.ledger_file import Entry
from ..publication import formats
from ..publication.datapackage import About, Resource, write_metadata
from ..publication.document import Document
from ..storage import is_free, kept_folder, restrict, sealed, whole_folder
from ..validation import one_of, truth
from .charging import NO_ENTRY, PUBLIC, charge, how_to_publish, spends, unfinished
from .checksums import described, verify
from .contents import Contents, kept_columns
from .data_set_files import ROWS, write_data_set
from .manifest import FORMATS, fields_of, public_folder, read_manifest, synthetic_files
from .source import Source
from .suppression import QUALITY_RULE

MANIFEST, MEASUREMENTS = "manifest.json", "measurements.json"
T_OF_FILES = (
    "T = mean(u) + b / m, with u the variance within a file and b the variance between the files' estimates (partial "
    "synthesis; Rubin's rule for missing data does not apply)."
)
T_OF_PAIRS = (
    "T = mean(u) + N + B / M, with u the variance within a file, M = m / 2 pairs of files (1 and 2, 3 and 4, ...), B "
    "the variance of the pairs' means, w half the mean squared difference within pairs, and N = max(0, B - w / 2), "
    "what the noise adds to all files alike (manifest.json has it in Python and R; Rubin's rule for missing data does "
    "not apply). measurements.json holds the noisy tables that all files were drawn from."
)
Kept = TypeVar("Kept", bound=Contents)
MOST_PRINTED = 10_000  # number of cells; a table with more cells is only written as csv


def write_folder(
    release: Contents,
    path: Path,
    table: pd.DataFrame,
    document: Document,
    *,
    format: str,
    min_cell: int | None,
    overwrite: bool,
    ledger: Ledger | None,
) -> None:
    """Write a release folder, and charge the ledger last.

    :meth:`surveysynth.Release.write` has the arguments and the errors, and checks the path and the format.
    ``document`` has the printed tables.
    """
    if not release.internal and (path / "internal").is_dir():
        raise InputError(f"{str(path)!r} has an internal/ that would be lost: this release is its public part only")
    entered: list[Entry] = []
    last = None
    if ledger is not None:
        last = partial(charge, spent=spends(release), ledger=ledger, entered=entered, overwrite=overwrite)
        release = replace(release, method=release.method | {"ledger": NO_ENTRY})
    staging = None
    try:
        with whole_folder(path, mode=PUBLIC, replace=overwrite, last=last) as staging:
            _write_public(release, staging / "public", table, document, format, min_cell)
            _write_internal(release, staging / "internal")
            restrict(staging / "internal")
    except OSError as error:
        raise _not_written(path, staging, error, charged=bool(entered)) from None


def enter(release: Kept, table: pd.DataFrame, document: Document, ledger: Ledger) -> Kept:
    """Charge a ledger for a release that has no folder yet.  Return the release with the number of the ledger entry.

    Before the charge, the files of the release are written to a hidden folder next to the ledger.

    Raises
    ------
    InputError
        The files cannot be written; nothing was charged.
    PrivacyError
        The cap would be exceeded, or the ledger cannot be written, and nothing was charged; or the release was charged,
        but a later step on the disk failed.
    """
    entered: list[Entry] = []
    last = partial(charge, spent=spends(release), ledger=ledger, entered=entered)
    staged = replace(release, method=release.method | {"ledger": NO_ENTRY})
    staging = None
    try:
        with kept_folder(ledger.path.absolute(), last) as staging:
            _write_public(staged, staging / "public", table, document, "csv", None)
            _write_internal(staged, staging / "internal")
            restrict(staging / "internal")
    except OSError as error:
        if not entered:
            raise _not_written(ledger.path.parent, staging, error, charged=False) from None
        why = f"{str(error.filename or ledger.path)!r}: {error.strerror or error}"
        raise PrivacyError(
            f"the release was charged to the ledger, as entry {entered[0].number}, and is kept whole in "
            f"{str(staging)!r} ({why}): {how_to_publish(ledger, entered[0])} publishes it, and nothing more is spent"
        ) from None
    kept = {"kept": staging}
    return replace(release, method=release.method | {"ledger": entered[0].reference}, internal=release.internal | kept)


def _not_written(path: Path, staging: Path | None, error: OSError, *, charged: bool) -> SurveySynthError:
    """Return the error to raise if a release cannot be written.  Its message says whether a ledger was charged."""
    why = f"{str(error.filename or path)!r}: {error.strerror or error}"
    if not charged:
        return InputError(f"the release was not written ({why}); nothing is left of it, and no ledger was charged")
    if staging is None or not staging.exists():
        return PrivacyError(
            f"the release was charged to the ledger and is in its place, {str(path)!r}, but it is not sure that the "
            f"disk has it for good ({why}): copy it elsewhere"
        )
    return PrivacyError(
        f"the release was charged to the ledger and could not be moved to its place ({why}). It is whole in "
        f"{str(staging)!r}: surveysynth resume {str(path)!r} publishes it, and nothing more is spent"
    )


def check_format(format: str) -> None:
    """Raise InputError for an unknown format of synthetic files."""
    one_of(format, FORMATS, "format")


def check_place(path: Path, *, overwrite: bool) -> None:
    """Raise an error if a release cannot be written to ``path``, or if it would replace something other than a release.

    Raises
    ------
    InputError
        The path has no name, exists and may not be replaced, or is in a folder without write permission; or an earlier
        run for this path was charged and not finished.
    PrivacyError
        The ledger of an earlier run is damaged.
    """
    truth(overwrite, "overwrite")
    if not path.name:
        raise InputError("the path of a release names a folder to make, as 'release'")
    if path.parent.is_dir() and (charged := unfinished(path)) is not None:
        raise InputError(
            f"an earlier run for {str(path)!r} was charged to its ledger and ended before its files were published. "
            f"surveysynth resume {str(path)!r} publishes them, and nothing more is spent; to give them up, delete "
            f"{str(charged)!r}"
        )
    if not is_free(path) and not (overwrite and (path / "public" / MANIFEST).is_file()):
        raise InputError(
            f"{str(path)!r} exists"
            + (" and is not a release folder" if overwrite else "; choose another place, or overwrite=True")
        )
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise InputError(f"{str(path)!r} cannot be made: {str(above)!r} is not a folder that you may write to")


def read_folder(path: Path) -> dict[str, Any]:
    """Return the arguments of ``Release``, read from the public files of a release folder."""
    folder, manifest = verified(path)
    datasets, published = _read_datasets(folder, manifest), None
    if MEASUREMENTS in manifest["files"]:
        published = json.loads((folder / MEASUREMENTS).read_text(encoding="utf-8"))
    return _fields(manifest, datasets, published)


def public_text(release: Contents) -> str:
    """Return the public part of a release, without the data sets, as JSON: the manifest and the noisy tables."""
    measured = None if release.measured is None else release.measured.published()
    return json.dumps({"manifest": release.manifest(), "measurements": measured})


def fields_from_text(text: str, frames: Sequence[pd.DataFrame]) -> dict[str, Any]:
    """Return the arguments of ``Release``, from the text that :func:`public_text` returned and from the data sets."""
    public = json.loads(text)
    manifest = public["manifest"]
    made = [with_categories(frame, manifest["levels"]) for frame in frames]
    datasets = tuple(SurveyDesign(frame, **manifest["design"], labels=manifest.get("labels")) for frame in made)
    return _fields(manifest, datasets, public["measurements"])


def _fields(
    manifest: dict[str, Any], datasets: tuple[SurveyDesign, ...], published: dict[str, Any] | None
) -> dict[str, Any]:  # fmt: skip
    """Return the arguments of ``Release``, from a manifest, data sets and the content of measurements.json (if any)."""
    fields = fields_of(manifest)
    if published is not None:
        fields["measured"] = Source.read(published, datasets[0], fields["predictors"], fields["rests_on"][0])
    return {"datasets": datasets, **fields}


def verified(path: Path) -> tuple[Path, dict[str, Any]]:
    """Return the public folder and the manifest of a release.  Raise InputError if files differ from the manifest."""
    folder = public_folder(path)
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{str(path)!r} is not a release: it has no public/{MANIFEST}")
    manifest = read_manifest(folder / MANIFEST)
    verify(folder, manifest["files"])
    return folder, manifest


def _write_public(
    release: Contents, folder: Path, table: pd.DataFrame, document: Document, format: str, min_cell: int | None
) -> None:  # fmt: skip
    folder.mkdir()
    for number, design in enumerate(release.datasets, 1):
        file = folder / f"synthetic_{number}.{format}"
        if format == "csv":
            design.frame.to_csv(file, index=False)
        else:
            write_data_set(design, file)
    if release.measured is not None:
        text = json.dumps(release.measured.published(), indent=1)
        (folder / MEASUREMENTS).write_text(f"{text}\n", encoding="utf-8")
    small = len(table) <= MOST_PRINTED
    kept = {suffix: form for suffix, form in formats.FORMATS.items() if form.in_folder and (form.in_full or small)}
    forms = {f"tables{suffix}": form for suffix, form in kept.items()}
    for name, form in forms.items():
        form.write(table, document, folder / name)
    files = {file.name: described(file) for file in sorted(folder.iterdir())}
    records = files[f"synthetic_1.{format}"]["records"]
    printed = [name for name, form in forms.items() if not form.in_full]
    heading = _heading(release, records, format, min_cell, printed)
    plain = "\n".join(document.protected)
    report = f"{_about(release)}{plain}\n\n{heading}\n\n{release.privacy}\n"
    (folder / "report.txt").write_text(report, encoding="utf-8")
    files |= {"report.txt": described(folder / "report.txt")}
    _write_metadata(release, folder, table, document, format, files)
    files |= {file.name: described(file) for file in sorted(folder.iterdir()) if file.name not in files}
    files = dict(sorted(files.items()))
    (folder / MANIFEST).write_text(sealed(release.manifest() | {"files": files}), encoding="utf-8")


def _write_numbers(frame: pd.DataFrame, file: Path) -> None:
    """Write a frame of numbers as csv by pyarrow, which is ten times as fast as pandas."""
    schema = pa.Schema.from_pandas(frame, preserve_index=False)
    with pc.CSVWriter(file, schema) as writer:
        for first in range(0, len(frame), ROWS):
            writer.write(pa.Table.from_pandas(frame.iloc[first : first + ROWS], schema, preserve_index=False))


def _write_metadata(
    release: Contents, folder: Path, table: pd.DataFrame, document: Document, format: str,
    files: dict[str, dict[str, Any]],
) -> None:  # fmt: skip
    """Write machine-readable metadata of the files whose manifest entries are in ``files``."""
    frames = {f"synthetic_{i}.{format}": design.frame for i, design in enumerate(release.datasets, 1)}
    titles = {name: f"Synthetic data set {i} of {release.m}" for i, name in enumerate(frames, 1)}
    titles |= {MEASUREMENTS: "Noisy tables from which all data sets were drawn", "report.txt": "Privacy report"}
    resources = [
        Resource(
            path=name, title=titles.get(name, document.title), sha256=file["sha256"],
            size=(folder / name).stat().st_size, frame=table if name == "tables.csv" else frames.get(name),
            records=file.get("records") if name in frames else None,
        )
        for name, file in files.items()
    ]  # fmt: skip
    sources = {name: str(release.method.get(name, "")) for name in ("source", "contact", "license")}
    about = About(
        name=re.sub("[^a-z0-9]+", "-", document.title.lower()).strip("-") or "release", title=document.title,
        description=" ".join(document.protected), labels=release.datasets[0].labels,
        units=release.method.get("units", {}), **sources,
    )  # fmt: skip
    write_metadata(folder, resources, about)


def _heading(release: Contents, records: int, format: str, min_cell: int | None, printed: Sequence[str]) -> str:
    """Return the part of the report that explains the files and says how to estimate from them."""
    design = release.datasets[0]
    synthetic_weights = release.method["weights"] != "public"
    suppressed = f" There, cells of fewer than {min_cell} records are blank, and cells that would give them away."
    return (
        f"{release.m} synthetic data sets (synthetic_1.{format}, ...) of {records:,} records by "
        f"{release.method['method']}, surveysynth {release.method['package']['surveysynth']}. "
        f"Synthesized: {', '.join(release.outcomes)}"
        + (f" and the survey weight {design.weights_name!r}" if synthetic_weights else "")
        + (" (equal for all)" if release.method["weights"] == "equal" else "")
        + f". As in the survey: {', '.join(kept_columns(release)) or 'nothing'}."
        + (f" Derived from these columns: {', '.join(release.derived)}.\n" if release.derived else "\n")
        + "Estimate every file as a survey of its own. The estimate is the mean of the m estimates; its variance is "
        + (T_OF_FILES if release.measured is None else T_OF_PAIRS)
        + " tables.csv holds such estimates"
        + (f", {' and '.join(printed)} hold them as they are printed." if printed else ".")
        + (f"{suppressed} {QUALITY_RULE}" if min_cell is not None else "")
        + _heading_of_counts(release)
    )


def _about(release: Contents) -> str:
    """Return the lines of the report with title, source and contact, if the plan has them."""
    method, lines = release.method, [str(release.method["title"])] if "title" in release.method else []
    lines += [f"{name.capitalize()}: {method[name]}" for name in PRINTED if name in method and name != "title"]
    return "".join(f"{line}\n" for line in lines) + ("\n" if lines else "")


def _heading_of_counts(release: Contents) -> str:
    if release.count_roles is None:
        return ""
    strata = f"with strata {release.count_roles['strata']!r}" if release.count_roles.get("strata") else "without strata"
    return (
        f"\nCounts of population units: the same from {release.datasets[0].weights_name!r} and from "
        f"{release.count_roles['weights']!r}; their standard errors come from the latter, {strata}. For everything "
        f"else use {release.datasets[0].weights_name!r}."
    )


def _write_internal(release: Contents, folder: Path) -> None:
    folder.mkdir()
    (folder / "privacy.json").write_text(json.dumps(release.privacy.internal, indent=2) + "\n")
    if "records" in release.internal:
        _write_numbers(release.internal["records"].reset_index(), folder / "records.csv")
    if "rows" in release.internal:
        names = [f"synthetic_{number}" for number in range(1, release.m + 1)]
        _write_numbers(pd.DataFrame(release.internal["rows"].T, columns=names), folder / "rows.csv")
    if "draws" in release.internal:
        np.savez_compressed(folder / "unused_draws.npz", **release.internal["draws"])


def _read_datasets(folder: Path, manifest: dict[str, Any]) -> tuple[SurveyDesign, ...]:
    format = next(kind for kind in FORMATS if f"synthetic_1.{kind}" in manifest["files"])
    datasets = []
    for name in synthetic_files(manifest["m"], format):
        try:
            frame = read_columns(folder / name, manifest["dtypes"], manifest["levels"])
            datasets.append(SurveyDesign(frame, **manifest["design"], labels=manifest.get("labels")))
        except (InputError, ValueError, KeyError, TypeError, OSError, pa.ArrowException) as error:
            why = f": {error}" if isinstance(error, InputError) else f" ({type(error).__name__})"
            raise InputError(
                f"{str(folder / name)!r} cannot be read{why}; it is damaged, or its {MANIFEST} does not go with it"
            ) from None
    return tuple(datasets)


def read_columns(file: Path, dtypes: dict[str, str], levels: dict[str, Any]) -> pd.DataFrame:
    """Read a public csv or parquet file with the types of columns in the manifest.

    Text that looks like a number stays text.  ``dtypes`` and ``levels`` are the entries of the manifest.
    """
    text = {c: "str" for c, t in dtypes.items() if t in ("str", "string", "object", "category")}
    empty = {c: [""] for c in dtypes if c not in text}
    if file.suffix == ".parquet":
        frame = pd.read_parquet(file)
    else:
        frame = pd.read_csv(file, dtype=text, keep_default_na=False, na_values=empty)
    return with_categories(frame, levels)


def with_categories(frame: pd.DataFrame, levels: dict[str, Any]) -> pd.DataFrame:
    """Make columns categorical, with their levels in the manifest.  The frame is changed in place and returned."""
    for column, kind in levels.items():
        categories = {str(level): level for level in kind["categories"]}
        values = frame[column].astype(str).map(categories)
        frame[column] = pd.Categorical(values, list(categories.values()), ordered=kind["ordered"])
    return frame
