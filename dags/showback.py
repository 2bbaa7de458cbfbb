"""Create the DAG showback: check budgets and daily costs, and notify people once of each finding."""

import datetime as dt

from airflow.sdk import DAG, CronTriggerTimetable
from leeway.default_args import build_default_args
from leeway.operators.showback import ShowbackOperator

DOC = """
### Budgets and daily costs, each day

`showback` compares the costs of the month with the budgets, and the costs of each day with those of earlier days. It
notifies people once when the costs reach a threshold of a budget, when a budget will probably be exceeded, and when the
costs of a day are unusually high.

* **Paused** at first: unpause it once mail or Slack is set up, as the page docs/how-to/notifications.md says.
* **It reads only the lake.** The costs of endpoints are counted up to their last metering, so unpause
  `endpoint_costs`, too.
* **A retry** reports the same notices again, and so does a run that is cleared. No other run does.
"""

with DAG(
    dag_id="showback",
    doc_md=DOC,
    description="Checks budgets and daily costs, and notifies people once of each finding.",
    schedule=CronTriggerTimetable("40 0 * * *", timezone="UTC"),
    start_date=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    tags=["leeway", "flights"],
    default_args=build_default_args("data", execution_timeout=dt.timedelta(minutes=30)),
):
    ShowbackOperator(task_id="showback")
