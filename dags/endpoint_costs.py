"""Create the DAG endpoint_costs: write into the lake what the endpoints cost and used."""

import datetime as dt

from airflow.sdk import DAG, CronTriggerTimetable
from leeway.default_args import build_default_args
from leeway.operators.meter_endpoints import MeterEndpointsOperator

DOC = """
### What the endpoints cost, each day

`meter` writes a row for each endpoint and day into the table `endpoint_costs`: instance hours, serverless seconds,
USD, what scaling to zero saved, and what the instances used. `python -m pipelines costs report` shows them beside the
jobs, and `costs advice` says whether the size is right.

* **Paused** at first: it needs AWS, or drydock. Unpause it together with a `_deploy` DAG.
* **A run that was missed** does not matter: the next one meters all hours since the last.
* **An instance type without a price** fails the run. The other endpoints are metered, and the hours of this one are
metered once its price is known. The page docs/reference/costs.md says how to set the price.
"""

with DAG(
    dag_id="endpoint_costs",
    doc_md=DOC,
    description="Writes into the lake what the endpoints cost.",
    schedule=CronTriggerTimetable("10 0 * * *", timezone="UTC"),
    start_date=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    tags=["leeway", "flights", "serving"],
    default_args=build_default_args("data", execution_timeout=dt.timedelta(minutes=30)),
):
    MeterEndpointsOperator(task_id="meter")
