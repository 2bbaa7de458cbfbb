"""Test drydock with an unmodified AWS CLI and AWS_ENDPOINT_URL. It is version 1, which is on PyPI.

Only version 2 has `aws logs tail`. It calls FilterLogEvents, as `aws logs filter-log-events` does.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tools import forking

AWS = shutil.which("aws", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
GROUP = "/aws/sagemaker/TrainingJobs"

pytestmark = pytest.mark.skipif(AWS is None, reason="`aws` is missing: apt-get install awscli")


@pytest.fixture(scope="module")
def cli(aws: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Return the function that runs `aws ...` and returns its output, parsed if it is JSON.

    The commands are forked, but for those with `is_real`: a start of the CLI takes most of a second of CPU time.
    """
    folder = tmp_path_factory.mktemp("cli")

    def run(*words: str, error: str = "", is_real: bool = False) -> Any:
        command = [str(AWS), *words] if is_real else [sys.executable, str(AWS), *words]
        run_command = subprocess.run if is_real else forking.run
        result = run_command(command, env=aws, cwd=folder, capture_output=True, text=True)
        if error:
            assert result.returncode != 0 and error in result.stderr, result.stdout + result.stderr
            return result.stderr
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout) if result.stdout.lstrip().startswith(("{", "[", '"')) else result.stdout

    return run


@pytest.fixture(scope="module")
def create_job(cli: Callable[..., Any], drydock: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Return the function that runs `aws sagemaker create-training-job --cli-input-json file://...`."""
    folder = tmp_path_factory.mktemp("requests")

    def run(name: str, script: str, error: str = "", **fields: Any) -> Any:
        (folder / f"{name}.json").write_text(json.dumps(drydock.build_request(name, script, **fields)))
        arguments = ("--cli-input-json", f"file://{folder / name}.json")
        return cli("sagemaker", "create-training-job", *arguments, error=error)

    return run


def run_job_command(cli: Callable[..., Any], verb: str, name: str, error: str = "") -> Any:
    """Run `aws sagemaker VERB-training-job` for a job."""
    return cli("sagemaker", f"{verb}-training-job", "--training-job-name", name, error=error)


def wait(cli: Callable[..., Any], drydock: Any, name: str, error: str = "") -> None:
    """Wait for the end of a job, and run the CLI's waiter."""
    drydock.wait_for_end(name)  # the CLI's waiter polls only every two minutes
    words = ("training-job-completed-or-stopped", "--training-job-name", name)
    cli("sagemaker", "wait", *words, error=error)


def read_log(cli: Callable[..., Any], name: str) -> list[str]:
    """Return the lines of a job's log."""
    response = cli("logs", "describe-log-streams", "--log-group-name", GROUP, "--log-stream-name-prefix", f"{name}/")
    stream = response["logStreams"][0]["logStreamName"]
    words = ("--log-group-name", GROUP, "--log-stream-name", stream, "--start-from-head")
    return [event["message"] for event in cli("logs", "get-log-events", *words)["events"]]


def test_job_is_created_awaited_and_described_with_log_and_outputs(
    cli: Any, create_job: Any, drydock: Any, scripts: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "rows" / "deep").mkdir(parents=True)
    (tmp_path / "rows" / "a.csv").write_text("1")
    (tmp_path / "rows" / "deep" / "b.csv").write_text("2")
    cli("s3", "sync", str(tmp_path / "rows"), "s3://bucket/rows/", is_real=True)
    channels = [drydock.build_channel("train", "s3://bucket/rows/")]
    response = create_job("whole", scripts["counter"], InputDataConfig=channels)
    assert response["TrainingJobArn"].endswith(":training-job/whole")
    wait(cli, drydock, "whole")
    job = run_job_command(cli, "describe", "whole")
    assert job["TrainingJobStatus"] == "Completed" and job["BillableTimeInSeconds"] >= 1
    assert read_log(cli, "whole") == ["from 0", "loss=0.25;"]
    words = ("--log-group-name", GROUP, "--log-stream-name-prefix", "whole/", "--filter-pattern", "loss")
    assert [event["message"] for event in cli("logs", "filter-log-events", *words)["events"]] == ["loss=0.25;"]
    cli("s3", "cp", job["ModelArtifacts"]["S3ModelArtifacts"], str(tmp_path / "model.tar.gz"))
    subprocess.run(["tar", "xf", "model.tar.gz"], cwd=tmp_path, check=True)
    assert (tmp_path / "count").read_text() == "30"
    cli("s3", "cp", "s3://bucket/output/nobody/output/model.tar.gz", str(tmp_path), error="404")
    command = (
        "sagemaker",
        "list-training-jobs",
        "--name-contains",
        "whole",
        "--query",
        "TrainingJobSummaries[].TrainingJobName",
    )
    assert cli(*command) == ["whole"]


def test_waiter_and_description_report_a_failure(
    cli: Any, create_job: Any, drydock: Any, scripts: dict[str, str]
) -> None:
    create_job("broken", scripts["fails"])
    wait(cli, drydock, "broken", error="terminal failure state")
    job = run_job_command(cli, "describe", "broken")
    assert job["TrainingJobStatus"] == "Failed" and "the script fails" in job["FailureReason"]


@pytest.mark.soak
def test_job_is_stopped_once(
    cli: Any, create_job: Any, drydock: Any, scripts: dict[str, str], endless: dict[str, str]
) -> None:
    create_job("stopped", scripts["counter"], Environment=endless)
    drydock.wait_for_line("stopped", "from 0")
    run_job_command(cli, "stop", "stopped")
    wait(cli, drydock, "stopped")
    assert run_job_command(cli, "describe", "stopped")["TrainingJobStatus"] == "Stopped"
    run_job_command(
        cli, "stop", "stopped", error="The request was rejected because the training job is in status Stopped."
    )


@pytest.mark.soak
def test_interrupted_job_completes(
    cli: Any, create_job: Any, drydock: Any, scripts: dict[str, str], waits_for_interruption: dict[str, str]
) -> None:
    create_job("spot", scripts["counter"], Environment=waits_for_interruption, **drydock.build_spot_fields("spot"))
    drydock.wait_for_line("spot", "from 0")
    drydock.wait_until("a checkpoint", lambda: drydock.list_keys("checkpoints/spot/"))
    drydock.send_command("interrupt", job="spot", no_capacity_s=0.2)
    wait(cli, drydock, "spot")
    job = run_job_command(cli, "describe", "spot")
    assert "Interrupted" in [transition["Status"] for transition in job["SecondaryStatusTransitions"]]
    assert job["TrainingJobStatus"] == "Completed"
    assert job["BillableTimeInSeconds"] <= job["TrainingTimeInSeconds"]


def test_errors_are_reported(cli: Any, create_job: Any, drydock: Any) -> None:
    create_job("unique", "print(1)")
    create_job("unique", "print(1)", error="(ResourceInUse)")
    run_job_command(cli, "describe", "nobody", error="(ValidationException)")
    run_job_command(cli, "stop", "nobody", error="(ResourceNotFound)")
    create_job(
        "no-role", "print(1)", error="Member must satisfy regular expression pattern", RoleArn="arn:aws:iam::1:user/x"
    )
    limits = {"StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 30}}
    create_job(
        "wrong-limits", "print(1)", error="It must be above or equal to", **drydock.build_spot_fields("w", **limits)
    )


@pytest.mark.soak
def test_endpoint_is_created_awaited_invoked_and_deleted(cli: Any, drydock: Any, tmp_path: Path) -> None:
    code = "def model_fn(folder): pass\ndef transform_fn(model, body, content_type, accept): return body.upper()\n"
    uri = drydock.put("models/cli.tar.gz", drydock.pack_archive({"code/inference.py": code}))
    role = ("--execution-role-arn", "arn:aws:iam::123456789012:role/drydock")
    cli("sagemaker", "create-model", "--model-name", "m", "--primary-container", f"Image=i,ModelDataUrl={uri}", *role)
    variant = "VariantName=v,ModelName=m,InstanceType=ml.m5.large,InitialInstanceCount=1"
    config = ("--endpoint-config-name", "c")
    cli("sagemaker", "create-endpoint-config", *config, "--production-variants", variant)
    cli("sagemaker", "create-endpoint", "--endpoint-name", "e", *config)
    cli("sagemaker", "wait", "endpoint-in-service", "--endpoint-name", "e")
    (tmp_path / "body").write_text("text")
    words = ("--content-type", "text/csv", "--body", f"fileb://{tmp_path}/body", str(tmp_path / "answer"))
    response = cli("sagemaker-runtime", "invoke-endpoint", "--endpoint-name", "e", *words)
    assert response["InvokedProductionVariant"] == "v" and (tmp_path / "answer").read_text() == "TEXT"
    cli("sagemaker", "delete-endpoint", "--endpoint-name", "e")
    cli("sagemaker", "wait", "endpoint-deleted", "--endpoint-name", "e")


@pytest.mark.soak
def test_processing_jobs_are_created_and_awaited(
    cli: Any, drydock: Any, build_processing: Any, programs: dict[str, str], tmp_path: Path
) -> None:
    for name, program in (("reports", "reports"), ("breaks", "fails")):
        (tmp_path / "request.json").write_text(json.dumps(build_processing(drydock, name, programs[program])))
        cli("sagemaker", "create-processing-job", "--cli-input-json", f"file://{tmp_path}/request.json")
    words = ("sagemaker", "wait", "processing-job-completed-or-stopped", "--processing-job-name")
    cli(*words, "reports")
    cli("s3", "sync", "s3://bucket/reports/out", str(tmp_path))
    assert json.loads((tmp_path / "report.json").read_text()) == {"rows": 3}
    cli(*words, "breaks", error="terminal failure state")
    job = cli("sagemaker", "describe-processing-job", "--processing-job-name", "breaks")
    assert "ExitCode 7" in job["FailureReason"]
    cli("sagemaker", "stop-processing-job", "--processing-job-name", "breaks", error="is in status Failed")
