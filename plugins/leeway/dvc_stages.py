"""Stages of a dvc.yaml as Airflow tasks."""

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
    """A task group with a task for each stage, and the edges of `dvc dag` between them.

    The tasks of a run share its workspace. DVC locks a workspace, so tasks that could run at once wait for each other.

    Args:
        file: the dvc.yaml, below LEEWAY_PROJECT. Read at every parse: YAML, no DVC.
        select: stages to have; all where none is named. What a stage needs of those that are left out, its own task
            brings up to date; edges lead past them.
        refresh: stages to run afresh in every run: their inputs lie outside DVC's sight.
        group_id: of the task group.
        fields: of every DvcReproOperator: overrides, workspace, retries, ...

    Raises:
        SpecError: there is no such file or stage; the DAG does not load.
    """
    known = stages.load_stages(settings().project / file)
    chosen = list(select) or list(known)
    unknown = [name for name in (*chosen, *refresh) if name not in known or name not in chosen]
    if unknown:
        raise SpecError(f"{Path(file).name}: no stage {', '.join(unknown)} is selected.", f"It has {', '.join(known)}.")
    edges = _past(stages.find_dependencies(known), chosen)
    with TaskGroup(group_id) as group:
        tasks = {name: _task(name, refresh, fields) for name in chosen}
        for name, before in edges.items():
            for other in sorted(before):
                tasks[other] >> tasks[name]
    return group


def _task(stage: str, refresh: Sequence[str], fields: Mapping[str, Any]) -> DvcReproOperator:
    given = {"refresh": [stage] if stage in refresh else [], "wait": True, **fields}
    return DvcReproOperator(task_id=re.sub(r"[^\w.-]", "-", stage), targets=[stage], **given)


def _past(needs: Mapping[str, set[str]], chosen: Sequence[str]) -> dict[str, set[str]]:
    """Chosen stage to the chosen ones that it needs, directly or through stages that were left out."""

    def nearest(name: str) -> set[str]:
        return {one for other in needs[name] for one in ({other} if other in chosen else nearest(other))}

    return {name: nearest(name) for name in chosen}
