"""Create the DAG lake_check: check the lake for lost and damaged files, and restore them."""

import datetime as dt

from airflow.sdk import DAG, CronTriggerTimetable, Param
from leeway.default_args import build_default_args
from leeway.operators.check_lake import CheckLakeOperator

DOC = """
### Check the lake, each week

`check` compares the lake's catalog, metadata, manifests, files and row counts with each other. If something is lost,
the run fails. Its error names the first lost parts and what to do; LEEWAY_HOME/lake_check.json lists all of them.

* **Paused** at first: a check reads all files of the lake. Without the param `content` it reads only their sizes.
* **Restore**: trigger the DAG with `repair`, and with `backup` if there is a backup. If a part cannot be restored, the
run fails, and its error names the part. Other DAGs may run at the same time.
* See also docs/how-to/runbooks/lost-files.md.
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
