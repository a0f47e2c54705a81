"""CSV files of a report, as RFC 4180 has them, except that lines end in a line feed alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

__all__ = ["csv_text"]


def csv_text(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A heading and rows as CSV. Names must have passed `storage.names.csv_cell`; numbers are harmless."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
    return text.getvalue()
