"""Run a task in a worker of its own, which kills itself, as `kill -9` would, at one moment of its work."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.tools import forking

ROOT = Path(__file__).parents[2]
CODE = """
import importlib, os, signal, sys
from operator import attrgetter
from types import SimpleNamespace
sys.path[:0] = {paths!r}
from airflow.sdk import DAG
from {module} import {operator}

owner, name = importlib.import_module({owner!r}), {function!r}
path, _, attribute = name.rpartition(".")
owner = attrgetter(path)(owner) if path else owner
function = getattr(owner, attribute)

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

async def call_and_die(*arguments):
    await function(*arguments)
    die()

setattr(owner, attribute, call_and_die if {is_called} else die)
with DAG({dag!r}):
    task = {operator}(task_id={task!r}, deferrable=False, **{fields!r})
task.execute({{"ti": SimpleNamespace(run_id="run", map_index=-1, try_number=1, max_tries=2)}})
"""
TRAINING_FIELDS = (
    *("entry_point", "bundle", "channels", "hyperparameters", "image_uri", "max_run_s", "max_wait_s"),
    "check_interval_s",
)
"""Arguments of a `SpotTrainingOperator` that name its job."""


def kill_worker(task: Any, names: Collection[str], function: str, *, is_called: bool = True) -> None:
    """Run a copy of an operator in a process that kills itself when it calls a function.

    Args:
        task: the operator. The copy is not deferrable.
        names: names of the arguments that the copy gets. Their values must be equal to what `repr` shows.
        function: the function, as `MODULE:NAME`, or `MODULE:CLASS.NAME` for a method.
        is_called: whether the process runs the function, which must be a coroutine function, before it kills itself.
    """
    module, _, name = function.partition(":")
    code = CODE.format(
        paths=[str(ROOT), str(ROOT / "plugins")],
        module=type(task).__module__,
        operator=type(task).__name__,
        owner=module,
        function=name,
        is_called=is_called,
        dag=task.dag_id,
        task=task.task_id,
        fields={name: getattr(task, name) for name in names},
    )
    worker = forking.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, timeout=120)
    assert worker.returncode == -signal.SIGKILL, worker.stderr[-2_000:]
