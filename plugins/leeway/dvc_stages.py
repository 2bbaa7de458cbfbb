"""Make Airflow tasks of the stages of a dvc.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import TaskGroup

from leeway.operators.dvc_repro import DvcReproOperator
from pipelines.errors import SpecError
from pipelines.settings import settings
from pipelines.versioning import stages


def dvc_stages(
    file: str = "dvc.yaml",
    *,
    select: Sequence[str] = (),
    refresh: Sequence[str] = (),
    group_id: str = "dvc",
    **fields: Any,
) -> TaskGroup:
    """Make a task group with a task for each stage, and the edges of `dvc dag` between them.

    The tasks of a run share its workspace. DVC locks a workspace, so tasks that could run in parallel wait for each
    other.

    Args:
        file: the dvc.yaml, below LEEWAY_PROJECT. Read at every parse: YAML, no DVC.
        select: stages to include; empty: all. If a stage needs one that is left out, the stage's own task brings it up
            to date, and the edges go past it.
        refresh: stages to run in every run, because DVC does not see their inputs.
        group_id: id of the task group.
        fields: arguments of every DvcReproOperator: overrides, workspace, retries, ...

    Raises:
        SpecError: there is no such file or stage, so the DAG does not load. A retry cannot help.
    """
    known = stages.load_stages(settings().project / file)
    chosen = list(select) or list(known)
    unknown = [name for name in (*chosen, *refresh) if name not in known or name not in chosen]
    if unknown:
        raise SpecError(f"{Path(file).name}: no stage {', '.join(unknown)} is selected.", f"It has {', '.join(known)}.")
    edges = _skip_left_out(stages.find_dependencies(known), chosen)
    with TaskGroup(group_id) as group:
        tasks = {name: _task(name, refresh, fields) for name in chosen}
        for name, before in edges.items():
            for other in sorted(before):
                tasks[other] >> tasks[name]
    return group


def _task(stage: str, refresh: Sequence[str], fields: Mapping[str, Any]) -> DvcReproOperator:
    arguments = {"refresh": [stage] if stage in refresh else [], "wait": True, **fields}
    return DvcReproOperator(task_id=re.sub(r"[^\w.-]", "-", stage), targets=[stage], **arguments)


def _skip_left_out(needs: Mapping[str, set[str]], chosen: Sequence[str]) -> dict[str, set[str]]:
    """Map each chosen stage to the chosen stages that it needs, directly or through stages that were left out."""

    def nearest(name: str) -> set[str]:
        return {stage for need in needs[name] for stage in ({need} if need in chosen else nearest(need))}

    return {name: nearest(name) for name in chosen}
