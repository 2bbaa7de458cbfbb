"""Where a model came from, as tags of its registered version."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.files import sha256
from pipelines.git import commit_of
from pipelines.settings import settings
from pipelines.steps.snapshot import SnapshotResult

if TYPE_CHECKING:
    from pipelines.steps.evaluate import EvaluateSpec


def candidate_digest(model_digest: str, features: Path, snapshot: Path) -> str:
    """SHA-256 of what makes a candidate: the model, its features, the pinned window."""
    return hashlib.sha256(" ".join([model_digest, sha256(features), sha256(snapshot)]).encode()).hexdigest()


def tags(spec: EvaluateSpec, rows: dict[str, int], model_digest: str) -> dict[str, str]:
    """Every lineage tag of a version, name to value.

    Raises:
        DataError: the snapshot file is not there.
    """
    pinned = SnapshotResult.read(spec.snapshot)
    told = {
        "git_commit": commit_of(settings().project),
        "as_of": pinned.as_of.isoformat(),
        "window": str(pinned.window()),
        "table": pinned.table,
        "snapshot_id": str(pinned.snapshot_id),
        "data_version": sha256(spec.features)[:12],
        "dvc_lock": sha256(spec.lock) if spec.lock.exists() else "none",
        "rows_train": str(rows["train"]),
        "rows_holdout": str(rows["holdout"]),
        "model_digest": model_digest,
        **spec.lineage,
    }
    return {f"leeway.{name}": value for name, value in told.items()}
