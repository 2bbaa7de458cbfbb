"""Define DAGs with real operators and little work: ingest a day, publish it, and train a model."""

import datetime as dt

from airflow.sdk import DAG, Asset, chain
from leeway.operators.ingest import IngestOperator
from leeway.operators.spot_training import SpotTrainingOperator
from leeway.operators.validate import ValidateOperator

FLIGHTS = Asset(name="flights", uri="x-leeway://lake/flights")
DAY = "{{ params.day }}"
FOLDER = "tests/integration/compose"

for dag_id, deferrable in (("deferred", True), ("waiting", False)):
    with DAG(
        dag_id,
        schedule=None,
        params={"day": "", "rows": "", "release_file": ""},
        default_args={"retries": 4, "retry_delay": dt.timedelta(seconds=1)},
        is_paused_upon_creation=False,
    ):
        ingest = IngestOperator(task_id="ingest", dataset="flights", partition=DAY)
        validate = ValidateOperator(task_id="validate", dataset="flights", partition=DAY, asset=FLIGHTS)
        train = SpotTrainingOperator(
            task_id="train",
            model="flights",
            entry_point=f"{FOLDER}/train.py",
            bundle=f"{FOLDER}/bundle.txt",
            channels={"train": "{{ params.rows }}"},
            hyperparameters={"release_file": "{{ params.release_file }}"},
            max_run_s=600,
            max_wait_s=900,
            check_interval_s=1,
            deferrable=deferrable,
        )
        chain(ingest, validate, train)
