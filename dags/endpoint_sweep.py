"""Create the DAG endpoint_sweep: find the endpoints that nobody calls, and delete them if its param `delete` is set."""

import datetime as dt

from airflow.sdk import DAG, CronTriggerTimetable, Param
from leeway.default_args import build_default_args
from leeway.operators.stop_idle import StopIdleOperator

DOC = """
### Find the endpoints that nobody calls, each day

`sweep` lists the endpoints that got no request and no change for some hours, and says which of them stay. The task's
log and its result name these endpoints. `sweep` deletes nothing, unless the param `delete` is set.

* **Paused** at first: it needs AWS, or drydock. Unpause it together with a `_deploy` DAG.
* **Delete**: look at the list of a run, then trigger the DAG with `delete`. To delete each day, set the default of the
param in dags/endpoint_sweep.py. A deletion is an event in the model's history; `MODEL_deploy` deploys again.
* **Never deleted**: endpoints with the tag `leeway:keep`, and what Leeway did not make.
"""

with DAG(
    dag_id="endpoint_sweep",
    doc_md=DOC,
    description="Finds the endpoints that nobody calls, and deletes them if its param says so.",
    schedule=CronTriggerTimetable("40 0 * * *", timezone="UTC"),
    start_date=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    tags=["leeway", "flights", "serving"],
    params={
        "hours": Param(24, type="integer", minimum=1, maximum=1_440, description="Hours without a request."),
        "delete": Param(False, type="boolean", description="Delete the idle endpoints; if not, only list them."),
    },
    default_args=build_default_args("ml", execution_timeout=dt.timedelta(minutes=30)),
):
    StopIdleOperator(task_id="sweep", hours="{{ params.hours }}", delete="{{ params.delete }}")
