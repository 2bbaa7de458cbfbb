"""Test ShadowOperator with a real drydock: copies of real requests, judged by the real step; killed workers."""

import datetime as dt
import json
import random
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from leeway.hooks.endpoint.shadow_requests import SHADOW_TAG, ShadowRecord
from leeway.operators.deploy import DeployOperator
from leeway.operators.shadow import ShadowOperator
from leeway.triggers.shadow import ShadowTrigger

from pipelines.lake import Lake
from pipelines.registry.lifecycle import Journal
from tests.tools.killed_worker import kill_worker

pytestmark = pytest.mark.usefixtures("ended_endpoints")

ROOT = Path(__file__).parents[3]
MODEL, DATASET, DAY = "ferries", "shadowed_ferries", dt.date(2013, 1, 1)
AT_ONCE = {"traffic": "all_at_once", "wait_s": 0, "bake_s": 0, "error_count": 1_000}
PARAMETERS = f"""
snapshot: {{dataset: {DATASET}}}
shadow: {{min_requests: 100, max_error_increase: 0.1, min_labelled_rows: 100, latency_margin_ms: 60000, quiet_s: 2.5}}
"""
PACKAGE = f"""
from pipelines.dataset import Dataset

DATASET = Dataset(name={DATASET!r}, key=("date", "number"), label="late", features={{"x": "number"}})
"""
ROWS_A_REQUEST = 5


@pytest.fixture
def project(write_serving_project):
    """Set LEEWAY_PROJECT to a project with a dataset, whose versions are files; return it."""
    versions = {f"versions/{number}": mode for number, mode in enumerate(("good", "good", "shift=0.3", "broken"), 1)}
    files = {**versions, "champion": "1", "params.yaml": PARAMETERS, f"datasets/{DATASET}/__init__.py": PACKAGE}
    return write_serving_project(files)


@pytest.fixture
def endpoint(request):
    """Return the name of the test's endpoint."""
    return "".join(character if character.isalnum() else "-" for character in request.node.name)[5:45].strip("-")


@pytest.fixture
def make_task(request, tmp_path, endpoint):
    """Return the function that makes a new operator of the same task, as each try of a task does."""

    def make(operator=ShadowOperator, **fields):
        if operator is ShadowOperator:
            fields = {"minutes": 60, "requests": 120, **fields}
        with DAG("".join(character if character.isalnum() else "-" for character in request.node.name)):
            return operator(
                task_id=operator.step, model=MODEL, endpoint=endpoint, image_uri="image",
                python=str(tmp_path / "python"), **{"serving": AT_ONCE, **fields},
            )  # fmt: skip

    return make


@pytest.fixture
def run(make_task, context, finish):
    """Return the function that runs a task until it returns its result."""

    def run_task(operator=ShadowOperator, **fields):
        try:
            return make_task(operator, **fields).execute(context)
        except TaskDeferred as deferral:
            return finish(make_task(operator, **fields), deferral)

    return run_task


@pytest.fixture
def served(drydock, project, run, endpoint):
    """Deploy version 1 to the endpoint, and return the name of its configuration."""
    return run(DeployOperator)["config"]


@pytest.fixture
def context(context):
    """Return a context whose task instance stores its XCom."""
    context["ti"].xcom_push = lambda key, value: context.update(result=value)
    return context


class Requests:
    """Requests with rows of the dataset to an endpoint, one after the other, while the block runs."""

    def __init__(self, drydock, endpoint, build_score=lambda x: x):
        self._ended, self.answers, self._build_score = threading.Event(), [], build_score
        self._thread = threading.Thread(target=self._run, args=(drydock, endpoint))

    def _run(self, drydock, endpoint):
        client, number = drydock.client("sagemaker-runtime"), 0
        while not self._ended.wait(0.01):
            rows = [build_row(number + offset) for offset in range(ROWS_A_REQUEST)]
            number += ROWS_A_REQUEST
            response = client.invoke_endpoint(
                EndpointName=endpoint, ContentType="application/json", Accept="application/json",
                Body=json.dumps(rows).encode(),
            )  # fmt: skip
            scores = json.loads(response["Body"].read())["scores"]
            self.answers.append(scores == [self._build_score(row["x"]) for row in rows])

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        assert all(self.answers), "each client gets the answer of the version that serves"


def build_row(number):
    return {"date": str(DAY), "number": number, "x": round(random.Random(number).betavariate(2, 5) * 0.7, 6)}


def publish_labels(count=3_000):
    """Publish rows whose label is true with the probability that version 1 gives."""
    rows = [build_row(number) for number in range(count)]
    labels = [random.Random(-1 - row["number"]).random() < row["x"] for row in rows]
    columns = {"date": [DAY] * count, "number": range(count), "x": [row["x"] for row in rows], "late": labels}
    schema = pa.schema([("date", pa.date32()), ("number", pa.int64()), ("x", pa.float64()), ("late", pa.bool_())])
    Lake.open().write_partition(DATASET, DAY, pa.table(columns, schema), ("date", "number"))


def describe(drydock, endpoint):
    return drydock.client("sagemaker").describe_endpoint(EndpointName=endpoint)


def list_configs(drydock, endpoint):
    configs = drydock.client("sagemaker").list_endpoint_configs(NameContains=endpoint)["EndpointConfigs"]
    return [config["EndpointConfigName"] for config in configs]


def read_record(drydock, endpoint):
    tags = drydock.client("sagemaker").list_tags(ResourceArn=describe(drydock, endpoint)["EndpointArn"])["Tags"]
    return ShadowRecord.parse({tag["Key"]: tag["Value"] for tag in tags}.get(SHADOW_TAG, ""))


def list_events(endpoint):
    events = Journal.open().read_state(MODEL).events
    return [(str(event.kind), event.version) for event in events if event.evidence["endpoint"] == endpoint]


def find_outcomes(result):
    return {check["name"].partition(" (")[0]: check["outcome"] for check in result["checks"]}


def test_equal_version_passes_and_the_endpoint_is_as_before(drydock, served, run, endpoint):
    with Requests(drydock, endpoint):
        result = run(version="2")
    assert (result["outcome"], result["version"], result["champion"]) == ("passed", "2", "1"), result["reason"]
    assert result["requests"] >= 100 and result["rows"] == ROWS_A_REQUEST * result["requests"]
    assert "all 5 checks passed" in result["reason"]
    (latency,) = [check for check in result["checks"] if check["name"].startswith("increase of the time of the scores")]
    assert latency["low"] <= latency["value"] <= latency["high"] and "the challenger" in latency["reason"]
    assert describe(drydock, endpoint)["EndpointConfigName"] == served
    assert list_configs(drydock, endpoint) == [served], "the configuration and the model of the shadow are deleted"
    assert list_events(endpoint) == [("deployed", "1"), ("shadow_passed", "2")]
    page = Path(result["page"].removeprefix("file://")).read_text()
    assert "version 2 in the shadow of version 1" in page and "data:image/png" in page


@pytest.mark.soak
def test_version_with_other_scores_fails_without_a_retry(drydock, served, run, endpoint, context):
    with Requests(drydock, endpoint), pytest.raises(AirflowFailException) as error:
        run(version="3")
    assert f"version 3 of ferries failed as a shadow on endpoint {endpoint}, which serves version 1" in str(error.value)
    assert "mean difference of the scores is 0.3" in str(error.value) and "\n" not in str(error.value)
    outcomes = find_outcomes(context["result"])
    assert outcomes["drift of the scores"] == outcomes["mean difference of the scores"] == "failed"
    assert outcomes["increase of the share of errors"] == outcomes["requests that both versions answered"] == "passed"
    assert describe(drydock, endpoint)["EndpointConfigName"] == served
    assert read_record(drydock, endpoint).outcome == "failed", "it stays, for a retry after a kill"
    assert list_events(endpoint)[-1] == ("shadow_failed", "3")


@pytest.mark.soak
def test_versions_of_a_multiclass_model_are_compared_by_their_classes(drydock, project, run, endpoint, context):
    package = project / "datasets" / DATASET / "__init__.py"
    package.write_text(PACKAGE.replace('label="late"', 'label="late", task="multiclass"'))
    for version, mode in enumerate(("classes", "classes", "classes,shift=0.4"), 1):
        (project / "versions" / f"{version}").write_text(mode)
    served = run(DeployOperator)["config"]
    with Requests(drydock, endpoint, lambda x: {"late": x, "on time": 1 - x}):
        result = run(version="2")
        assert find_outcomes(result)["share of rows with the same class"] == "passed", result["reason"]
        with pytest.raises(AirflowFailException, match="share of rows with the same class is 0"):
            run(version="3")
    assert (result["outcome"], describe(drydock, endpoint)["EndpointConfigName"]) == ("passed", served)


@pytest.mark.soak
def test_version_whose_inference_fails_fails_by_its_errors(drydock, served, run, endpoint, context):
    with Requests(drydock, endpoint), pytest.raises(AirflowFailException, match="requests failed, and 0 of"):
        run(version="4")
    assert find_outcomes(context["result"])["increase of the share of errors"] == "failed"
    assert (context["result"]["requests"], describe(drydock, endpoint)["EndpointConfigName"]) == (0, served)


def test_version_that_is_worse_on_labels_fails_its_paired_metric(drydock, project, served, run, endpoint, context):
    publish_labels()
    (project / "params.yaml").write_text(
        PARAMETERS.replace(
            "quiet_s", "max_score_difference: 1, max_psi: 99, comparisons: [{metric: log_loss}], quiet_s"
        )
    )
    with Requests(drydock, endpoint), pytest.raises(AirflowFailException, match="log_loss against the champion's is -"):
        run(version="3")
    outcomes = find_outcomes(context["result"])
    assert [name for name, outcome in outcomes.items() if outcome == "failed"] == ["log_loss against the champion's"]
    assert context["result"]["labelled_rows"] == context["result"]["rows"]


@pytest.mark.soak
def test_too_few_requests_are_undecided_and_the_task_succeeds(drydock, served, run, endpoint):
    with Requests(drydock, endpoint):
        result = run(version="2", requests=5)
    assert (result["outcome"], describe(drydock, endpoint)["EndpointConfigName"]) == ("undecided", served)
    assert "requests that both versions answered are" in result["reason"]
    assert list_events(endpoint)[-1] == ("shadow_undecided", "2")


@pytest.mark.soak
def test_retry_of_a_killed_worker_attaches_and_its_clock_continues(
    drydock, served, make_task, run, context, resume, endpoint, until
):
    names = ("model", "version", "endpoint", "minutes", "requests", "serving", "image_uri", "python")
    kill_worker(make_task(version="2"), names, "leeway.operators.shadow:wait_for_shadow", is_called=False)
    began = read_record(drydock, endpoint)
    assert began and not began.until
    with pytest.raises(TaskDeferred) as deferral:
        make_task(version="2").execute(context)
    assert isinstance(deferral.value.trigger, ShadowTrigger), "no second update"
    assert deferral.value.trigger.wait.since == began.since
    # The time is over: this try ends the shadow, and dies before its judgement.
    with pytest.raises(TaskDeferred):
        resume(make_task(version="2"), deferral.value, deferral.value.trigger.wait.build_event("over"))
    ended = read_record(drydock, endpoint)
    assert ended.since == began.since and ended.until
    assert describe(drydock, endpoint)["EndpointConfigName"] != served, "the change back is not requested yet"
    result = run(version="2")
    assert (result["outcome"], describe(drydock, endpoint)["EndpointConfigName"]) == ("undecided", served)


def test_cleared_task_removes_its_shadow(drydock, served, make_task, context, resume, endpoint, until):
    import asyncio

    with pytest.raises(TaskDeferred) as update:
        make_task(version="2").execute(context)
    with pytest.raises(TaskDeferred) as deferral:
        resume(make_task(version="2"), update.value)
    asyncio.run(deferral.value.trigger.on_kill())
    until(lambda: describe(drydock, endpoint)["EndpointConfigName"] == served)
    until(lambda: describe(drydock, endpoint)["EndpointStatus"] == "InService")
    asyncio.run(deferral.value.trigger.on_kill())
    assert describe(drydock, endpoint)["EndpointStatus"] == "InService", "there is no shadow to remove any more"


def test_version_that_does_not_load_leaves_the_endpoint_as_it_was(drydock, project, served, run, endpoint):
    (project / "versions/2").write_text("crash")
    with pytest.raises(AirflowFailException, match=r"did not start as a shadow .*the weights are missing") as error:
        run(version="2")
    assert "\n" not in str(error.value) and "The end of its log: " in str(error.value)
    assert (describe(drydock, endpoint)["EndpointStatus"], list_configs(drydock, endpoint)) == ("InService", [served])
    assert list_events(endpoint)[-1] == ("shadow_failed", "2")


SKIPPED: dict[str, tuple[dict[str, Any], str]] = {
    "no minutes": ({"minutes": 0}, "shadow_minutes is 0"),
    "same version": ({"version": "1"}, "serves version 1 already"),
}


def test_nothing_to_compare_skips_the_task_and_says_which_version(drydock, served, run, endpoint, context):
    for fields, text in SKIPPED.values():
        with pytest.raises(AirflowSkipException, match=text):
            run(**{"version": "2", **fields})
        assert context["result"]["version"] == fields.get("version", "2")
    assert list_configs(drydock, endpoint) == [served]


def test_without_an_endpoint_there_is_no_shadow(drydock, project, run, endpoint):
    with pytest.raises(AirflowSkipException, match=f"there is no endpoint {endpoint} yet"):
        run(version="2")


def test_other_features_and_a_small_budget_are_refused_before_anything_is_created(
    drydock, project, served, run, endpoint
):
    (project / "versions/2.features").write_text("x wind")
    before = drydock.list_uploads()
    with pytest.raises(AirflowFailException, match=r"version 2 has other features than version 1: \+wind\.") as error:
        run(version="2")
    assert "\n" not in str(error.value) and drydock.list_uploads() == before
    (project / "params.yaml").write_text(PARAMETERS + "budget: {project: ferry, month_usd: 0.01}\n")
    with pytest.raises(AirflowFailException, match="the budget does not allow a shadow on endpoint"):
        run(version="3")
    assert list_configs(drydock, endpoint) == [served]
