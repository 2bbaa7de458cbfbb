"""DAGs with the names and schedules of the real ones. Files in the project decide what they do."""

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, CronPartitionTimetable, dag, task
from airflow.timetables.assets import AssetOrTimeSchedule
from airflow.timetables.trigger import CronTriggerTimetable

PROJECT = Path(os.environ["LEEWAY_PROJECT"])
YEAR: dict[str, Any] = {"start_date": dt.datetime(2013, 1, 1), "end_date": dt.datetime(2013, 12, 31), "catchup": False}


@dag(schedule=CronPartitionTimetable("0 0 1 * *", timezone="UTC", key_format="%Y-%m"), **YEAR)
def weather_ingest():
    @task
    def publish(dag_run=None):
        with (PROJECT / "weather").open("a") as file:
            file.write(f"{dag_run.partition_key}\n")

    publish()


weather_ingest()


@dag(schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d"), **YEAR)
def flights_ingest():
    @task
    def ingest(dag_run=None):
        with (PROJECT / "ingested").open("a") as file:
            file.write(f"{dag_run.partition_key}\n")

    ingest()


flights_ingest()


@dag(
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable("0 0 1 * *", timezone="UTC"),
        assets=Asset("drift", uri="file:///drift"),
    ),
    max_active_runs=1,
    params={"promote_in_backfill": None},
    **YEAR,
)
def flights_train():
    @task
    def train(dag_run=None, params=None):
        with (PROJECT / "trained").open("a") as file:
            file.write(f"{dag_run.logical_date:%Y-%m-%d}\n")
        with (PROJECT / "kinds").open("a") as file:
            file.write(f"{dag_run.run_type == 'backfill'} {params['promote_in_backfill']}\n")
        if (PROJECT / "train.broken").exists():
            print("the training has failed")  # noqa: T201
            raise RuntimeError("step train ended with exit code 75")
        if (PROJECT / "train.slow").exists():
            # The child leaves the task's process group, as the steps of pipelines do.
            subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True, check=True)

    train()


flights_train()
