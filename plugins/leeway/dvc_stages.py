"""Create an Airflow task for each stage of a dvc.yaml."""

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


def create_dvc_tasks(
    file: str = "dvc.yaml",
    *,
    select: Sequence[str] = (),
    refresh: Sequence[str] = (),
    group_id: str = "dvc",
    **operator_arguments: Any,
) -> TaskGroup:
    """Create a task group with a task for each stage. The tasks depend on each other as their stages in `dvc dag` do.

    All tasks of a DAG run use one workspace. DVC locks a workspace, so tasks that could run in parallel run one after
    the other.

    Args:
        file: the dvc.yaml, relative to LEEWAY_PROJECT. It is read at every parse of the DAG, without DVC.
        select: stages to include; empty: all. A stage that is not selected has no task: the tasks of the stages that
            depend on it reproduce it too.
        refresh: stages to run in every DAG run, because they have inputs that DVC does not track. If `select` is given,
            it must contain them.
        group_id: id of the task group.
        operator_arguments: arguments of every DvcReproOperator: overrides, workspace, retries, ...

    Raises:
        SpecError: the file or a stage does not exist, or `select` lacks a stage of `refresh`: the DAG does not load.
    """
    all_stages = stages.load_stages(settings().project / file)
    selected_names = list(select) or list(all_stages)
    required_names = (*selected_names, *refresh)
    if invalid_names := [name for name in required_names if name not in all_stages or name not in selected_names]:
        raise SpecError(
            f"{Path(file).name}: there is no stage {', '.join(invalid_names)} to run.",
            f"It has {', '.join(all_stages)}. If `select` is given, it must contain each stage of `refresh`.",
        )
    dependencies_by_stage = _find_selected_dependencies(stages.find_dependencies(all_stages), selected_names)
    with TaskGroup(group_id) as group:
        tasks = {name: _create_task(name, refresh, operator_arguments) for name in selected_names}
        for name, dependencies in dependencies_by_stage.items():
            for dependency in sorted(dependencies):
                tasks[dependency] >> tasks[name]
    return group


def _create_task(stage: str, refresh: Sequence[str], operator_arguments: Mapping[str, Any]) -> DvcReproOperator:
    arguments = {"refresh": [stage] if stage in refresh else [], "wait": True, **operator_arguments}
    return DvcReproOperator(task_id=re.sub(r"[^\w.-]", "-", stage), targets=[stage], **arguments)


def _find_selected_dependencies(
    dependencies: Mapping[str, set[str]], selected_names: Sequence[str]
) -> dict[str, set[str]]:
    """Map each selected stage to the selected stages that it depends on, directly or through unselected stages."""

    def find_nearest(name: str) -> set[str]:
        nearest: set[str] = set()
        for dependency in dependencies[name]:
            nearest |= {dependency} if dependency in selected_names else find_nearest(dependency)
        return nearest

    return {name: find_nearest(name) for name in selected_names}
