"""Test that Terraform and DeployOperator work on one endpoint: each leaves alone what the other one decides."""

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from leeway.operators.deploy import DeployOperator

from pipelines.serving.endpoint_resources import VARIANT
from tests.tools.endpoint_requests import invoke
from tests.tools.recording import TEST_ACCESS_KEY
from tests.tools.terraform import Terraform

pytestmark = pytest.mark.usefixtures("ended_endpoints")

ENDPOINT = "adopted"
AT_ONCE = {"traffic": "all_at_once", "wait_s": 0, "bake_s": 0, "error_count": 3}
OVERRIDE = """
provider "aws" {
  access_key                  = "KEY"
  secret_key                  = "any"
  skip_credentials_validation = true
  skip_metadata_api_check     = true

  endpoints {
    sagemaker  = "URL"
    cloudwatch = "URL"
    sts        = "URL"
  }
}
"""
ALARM = {"metric": "ModelLatency", "statistic": "p99", "threshold": 250_000}
QUIET = {"metric": "Invocations", "statistic": "Sum", "threshold": 1, "below": True}
VARIABLES = {"region": "us-east-1", "mwaa": None, "endpoints": {ENDPOINT: {"alarms": {"slow": ALARM, "quiet": QUIET}}}}
TARGETS = ("-target=aws_sagemaker_endpoint.adopted", "-target=aws_cloudwatch_metric_alarm.endpoint")


@pytest.fixture
def terraform(drydock, tmp_path):
    """Initialize a copy of the configuration that reaches drydock."""
    terraform = Terraform(
        tmp_path / "terraform", drydock.url, OVERRIDE.replace("URL", drydock.url).replace("KEY", TEST_ACCESS_KEY)
    )
    terraform.init()
    return terraform


@pytest.fixture
def deploy(write_serving_project, drydock, tmp_path):
    """Return the function that deploys a version to the endpoint, as a DAG run's task."""
    write_serving_project({"versions/1": "good", "versions/2": "good", "params.yaml": ""})

    def run(version):
        with DAG("adopted"):
            task = DeployOperator(
                task_id="task", model="boats", version=version, endpoint=ENDPOINT, serving=AT_ONCE, image_uri="image",
                deferrable=False, check_interval_s=1, python=str(tmp_path / "python"),
            )  # fmt: skip
        ti: Any = SimpleNamespace(run_id=f"v{version}", map_index=-1, try_number=1, max_tries=2)
        return task.execute({"ti": ti})

    return run


@pytest.mark.soak
def test_terraform_adopts_an_endpoint_that_releases_go_on_to_change(drydock, deploy, terraform):
    deploy("1")
    plan = terraform.plan(**VARIABLES, options=("-refresh=true", *TARGETS))
    assert plan.returncode == 0, plan.stderr
    assert "1 to import, 2 to add, 0 to change, 0 to destroy" in plan.stdout
    applied = terraform.run("apply", "-no-color", "plan")
    assert applied.returncode == 0, applied.stderr
    assert invoke(drydock, ENDPOINT) == "1"
    names = [f"leeway-{ENDPOINT}-{name}" for name in ("slow", "quiet")]
    alarms = drydock.client("cloudwatch").describe_alarms(AlarmNames=names)["MetricAlarms"]
    missing = {alarm["AlarmName"]: alarm["TreatMissingData"] for alarm in alarms}
    assert missing == {names[0]: "notBreaching", names[1]: "breaching"}
    for alarm in alarms:
        assert {item["Name"]: item["Value"] for item in alarm["Dimensions"]}["VariantName"] == VARIANT
    # The next release is that of DeployOperator, and Terraform has nothing to change after it.
    assert deploy("2")["changed"] and invoke(drydock, ENDPOINT) == "2"
    again = terraform.plan(**VARIABLES, options=("-refresh=true", "-detailed-exitcode", *TARGETS))
    assert again.returncode == 0, f"{again.stdout}\n{again.stderr}"
    # Terraform does not delete the endpoint when it is left out; it says so.
    left_out = terraform.plan(**{**VARIABLES, "endpoints": {}}, options=("-refresh=true", *TARGETS))
    assert left_out.returncode == 1 and "prevent_destroy" in left_out.stderr
    forgotten = terraform.run("state", "rm", "-no-color", f'aws_sagemaker_endpoint.adopted["{ENDPOINT}"]')
    assert forgotten.returncode == 0, forgotten.stderr
    removed = terraform.plan(**{**VARIABLES, "endpoints": {}}, options=("-refresh=true", *TARGETS))
    assert "0 to add, 0 to change, 2 to destroy" in removed.stdout, "only the alarms are left to delete"
