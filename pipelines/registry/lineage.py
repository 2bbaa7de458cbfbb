"""Where a model came from, as tags of its registered version."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.features.pin import PinnedWindow
from pipelines.settings import settings
from pipelines.system.files import digest_files, sha256
from pipelines.versioning import checkouts
from pipelines.versioning.checkouts import Code
from pipelines.versioning.git import DIRTY

if TYPE_CHECKING:
    from pipelines.steps.evaluate import EvaluateSpec


def candidate_digest(model_digest: str, features: Path, snapshot: Path) -> str:
    """SHA-256 of what makes a candidate: the model, its features, the pinned window."""
    return hashlib.sha256(" ".join([model_digest, sha256(features), sha256(snapshot)]).encode()).hexdigest()


COSTS = ("training_s", "billable_s", "cost_usd", "saving", "interruptions", "lost_s", "capacity_s", "price_usd_h")
"""Keys of `lineage` that are numbers: metrics of the run, besides tags of run and version."""
COST_TAGS = (*COSTS, "instance_type", "price_date")


def cost_metrics(told: Mapping[str, str]) -> dict[str, float]:
    """What is a number among the costs in a lineage. What a training of before the ledger left empty is not."""
    metrics = {}
    for name in COSTS:
        with suppress(KeyError, ValueError):
            metrics[name] = float(told[name])
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def cost_tags(told: Mapping[str, str]) -> dict[str, str]:
    """The costs in a lineage as tags of an MLflow run."""
    return {f"leeway.{name}": told[name] for name in COST_TAGS if told.get(name)}


def tags(spec: EvaluateSpec, rows: dict[str, int], model_digest: str) -> dict[str, str]:
    """Every lineage tag of a version, name to value.

    Raises:
        DataError: the snapshot file is not there.
    """
    pinned = PinnedWindow.read(spec.snapshot)
    code = _code(spec)
    told = {
        "git_commit": code.git_commit,
        "git_dirty": str(code.git_commit.endswith(DIRTY)).lower(),
        "code_digest": code.digest,
        "uv_lock": code.uv_lock or "none",
        "as_of": pinned.as_of.isoformat(),
        "window": str(pinned.window()),
        "table": pinned.table,
        "snapshot_id": str(pinned.snapshot_id),
        "data_version": sha256(spec.features)[:12],
        "features_schema": hashlib.sha256(json.dumps(schema(spec.features)).encode()).hexdigest()[:12],
        "dvc_lock": sha256(spec.lock) if spec.lock.exists() else "none",
        "rows_train": str(rows["train"]),
        "rows_holdout": str(rows["holdout"]),
        "model_digest": model_digest,
        **spec.lineage,
    }
    return {f"leeway.{name}": value for name, value in told.items()}


def provenance(spec: EvaluateSpec, model_digest: str) -> dict[str, Any]:
    """What a version was made of, as `reproduce` compares it: code, libraries, features and their schema, model."""
    features = {"schema": schema(spec.features), "features": digest_files(spec.features)}
    return {"code": asdict(_code(spec)), **features, "model_digest": model_digest}


def schema(features: Path) -> dict[str, str]:
    """Column to type of the features, in their order, as the holdout has them."""
    from pyarrow import parquet

    return {one.name: str(one.type) for one in parquet.read_schema(features / "holdout" / "data.parquet")}


def _code(spec: EvaluateSpec) -> Code:
    """The code of the workspace that the features come from; the project's where they were made in it."""
    folder = spec.lock.absolute().parent
    return Code.of(folder if (folder / checkouts.CODE_FILE).is_file() else settings().project)
