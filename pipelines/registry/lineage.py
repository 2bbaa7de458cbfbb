"""Build the lineage of a version: its tags, its provenance, and the metrics and tags of its costs.

Each parameter `lineage` has the form of `EvaluateSpec.lineage`: it maps names without the prefix `leeway.` to texts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipelines.features.pinned_window import PinnedWindow
from pipelines.settings import settings
from pipelines.system.files import digest_files, sha256
from pipelines.versioning.checkouts import Code
from pipelines.versioning.git import CODE_FILE, DIRTY

COSTS = (
    *("training_s", "billable_s", "cost_usd", "saving", "interruptions", "lost_s", "capacity_s", "price_usd_h"),
    *("predicted_s", "predicted_usd"),
)
"""Keys of a lineage with numbers about the time and the cost of the training. They become metrics of the run, and tags
of the run and the version."""
ORIGIN_KEYS = (
    *("as_of", "window", "table", "snapshot_id", "rows_train", "rows_holdout", "data_version", "features_schema"),
    *("git_commit", "code_digest", "dvc_lock", "training_job", "dag_run", "model_digest"),
)
"""Keys of a lineage that the registration of a version records in the lake, too: its data, its code, and the job and
run that made it."""
COST_TAGS = (*COSTS, "instance_type", "instance_choice", "price_date")
"""Keys of a lineage that become tags of the run."""


@dataclass(frozen=True)
class Origin:
    """The files from which a candidate was made."""

    features: Path
    """Folder with train/ and holdout/, as `preprocess` wrote it."""
    snapshot: Path
    """The pinned window, as `snapshot` wrote it."""
    lock: Path
    """dvc.lock of the run; it need not exist. Its folder holds the code."""
    model_digest: str
    """SHA-256 of the model's files."""


def build_tags(origin: Origin, rows: Mapping[str, int], extra: Mapping[str, str]) -> dict[str, str]:
    """Build every lineage tag of a version, name to value.

    Args:
        origin: files from which the candidate was made.
        rows: number of rows of `train` and `holdout`.
        extra: more tags, without the prefix `leeway.`, among them the lineage; they replace tags with the same name.

    Raises:
        DataError: the snapshot file does not exist. A retry cannot help.
    """
    snapshot = PinnedWindow.read(origin.snapshot)
    code = _read_code(origin)
    schema = json.dumps(read_schema(origin.features))
    tags = {
        "git_commit": code.git_commit,
        "git_dirty": str(code.git_commit.endswith(DIRTY)).lower(),
        "code_digest": code.digest,
        "uv_lock": code.uv_lock or "none",
        "as_of": snapshot.as_of.isoformat(),
        "window": str(snapshot.get_window()),
        "table": snapshot.table,
        "snapshot_id": str(snapshot.snapshot_id),
        "data_version": sha256(origin.features)[:12],
        "features_schema": hashlib.sha256(schema.encode()).hexdigest()[:12],
        "dvc_lock": sha256(origin.lock) if origin.lock.exists() else "none",
        "rows_train": str(rows["train"]),
        "rows_holdout": str(rows["holdout"]),
        "model_digest": origin.model_digest,
        **extra,
    }
    return {f"leeway.{name}": value for name, value in tags.items()}


def select_origin(tags: Mapping[str, str]) -> dict[str, str]:
    """Return those tags of a version that have a key in `ORIGIN_KEYS`, without their prefix."""
    return {name: tags[f"leeway.{name}"] for name in ORIGIN_KEYS if tags.get(f"leeway.{name}")}


def build_provenance(origin: Origin) -> dict[str, Any]:
    """Build the record that `reproduce` compares: digests of code, features and model, library versions, and schema."""
    features = {"schema": read_schema(origin.features), "features": digest_files(origin.features)}
    return {"code": asdict(_read_code(origin)), **features, "model_digest": origin.model_digest}


def build_cost_metrics(lineage: Mapping[str, str]) -> dict[str, float]:
    """Build the run's metrics from the costs in a lineage. A value that is missing or not a finite number is left out.

    The costs of a training that is older than the cost ledger are empty texts.
    """
    metrics = {}
    for name in COSTS:
        with suppress(KeyError, ValueError):
            metrics[name] = float(lineage[name])
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def build_cost_tags(lineage: Mapping[str, str]) -> dict[str, str]:
    """Build the run's tags from the costs in a lineage."""
    return {f"leeway.{name}": lineage[name] for name in COST_TAGS if lineage.get(name)}


def read_schema(features: Path) -> dict[str, str]:
    """Return the type of each column of the features, in the order of the columns of the holdout."""
    from pyarrow import parquet

    schema = parquet.read_schema(features / "holdout" / "data.parquet")
    return {column.name: str(column.type) for column in schema}


def _read_code(origin: Origin) -> Code:
    """Describe the code that built the features: that of dvc.lock's workspace, else that of the project."""
    folder = origin.lock.absolute().parent
    return Code.describe(folder if (folder / CODE_FILE).is_file() else settings().project)
