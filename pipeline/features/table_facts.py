"""Facts about a table, for `pairloom init`: the content of its columns, and which can be features."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairloom.graphs.text import did_you_mean, listed, plain_line
from pairloom.pipeline.features.tables import Cells, Table, class_labels, open_table

__all__ = ["ColumnFacts", "TableFacts", "look_at_table"]

#: Most different texts that are counted per column.
_MOST_TEXTS = 1000
#: Common names of label columns.
_USUAL_LABELS = (
    "label",
    "labels",
    "class",
    "target",
    "y",
    "category",
    "species",
    "diagnosis",
    "intent",
    "outcome",
)
#: A number with a decimal comma, as `ColumnFacts.unusable` quotes it.
_DECIMAL_COMMA = re.compile(r"'[+-]?\d+,\d+'$")
_MOST_REASONS = 3
#: Usual names of columns with ids of rows.
_USUAL_IDS = re.compile(
    r"(.*[\W_])?(id|ids|uuid|guid|key|index|accession|identifier)|unnamed: 0|rownames?|", re.I
)
#: Most values of a column that are compared with each other, to see whether they repeat.
_MOST_COMPARED = 100_000
#: A column of numbers with more different values than this is unlikely to hold classes.
_MOST_NUMBERED_CLASSES = 20
#: A column with a larger share of missing cells than this is left out, instead of the rows with missing cells.
_MOST_MISSING = 0.5


@dataclass
class ColumnFacts:
    """The content of a column: counts of missing, non-numeric and infinite cells; the numbers' range and variance."""

    name: str
    rows: int = 0
    missing: int = 0
    strange: int = 0
    infinite: int = 0
    finite: int = 0
    texts: Counter[str] = field(default_factory=Counter)
    lowest: float = np.inf
    highest: float = -np.inf
    mean: float = 0.0
    squares: float = 0.0
    numbers_rows: bool = True
    whole_numbers: bool = True
    seen: set[str] = field(default_factory=set, repr=False)
    repeats: bool = False

    def add(self, cells: Cells) -> None:
        """Look at the next cells of the column."""
        numbers, strange = cells.numbers()
        self.strange += int(strange.sum())
        if len(self.texts) < _MOST_TEXTS:
            self.texts.update(str(text)[:80] for text in cells.values[strange].tolist())
        self.missing += int((np.isnan(numbers) & ~strange).sum())
        self.infinite += int(np.isinf(numbers).sum())
        self.numbers_rows = self.numbers_rows and self._counts_on(numbers)
        self._add_numbers(numbers[np.isfinite(numbers)])
        may_name = self.strange > 0 or _USUAL_IDS.fullmatch(self.name)
        if may_name and not self.repeats and len(self.seen) < _MOST_COMPARED:
            texts = cells.texts().tolist()
            self.seen.update(texts)
            self.repeats = len(self.seen) < self.rows + len(texts)
        self.rows += len(numbers)

    def _counts_on(self, numbers: np.ndarray[tuple[int], np.dtype[np.float64]]) -> bool:
        """Whether the numbers continue 0, 1, 2, ... or 1, 2, 3, ..."""
        places = np.arange(self.rows, self.rows + len(numbers))
        begun_at = {0, 1} if not self.rows else {self.lowest}
        return any(bool((numbers == places + start).all()) for start in begun_at)

    def _add_numbers(self, numbers: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        if not len(numbers):
            return
        n, m = self.finite, len(numbers)
        self.finite += m
        self.whole_numbers = self.whole_numbers and bool((numbers == np.floor(numbers)).all())
        mean, apart = float(numbers.mean()), float(numbers.mean()) - self.mean
        self.squares += float(((numbers - mean) ** 2).sum()) + apart**2 * n * m / (n + m)
        self.mean += apart * m / (n + m)
        self.lowest, self.highest = (
            min(self.lowest, float(numbers.min())),
            max(self.highest, float(numbers.max())),
        )

    @property
    def deviation(self) -> float:
        """Standard deviation of the numbers."""
        return float(np.sqrt(self.squares / self.finite)) if self.finite else 0.0

    @property
    def is_id(self) -> bool:
        """Whether the column has ids of rows: by its name, and because the first values are all different."""
        named = _USUAL_IDS.fullmatch(self.name) is not None
        whole = self.strange > 0 or (self.finite == self.rows and self.whole_numbers)
        return named and whole and self._differs

    @property
    def could_be_id(self) -> bool:
        """Whether the column could have ids of rows, by its content: words without spaces, all different."""
        words = self.strange == self.rows and not any(map(str.isspace, "".join(self.texts)))
        return words and self._differs

    @property
    def _differs(self) -> bool:
        return not self.repeats and self.rows > 2 and not self.missing

    def unusable(self) -> str:
        """Why the column cannot be a feature; empty if it can."""
        present = self.rows - self.missing
        if not present:
            return "empty"
        if self.strange:
            more = f"{_MOST_TEXTS} or more" if len(self.texts) >= _MOST_TEXTS else str(len(self.texts))
            kind = "text" if self.strange == present else f"text in {self.strange} cells"
            first = next(iter(self.texts))
            return f"{kind}, {more} different, such as {first[:30]!r}"
        if self.infinite:
            return f"infinite in {self.infinite} rows"
        if self.missing > _MOST_MISSING * self.rows:
            return f"missing in {self.missing} of {self.rows} rows"
        if self.lowest == self.highest:
            return f"constant, {self.lowest:g}"
        if self.numbers_rows and self.rows > 2:
            return "it numbers the rows"
        return ""


class TableFacts(NamedTuple):
    """Facts about a table.

    Attributes
    ----------
    path : Path
    rows : int
    label : str
    id : str or None
        The column that names the rows, if there is one.
    classes : number of rows of each class, by name
    without_label : rows whose label is missing
    columns : the other columns
    incomplete : rows without a label, or with a missing value in a column that is a feature
    """

    path: Path
    rows: int
    label: str
    classes: Mapping[str, int]
    without_label: int
    columns: tuple[ColumnFacts, ...]
    incomplete: int
    id: str | None = None

    @property
    def features(self) -> list[ColumnFacts]:
        """The columns that can be features."""
        return [column for column in self.columns if column.name != self.id and not column.unusable()]

    @property
    def left_out(self) -> dict[str, str]:
        """The columns that cannot be features, except the ids, and the reasons."""
        return {
            column.name: why
            for column in self.columns
            if column.name != self.id and (why := column.unusable())
        }

    @property
    def deviations(self) -> NDArray[np.float64]:
        """The standard deviations of the features."""
        return np.array([column.deviation for column in self.features])


def look_at_table(path: Path, label: str | None, id: str | None = None) -> TableFacts:
    """Read a table once for the facts about its columns, and once more to count the rows with missing values.

    ``id`` is the name of the column with ids of rows. By default it is the first column that looks like ids by its name
    and content, or else the first that does by its content, if there is one.
    """
    table = open_table(path)
    if label is None or label not in table.names:
        raise ValueError(_which_label(table, label))
    if id is not None and (id not in table.names or id == label):
        raise ValueError(
            f"{path}: --id must name a column other than the label, got {id!r}.{did_you_mean(id, table.names)}"
            f" All columns: {listed(table.names, 20)}."
        )
    columns = {name: ColumnFacts(name) for name in table.names if name != label}
    labels = []
    for block in table.blocks():
        for name, facts in columns.items():
            facts.add(block[name])
        labels.append(block[label])
    if not labels:
        raise ValueError(f"{path}: must have rows, got none below the names of the columns.")
    classes, without = _classes(labels, f"{path}: column {label!r}")
    table_facts = TableFacts(
        path,
        rows=sum(classes.values()) + without,
        label=label,
        classes=classes,
        without_label=without,
        columns=tuple(columns.values()),
        incomplete=0,
        id=id or _id_among(columns.values()),
    )
    if not table_facts.features:
        raise ValueError(
            f"{path}: must have columns of numbers besides {label!r}, got none: {_no_numbers(table_facts.left_out)}."
        )
    if len(classes) < 2:
        raise ValueError(
            f"{path}: column {label!r} must have two classes or more, got {listed(classes)} in all"
            f" {table_facts.rows} rows."
        )
    return table_facts._replace(incomplete=_incomplete(table, table_facts))


def _id_among(columns: Collection[ColumnFacts]) -> str | None:
    named = [column.name for column in columns if column.is_id]
    unnamed = [column.name for column in columns if column.could_be_id]
    return next(iter(named + unnamed), None)


def _no_numbers(left_out: Mapping[str, str]) -> str:
    """Why no column can be a feature: the reasons of the first ones, and advice if some have decimal commas."""
    shown = [f"{plain_line(name)}: {why}" for name, why in islice(left_out.items(), _MOST_REASONS)]
    more = f" and {len(left_out) - len(shown)} more columns" if len(left_out) > len(shown) else ""
    commas = any(_DECIMAL_COMMA.search(why) for why in left_out.values())
    advice = ". Numbers must have a decimal point, not a comma" if commas else ""
    return ("; ".join(shown) or "no other column") + more + advice


def _classes(labels: list[Cells], place: str) -> tuple[dict[str, int], int]:
    """The number of rows of each class, and of those without a class."""
    texts = np.concatenate([cells.texts() for cells in labels])
    numbers = all(cells.values.dtype.kind in "iuf" for cells in labels)
    present = np.concatenate([cells.values for cells in labels]) if numbers else texts
    has_one = np.concatenate([~cells.missing for cells in labels]) if numbers else texts != ""
    names, counts = np.unique(class_labels(present[has_one], place), return_counts=True)
    return dict(zip(map(str, names.tolist()), counts.tolist(), strict=True)), int((~has_one).sum())


def _incomplete(table: Table, facts: TableFacts) -> int:
    features = [column.name for column in facts.features]
    if not facts.without_label and not any(column.missing for column in facts.features):
        return 0
    return sum(int(_misses(block, features, facts.label).sum()) for block in table.blocks())


def _misses(
    block: Mapping[str, Cells], features: list[str], label: str
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    cells = block[label]
    missing = cells.texts() == "" if cells.is_text else cells.missing.copy()
    for name in features:
        missing |= np.isnan(block[name].numbers()[0])
    return np.asarray(missing)


def _which_label(table: Table, label: str | None) -> str:
    """The message for a missing or wrong label, with the columns that could be the label."""
    likely = list(_likely_labels(table))
    perhaps = f" Columns that could be: {', '.join(likely)}." if likely else ""
    if label is None:
        return (
            f"{table.path}: --label must name the column with the classes, got none.{perhaps}"
            f" All columns: {listed(table.names, 20)}."
        )
    return (
        f"{table.path}: --label must name a column, got {label!r}.{did_you_mean(label, table.names)}{perhaps}"
        f" All columns: {listed(table.names, 20)}."
    )


def _likely_labels(table: Table, listed_most: int = 5) -> Iterator[str]:
    """Columns with few different values among the first rows; columns with a usual name of labels come first."""
    likely = []
    for name, cells in next(((*block.items(),) for block in table.blocks()), ()):
        different = np.unique(cells.texts())
        is_text = bool(cells.numbers()[1].all())
        usual = name.lower() in _USUAL_LABELS
        most = len(cells.missing) // 2 if is_text or usual else _MOST_NUMBERED_CLASSES
        if 2 <= len(different) <= max(2, most):
            likely.append((not usual, not is_text, len(different), f"{name!r} ({len(different)} values)"))
    yield from (text for *_, text in sorted(likely, key=lambda one: one[:3])[:listed_most])
