"""Run DAGs in one process, one after the other: Airflow is imported, and its API built, only once."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.tools import forking
from tests.tools.groups import end_group

SERVER_CODE = """
import datetime as dt, json, os, sys
responses = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # the output of runs goes to the log
from airflow.dag_processing.dagbag import DagBag
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session

def name_task(row):
    # All but the first instance of a mapped task have their index behind the id.
    return row.task_id if row.map_index < 1 else f"{row.task_id}[{row.map_index}]"

for line in sys.stdin:
    folder, dag_id, logical_date, conf, variables = json.loads(line)
    environment = dict(os.environ)
    os.environ.update(variables)
    bag = DagBag(folder)
    assert bag.import_errors == {}, bag.import_errors
    date = dt.datetime.fromisoformat(logical_date).replace(tzinfo=dt.UTC) if logical_date else None
    run = bag.dags[dag_id].test(logical_date=date, run_conf=conf)
    keys = {"dag_id": dag_id, "run_id": run.run_id}
    with create_session() as session:
        states = {name_task(ti): ti.state for ti in session.query(TaskInstance).filter_by(**keys)}
        rows = session.query(XComModel).filter_by(**keys).all()
        xcoms = {name_task(row): XComModel.deserialize_value(row) for row in rows if row.key == "return_value"}
        texts = [str(XComModel.deserialize_value(row)) for row in rows]
    os.environ.clear()
    os.environ.update(environment)
    sys.stdout.flush()
    response = {"state": run.state, "states": states, "xcoms": xcoms, "xcom_texts": texts}
    print(json.dumps(response), file=responses, flush=True)
"""


class AirflowRuns:
    """Run DAGs in one process. Each run reads its DAG from the file again.

    Args:
        env: environment of the process; its Airflow database has to be migrated.
        folder: working directory of the process; its log is written there.
    """

    def __init__(self, env: Mapping[str, str], folder: Path) -> None:
        self._log = folder / "runs.log"
        with self._log.open("wb") as log:
            options: dict[str, Any] = {"stderr": log, "cwd": folder, "env": env, "text": True}
            command = [sys.executable, "-c", SERVER_CODE]
            self._child = forking.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, **options
            )

    def run(
        self,
        dags: Path,
        dag_id: str,
        logical_date: str | None = None,
        conf: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> SimpleNamespace:
        """Run a DAG; return the run's state, its tasks' states and results, the texts of all its XComs, and its log.

        The first instance of a mapped task has the task's id, the second one `ID[1]`.

        Args:
            dags: folder of the DAG's file.
            dag_id: the DAG.
            logical_date: ISO date of the run.
            conf: configuration of the run.
            variables: environment variables of this run only.
        """
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        log_start = self._log.stat().st_size
        self._child.stdin.write(json.dumps([str(dags), dag_id, logical_date, conf or {}, variables or {}]) + "\n")
        self._child.stdin.flush()
        response = self._child.stdout.readline()
        log = self._log.read_bytes()[log_start:].decode(errors="replace")
        assert response, log[-4_000:]
        return SimpleNamespace(log=log, **json.loads(response))

    def close(self) -> None:
        """End the process and all that it started."""
        end_group(self._child)
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe:
                pipe.close()
