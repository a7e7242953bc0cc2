"""The input of a dossier, the document that a disclosure review board signs: a release, and its internal files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ..folder import MANIFEST
from ..manifest import public_folder, read_manifest
from ..printed import printed
from ..release import Release, read_release


@dataclass(frozen=True)
class Case:
    """A release for which a dossier is made, with the release folder and the content of the manifest."""

    folder: Path
    release: Release
    manifest: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Case:
        """Read the release in a folder.  Raise InputError if the folder has no release."""
        release = read_release(folder)
        return cls(folder, release, read_manifest(public_folder(folder) / MANIFEST))

    @property
    def public(self) -> Path:
        """The folder that is published."""
        return public_folder(self.folder)

    @property
    def title(self) -> str:
        """Title of the release."""
        return str(self.release.method.get("title") or f"Synthetic {', '.join(self.release.outcomes)}")

    @property
    def seal(self) -> str:
        """Checksum of the manifest, which has the checksums of all public files."""
        return str(self.manifest["checksum"]["sha256"])

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """Three sentences: who is protected and how far, what is not protected, and what error to expect."""
        return printed(self.release, self.release.tables([]), []).protected


@dataclass(frozen=True)
class Inside:
    """Confidential results of a release, from the folder ``internal``.

    ``numbers`` has exact diagnostics of the fit.  ``records`` has a row for each record, with bounds of its log density
    and its privacy weight.  If the folder lacks the file of ``numbers`` or ``records``, they are empty or None.
    """

    numbers: dict[str, Any]
    records: pd.DataFrame | None

    @classmethod
    def read(cls, folder: Path) -> Inside:
        """Read the internal files of a release folder."""
        numbers, records = (folder / "internal" / name for name in ("privacy.json", "records.csv"))
        return cls(
            json.loads(numbers.read_text()) if numbers.is_file() else {},
            pd.read_csv(records) if records.is_file() else None,
        )
