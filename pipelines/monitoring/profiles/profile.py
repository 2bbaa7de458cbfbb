"""Define profiles: counts of a partition's rows in the bins of a reference.

The sum of the profiles of several partitions is the profile of all their rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import reduce
from operator import add
from typing import Any, Literal, Self

from pipelines.errors import DataError

Kind = Literal["number", "category", "score", "label", "joint", "error", "loss", "class"]
"""Kind of a column in a profile; `Column.counts` describes each kind."""
RELATIVE_TOLERANCE = 1e-9
"""Relative difference up to which sums are treated as equal: the sum of floats depends on their order."""


@dataclass(frozen=True)
class Column:
    """The counts of a column. Columns of several partitions can be added; minimum and maximum are merged."""

    name: str
    kind: Kind
    counts: tuple[int, ...]
    """Number of rows in each bin. The bins depend on the kind of the column:

    - number, score: below the first edge (with -inf), between the edges, above the last edge (with +inf)
    - category: each value with a bin of its own, the other values, the unseen values
    - label: false, true; in a regression, the bins of a number. The label of a multiclass model is whether the
      predicted class is right (`is_right`)
    - joint: the bins of the score in rows with label false, then in rows with label true
    - error: one count, the rows with a finite score and a finite label
    - loss: one count, the rows with a finite score
    - class: rows that are predicted as the class, rows with it as label, rows with both, then each bin of its
      probability
    """
    missing: int = 0
    """Rows without a bin in `counts`, of partitions that have the column: null or NaN; for the kinds error, loss and
    class, also infinite values."""
    absent: int = 0
    """Rows of partitions that lack the column or have it with another type. These rows are not in `counts`."""
    actual_types: tuple[str, ...] = ()
    """The other types that the column has in these partitions, sorted; "nothing" if a partition lacks the column."""
    n: int = 0
    """Number of finite values, from which the moments are computed."""
    center: float = 0.0
    """Number near the mean, from which differences are summed, because such sums lose fewer digits."""
    s1: float = 0.0
    """Sum of x - center."""
    s2: float = 0.0
    """Sum of (x - center)^2."""
    minimum: float | None = None
    """Smallest finite value; None if there is none."""
    maximum: float | None = None
    """Largest finite value; None if there is none."""
    sums: tuple[float, ...] = ()
    """Sums over the rows. They depend on the kind of the column, and are empty for the kinds that are not listed:

    - joint: the scores in each bin of `counts`
    - error: |score - label|, and its square
    - loss: the estimated absolute errors, the estimated squared errors, and the squares of both
    - class: the calibrated probabilities of all rows, those of the rows that are predicted as the class, the same two
      sums of the squared probabilities, then the probabilities in each bin
    """

    def __add__(self, other: Column) -> Column:
        """Add the counts of two partitions."""
        return replace(
            self,
            counts=_add_each(self.counts, other.counts),
            missing=self.missing + other.missing,
            absent=self.absent + other.absent,
            actual_types=tuple(sorted({*self.actual_types, *other.actual_types})),
            n=self.n + other.n,
            s1=self.s1 + other.s1,
            s2=self.s2 + other.s2,
            minimum=_combine(min, self.minimum, other.minimum),
            maximum=_combine(max, self.maximum, other.maximum),
            sums=_add_each(self.sums, other.sums),
        )

    @property
    def mean(self) -> float | None:
        """Mean of the finite numbers; None if there are none."""
        return self.center + self.s1 / self.n if self.n else None

    @property
    def squared_deviations(self) -> float:
        """Sum of squared deviations from the mean; 0 if there are no finite numbers."""
        return max(self.s2 - self.s1**2 / self.n, 0.0) if self.n else 0.0

    def is_equivalent(self, other: Column) -> bool:
        """Return whether the counts are equal, up to rounding in the sums."""
        inexact_fields: dict[str, Any] = {"s1": 0.0, "s2": 0.0, "sums": ()}
        if replace(self, **inexact_fields) != replace(other, **inexact_fields):
            return False
        # s1, the sum of x - center, is small compared with its terms, so its tolerance is relative to their size.
        scale = math.sqrt(self.n * self.s2)
        sum_pairs = zip(self.sums, other.sums, strict=True)
        # Squares of numbers beyond 1e154 are infinite. Whether s1 is then infinite or NaN depends on the order.
        has_overflow = self.s2 == other.s2 == math.inf
        return (
            (
                has_overflow
                or math.isclose(self.s1, other.s1, rel_tol=RELATIVE_TOLERANCE, abs_tol=RELATIVE_TOLERANCE * scale)
            )
            and math.isclose(self.s2, other.s2, rel_tol=RELATIVE_TOLERANCE)
            and all(math.isclose(first, second, rel_tol=RELATIVE_TOLERANCE) for first, second in sum_pairs)
        )


@dataclass(frozen=True)
class Profile:
    """The counted columns of one or more partitions, in the bins of one reference."""

    reference: str
    """Digest of the reference."""
    rows: int
    columns: tuple[Column, ...]

    def __add__(self, other: Profile) -> Profile:
        """Add the profiles of two partitions.

        Raises:
            DataError: the profiles were counted in the bins of different references. A retry cannot help.
        """
        if self.reference != other.reference:
            digests = f"{self.reference[:12]} and {other.reference[:12]}"
            raise DataError(
                f"profiles with different references ({digests}) cannot be added.", "Run the step `profile` again."
            )
        pairs = zip(self.columns, other.columns, strict=True)
        return Profile(self.reference, self.rows + other.rows, tuple(first + second for first, second in pairs))

    def __getitem__(self, name: str) -> Column:
        """Return the column with this name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def joint(self) -> Column:
        """The column that counts rows by score bin and label. The profile of a regression does not have this column."""
        return next(column for column in self.columns if column.kind == "joint")

    @property
    def errors(self) -> Column | None:
        """The errors of the scores of a regression; None for other models."""
        return next((column for column in self.columns if column.kind == "error"), None)

    @property
    def losses(self) -> Column | None:
        """The estimated errors of the scores of a regression.

        None for other models, and if the reference has no models of the errors.
        """
        return next((column for column in self.columns if column.kind == "loss"), None)

    @property
    def classes(self) -> tuple[Column, ...]:
        """The classes of a multiclass model; empty for other models."""
        return tuple(column for column in self.columns if column.kind == "class")

    @property
    def labelled_rows(self) -> int:
        """Number of rows with a score and a label."""
        return sum((self.errors or self.joint).counts)

    def is_equivalent(self, other: Profile) -> bool:
        """Return whether both can be profiles of equal rows: all columns are equivalent."""
        if (self.reference, self.rows, len(self.columns)) != (other.reference, other.rows, len(other.columns)):
            return False
        return all(first.is_equivalent(second) for first, second in zip(self.columns, other.columns, strict=True))

    def to_rows(self) -> Iterator[dict[str, Any]]:
        """Yield one row for each column, of numbers, texts and lists."""
        for column in self.columns:
            yield {"reference": self.reference, "rows": self.rows, **asdict(column)}

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Self:
        """Build the profile from the rows that `to_rows` yielded. Other fields of the rows are ignored.

        Raises:
            DataError: there are no rows, or rows of several references. A retry cannot help.
        """
        references = sorted({row["reference"][:12] for row in rows})
        if len(references) != 1:
            raise DataError(f"the rows of a profile have one reference, not {', '.join(references) or 'none'}.")
        return cls(rows[0]["reference"], rows[0]["rows"], tuple(_build_column(row) for row in rows))


def sum_profiles(profiles: Iterable[Profile]) -> Profile:
    """Add one or more profiles of different partitions.

    Raises:
        DataError: there is no profile, or the profiles were counted in the bins of different references. A retry cannot
            help.
    """
    summands = list(profiles)
    if not summands:
        raise DataError("there is no profile to add.", "Run the step `profile` first.")
    return reduce(add, summands)


def _build_column(row: Mapping[str, Any]) -> Column:
    names = [field.name for field in fields(Column) if field.name in row]
    values: dict[str, Any] = {name: tuple(row[name]) if isinstance(row[name], list) else row[name] for name in names}
    return Column(**values)


def _add_each(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x + y for x, y in zip(first, second, strict=True))


def _combine(function: Any, first: float | None, second: float | None) -> float | None:
    """Apply `min` or `max` to the values that are not None; None if both are None."""
    values = [value for value in (first, second) if value is not None]
    return function(values) if values else None
