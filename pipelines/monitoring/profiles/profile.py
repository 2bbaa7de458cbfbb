"""A profile: counts of a partition's rows over a reference's bins. Profiles of partitions add up to their union's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import reduce
from operator import add
from typing import Any, Literal, Self

from pipelines.errors import DataError

Kind = Literal["number", "category", "score", "label", "joint"]
CLOSE = 1e-9
"""Relative difference of sums that comes of the order they were taken in, and is none."""


@dataclass(frozen=True)
class Column:
    """What was counted of a column. Everything adds up, but for the least and the greatest value."""

    name: str
    kind: Kind
    counts: tuple[int, ...]
    """Over the bins. number, score: below the edges, the bins, above; +-inf are below and above. category: the values,
    other, unseen. label: false, true. joint: the score's bins of label false, then those of label true."""
    missing: int = 0
    """Rows with null, or NaN."""
    absent: int = 0
    """Rows of partitions in which the column was not, or was of another type; none of them is in `counts`."""
    found: tuple[str, ...] = ()
    """What was there instead: types, or "nothing"; sorted."""
    n: int = 0
    """Finite numbers, of which the moments are."""
    center: float = 0.0
    s1: float = 0.0
    """Sum of x - center."""
    s2: float = 0.0
    """Sum of (x - center)^2."""
    minimum: float | None = None
    maximum: float | None = None
    sums: tuple[float, ...] = ()
    """Of a joint: sum of the scores in each of `counts`."""
    sketch: bytes = b""
    """Quantiles, see `pipelines.monitoring.profiles.sketch`; empty where none was made."""

    def __add__(self, other: Column) -> Column:
        """The column of the rows of both."""
        from pipelines.monitoring.profiles.sketch import merged

        return replace(
            self,
            counts=_added(self.counts, other.counts),
            missing=self.missing + other.missing,
            absent=self.absent + other.absent,
            found=tuple(sorted({*self.found, *other.found})),
            n=self.n + other.n,
            s1=self.s1 + other.s1,
            s2=self.s2 + other.s2,
            minimum=_of_known(min, self.minimum, other.minimum),
            maximum=_of_known(max, self.maximum, other.maximum),
            sums=_added(self.sums, other.sums),
            sketch=merged(self.sketch, other.sketch) if self.sketch or other.sketch else b"",
        )

    @property
    def mean(self) -> float | None:
        """Of the finite numbers; None where there are none."""
        return self.center + self.s1 / self.n if self.n else None

    @property
    def m2(self) -> float:
        """Sum of squared deviations from the mean."""
        return max(self.s2 - self.s1**2 / self.n, 0.0) if self.n else 0.0

    def same(self, other: Column) -> bool:
        """Equal, but for the order in which sums were taken and for the sketch's coins."""
        exact = {"s1": 0.0, "s2": 0.0, "sums": (), "sketch": b""}
        if replace(self, **exact) != replace(other, **exact) or bool(self.sketch) != bool(other.sketch):  # type: ignore[arg-type]
            return False
        # What x - center adds up to is small beside what was added.
        scale = math.sqrt(self.n * self.s2)
        pairs = zip(self.sums, other.sums, strict=True)
        # Squares of numbers beyond 1e154 are infinite; what such add up to is infinite or NaN, as the order has it.
        beyond = self.s2 == other.s2 == math.inf
        return (
            (beyond or math.isclose(self.s1, other.s1, rel_tol=CLOSE, abs_tol=CLOSE * scale))
            and math.isclose(self.s2, other.s2, rel_tol=CLOSE)
            and all(math.isclose(one, two, rel_tol=CLOSE) for one, two in pairs)
        )


@dataclass(frozen=True)
class Profile:
    """The columns of a partition, or of several, counted over the bins of one reference."""

    reference: str
    """Digest of the reference."""
    rows: int
    columns: tuple[Column, ...]

    def __add__(self, other: Profile) -> Profile:
        """The profile of the rows of both.

        Raises:
            DataError: they were counted over different references.
        """
        if self.reference != other.reference:
            told = f"{self.reference[:12]} and {other.reference[:12]}"
            raise DataError(
                f"profiles over different references, {told}, do not add up.", "Profile the partition anew."
            )
        pairs = zip(self.columns, other.columns, strict=True)
        return Profile(self.reference, self.rows + other.rows, tuple(one + two for one, two in pairs))

    def __getitem__(self, name: str) -> Column:
        """The column of that name."""
        return next(one for one in self.columns if one.name == name)

    @property
    def joint(self) -> Column:
        """Score x label."""
        return next(one for one in self.columns if one.kind == "joint")

    def same(self, other: Profile) -> bool:
        """Of equal rows, as far as can be told."""
        alike = (self.reference, self.rows, len(self.columns)) == (other.reference, other.rows, len(other.columns))
        return alike and all(one.same(two) for one, two in zip(self.columns, other.columns, strict=True))

    def to_rows(self) -> Iterator[dict[str, Any]]:
        """A row a column, of numbers, texts and lists."""
        for column in self.columns:
            yield {"reference": self.reference, "rows": self.rows, **asdict(column)}

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Self:
        """The profile of `to_rows`; what else the rows hold is ignored, and a sketch may be left out.

        Raises:
            DataError: no rows, or rows of several references.
        """
        references = sorted({row["reference"][:12] for row in rows})
        if len(references) != 1:
            raise DataError(f"a profile is of one reference, and these rows are of {', '.join(references) or 'none'}.")
        return cls(rows[0]["reference"], rows[0]["rows"], tuple(_column(row) for row in rows))


def total(profiles: Iterable[Profile]) -> Profile:
    """The profile of the union of one or more.

    Raises:
        DataError: there is none, or they are of different references.
    """
    found = list(profiles)
    if not found:
        raise DataError("there is no profile to add up.", "The step `profile` writes them.")
    return reduce(add, found)


def _column(row: Mapping[str, Any]) -> Column:
    names = [one.name for one in fields(Column) if one.name in row]
    values: dict[str, Any] = {name: tuple(row[name]) if isinstance(row[name], list) else row[name] for name in names}
    return Column(**values)


def _added(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _of_known(which: Any, one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return which(known) if known else None
