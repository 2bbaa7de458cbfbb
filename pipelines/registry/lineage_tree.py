"""Print the lineage of a version as a tree, and find the versions whose window contains a partition."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import suppress

from mlflow.entities.model_registry import ModelVersion
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from pipelines.escaping import escape
from pipelines.registry.lifecycle import Journal, State
from pipelines.registry.versions import Registry
from pipelines.system.mlflow_server import JOB_TAG
from pipelines.versioning.git import DIRTY
from pipelines.window import Days

WIDTH = 120
"""Characters in a line of the tree, if the output is not a terminal."""
TAG_PREFIX = "leeway."
"""Prefix of the lineage tags."""
BRANCHES = {
    "code": ("git_commit", "code_digest", "uv_lock"),
    "data": (
        *("table", "snapshot_id", "as_of", "window", "rows_train", "rows_holdout", "data_version", "features_schema"),
        "dvc_lock",
    ),
    "training": (*("training_job", "training_job_arn", "instance_type", "instance_choice", "model_digest", "dag_run"),),
    "cost": (
        *("cost_usd", "training_s", "billable_s", "price_usd_h", "saving", "interruptions", "lost_s", "capacity_s"),
        *("predicted_s", "predicted_usd"),
    ),
    "verdict": ("verdict", "verdict_reason", "verdict_digest", "promoted_at", "promoted_over", "would_promote_over"),
}
"""Maps each branch of the tree to the tags that it shows, without their prefix."""
HOLDOUT_PREFIX = "holdout_"
"""Prefix of the names of holdout metrics in a run."""
SPLITS = ("train", "holdout")
"""The splits of a window, in the order of tag `leeway.window`."""


def print_tree(model: str, selector: str) -> None:
    """Print the lineage tree of a version.

    Args:
        model: registered model.
        selector: number or alias of the version.

    Raises:
        DataError: there is no such version. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    registry = Registry.open()
    version = registry.find_version(model, selector)
    metrics, params = registry.get_metrics(version), registry.get_params(version)
    tree = build_tree(version, metrics, params, Journal.open().read_state(model))
    console = Console(width=None if Console().is_terminal else WIDTH, highlight=False)
    console.print(tree, soft_wrap=True)


def build_tree(version: ModelVersion, metrics: Mapping[str, float], params: Mapping[str, str], state: State) -> Tree:
    """Build the tree of a version: code, data, training, cost, verdict, metrics, params, events.

    Args:
        version: the version, with its tags.
        metrics: metrics of its run.
        params: parameters of its run.
        state: state of its model.
    """
    number = str(version.version)
    root = Tree(Text(escape(f"{version.name} version {number}{_describe_status(number, state)}")))
    tags = {JOB_TAG.removeprefix(TAG_PREFIX): version.tags.get(JOB_TAG, "")}
    tags |= {name.removeprefix(TAG_PREFIX): value for name, value in version.tags.items()}
    for branch, names in BRANCHES.items():
        _add_branch(root, branch, [(name, _describe_tag(name, tags[name])) for name in names if tags.get(name)])
    holdout_leaves = [
        (name.removeprefix(HOLDOUT_PREFIX), f"{value:g}")
        for name, value in metrics.items()
        if name.startswith(HOLDOUT_PREFIX)
    ]
    _add_branch(root, "metrics of the holdout", holdout_leaves)
    _add_branch(root, "params", sorted(params.items()))
    _add_branch(root, "events", _describe_events(number, state))
    return root


def describe_versions_with_partition(table: str, day: dt.date) -> list[str]:
    """Describe each version, of any model, whose window over `table` contains the day.

    Returns:
        One line for each version; if there is no such version, one line that says so.

    Raises:
        ServiceError: MLflow does not answer. A retry can help.
    """
    lines = []
    for version in Registry.open().list_versions_with_tag("leeway.table", table):
        tags = version.tags
        split = _find_split(tags.get("leeway.window", ""), day)
        if split:
            lines.append(
                f"{version.name} version {version.version}  {split:<8} as of {tags.get('leeway.as_of')}, snapshot "
                f"{tags.get('leeway.snapshot_id')}, {tags.get('leeway.verdict', 'not judged')}"
            )
    return lines or [f"No version's window contains {day} of {table}."]


def _find_split(window: str, day: dt.date) -> str:
    """Return the split (train or holdout) that contains the day; empty if none does.

    Args:
        window: value of the tag `leeway.window`: FIRST..LAST of train, " | ", FIRST..LAST of holdout.
        day: the day.
    """
    for split, part in zip(SPLITS, window.split(" | "), strict=False):
        days = _parse_days(part)
        if days and days.first <= day <= days.last:
            return split
    return ""


def _parse_days(part: str) -> Days | None:
    """Parse FIRST..LAST; return None for a text of another form, because a person may have written the tag."""
    first, _, last = part.partition("..")
    with suppress(ValueError):
        return Days(dt.date.fromisoformat(first), dt.date.fromisoformat(last))
    return None


def _add_branch(root: Tree, name: str, leaves: Sequence[tuple[str, str]]) -> None:
    if leaves:
        branch = root.add(Text(name))
        for key, value in leaves:
            branch.add(Text(escape(f"{key}: {value}")))


def _describe_tag(name: str, value: str) -> str:
    if name == "git_commit" and value.endswith(DIRTY):
        return f"{value.removesuffix(DIRTY)} (dirty: the code differed from it)"
    if name == "window":
        parts = zip(SPLITS, value.split(" | "), strict=False)
        return ", ".join(f"{split} {part}{_describe_partition_count(part)}" for split, part in parts)
    return value


def _describe_partition_count(part: str) -> str:
    days = _parse_days(part)
    return f" ({len(days)} partitions)" if days else ""


def _describe_status(version: str, state: State) -> str:
    if version == state.champion:
        return ", champion"
    if version == state.challenger:
        return ", challenger"
    return f", blocked: {state.blocked_versions[version]}" if version in state.blocked_versions else ""


def _describe_events(version: str, state: State) -> list[tuple[str, str]]:
    """Describe each event about the version by two texts: its time and kind; who caused it, and why.

    An event that made the version champion, or replaced it as champion, is also about the version.
    """
    descriptions = []
    for event in state.events:
        if version in (event.version, event.from_version, event.to_version):
            change = (
                f" {event.from_version or 'none'} -> {event.to_version or 'none'}" if event.changes_champion else ""
            )
            why = f", {event.why}" if event.why else ""
            descriptions.append((f"{event.at:%Y-%m-%d %H:%M:%S}Z {event.kind}{change}", f"by {event.who}{why}"))
    return descriptions
