"""Test that a change of the champion outside Airflow starts a DAG, in a real Airflow that watches a real MLflow."""

import pytest
from mlflow import MlflowClient


@pytest.fixture
def registry(airflow, mlflow_uri):
    """Return MLflow's client, for a model with three versions, and let the triggerer watch it."""
    client = MlflowClient(mlflow_uri, mlflow_uri)
    client.create_registered_model("watched")
    for _ in range(3):
        client.create_model_version("watched", source="s3://leeway/nothing")
    airflow.kill("triggerer")
    airflow.env["MLFLOW_TRACKING_URI"] = mlflow_uri
    airflow.start("triggerer")
    yield client
    del airflow.env["MLFLOW_TRACKING_URI"]
    client.delete_registered_model("watched")


def test_change_by_another_client_starts_one_run_and_a_killed_triggerer_none(airflow, registry, until):
    def list_runs():
        return airflow.call_api("GET", "/dags/champion/dagRuns")["dag_runs"]

    until(lambda: "the champion is none yet" in (airflow.home / "triggerer.log").read_text(), 180)
    assert list_runs() == [], "the first look is no change"
    registry.set_registered_model_alias("watched", "champion", "1")
    until(lambda: len(list_runs()) == 1, 120)
    registry.set_registered_model_alias("watched", "champion", "2")
    until(lambda: len(list_runs()) == 2, 120)
    until(lambda: read_stored_champion(airflow) == "2", 60)
    airflow.kill("triggerer")
    registry.set_registered_model_alias("watched", "champion", "1")  # a rollback while nobody looks
    airflow.start("triggerer")
    until(lambda: len(list_runs()) == 3, 120)
    until(lambda: read_stored_champion(airflow) == "1", 60)
    airflow.kill("triggerer")
    airflow.start("triggerer")
    registry.set_registered_model_alias("watched", "champion", "3")
    until(lambda: read_stored_champion(airflow) == "3", 120)
    runs = list_runs()
    assert [run["run_type"] for run in runs] == ["asset_triggered"] * 4, "one for each change, none for a restart"
    (asset,) = airflow.call_api("GET", "/assets?name_pattern=watched_champion")["assets"]
    events = airflow.call_api("GET", f"/assets/events?asset_id={asset['id']}&order_by=timestamp")["asset_events"]
    assert [event["extra"]["payload"]["champion"] for event in events] == ["1", "2", "1", "3"]


def read_stored_champion(airflow):
    """Return the champion whose event Airflow has surely stored; None if there is none."""
    import sqlite3
    from contextlib import closing

    query = (
        "SELECT s.value FROM asset_state_store s JOIN asset a ON a.id = s.asset_id WHERE a.name = 'watched_champion'"
    )
    with closing(sqlite3.connect(airflow.home / "airflow.db")) as database:
        row = database.execute(query).fetchone()
    return row and row[0].strip('"')
