"""Create the DAG lake_check: check the lake for lost and damaged files, and restore them."""

import datetime as dt

from airflow.sdk import DAG, CronTriggerTimetable, Param
from leeway.default_args import build_default_args
from leeway.operators.check_lake import CheckLakeOperator

DOC = """
### Check the lake, each week

`check` compares the lake's catalog, metadata, manifests, files and row counts. Where something is lost, the run fails,
and its error names the first of it and what to do. LEEWAY_HOME/lake_check.json has all of it.

* **Paused** at first: a check reads all files of the lake. Without the param `content` it reads only their sizes.
* **Restore**: trigger the DAG with `repair`, and with `backup` where there is one. What cannot be restored is named.
Other DAGs may run at the same time.
* The page docs/how-to/runbooks/lost-files.md says more.
"""

with DAG(
    dag_id="lake_check",
    doc_md=DOC,
    description="Checks the lake for lost and damaged files, and restores them.",
    schedule=CronTriggerTimetable("0 4 * * 0", timezone="UTC"),
    start_date=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    tags=["leeway", "flights", "data"],
    params={
        "repair": Param(False, type="boolean", description="Restore lost files."),
        "backup": Param(None, type=["null", "string"], description="File of `make backup` to restore from."),
        "content": Param(True, type="boolean", description="Read the content of all files, not only their sizes."),
        "older": Param(True, type="boolean", description="Also check files that only older snapshots need."),
    },
    default_args=build_default_args("data", retries=1, execution_timeout=dt.timedelta(hours=2)),
):
    CheckLakeOperator(
        task_id="check",
        repair="{{ params.repair }}",
        backup="{{ params.backup }}",
        content="{{ params.content }}",
        older="{{ params.older }}",
    )
