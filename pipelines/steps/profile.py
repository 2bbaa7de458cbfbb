"""Profiles a partition's scored rows over a model version's reference, and keeps that in the lake's table `profiles`.

Idempotent: the profile of a partition by a version is replaced, and one of equal rows commits nothing.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.monitoring.profiles.profile import Profile
    from pipelines.monitoring.profiles.record import Record


class ProfileSpec(Spec):
    """Which rows to profile, and for which model."""

    partition: dt.date
    """Day of the rows."""
    rows: Path
    """Parquet file of the day's rows: the features, and `score` and the label where they are known."""
    model_name: str
    """Registered model whose version scored the rows."""
    version: str
    """Its version, by number or alias."""
    reference: Path | None = None
    """reference.json of the version, as `evaluate` wrote it; the registry's where it is not given. With it the registry
    is not asked, so `version` has to be a number."""
    engine: Literal["duckdb", "spark"] = "duckdb"
    """What counts."""
    sketch_rows: Annotated[int, Field(ge=0)] = 20_000
    """About how many rows, drawn at random where there are more, quantile sketches are made of; 0: none are made."""


class ProfileResult(Result):
    """A profiled partition."""

    partition: dt.date
    """Day of the rows."""
    model_name: str
    """Model by whose reference they were counted."""
    version: str
    """Its version's number."""
    reference: str
    """Digest of the reference."""
    rows: int
    """Rows of the partition."""
    labelled: int
    """Rows of them whose label is known."""
    vanished: list[str]
    """Features that the rows lack."""
    retyped: dict[str, str]
    """Features of another type than in training, with the type that they have; they are not counted."""
    empty: list[str]
    """Features without a value in any row."""
    changed: bool
    """Whether the table `profiles` was changed."""


def run(spec: ProfileSpec) -> ProfileResult:
    """The table `profiles` has the profile of the partition by the version.

    Raises:
        DataError: the rows are not there or not readable, or the version has no reference. A retry cannot help.
        SpecError: the engine is not installed here, or a version is named by an alias beside `reference`.
        ServiceError: MLflow does not answer. A retry can help.
        ConflictError: others kept writing to the table. A retry can help.
    """
    from pipelines.monitoring.profiles.counting import count
    from pipelines.monitoring.profiles.table import Profiles

    record, version = _record(spec)
    changed, kept, seen = False, Profiles.open(), None
    # Scored anew while it was counted: else the older rows' profile could be the last to be kept.
    while seen != (seen := _identity(spec.rows)):
        made = count(record.reference, spec.rows, spec.engine, spec.sketch_rows)
        changed |= kept.put(spec.partition, spec.model_name, version, made)
    result = _result(spec, version, made, changed=changed)
    log.info(
        "%s by %s version %s: %d rows, %d labelled; vanished: %s; retyped: %s; without a value: %s",
        *(spec.partition, spec.model_name, version, made.rows, result.labelled),
        *(", ".join(one) or "none" for one in (result.vanished, result.retyped, result.empty)),
    )
    return result


def _identity(file: Path) -> tuple[int, int]:
    """Of a file; another one in its place has another. Of none it is that, and `count` says so."""
    try:
        told = file.stat()
    except OSError:
        return 0, 0
    return told.st_ino, told.st_mtime_ns


def _record(spec: ProfileSpec) -> tuple[Record, str]:
    """The reference, and the version's number."""
    from pipelines.errors import SpecError
    from pipelines.monitoring.profiles.record import Record, of_version
    from pipelines.registry.versions import Registry

    if spec.reference:
        if not spec.version.isdecimal():
            raise SpecError(f"version {spec.version} is an alias, which only the registry knows.", "Give its number.")
        return Record.read(spec.reference), spec.version
    registry = Registry.open()
    version = registry.find_version(spec.model_name, spec.version)
    return of_version(registry, version), str(version.version)


def _result(spec: ProfileSpec, version: str, made: Profile, *, changed: bool) -> ProfileResult:
    from pipelines.monitoring.profiles.slots import NOTHING

    features = [one for one in made.columns if one.kind in {"number", "category"}]
    label = next(one for one in made.columns if one.kind == "label")
    return ProfileResult(
        partition=spec.partition,
        model_name=spec.model_name,
        version=version,
        reference=made.reference,
        rows=made.rows,
        labelled=sum(label.counts),
        vanished=[one.name for one in features if NOTHING in one.found],
        retyped={one.name: one.found[0] for one in features if one.found and NOTHING not in one.found},
        empty=[one.name for one in features if made.rows and one.missing == made.rows],
        changed=changed,
    )
