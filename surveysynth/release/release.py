"""Release: what it holds and what is estimated from it, and how it is written and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import isfunction
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..privacy.accounting.ledger import Ledger, check_ledger
from ..publication.formats import format_of
from ..storage import as_path, discard
from ..validation import as_list, check_keywords, positive
from .domains import DomainEstimates
from .estimates import Estimates
from .folder import check_format, check_place, enter, read_folder, write_folder
from .printed import check_printed, printed

ENTERED = "this release was entered in a ledger when it was made, or written: leave ledger= out"


@dataclass(frozen=True, repr=False)
class Release(Estimates):
    """m weighted synthetic data sets that may be published under a stated epsilon.

    Attributes
    ----------
    datasets : tuple of SurveyDesign
        Everything that works on a confidential design works on these.
    privacy : PrivacyReport
    predictors : tuple of str
        Public columns that tables can be broken down by.
    outcomes : tuple of str
        Synthesized columns.
    method : dict
        Public facts about the model, the package and the engine.
    internal : dict
        For the agency only; empty in a release that was read from its public files, pickled or copied.
        ``rows``, (m, n), says which row of the confidential file (from 0) each synthetic record stands for.
    categorical : tuple of str
        The outcomes that are categories: tables can be broken down by them, too.
    count_roles : dict, optional
        Design roles that give counts their standard errors, where they are not those of the
        data sets (FBP): the same counts, from weights that vary from record to record.
    rests_on : tuple of Expense
        All that was spent on the confidential file for these data sets, part by part: a part may be shared with other
        releases, and a ledger counts it once.
    measured : Source, optional
        The noisy tables that the data sets were drawn from, where they were: they are published, too.
    derived : dict of str to function
        Columns of :meth:`assign`; None for the function of one that came with a release that was written, pickled or
        copied.

    Examples
    --------
    With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

    >>> release.m, release.outcomes, release.predictors
    (3, ('salary',), ('field', 'gender'))
    >>> release.datasets[0]
    SurveyDesign: 1,000 records, weights 'weight', 8 strata 'field', no clusters
    >>> release.privacy.epsilon <= 10.8
    True
    """

    def entered(self, ledger: Ledger | None) -> Release:
        """The release with the number of its entry in a ledger, which is charged now; as it is without a ledger.

        Its tables and files are made first, and kept in a hidden folder beside the ledger until :meth:`write` has
        written it: what was charged is not lost with the session, and :func:`resume` publishes it.

        Parameters
        ----------
        ledger : Ledger, optional
            Where it is entered; None leaves the release as it is.

        Returns
        -------
        Release
            The same data sets; its manifest has the entry's number and head.

        Raises
        ------
        InputError
            Its tables or files cannot be made, or it was entered before; nothing was charged.
        PrivacyError
            The cap would be exceeded, or the ledger cannot be written.
        """
        check_ledger(ledger)
        if ledger is None:
            return self
        if self.entered_before:
            raise InputError(ENTERED)
        names = self.table_predictors()
        table = self.tables(names)
        return enter(self, table, printed(self, table, names), ledger)

    def write(
        self,
        path: str | Path,
        *,
        by: str | Sequence[str] | None = None,
        statistic: str | Sequence[str] | None = None,
        quantiles: Sequence[float] | float | None = None,
        poverty_line: float | None = None,
        format: str = "csv",
        min_cell: int | None = None,
        cv_limit: float | None = None,
        symbols: str | Mapping[str, Any] | None = None,
        wording: str | Path | None = None,
        overwrite: bool = False,
        ledger: Ledger | None = None,
    ) -> Path:
        """Write the release folder: ``public/`` to publish, ``internal/`` to keep (mode 0700, files 0600).

        ``public/`` has the synthetic files, the tables (``tables.csv`` in full precision, ``tables.xlsx`` and
        ``tables.html`` as they are printed), the report, the manifest, and what other programs read about all that
        (``datapackage.json`` of Frictionless, ``csv-metadata.json`` of CSV on the Web).
        The folder appears whole or not at all: it is written beside its place and moved there.  The
        manifest lists the other public files with their records, columns and SHA-256, by which
        :func:`read_release` verifies them.

        Parameters
        ----------
        path : str or Path
            Where the folder is to be.
        by : str or list of str, optional
            Variables of ``public/tables.csv``; default :meth:`table_predictors`.
        statistic, quantiles, poverty_line
            Of ``public/tables.csv``, as for :meth:`tables`.
        format : {"csv", "parquet"}
            Of the synthetic files.
        min_cell, cv_limit
            As for :meth:`tables`.  ``min_cell`` is a quality rule, not protection: whoever has the
            synthetic files can compute the suppressed cells.  The report says so, too.
        symbols, wording
            As for :meth:`write_tables`.
        overwrite : bool
            Replace a release that is there; nothing else is ever replaced.
        ledger : Ledger, optional
            Enter the release here, last: when all files are on the disk and their place is free.  Not for a release
            that was entered when it was made.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            The folder exists and is not empty; the arguments do not suit the release; it cannot be written, and
            nothing was charged.
        PrivacyError
            The cap would be exceeded; or the release was charged and could not be moved to its place, from where
            :func:`resume` moves it.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> folder = release.write("release", by="gender")
        >>> sorted(file.name for file in folder.iterdir())
        ['internal', 'public']
        >>> len(list((folder / "public").glob("synthetic_*.csv")))
        3
        """
        check_format(format)
        check_ledger(ledger)
        if ledger is not None and self.entered_before:
            raise InputError(ENTERED)
        place = as_path(path)
        check_place(place, overwrite=overwrite)
        names = self.table_predictors() if by is None else as_list(by)
        table = self.tables(
            names, statistic=statistic, quantiles=quantiles, poverty_line=poverty_line, min_cell=min_cell,
            cv_limit=cv_limit,
        )  # fmt: skip
        document = printed(self, table, names, symbols=symbols, wording=wording)
        write_folder(
            self, place, table, document, ledger=ledger, overwrite=overwrite, format=format, min_cell=min_cell
        )  # fmt: skip
        if ledger is not None:
            object.__setattr__(self, "_entered", True)
        if (kept := self.internal.get("kept")) is not None:
            discard(kept)
        return place

    def write_tables(
        self,
        path: str | Path,
        by: str | Sequence[str] | None = None,
        *,
        symbols: str | Mapping[str, Any] | None = None,
        wording: str | Path | None = None,
        **asked: Any,
    ) -> Path:
        """Write tables as an office prints them, with footnotes in plain words.

        Three sentences come first: who is protected and how far, what is not, and what error to expect.  Numbers are
        rounded to their standard errors (two digits of a quantity's least), but for csv.

        Parameters
        ----------
        path : str or Path
            Its suffix is the form: .csv (full precision, without footnotes), .xlsx (a workbook by the UK government's
            standard of accessible spreadsheets), .html (one page), .tex (compiled by pdflatex as it stands), .md, or
            .docx (by pandoc, if that is installed).
        by : str or list of str, optional
            As for :meth:`tables`.
        symbols : {"uk", "statcan"} or mapping, optional
            Marks of quality and of what is not there.  "uk", the default: [c] suppressed, [u] low reliability (a
            coefficient of variation of 20% or more), [x] not available.  "statcan": letters A to F, x, .. (F is not
            shown).  A mapping of ``suppressed``, ``missing``, ``unreliable`` and ``limit`` changes "uk".
        wording : str or Path, optional
            The words of headings and footnotes: a translated copy of ``surveysynth/publication/wording.toml``.
        **asked
            As for :meth:`tables`; ``where`` as the name of a column, which titles then say.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            As :meth:`tables`; a suffix, symbols or words that are not known; a docx without pandoc.

        Examples
        --------
        With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

        >>> file = release.write_tables("tables.md", by="gender", statistic="mean")
        >>> file.name
        'tables.md'
        """
        check_keywords(Release.write_tables, asked, Release.tables)
        path, names = as_path(path), as_list(by)
        form = format_of(path)
        in_full = form.in_full
        if in_full and not (symbols is None and wording is None):
            raise InputError(
                f"a {path.suffix[1:]} has full numbers, without marks or notes: leave symbols= and wording= out"
            )
        check_printed(**asked | ({"deff": False} if in_full else {}))
        table = self.tables(names, **asked)
        form.write(table, printed(self, table, names, symbols=symbols, wording=wording), path)
        return path

    def plot(
        self,
        path: str | Path,
        by: str | Sequence[str] | None = None,
        *,
        statistic: str | None = None,
        symbols: str | Mapping[str, Any] | None = None,
        wording: str | Path | None = None,
        width: float = 16.0,
        **asked: Any,
    ) -> Path:
        """Draw estimates with their 95% intervals, a dot for every domain: a figure to publish.

        The text for those who do not see it is in the figure, and in a text file of the same name beside it.

        Parameters
        ----------
        path : str or Path
            .svg or .png.
        by : str or list of str, optional
            As for :meth:`tables`; a last variable of at most five categories, the total among them, is told by colour
            and shape.
        statistic : str, optional
            As for :meth:`tables`; default means, or proportions of categories.
        symbols, wording
            As for :meth:`write_tables`.
        width : float
            Centimetres, from 6 on: default the text of an A4 page; 8.5 is a column of two.
        **asked
            As for :meth:`tables`.

        Returns
        -------
        Path
            The figure.

        Raises
        ------
        InputError
            As :meth:`write_tables`; a file that is no .svg or .png, or a smaller width.
        """
        from ..publication.figures.domains import LEAST, check_figure, dot_plot

        check_keywords(Release.plot, asked, Release.tables)
        path, names = as_path(path), as_list(by)
        check_figure(path)
        check_printed(**asked)
        if positive(width, "width") < LEAST:
            raise InputError(f"width is {width:g} cm, and {LEAST:g} is the least")
        numbers = [name for name in as_list(asked.get("outcome")) or self.outcomes if name not in self._labels]
        table = self.tables(names, statistic=statistic or ("mean" if numbers else "proportion"), **asked)
        dot_plot(printed(self, table, names, symbols=symbols, wording=wording), path, width)
        return path


def read_release(path: str | Path) -> Release:
    """Read a release back from its public files; ``internal`` stays where it is.

    Every public file must be, byte by byte, the one that the manifest lists.  This finds files that were
    damaged, cut short or saved by another program, not who forges files and manifest together.

    Parameters
    ----------
    path : str or Path
        The release folder, or its ``public`` folder as it was published.

    Returns
    -------
    Release
        Without what is internal.

    Raises
    ------
    InputError
        The folder is not a release; files are missing, or are not those that were published (the
        message says which, and whether records, columns or content differ).

    Examples
    --------
    With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

    >>> folder = release.write("release", by="gender")
    >>> ss.read_release(folder)
    Release: m = 3 synthetic data sets of 1,000 records by FBS, outcomes salary, epsilon = 10.8 (asymptotic)
    """
    return Release(**read_folder(as_path(path)))


for part in (DomainEstimates, Estimates):  # their methods are a release's, also in what Python says of a wrong argument
    for name, method in vars(part).items():
        if isfunction(method):
            method.__qualname__ = f"Release.{name}"
