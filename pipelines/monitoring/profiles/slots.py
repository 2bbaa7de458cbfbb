"""The columns that a profile has, and which of them a file can give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from pipelines.monitoring.profiles.profile import Column, Kind
from pipelines.monitoring.profiles.reference import SCORE_EDGES, Category, Family, Number, Reference, countable, family

JOINT = "score x label"
SCORE_BINS = len(SCORE_EDGES) + 1
"""With those below and above."""
NOTHING = "nothing"
FITS: Mapping[Family, set[Family]] = {
    "number": {"number", "bool", "null"},
    "bool": {"number", "bool", "null"},
    "text": {"text", "null"},
    "null": {"null", "number", "bool", "text"},
    "other": {"other", "null"},
}
"""By the family of a column in training, what may be there now. Of one that had no value nothing is known."""


@dataclass(frozen=True)
class Slot:
    """A column of a profile, and what a file has in its place."""

    kind: Kind
    name: str
    bins: int
    center: float = 0.0
    found: str = ""
    """What is there in the place of the column; empty where it is there."""
    readable: bool = True
    """Whether it is there and may hold a value."""

    def empty(self, rows: int) -> Column:
        """The column of so many rows in which it has no value."""
        sums = (0.0,) * self.bins if self.kind == "joint" else ()
        missing, absent = (0, rows) if self.found else (rows, 0)
        found = (self.found,) if self.found else ()
        return Column(self.name, self.kind, (0,) * self.bins, missing, absent, found, center=self.center, sums=sums)


def slots(reference: Reference, there: pa.Schema) -> list[Slot]:
    """Every column of the reference's profiles, in the order in which all of them have it."""
    features = [*_numbers(reference, there), *_categories(reference, there)]
    score = _slot("score", reference.score, SCORE_BINS, there)
    label_found = _found(reference.label, "bool", there)
    label = Slot("label", reference.label, 2, 0.0, label_found, _readable(reference.label, label_found, there))
    both = Slot("joint", JOINT, 2 * SCORE_BINS, 0.0, score.found or label_found, score.readable and label.readable)
    return [*features, score, label, both]


def _numbers(reference: Reference, there: pa.Schema) -> Iterator[Slot]:
    for column in reference.numbers:
        yield _slot("number", column, len(column.edges) + 1, there)


def _categories(reference: Reference, there: pa.Schema) -> Iterator[Slot]:
    for column in reference.categories:
        yield _slot("category", column, len(column.values) + 2, there)


def _slot(kind: Kind, column: Number | Category, bins: int, there: pa.Schema) -> Slot:
    found = _found(column.name, column.family, there)
    of = "" if found else family(there.field(column.name).type)
    # A number that had no value in training may not be text; 1 and true are one number, and no one category.
    if (kind != "category" and of == "text") or (kind == "category" and {of, column.family} == {"number", "bool"}):
        found = str(there.field(column.name).type)
    center = column.center if isinstance(column, Number) else 0.0
    return Slot(kind, column.name, bins, center, found, _readable(column.name, found, there))


def _found(name: str, promised: Family, there: pa.Schema) -> str:
    if name not in there.names:
        return NOTHING
    kind = there.field(name).type
    return "" if family(kind) in FITS[promised] and countable(kind) else str(kind)


def _readable(name: str, found: str, there: pa.Schema) -> bool:
    return not found and family(there.field(name).type) != "null"
