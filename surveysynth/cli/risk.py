"""The command ``surveysynth risk``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import surveysynth as ss

from ..errors import InputError, PrivacyError
from ..storage import is_free, private_folder, whole_file
from .options import by_commas, numbers
from .printing import about_what_is_written, print_filled, print_written

if TYPE_CHECKING:
    import pandas as pd

RISKS = "risk.csv"
RISKS_NOTICE = (
    "NOT FOR PUBLICATION. risk.csv has the identification risk of single records, computed from the confidential file."
)


Original = Annotated[
    Path, typer.Argument(help="The confidential file: csv, parquet, Stata, SPSS or SAS.", show_default=False)
]
Synthetic = Annotated[
    list[Path],
    typer.Argument(
        help="Synthetic files, whose row i is the synthetic version of row i of the original; or a release folder with "
        "its internal part, which has the order of the records.",
        show_default=False,
    ),
]
Value = Annotated[
    Sequence[str],
    by_commas(
        "Synthesized numeric columns that the intruder knows, by commas; each value must be near.", show_default=False
    ),
]
Folder = Annotated[Path, typer.Option(help="Folder to make, for risk.csv; confidential.", show_default=False)]
Known = Annotated[
    Sequence[str] | None,
    by_commas("Further columns that the intruder knows, public or synthesized, by commas; default none."),
]
Synthesized = Annotated[
    Sequence[str] | None,
    by_commas(
        "Columns of --known that were synthesized, by commas: texts must be equal, numbers must be near. Only for "
        "synthetic files; a release folder lists its synthesized columns."
    ),
]
Radius = Annotated[
    Sequence[float] | None,
    by_commas(
        "Largest distance of near values, as a share of the true value: one number, or one for each column of --value "
        "and then for each synthesized number in --known; default 0.2.",
        numbers,
    ),
]
Floor = Annotated[
    Sequence[float] | None,
    by_commas("Least radius, in the unit of the value: one number, or as many as in --radius; default 0.", numbers),
]


def risk_command(
    original: Original,
    synthetic: Synthetic,
    value: Value,
    out: Folder,
    known: Known = None,
    synthesized: Synthesized = None,
    radius: Radius = None,
    absolute: Annotated[bool, typer.Option("--absolute", help="The --radius is in the unit of the value.")] = False,
    floor: Floor = None,
    max_risk: Annotated[
        float | None, typer.Option(help="Fail (exit code 2) if a record has a larger risk; risk.csv is still written.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a risk.csv that is there.")] = False,
) -> None:
    """Compute the probability that an intruder identifies each record among synthetic records.

    The result is confidential. It is risk.csv, with one row for each record of the original. Column row is the position
    of the record (from 0, as in the internal part of a release); pattern_size is the number of synthetic records that
    match the record in the columns of --known; risk is the marginal probability of identification (Hu, Savitsky &
    Williams 2022b, eq. 8). pattern_size and risk are averaged over the data sets. They are missing for records that a
    release left out.
    """
    from ..design.read import read_frame
    from ..release.identification import known_synthesized

    if max_risk is not None and not 0 <= max_risk < 1:
        raise InputError("--max-risk must be a number from 0 to below 1")
    if not is_free(out) and not (overwrite and (out / RISKS).is_file()):
        why = f" and has no {RISKS} to replace" if overwrite else "; choose another folder, or --overwrite"
        raise InputError(f"--out {out} exists{why}")
    intruder: dict[str, Any] = {"known": list(known or ()), "value": value, "synthesized": list(synthesized or ())}
    intruder |= _ball(radius, absolute, floor)
    frame, files = read_frame(original), _synthetic(synthetic)
    risks = _risks(frame, files, intruder)
    _write_risks(risks.drop(columns="match"), out)
    judged = risks[risks["risk"].notna()]
    moving = known_synthesized(files, intruder["known"], intruder["synthesized"])
    with about_what_is_written():
        _print_risks(judged, len(frame), moving, files.m if isinstance(files, ss.Release) else len(files))
        print_written(f"{out / RISKS} (to keep)")
    _check_largest(judged["risk"], max_risk)


def _risks(frame: pd.DataFrame, files: list[pd.DataFrame] | ss.Release, intruder: dict[str, Any]) -> pd.DataFrame:
    """Return a table with one row for each record, and columns ``row``, ``pattern_size``, ``risk`` and ``match``.

    ``match`` is the match risk of the record (:func:`surveysynth.match_risk`), and :func:`risk_command` describes the
    other columns.  Numbers are missing if a release left out the record.
    """
    import numpy as np
    import pandas as pd

    from ..release.identification import pattern_sizes

    risk, match = (
        measure(frame, files, **intruder).to_numpy() for measure in (ss.identification_risk, ss.match_risk)
    )
    size = pattern_sizes(frame, files, **intruder).convert_dtypes().array
    return pd.DataFrame({"row": np.arange(len(frame)), "pattern_size": size, "risk": risk, "match": match})


def _check_largest(risk: pd.Series, max_risk: float | None) -> None:
    from ..privacy.release_rule import ROUNDING

    above = 0 if max_risk is None else int((risk > max_risk + ROUNDING).sum())
    if above:
        raise PrivacyError(
            f"{above:,} of {len(risk):,} records have a probability of identification above {max_risk:g}: do not "
            "publish these data sets, nor that they were held back"
        )


def _ball(radius: Sequence[float] | None, absolute: bool, floor: Sequence[float] | None) -> dict[str, Any]:
    """Return the options --radius, --absolute and --floor as arguments of :func:`surveysynth.identification_risk`."""
    if absolute and radius is None:
        raise InputError("--absolute needs --radius, in the unit of the outcome")
    given = (("radius", radius), ("floor", floor))
    sizes = {name: size[0] if len(size) == 1 else tuple(size) for name, size in given if size is not None}
    return {"relative": not absolute} | sizes


def _synthetic(paths: list[Path]) -> list[pd.DataFrame] | ss.Release:
    """Read synthetic files, or a release folder with its records in the order of the confidential file."""
    from ..design.read import read_frame
    from ..release.folder import MANIFEST
    from ..release.identification import ordered_release

    if len(paths) == 1 and paths[0].is_dir():
        return ordered_release(paths[0])
    for path in paths:
        if path.is_dir():
            raise InputError(f"{str(path)!r} is a folder: give one release folder, or synthetic files")
        if (path.parent / MANIFEST).is_file():
            raise InputError(
                f"{str(path)!r} is a public file of a release, whose records are in an order of their own: give the "
                "release folder instead, whose internal part knows the order"
            )
    return [read_frame(path) for path in paths]


def _write_risks(table: pd.DataFrame, out: Path) -> None:
    """Write risk.csv completely or not at all, in a new private folder or in place of an earlier risk.csv."""
    if is_free(out):
        with private_folder(out, RISKS_NOTICE) as staging:
            table.to_csv(staging / RISKS, index=False)
        return
    with whole_file(out / RISKS) as stream:
        table.to_csv(stream, index=False)


def _print_risks(risks: pd.DataFrame, n: int, synthesized: list[str], datasets: int) -> None:
    """Print a summary of the risks, and the numbers of records and of patterns (combinations of known values).

    ``risks`` are those of the records that the release kept, of ``n`` in the original.  ``synthesized`` are the columns
    of --known that were synthesized, and ``datasets`` is the number of synthetic data sets.
    """
    import numpy as np

    from ..privacy.release_rule import ROUNDING

    size, risk, match = (risks[c].to_numpy(dtype=float) for c in ("pattern_size", "risk", "match"))
    left_out = f" ({n - risk.size:,} more were left out by the release)" if n > risk.size else ""
    if synthesized:
        patterns = (
            f"synthetic records that match what is known ({', '.join(synthesized)} synthesized): mean "
            f"{size.mean():.1f}; records that none matches in any data set: {(size == 0).sum():,}"
        )
    else:  # the inverse sizes add up to 1 in each pattern
        patterns = f"patterns of what is known: {round((1 / size).sum()):,}, of one record: {(size == 1).sum():,}"
    print_filled(
        f"{risk.size:,} records{left_out}; {patterns}; synthetic data sets: {datasets}.\n"
        f"Probability of identification: mean {risk.mean():.3f}, median {np.median(risk):.3f}, 90th percentile "
        f"{np.quantile(risk, 0.9):.3f}, largest {risk.max():.3f}; above 0.5: {(risk > 0.5 + ROUNDING).sum():,} records."
        f"\nExpected match risk: {match.sum():.1f} records (the intruder picks one of the synthetic records that match "
        f"all known values); above 0.5: {(match > 0.5 + ROUNDING).sum():,} records."
        "\nThese numbers are computed from the confidential file; nothing was released."
    )
