"""The class Release: synthetic data sets, their estimates, and methods to write and read a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import isfunction
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..privacy.accounting.ledger import Ledger, check_ledger
from ..publication.formats import format_of, wide_endings
from ..storage import as_path, discard
from ..validation import as_list, check_keywords, one_of, positive
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
        The synthetic data sets.  All functions for a confidential design work on them, too.
    privacy : PrivacyReport
    predictors : tuple of str
        Public columns by which tables can be broken down.
    outcomes : tuple of str
        Synthesized columns.
    method : dict
        Public facts about the model, the package and the engine.
    internal : dict
        Results for the agency only.  The dictionary is empty in a release that was read from its public files, pickled
        or copied.  The array ``rows`` (m, n) has, for each synthetic record, the position (from 0) of the corresponding
        record in the confidential file.
    categorical : tuple of str
        The outcomes that are categories.  Tables can be broken down by these outcomes, too.
    count_roles : dict, optional
        Design roles (columns of weights, strata and so on) from which standard errors of counts are computed, if these
        are not the roles of the data sets.  Only the model FBP, a model of the population, needs them.  Its data sets
        have two weights, which give the same counts.  The first is the mean expected weight of the record's cell.  The
        second, which is named here, is the record's own expected weight, given its outcome.
    rests_on : tuple of Expense
        The epsilon spent on the confidential file for these data sets, as expenses with ids.  A ledger counts an
        expense only once, even if several releases have it.
    measured : Source, optional
        The noisy tables from which the data sets were drawn, if they were drawn from noisy tables.  These tables are
        published with the data sets.
    derived : dict of str to function
        Columns of :meth:`assign` with their functions.  The function is None in a release that was read from its
        files, pickled or copied.

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
        """Charge a ledger for the release, and return the release with the number of the ledger entry.

        The tables and files are made before the charge.  They are kept in a hidden folder next to the ledger until
        :meth:`write` has written the release.  A release that was charged is therefore not lost if the session ends:
        :func:`resume` publishes it.

        Parameters
        ----------
        ledger : Ledger, optional
            The ledger that is charged.  With None, nothing is charged, and the release is returned unchanged.

        Returns
        -------
        Release
            A release with the same data sets, whose manifest has the number and the checksum of the ledger entry.

        Raises
        ------
        InputError
            The tables or files of the release cannot be made; or the release was entered before, and would be charged
            twice.  Nothing was charged.
        PrivacyError
            The cap would be exceeded, or the ledger cannot be written; or the release was charged, but the last step
            on the disk failed (the message says where its files are).
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

        ``public/`` has the synthetic files, the tables (``tables.csv`` in full precision; ``tables.xlsx`` and
        ``tables.html`` rounded, with footnotes), the report, the manifest, and machine-readable metadata
        (``datapackage.json`` of Frictionless, ``csv-metadata.json`` of CSV on the Web).
        The folder appears whole or not at all: it is written under a hidden name next to ``path``, and renamed when it
        is complete.  The manifest lists the other public files, with numbers of records and columns and with SHA-256
        checksums.  :func:`read_release` verifies the files against this list.

        Parameters
        ----------
        path : str or Path
            The folder to make.
        by : str or list of str, optional
            The variables that define the domains of the tables; by default :meth:`table_predictors`.
        statistic, quantiles, poverty_line
            The statistics of the tables: see :meth:`tables`.
        format : {"csv", "parquet"}
            The format of the synthetic files.
        min_cell, cv_limit
            See :meth:`tables`.  ``min_cell`` is a quality rule, not protection: whoever has the synthetic files can
            compute the suppressed cells.  The report says so, too.
        symbols, wording
            See :meth:`write_tables`.
        overwrite : bool
            True to replace a release folder at ``path``.  Nothing other than a release is replaced.
        ledger : Ledger, optional
            The ledger to charge for the release.  It is charged last, when all files are on the disk.  Leave it out
            for a release that is already entered in a ledger.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            The folder exists and is not empty; the arguments do not suit the release; the release was entered in a
            ledger before; an earlier run for this folder was charged and not finished; or the folder cannot be
            written.  Nothing was charged.
        PrivacyError
            The cap would be exceeded, or the ledger cannot be written; or the release was charged, but could not be
            moved to ``path``.  In the last case :func:`resume` publishes it.

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
        wide: bool = False,
        **asked: Any,
    ) -> Path:
        """Write tables in the form of an official publication, with footnotes in plain words.

        Three sentences come first: who is protected and how far, what is not protected, and what error to expect.
        Counts are rounded to whole numbers, proportions and poverty rates to one decimal in percent, totals of amounts
        to six significant digits, and other numbers to four, unless the plan of the release sets the number of
        decimals.  A csv has full precision, and no sentences or footnotes.

        Parameters
        ----------
        path : str or Path
            The file to write.  Its suffix sets the format: .csv (full precision, without footnotes), .xlsx (a workbook
            that follows the UK government's standard of accessible spreadsheets), .html (one page), .tex (a complete
            document for pdflatex), .md, or .docx (needs pandoc).
        by : str or list of str, optional
            See :meth:`tables`.
        symbols : {"uk", "statcan"} or mapping, optional
            The symbols for suppressed and missing numbers and for quality.  "uk", the default: [c] suppressed, [u] low
            reliability (a coefficient of variation of 20% or more), [x] not available.  "statcan": x suppressed, ..
            not available, and quality letters A to F; numbers of class F are replaced by the letter.  A mapping with
            any of ``suppressed``, ``missing``, ``unreliable`` and ``limit`` changes "uk".
        wording : str or Path, optional
            The words of headings and footnotes: a translated copy of ``surveysynth/publication/wording.toml``.
        wide : bool
            True to put the categories of the last variable side by side in .html, .tex, .md and .docx, if they fit on
            the page.  Each category then has three columns: estimate, interval and number of records.  By default, the
            categories of all variables are rows.
        **asked
            See :meth:`tables`.  ``where`` must be the name of a column, because the titles state the condition.  The
            intervals are 95% intervals.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            See :meth:`tables`.  Other reasons are an unknown suffix, unknown symbols, a wording file with missing or
            unknown texts, symbols or wording for a csv, a ``level`` other than 0.95, design effects in a format other
            than csv, and a docx without pandoc.

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
        one_of(wide, (False, True), "wide")
        if wide and not form.across:
            raise InputError(
                f"a {path.suffix} file has all variables down: leave out wide, or write {wide_endings()}"
            )
        if in_full and not (symbols is None and wording is None):
            raise InputError(
                f"a {path.suffix[1:]} has full numbers, without marks or notes: leave symbols= and wording= out"
            )
        check_printed(**asked | ({"deff": False} if in_full else {}))
        table = self.tables(names, **asked)
        form.write(table, printed(self, table, names, symbols=symbols, wording=wording, wide=wide), path)
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
        """Draw a dot plot of estimates with their 95% intervals, for publication.

        The alternative text for readers who cannot see the figure is in the metadata of the figure, and in a .txt
        file of the same name next to the figure.

        Parameters
        ----------
        path : str or Path
            The file to write, .svg or .png.
        by : str or list of str, optional
            See :meth:`tables`.  If there are several variables, and the last variable has at most five categories
            (including the total), colour and shape of a dot show the category of the last variable.
        statistic : str, optional
            See :meth:`tables`.  By default means, or proportions if all outcomes are categories.
        symbols, wording
            See :meth:`write_tables`.
        width : float
            Width of the figure in centimetres, at least 6.  The default is the width of the text on an A4 page; 8.5
            fits one of two columns.
        **asked
            See :meth:`tables`.

        Returns
        -------
        Path
            The file with the figure.

        Raises
        ------
        InputError
            See :meth:`write_tables`; also, if the file is neither .svg nor .png, or the width is below 6.
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
    """Read a release back from its public files.  The internal part of the folder is not read.

    Every public file must be identical, byte by byte, to the file that the manifest lists.  The check finds files that
    were damaged, cut short or saved by another program.  It does not find a forgery of files and manifest together.

    Parameters
    ----------
    path : str or Path
        The release folder, or the published ``public`` folder.

    Returns
    -------
    Release
        The release without its internal part.

    Raises
    ------
    InputError
        The folder is not a release; the manifest is damaged or of another version; files are missing, or differ from
        those that were published (the message says which, and whether records, columns or content differ).

    Examples
    --------
    With a ``release`` of :func:`surveysynth.datasets.sdr_sample`, salaries by field and gender:

    >>> folder = release.write("release", by="gender")
    >>> ss.read_release(folder)
    Release: m = 3 synthetic data sets of 1,000 records by FBS, outcomes salary, epsilon = 10.8 (asymptotic)
    """
    return Release(**read_folder(as_path(path)))


for part in (DomainEstimates, Estimates):  # so that Python's messages on wrong arguments say Release.tables()
    for name, method in vars(part).items():
        if isfunction(method):
            method.__qualname__ = f"Release.{name}"
