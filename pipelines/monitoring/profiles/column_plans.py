"""Plan the columns of a profile: which columns there are, how many counts each has, and which ones a file has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from pipelines.monitoring.profiles.profile import Column, Kind
from pipelines.monitoring.profiles.reference import (
    SCORE_EDGES,
    CategoryBins,
    Family,
    NumberBins,
    Reference,
    get_family,
    is_countable,
)
from pipelines.score_columns import SCORES

JOINT = "score x label"
"""Name of the column that counts score bins by label."""
SCORE_BINS = len(SCORE_EDGES) + 1
"""Number of bins of the score, with one below and one above the edges."""
ERROR = "score - label"
"""Name of the column with the errors of a regression."""
LOSS = "estimated |score - label|"
"""Name of the column with the estimated errors of a regression."""
CLASS_COUNTS = 3
"""Number of counts of a class that come before those of its bins: rows that are predicted as the class, rows with it as
label, and rows with both."""
CLASS_SUMS = 4
"""Number of sums of a class that come before those of its bins; see `profile.Column.sums`."""
NOTHING = "nothing"
"""Text that is used instead of a type if a file lacks the column."""
COMPATIBLE_FAMILIES: Mapping[Family, set[Family]] = {
    "number": {"number", "bool", "null"},
    "bool": {"number", "bool", "null"},
    "text": {"text", "null"},
    "null": {"null", "number", "bool", "text"},
    "other": {"other", "null"},
}
"""Maps the type family of a column in training to the families that the column may have in a later file.

The family of a column without a value in training is null: its type is not known.
"""


@dataclass(frozen=True)
class ColumnPlan:
    """A column that a profile must have, and whether a file has it."""

    kind: Kind
    name: str
    bins: int
    """Number of counts in the column."""
    center: float = 0.0
    """Number near the mean of the column, from which differences are summed."""
    mismatch: str = ""
    """What the file has in place of the column: another type, or "nothing"; empty if it has the column."""
    is_readable: bool = True
    """Whether the file has the column, with a type that fits the reference and is not null."""

    def build_empty_column(self, rows: int) -> Column:
        """Build the counts of this column for `rows` rows, none of which has a value in it."""
        sum_counts = {"joint": self.bins, "error": 2, "loss": 4, "class": self.bins - CLASS_COUNTS + CLASS_SUMS}
        sums = (0.0,) * sum_counts.get(self.kind, 0)
        missing_count, absent_count = (0, rows) if self.mismatch else (rows, 0)
        other_types = (self.mismatch,) if self.mismatch else ()
        return Column(
            self.name,
            self.kind,
            (0,) * self.bins,
            missing_count,
            absent_count,
            other_types,
            center=self.center,
            sums=sums,
        )


def plan_columns(reference: Reference, schema: pa.Schema) -> list[ColumnPlan]:
    """Plan the columns of the profile of a file.

    All profiles that use the bins of one reference have the same columns in the same order, whatever the file has.

    Args:
        reference: columns and bins of the profile.
        schema: schema of the file.
    """
    features = [*_plan_number_columns(reference, schema), *_plan_category_columns(reference, schema)]
    score = _plan_column("score", reference.score, len(reference.score.edges) + 1, schema)
    if reference.target:
        label = _plan_column("label", reference.target, len(reference.target.edges) + 1, schema)
        is_readable = score.is_readable and label.is_readable
        error = ColumnPlan("error", ERROR, bins=1, mismatch=score.mismatch or label.mismatch, is_readable=is_readable)
        loss = ColumnPlan("loss", LOSS, bins=1, mismatch=score.mismatch, is_readable=score.is_readable)
        return [*features, score, label, error, *([loss] if reference.losses else [])]
    mismatch = _find_mismatch(reference.label, "bool", schema)
    is_label_readable = _is_readable(reference.label, mismatch, schema)
    label = ColumnPlan("label", reference.label, bins=2, mismatch=mismatch, is_readable=is_label_readable)
    joint_plan = ColumnPlan(
        "joint",
        JOINT,
        bins=2 * SCORE_BINS,
        mismatch=score.mismatch or mismatch,
        is_readable=score.is_readable and is_label_readable,
    )
    return [*features, score, label, joint_plan, *_plan_class_columns(reference, schema)]


def _plan_number_columns(reference: Reference, schema: pa.Schema) -> Iterator[ColumnPlan]:
    for column in reference.numbers:
        yield _plan_column("number", column, len(column.edges) + 1, schema)


def _plan_category_columns(reference: Reference, schema: pa.Schema) -> Iterator[ColumnPlan]:
    for column in reference.categories:
        yield _plan_column("category", column, len(column.values) + 2, schema)


def _plan_class_columns(reference: Reference, schema: pa.Schema) -> Iterator[ColumnPlan]:
    has_scores = SCORES in schema.names and pa.types.is_map(schema.field(SCORES).type)
    for curve in reference.classes.curves if reference.classes else ():
        bins = CLASS_COUNTS + len(curve.edges) + 1
        mismatch = "" if has_scores else NOTHING
        yield ColumnPlan("class", f"class {curve.name}", bins, mismatch=mismatch, is_readable=has_scores)


def _plan_column(kind: Kind, column: NumberBins | CategoryBins, bins: int, schema: pa.Schema) -> ColumnPlan:
    mismatch = _find_mismatch(column.name, column.family, schema)
    family = "" if mismatch else get_family(schema.field(column.name).type)
    # A number column without a value in training has the family null, which text is compatible with.
    is_text = kind != "category" and family == "text"
    # As numbers, 1 and true are equal. As categories, they differ: their texts are the names of the bins.
    if is_text or (kind == "category" and {family, column.family} == {"number", "bool"}):
        mismatch = str(schema.field(column.name).type)
    center = column.center if isinstance(column, NumberBins) else 0.0
    return ColumnPlan(kind, column.name, bins, center, mismatch, _is_readable(column.name, mismatch, schema))


def _find_mismatch(name: str, expected_family: Family, schema: pa.Schema) -> str:
    """Return what the file has in place of a column of the expected family; empty if it has the column."""
    if name not in schema.names:
        return NOTHING
    data_type = schema.field(name).type
    return (
        ""
        if get_family(data_type) in COMPATIBLE_FAMILIES[expected_family] and is_countable(data_type)
        else str(data_type)
    )


def _is_readable(name: str, mismatch: str, schema: pa.Schema) -> bool:
    return not mismatch and get_family(schema.field(name).type) != "null"
