"""Test that a file becomes a champion, in Airflow and by `dvc repro`, without one edited line of the files of `new`.

Each test needs the state that the tests before it leave.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import set_home
from tests.tools import forking, orders_file
from tests.tools.airflow_runs import AirflowRuns

pytestmark = pytest.mark.stateful

ROOT = Path(__file__).parents[3]
FIRST, LAST, AS_OF, DAYS = "2013-01-01", "2013-02-01", "2013-02-03", 32


@dataclass
class Shop:
    """A project that `new` made, and how its commands and DAGs are run."""

    project: Path
    env: dict[str, str]
    runs: AirflowRuns

    def run_dag(self, dag_id: str, logical: str | None = None, **conf: Any) -> SimpleNamespace:
        return self.runs.run(self.project / "dags", dag_id, logical, conf)

    def run(self, module: str, *arguments: str, folder: str = ".") -> SimpleNamespace:
        command = [sys.executable, "-m", module, *arguments]
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        child = forking.Popen(command, cwd=self.project / folder, env=self.env, start_new_session=True, **options)
        out, err = child.communicate(timeout=400)
        assert child.returncode == 0, err[-3_000:] + out[-2_000:]
        return SimpleNamespace(out=out, err=err)


@pytest.fixture(scope="module")
def shop(
    tmp_path_factory: pytest.TempPathFactory,
    drydock_server: Any,
    mlflow_uri: str,
    put_airflow_database: Callable[[Path], None],
) -> Iterator[Shop]:
    from pipelines.scaffold.creation import create
    from pipelines.scaffold.request import Request, refuse_to_ask
    from pipelines.settings import settings

    folder = tmp_path_factory.mktemp("shop")
    project = folder / "project"
    project.mkdir()
    orders_file.make_orders(DAYS).to_csv(folder / "orders.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        set_home(patch, folder / "home", project)
        create(Request("orders", str(folder / "orders.csv"), label="returned"), project, refuse_to_ask)
    settings.cache_clear()
    stand_in = forking.ensure_stand_in()
    path = (Path(stand_in).parent, Path(sys.executable).parent, os.environ["PATH"])
    extra = {"endpoint_url": drydock_server.url, "region_name": "us-east-1"}
    env = {
        **os.environ,
        "PATH": os.pathsep.join(map(str, path)),
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}",
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
            [
                {
                    "name": "dags",
                    "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
                    "kwargs": {"path": str(project / "dags")},
                }
            ]
        ),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(
            {"conn_type": "aws", "login": "AKIADRYDOCKTAKESANY0", "password": "any", "extra": extra}
        ),
        "AWS_ENDPOINT_URL": drydock_server.url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIADRYDOCKTAKESANY0",
        "AWS_SECRET_ACCESS_KEY": "any",
        "LEEWAY_PYTHON": stand_in,
        "LEEWAY_PROJECT": str(project),
        "LEEWAY_HOME": str(project / ".leeway"),
        "LEEWAY_BUCKET": "leeway",
        "LEEWAY_ROLE_ARN": "arn:aws:iam::123456789012:role/leeway-training",
        "MLFLOW_TRACKING_URI": mlflow_uri,
        "GIT_CEILING_DIRECTORIES": str(folder),
    }
    put_airflow_database(folder / "airflow")
    made = Shop(project, env, AirflowRuns(env, folder))
    yield made
    made.runs.close()


def test_before_the_first_training_some_answers_are_not_yet(shop: Shop) -> None:
    answers = {
        answer["question"]: answer for answer in json.loads(shop.run("pipelines", "check", "orders", "--json").out)
    }
    assert [answer["outcome"] for answer in answers.values()] == [
        "yes",
        "yes",
        "yes",
        "not yet",
        "not yet",
        "yes",
        "not yet",
        "yes",
    ]


def test_the_dag_ingests_a_day(shop: Shop) -> None:
    run = shop.run_dag("orders_ingest", LAST)
    assert run.state == "success", run.log[-9_000:]
    assert run.xcoms["validate"]["rows"] == 60


@pytest.mark.soak
def test_the_dag_trains_a_champion(shop: Shop) -> None:
    shop.run("pipelines", "backfill", "--dataset", "orders", "--first", FIRST, "--last", LAST)
    run = shop.run_dag("orders_train", as_of=AS_OF)
    assert run.state == "success", run.log[-9_000:]
    assert run.xcoms["gate"]["passed"] is True, run.xcoms["gate"]["reason"]
    assert run.xcoms["promote"]["changed"] is True


@pytest.mark.soak
def test_the_champion_scores_a_day_and_drift_is_decided(shop: Shop) -> None:
    run = shop.run_dag("orders_score", LAST)
    assert run.states == {"score": "skipped", "outcomes": "skipped", "profile": "skipped"}, "it saw the day's label"
    assert "was trained as of" in run.log
    run = shop.run_dag("orders_monitor", LAST)
    assert (run.state, run.xcoms["drift"]["outcome"]) == ("success", "undecided"), run.log[-9_000:]


@pytest.mark.soak
def test_dvc_repro_gives_the_same_model_which_passes(shop: Shop) -> None:
    """The tests of `docs` make champions by commands alone."""
    shop.run("dvc", "repro", "gate@orders")
    folder = "models/orders"
    assert json.loads((shop.project / folder / "data/verdict.json").read_text())["outcome"] == "passed"
    promoted = shop.run("pipelines", "registry", "promote", "orders").out
    assert "orders: version 1 is champion: it was champion already" in promoted, "it is Airflow's, byte-identical"
    events = shop.run("pipelines", "registry", "events", "orders").out
    assert "champion: 1" in events


@pytest.mark.soak
def test_the_section_tune_is_a_search_that_runs(shop: Shop) -> None:
    result = json.loads(shop.run("pipelines", "tune", "--trials", "1", folder="models/orders").out)
    assert (result["trials"], result["failed"]) == (1, 0)
    assert set(result["hyperparameters"]) == {"max_depth", "eta", "min_child_weight", "reg_lambda"}


@pytest.mark.soak
def test_all_answers_are_yes_and_a_wrong_policy_is_a_no(shop: Shop) -> None:
    answers = json.loads(shop.run("pipelines", "check", "orders", "--json").out)
    assert {answer["outcome"] for answer in answers} == {"yes"}, answers
    path = shop.project / "models/orders/params.yaml"
    text = path.read_text()
    path.write_text(text.replace("min_rows: ", "min_rows: 9"))
    try:
        with pytest.raises(AssertionError, match="gate: min_rows"):
            shop.run("pipelines", "check", "orders")
        with pytest.raises(AssertionError, match="error: orders version 1 did not pass the gate"):
            shop.run("pipelines", "registry", "promote", "orders")
    finally:
        path.write_text(text)


def test_the_tests_of_the_project_pass(shop: Shop) -> None:
    out = shop.run("pytest", "-q", "-p", "no:cacheprovider", "-k", "not spark", "tests").out
    assert "3 passed, 1 deselected" in out


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_the_generated_test_of_spark_finds_equal_features(shop: Shop) -> None:
    features = shop.project / "datasets/orders/features.py"
    assert "hour" in features.read_text(), "the project has features that an engine computes"
    out = shop.run("pytest", "-q", "-p", "no:cacheprovider", "-k", "spark", "tests").out
    assert "1 passed, 3 deselected" in out
