"""The AWS CLI, unmodified: commands as a person types them, with AWS_ENDPOINT_URL. Version 1, which is on PyPI.

`aws logs tail` is version 2's only; it asks FilterLogEvents, as `aws logs filter-log-events` here does.
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

AWS = shutil.which("aws", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
GROUP = "/aws/sagemaker/TrainingJobs"

pytestmark = pytest.mark.skipif(AWS is None, reason="no `aws`: neither beside this Python nor on the PATH")


@pytest.fixture(scope="module")
def cli(aws: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Types `aws ...`; gives what it answers (JSON where it is that)."""
    folder = tmp_path_factory.mktemp("cli")

    def run(*words: str, refused: str = "") -> Any:
        done = subprocess.run([str(AWS), *words], env=aws, cwd=folder, capture_output=True, text=True)
        if refused:
            assert done.returncode != 0 and refused in done.stderr, done.stdout + done.stderr
            return done.stderr
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.lstrip().startswith(("{", "[", '"')) else done.stdout

    return run


@pytest.fixture(scope="module")
def create(cli: Callable[..., Any], drydock: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Types `aws sagemaker create-training-job --cli-input-json file://...`."""
    folder = tmp_path_factory.mktemp("requests")

    def run(name: str, script: str, refused: str = "", **more: Any) -> Any:
        (folder / f"{name}.json").write_text(json.dumps(drydock.build_request(name, script, **more)))
        given = ("--cli-input-json", f"file://{folder / name}.json")
        return cli("sagemaker", "create-training-job", *given, refused=refused)

    return run


def sagemaker(cli: Callable[..., Any], verb: str, name: str, refused: str = "") -> Any:
    return cli("sagemaker", f"{verb}-training-job", "--training-job-name", name, refused=refused)


def wait(cli: Callable[..., Any], drydock: Any, name: str, refused: str = "") -> None:
    drydock.wait_for_end(name)  # the CLI's own waiter asks once in two minutes, and cannot be told to ask more often
    words = ("training-job-completed-or-stopped", "--training-job-name", name)
    cli("sagemaker", "wait", *words, refused=refused)


def said(cli: Callable[..., Any], name: str) -> list[str]:
    found = cli("logs", "describe-log-streams", "--log-group-name", GROUP, "--log-stream-name-prefix", f"{name}/")
    stream = found["logStreams"][0]["logStreamName"]
    words = ("--log-group-name", GROUP, "--log-stream-name", stream, "--start-from-head")
    return [event["message"] for event in cli("logs", "get-log-events", *words)["events"]]


def test_create_wait_describe_logs_outputs(
    cli: Any, create: Any, drydock: Any, scripts: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "rows" / "deep").mkdir(parents=True)
    (tmp_path / "rows" / "a.csv").write_text("1")
    (tmp_path / "rows" / "deep" / "b.csv").write_text("2")
    cli("s3", "sync", str(tmp_path / "rows"), "s3://bucket/rows/")
    channels = [drydock.build_channel("train", "s3://bucket/rows/")]
    answer = create("whole", scripts["counter"], InputDataConfig=channels)
    assert answer["TrainingJobArn"].endswith(":training-job/whole")
    wait(cli, drydock, "whole")
    done = sagemaker(cli, "describe", "whole")
    assert done["TrainingJobStatus"] == "Completed" and done["BillableTimeInSeconds"] >= 1
    assert said(cli, "whole") == ["from 0", "loss=0.25;"]
    words = ("--log-group-name", GROUP, "--log-stream-name-prefix", "whole/", "--filter-pattern", "loss")
    assert [one["message"] for one in cli("logs", "filter-log-events", *words)["events"]] == ["loss=0.25;"]
    cli("s3", "cp", done["ModelArtifacts"]["S3ModelArtifacts"], str(tmp_path / "model.tar.gz"))
    subprocess.run(["tar", "xf", "model.tar.gz"], cwd=tmp_path, check=True)
    assert (tmp_path / "count").read_text() == "30"
    cli("s3", "cp", "s3://bucket/output/nobody/output/model.tar.gz", str(tmp_path), refused="404")
    listed = (
        "sagemaker",
        "list-training-jobs",
        "--name-contains",
        "whole",
        "--query",
        "TrainingJobSummaries[].TrainingJobName",
    )
    assert cli(*listed) == ["whole"]


def test_a_failure(cli: Any, create: Any, drydock: Any, scripts: dict[str, str]) -> None:
    create("broken", scripts["fails"])
    wait(cli, drydock, "broken", refused="terminal failure state")
    done = sagemaker(cli, "describe", "broken")
    assert done["TrainingJobStatus"] == "Failed" and "the hull is leaking" in done["FailureReason"]


def test_a_stop(cli: Any, create: Any, drydock: Any, scripts: dict[str, str], forever: dict[str, str]) -> None:
    create("stopped", scripts["counter"], Environment=forever)
    drydock.wait_for_line("stopped", "from 0")
    sagemaker(cli, "stop", "stopped")
    wait(cli, drydock, "stopped")
    assert sagemaker(cli, "describe", "stopped")["TrainingJobStatus"] == "Stopped"
    sagemaker(cli, "stop", "stopped", refused="The request was rejected because the training job is in status Stopped.")


def test_an_interruption(cli: Any, create: Any, drydock: Any, scripts: dict[str, str], held: dict[str, str]) -> None:
    create("spot", scripts["counter"], Environment=held, **drydock.build_spot_fields("spot"))
    drydock.wait_for_line("spot", "from 0")
    drydock.wait_until("a checkpoint", lambda: drydock.list_keys("checkpoints/spot/"))
    drydock.send_command("interrupt", job="spot", capacity_back_after_s=0.2)
    wait(cli, drydock, "spot")
    done = sagemaker(cli, "describe", "spot")
    assert "Interrupted" in [one["Status"] for one in done["SecondaryStatusTransitions"]]
    assert done["TrainingJobStatus"] == "Completed"
    assert done["BillableTimeInSeconds"] <= done["TrainingTimeInSeconds"]


def test_what_is_refused(cli: Any, create: Any, drydock: Any) -> None:
    create("taken", "print(1)")
    create("taken", "print(1)", refused="(ResourceInUse)")
    sagemaker(cli, "describe", "nobody", refused="(ValidationException)")
    sagemaker(cli, "stop", "nobody", refused="(ResourceNotFound)")
    create(
        "no-role", "print(1)", refused="Member must satisfy regular expression pattern", RoleArn="arn:aws:iam::1:user/x"
    )
    limits = {"StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 30}}
    create("wrong-way", "print(1)", refused="It must be above or equal to", **drydock.build_spot_fields("w", **limits))


def test_processing(cli: Any, drydock: Any, processing: Any, programs: dict[str, str], tmp_path: Path) -> None:
    for name, program in (("reports", "reports"), ("breaks", "fails")):
        (tmp_path / "request.json").write_text(json.dumps(processing(drydock, name, programs[program])))
        cli("sagemaker", "create-processing-job", "--cli-input-json", f"file://{tmp_path}/request.json")
    words = ("sagemaker", "wait", "processing-job-completed-or-stopped", "--processing-job-name")
    cli(*words, "reports")
    cli("s3", "sync", "s3://bucket/reports/out", str(tmp_path))
    assert json.loads((tmp_path / "report.json").read_text()) == {"rows": 3}
    cli(*words, "breaks", refused="terminal failure state")
    told = cli("sagemaker", "describe-processing-job", "--processing-job-name", "breaks")
    assert "ExitCode 7" in told["FailureReason"]
    cli("sagemaker", "stop-processing-job", "--processing-job-name", "breaks", refused="is in status Failed")
