"""What readers of published trainings on clusters share: a table of rows, one placement each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from perfmodel.importers.language_models.cluster_run import ClusterRun
from perfmodel.importers.public_tables import PublicTable, Row, count, find_tables
from perfmodel.importers.published import Imported
from perfmodel.importers.repeats import newest_placements
from perfmodel.types import Precision


def read_cluster_table(
    path: Path,
    table: PublicTable,
    run_of: Callable[[Row], ClusterRun],
    *,
    repeated: str | None = None,
) -> Imported:
    """Read a table, or that of a folder; of what was printed again the newest counts.

    Parameters
    ----------
    table : PublicTable
        ``first_date`` is among its columns.
    run_of : callable
        What a row states; raises ValueError with the reason where it cannot be read.
    repeated : str or None
        Column that is true of rows that only stand in another layout elsewhere.
    """
    file = find_tables(path, table.files)[0]
    rows = [
        (line, row)
        for line, row in table.rows(file)
        if repeated is None or str(row[repeated]).lower() != "true"
    ]
    rows.sort(key=lambda one: str(one[1]["first_date"]))
    found, rejected = table.understood(
        file.name, rows, lambda row, origin: run_of(row).record(origin)
    )
    return Imported(placements=newest_placements(found), rejected=rejected)


def known(names: Mapping[str, str], written: str, what: str) -> str:
    """Return what a word stands for, or raise ValueError: the ``what`` is not known."""
    if written not in names:
        raise ValueError(f"the {what} {written!r} is not known")
    return names[written]


def precision_of(written: str) -> Precision:
    """Return the arithmetic that a table of NVIDIA names.

    Raises
    ------
    ValueError
        Four bits, or another word.

    Examples
    --------
    >>> precision_of("FP8-MX").value, precision_of("BF16").value
    ('fp8', 'amp_bf16')
    """
    word = written.upper()
    if word == "BF16":
        return Precision.AMP_BF16
    if "FP8" in word:
        return Precision.FP8
    raise ValueError(f"a job cannot state the precision {written}")


def degree(row: Row, name: str) -> int:
    """Return a degree of a plan, 1 where the table leaves it out."""
    return count(row, name) if str(row.get(name) or "0") not in ("0", "0.0") else 1
