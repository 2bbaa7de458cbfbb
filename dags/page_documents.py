"""Create the DAG page_documents: write what Leeway's page shows, as JSON documents, to S3, for MWAA."""

import datetime as dt

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, CronTriggerTimetable
from leeway.default_args import build_default_args

DOC = """
### Write the documents of Leeway's page to S3

Leeway's page in Airflow shows JSON documents. On MWAA, the API server cannot read them from a folder of the workers.
The task `write` therefore runs `python -m pipelines status --write`: it reads the lake, and copies the documents to the
address in `LEEWAY_STATUS_COPY`. The API server fetches them from there.

* This DAG is **paused** at first. Unpause it on MWAA. It is not needed where `python -m pipelines status --watch` runs
as a service. `make up` and docker-compose.yaml start this service.
* If a run is **missed**, nothing is lost: the page says how old its documents are.
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
