"""Compare the rebuilt features with the record, and with the copy that DVC stored."""

from __future__ import annotations

from pathlib import Path

import yaml

from pipelines.errors import InvalidError
from pipelines.registry.reproduction.comparison import Comparison
from pipelines.registry.reproduction.record import Record
from pipelines.system.files import digest_files
from pipelines.system.log import log
from pipelines.versioning import dvc_calls
from pipelines.versioning.workspaces import Workspace

FEATURES = "data/features"
"""Folder of the features, in the folder of the model."""
STORED_FEATURES = "data/kept"
"""Folder, beside the features, for the copy of the features that DVC stored."""


def restore_stored_features(comparison: Comparison, record: Record, workspace: Workspace) -> Path | None:
    """Fetch the copy of the features that DVC stored, and compare it with the record.

    Returns:
        The folder of the copy; None if DVC has no copy any more. Then a note is added to the comparison.
    """
    lock = yaml.safe_load((record.folder / "dvc.lock").read_text(encoding="utf-8")) or {}
    stages = [
        name
        for name, stage in lock.get("stages", {}).items()
        if FEATURES in [output["path"] for output in stage.get("outs", [])]
    ]
    try:
        if stages:
            dvc_calls.pull(workspace, stages)
    except InvalidError as error:
        log.info("%s", error)
    if not (workspace.model_folder / FEATURES).is_dir():
        comparison.notes.append("DVC has no copy of the features any more")
        return None
    # Move the copy: `preprocess` writes to the folder of the features next.
    stored_folder = (workspace.model_folder / FEATURES).replace(workspace.model_folder / STORED_FEATURES)
    comparison.compare_all("stored features", record.provenance["features"], digest_files(stored_folder))
    return stored_folder


def compare_features(comparison: Comparison, record: Record, folder: Path, stored_folder: Path | None) -> None:
    """Compare the digest of each rebuilt file with the record. If a digest differs, note how many rows differ.

    Args:
        comparison: comparison to which the checks are added.
        record: record of the version.
        folder: folder of the model in the workspace.
        stored_folder: folder of the copy of the features that DVC stored; None if there is none.
    """
    recorded_digests, rebuilt_digests = record.provenance["features"], digest_files(folder / FEATURES)
    stored_digests = digest_files(stored_folder) if stored_folder else {}
    notes = {}
    for name, digest in rebuilt_digests.items():
        recorded_digest = recorded_digests.get(name)
        # The stored file has the recorded rows only if it has the recorded digest.
        is_stored = recorded_digest == stored_digests.get(name)
        if stored_folder and is_stored and digest != recorded_digest:
            notes[name] = _describe_row_changes(stored_folder / name, folder / FEATURES / name)
    comparison.compare_all("features", recorded_digests, rebuilt_digests, notes)


def _describe_row_changes(stored_file: Path, rebuilt_file: Path) -> str:
    """Describe how many rows of two Parquet files differ."""
    from pipelines.lake import connect

    def count_rows_only_in(file: Path, other_file: Path) -> int:
        sql = "SELECT count(*) FROM (FROM read_parquet(?) EXCEPT ALL FROM read_parquet(?))"
        row = connection.execute(sql, [str(file), str(other_file)]).fetchone()
        return int(row[0]) if row else 0

    with connect() as connection:
        try:
            removed_rows = count_rows_only_in(stored_file, rebuilt_file)
            added_rows = count_rows_only_in(rebuilt_file, stored_file)
        except Exception as error:  # the columns differ, or a file is not Parquet: DuckDB's message says what is wrong
            return str(error).splitlines()[0]
    if removed_rows or added_rows:
        return f"{removed_rows} rows are missing, {added_rows} are new"
    return "the rows are the same, but the bytes differ"
