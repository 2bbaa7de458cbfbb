"""Create the DAG page_documents: write the documents of Leeway's page to S3, for MWAA."""

import datetime as dt

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, CronTriggerTimetable
from leeway.default_args import build_default_args

DOC = """
### The documents of Leeway's page, where the API server shares no folder with the workers

`write` runs `python -m pipelines status --write`, which reads the lake and copies the documents of the page to the
address in `LEEWAY_STATUS_COPY`. The API server fetches them there.

* **Paused** at first. Unpause it on MWAA. It is not needed where `python -m pipelines status --watch` runs as a
service, as `make up` and docker-compose.yaml start it.
* **A run that was missed** does not matter: the page says how old its documents are.
"""

with DAG(
    dag_id="page_documents",
    doc_md=DOC,
    description="Writes the documents of Leeway's page to S3.",
    schedule=CronTriggerTimetable("*/10 * * * *", timezone="UTC"),
    start_date=dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    tags=["leeway", "flights"],
    default_args=build_default_args("data", retries=1, execution_timeout=dt.timedelta(minutes=9)),
):
    BashOperator(
        task_id="write",
        bash_command='cd "${LEEWAY_PROJECT:?}" && exec "${LEEWAY_PYTHON:-python}" -m pipelines status --write',
    )
