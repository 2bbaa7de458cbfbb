"""Profile a partition's scored rows: count them by the bins of a version's reference, into the table `profiles`.

Idempotent: the step replaces an earlier profile of the same partition and version. If the rows are equal, it commits
nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator

from pipelines.contract import Result, Spec
from pipelines.partitions import Hour, PartitionKey, get_date
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.monitoring.profiles.profile import Profile
    from pipelines.monitoring.profiles.record import ReferenceRecord


def _require_rows(rows: Any) -> Any:
    """Refuse the empty `rows` of a ScoreResult: there is no file if no version scored the partition."""
    if rows in (None, ""):
        raise ValueError("no rows were scored; `large` or `reason` in the result of `score` says why")
    return rows


class ProfileSpec(Spec):
    """The rows to profile, and the model version that scored them."""

    partition: PartitionKey
    """Partition of the rows: a day (YYYY-MM-DD), an hour (YYYY-MM-DDTHH) or a month (YYYY-MM)."""
    rows: Annotated[Path, BeforeValidator(_require_rows)]
    """Parquet file of the partition's rows: the features, and `score` and the label if they are known. For an hour, the
    files of all hours of its day in the same folder are counted together, because a profile describes a day."""
    model: str
    """Registered model whose version scored the rows."""
    version: str
    """Number or alias of the version."""
    reference: Path | None = None
    """reference.json of the version, as `evaluate` wrote it; by default the one in the registry. If a file is given,
    the registry is not used, so `version` must be a number."""
    engine: Literal["duckdb", "spark"] = "duckdb"
    """Engine that counts the rows."""


class ProfileResult(Result):
    """A profiled partition."""

    partition: PartitionKey
    """Partition of the rows."""
    model_name: str
    """Registered model; the rows were counted by the bins of its version's reference."""
    version: str
    """Number of the model's version."""
    reference: str
    """SHA-256 of the reference."""
    rows: int
    """Rows of the partition; for an hour, of all scored hours of its day."""
    labelled: int
    """Rows whose label is known."""
    missing_columns: list[str]
    """Features that the file does not have."""
    changed_types: dict[str, str]
    """Maps each feature to its type, for features that had another type in training. Their values are not counted."""
    empty: list[str]
    """Features without a value in any row."""
    changed: bool
    """Whether this call changed the table `profiles`."""


def run(spec: ProfileSpec) -> ProfileResult:
    """Count the rows of the partition and store the profile, replacing an earlier one of the same version.

    Raises:
        DataError: the rows cannot be read, or the version has no reference. A retry cannot help.
        SpecError: the engine is not installed, or `reference` is set and `version` is an alias. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
        ConflictError: other writers kept changing the table. A retry can help.
    """
    from pipelines.monitoring.profiles.counting import count_files
    from pipelines.monitoring.profiles.table import Profiles

    record, version = _load_record(spec)
    table, is_changed, file_states = Profiles.open(), False, _identify_files(spec)
    # Another run may replace the file while this one counts, and store its profile first. Counting again until the
    # file stays the same ensures that the profile of the older rows is not the last one stored.
    while True:
        profile = count_files(record.reference, list(file_states), spec.engine)
        is_changed |= table.write(get_date(spec.partition), spec.model, version, profile)
        earlier_states, file_states = file_states, _identify_files(spec)
        if file_states == earlier_states:
            break
    result = _build_result(spec, version, profile, is_changed=is_changed)
    log.info(
        "%s by %s version %s: %d rows, %d labelled; missing_columns: %s; changed_types: %s; without a value: %s",
        *(spec.partition, spec.model, version, result.rows, result.labelled),
        *(", ".join(names) or "none" for names in (result.missing_columns, result.changed_types, result.empty)),
    )
    return result


def _identify_files(spec: ProfileSpec) -> dict[Path, tuple[int, int]]:
    """Return the state of each file to count: `spec.rows`; for an hour, all files of the day in the same folder."""
    hour = spec.partition if isinstance(spec.partition, Hour) else None
    other_files = spec.rows.parent.glob(f"{hour.day}T*.parquet") if hour else ()
    return {path: _identify_file(path) for path in sorted({*other_files, spec.rows})}


def _identify_file(path: Path) -> tuple[int, int]:
    """Return the file's inode and modification time, which change when it is replaced.

    Return zeros if there is no file; `count_files` reports that.
    """
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns


def _load_record(spec: ProfileSpec) -> tuple[ReferenceRecord, str]:
    """Load the reference, and return it with the number of the version."""
    from pipelines.errors import SpecError
    from pipelines.monitoring.profiles.record import ReferenceRecord, load_record
    from pipelines.registry.versions import Registry

    if spec.reference:
        if not spec.version.isdecimal():
            raise SpecError(
                f"version {spec.version} is an alias, which needs the registry.", "Give the number of the version."
            )
        return ReferenceRecord.read(spec.reference), spec.version
    registry = Registry.open()
    version = registry.find_version(spec.model, spec.version)
    return load_record(registry, version), str(version.version)


def _build_result(spec: ProfileSpec, version: str, profile: Profile, *, is_changed: bool) -> ProfileResult:
    from pipelines.monitoring.profiles.column_plans import NOTHING

    features = [column for column in profile.columns if column.kind in {"number", "category"}]
    label = next(column for column in profile.columns if column.kind == "label")
    return ProfileResult(
        partition=spec.partition,
        model_name=spec.model,
        version=version,
        reference=profile.reference,
        rows=profile.rows,
        labelled=sum(label.counts),
        missing_columns=[column.name for column in features if NOTHING in column.actual_types],
        changed_types={
            column.name: column.actual_types[0]
            for column in features
            if column.actual_types and NOTHING not in column.actual_types
        },
        empty=[column.name for column in features if profile.rows and column.missing == profile.rows],
        changed=is_changed,
    )
