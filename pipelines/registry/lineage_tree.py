"""The lineage of a version as a tree, and backwards: the versions that saw a partition."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import suppress

from mlflow.entities.model_registry import ModelVersion
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from pipelines.container.tracking import JOB_TAG
from pipelines.registry.lifecycle import Journal, State
from pipelines.registry.versions import Registry
from pipelines.versioning.git import DIRTY
from pipelines.window import Days

WIDTH = 120
BRANCHES = {
    "code": ("git_commit", "code_digest", "uv_lock"),
    "data": (
        *("table", "snapshot_id", "as_of", "window", "rows_train", "rows_holdout", "data_version", "features_schema"),
        "dvc_lock",
    ),
    "training": ("training_job", "training_job_arn", "instance_type", "model_digest", "dag_run"),
    "cost": ("cost_usd", "training_s", "billable_s", "price_usd_h", "saving", "interruptions", "lost_s", "capacity_s"),
    "verdict": ("verdict", "verdict_reason", "verdict_digest", "promoted_at", "promoted_over", "would_promote_over"),
}
"""Branch to the version's tags on it, without their prefix."""
HOLDOUT = "holdout_"
"""Prefix of the run's metrics that are of the holdout."""


def show(model: str, which: str) -> None:
    """Prints the tree of a version.

    Raises:
        DataError: there is no such version.
        ServiceError: MLflow does not answer. A retry can help.
    """
    registry = Registry.open()
    version = registry.named(model, which)
    run = registry.client.get_run(version.run_id).data if version.run_id else None
    made = tree(version, run.metrics if run else {}, run.params if run else {}, Journal.open().state(model))
    console = Console(width=None if Console().is_terminal else WIDTH, highlight=False)
    console.print(made, soft_wrap=True)


def tree(version: ModelVersion, metrics: Mapping[str, float], params: Mapping[str, str], state: State) -> Tree:
    """What the version is made of: code, data, training, cost, metrics, verdict, events.

    Args:
        version: with its tags.
        metrics: of its run.
        params: of its run.
        state: of its model.
    """
    root = Tree(Text(f"{version.name} version {version.version}{_role(str(version.version), state)}"))
    tags = {JOB_TAG.removeprefix("leeway."): version.tags.get(JOB_TAG, "")}
    tags |= {name.removeprefix("leeway."): value for name, value in version.tags.items()}
    for branch, names in BRANCHES.items():
        _branch(root, branch, [(name, _said(name, tags[name])) for name in names if tags.get(name)])
    held = [(name.removeprefix(HOLDOUT), f"{value:g}") for name, value in metrics.items() if name.startswith(HOLDOUT)]
    _branch(root, "metrics of the holdout", held)
    _branch(root, "params", sorted(params.items()))
    _branch(root, "events", _events(str(version.version), state))
    return root


def seen(table: str, day: dt.date) -> list[str]:
    """A line for each version, of any model, whose window over `table` has the day.

    Raises:
        ServiceError: MLflow does not answer. A retry can help.
    """
    registry = Registry.open()
    found = []
    for version in registry.seen_with("leeway.table", table):
        role = _saw(version.tags.get("leeway.window", ""), day)
        if role:
            told = version.tags
            found.append(
                f"{version.name} version {version.version}  {role:<8} as of {told.get('leeway.as_of')}, snapshot "
                f"{told.get('leeway.snapshot_id')}, {told.get('leeway.verdict', 'not judged')}"
            )
    return found or [f"No version saw {day} of {table}."]


def _saw(window: str, day: dt.date) -> str:
    """In which part of a window, TRAIN | HOLDOUT, the day lies; empty where in none."""
    for role, part in zip(("train", "holdout"), window.split(" | "), strict=False):
        days = _days(part)
        if days and days.first <= day <= days.last:
            return role
    return ""


def _days(part: str) -> Days | None:
    """Of FIRST..LAST; None where somebody else wrote something else."""
    first, _, last = part.partition("..")
    with suppress(ValueError):
        return Days(dt.date.fromisoformat(first), dt.date.fromisoformat(last))
    return None


def _partitions(part: str) -> str:
    days = _days(part)
    return f" ({len(days)} partitions)" if days else ""


def _branch(root: Tree, name: str, leaves: Sequence[tuple[str, str]]) -> None:
    if leaves:
        branch = root.add(Text(name))
        for key, value in leaves:
            branch.add(Text(f"{key}: {value}"))


def _said(name: str, value: str) -> str:
    if name == "git_commit" and value.endswith(DIRTY):
        return f"{value.removesuffix(DIRTY)} (dirty: the code differed from it)"
    if name == "window":
        parts = zip(("train", "holdout"), value.split(" | "), strict=False)
        return ", ".join(f"{role} {part}{_partitions(part)}" for role, part in parts)
    return value


def _role(version: str, state: State) -> str:
    if version == state.champion:
        return ", champion"
    if version == state.challenger:
        return ", challenger"
    return f", blocked: {state.blocked[version]}" if version in state.blocked else ""


def _events(version: str, state: State) -> list[tuple[str, str]]:
    """The events that are about the version, or took it in or out of service."""
    told = []
    for one in state.events:
        if version in (one.version, one.from_version, one.to_version):
            moved = f" {one.from_version or 'none'} -> {one.to_version or 'none'}" if one.moves else ""
            told.append((f"{one.at:%Y-%m-%d %H:%M:%S}Z {one.kind}{moved}", f"by {one.who}{one.why and f', {one.why}'}"))
    return told
