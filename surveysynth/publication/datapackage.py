"""Machine-readable metadata for the files of a release: a Frictionless data package, and CSV on the Web.

Sources: Frictionless Data Package specification, version 1 (profile "tabular-data-resource" for csv files);
W3C (2015), Metadata Vocabulary for Tabular Data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

PACKAGE, CSVW = "datapackage.json", "csv-metadata.json"
TYPES = {"i": "integer", "u": "integer", "f": "number", "b": "boolean"}  # by kind of dtype; others: string
ADDRESS = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # of e-mail
TRUE, FALSE = "True", "False"  # as pandas writes them


@dataclass(frozen=True)
class Resource:
    """A file of the data package, with its title, checksum, size and content.

    Attributes
    ----------
    path : str
        Name of the file.
    title : str
    sha256 : str
    size : int
        Size of the file in bytes.
    frame : pandas.DataFrame, optional
        The content of a table.  It is None for other files.
    records : int, optional
        Number of records of a table.  The default is the length of ``frame``.
    """

    path: str
    title: str
    sha256: str
    size: int
    frame: pd.DataFrame | None = None
    records: int | None = None


@dataclass(frozen=True)
class About:
    """Title, source, contact and license of the data package, and labels and units of columns.

    Attributes
    ----------
    name, title, description : str
    source, contact, license : str
        An unknown value is empty.  The license is a name or a URL.
    labels, units : mapping of str to str
        Labels and units of columns, by the name of the column.
    """

    name: str
    title: str
    description: str
    source: str
    contact: str
    license: str
    labels: Mapping[str, str]
    units: Mapping[str, str]


def write_metadata(folder: Path, resources: Sequence[Resource], about: About) -> None:
    """Write ``datapackage.json`` for all files, and ``csv-metadata.json`` for the csv files.

    Parameters
    ----------
    folder : Path
        The folder of the files, in which the metadata are written.
    resources : list of Resource
    about : About
    """
    tables = [each for each in resources if each.frame is not None and each.path.endswith(".csv")]
    for name, content in ((PACKAGE, data_package(resources, about)), (CSVW, csv_on_the_web(tables, about))):
        text = json.dumps(content, indent=2, ensure_ascii=False)
        (folder / name).write_text(f"{text}\n", encoding="utf-8")


def data_package(resources: Sequence[Resource], about: About) -> dict[str, Any]:
    """Make the content of ``datapackage.json``: titles, types, units, checksums and numbers of records of all files."""
    package = {
        "profile": "data-package", "name": about.name, "title": about.title, "description": about.description,
        **({"licenses": [_license(about.license)]} if about.license else {}),
        **({"sources": [{"title": about.source}]} if about.source else {}),
        **({"contributors": [_contributor(about.contact)]} if about.contact else {}),
    }  # fmt: skip
    return package | {"resources": [_resource(each, about) for each in resources]}


def _contributor(contact: str) -> dict[str, str]:
    """Return the entry for the contact.  An e-mail address at the end of the text, as "A <a@x.org>", is split off."""
    found = re.fullmatch(rf"(.*?)[\s,;:<(]*({ADDRESS})[>)]?", contact.strip())
    if found is None:
        return {"title": contact, "role": "maintainer"}
    return {"title": found[1] or found[2], "email": found[2], "role": "maintainer"}


def _license(text: str) -> dict[str, str]:
    return (
        {"path": text} if text.startswith(("http://", "https://")) else {"name": text.replace(" ", "-"), "title": text}
    )


def _resource(resource: Resource, about: About) -> dict[str, Any]:
    suffix = resource.path.rpartition(".")[2]
    resource_entry: dict[str, Any] = {
        "type": "table" if suffix == "csv" else "file",  # validators read the content of tables
        "name": resource.path.lower().replace(".", "-").replace("_", "-"), "title": resource.title,
        "path": resource.path, "format": suffix, "bytes": resource.size, "hash": f"sha256:{resource.sha256}",
    }  # fmt: skip
    if resource.frame is None:
        return resource_entry
    fields = [_field(str(c), resource.frame[c], about) for c in resource.frame]
    if suffix == "csv":
        resource_entry |= {"profile": "tabular-data-resource", "encoding": "utf-8"}
    records = len(resource.frame) if resource.records is None else resource.records
    return resource_entry | {"records": records, "schema": {"fields": fields, "missingValues": [""]}}


def _field(name: str, column: pd.Series, about: About) -> dict[str, Any]:
    kind = _kind(column)
    entry: dict[str, Any] = {"name": name, "type": kind}
    if name in about.labels:
        entry["title"] = about.labels[name]
    if name in about.units:
        entry["unit"] = about.units[name]
    if kind == "boolean":
        entry |= {"trueValues": [TRUE], "falseValues": [FALSE]}
    levels = _levels(column)
    return entry | ({"constraints": {"enum": levels}} if levels else {})


def csv_on_the_web(tables: Sequence[Resource], about: About) -> dict[str, Any]:
    """Make the content of ``csv-metadata.json``: metadata of the csv files in the vocabulary of CSV on the Web."""
    group: dict[str, Any] = {"@context": "http://www.w3.org/ns/csvw", "dc:title": about.title}
    group |= {"dc:description": about.description}
    group |= {f"dc:{name}": getattr(about, name) for name in ("license", "source") if getattr(about, name)}
    return group | {"tables": [_csvw_table(each, about) for each in tables]}


def _csvw_table(resource: Resource, about: About) -> dict[str, Any]:
    assert resource.frame is not None
    columns = [_csvw_column(str(c), resource.frame[c], about) for c in resource.frame]
    return {"url": resource.path, "dc:title": resource.title, "tableSchema": {"columns": columns}}


def _csvw_column(name: str, column: pd.Series, about: About) -> dict[str, Any]:
    kind = _kind(column)
    titles = [name, about.labels[name]] if about.labels.get(name, name) != name else [name]
    entry: dict[str, Any] = {"titles": titles, "datatype": kind if kind != "boolean" else _boolean()}
    if name in about.units:
        entry["dc:description"] = about.units[name]
    return entry


def _boolean() -> dict[str, str]:
    return {"base": "boolean", "format": f"{TRUE}|{FALSE}"}


def _kind(column: pd.Series) -> str:
    """Return the type of a column in the metadata: integer, number, boolean or string (also for categories)."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "string"
    return TYPES.get(getattr(column.dtype, "kind", "O"), "string")


def _levels(column: pd.Series) -> list[str]:
    """Return the used categories of a categorical column, in order.  For any other column, the list is empty."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return []
    return [str(level) for level in column.cat.remove_unused_categories().cat.categories]
