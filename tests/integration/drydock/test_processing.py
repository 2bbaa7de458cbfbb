"""Test processing jobs: CreateProcessingJob and related operations, with jobs that run."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

ROLE = "arn:aws:iam::123456789012:role/drydock"
GROUP = "/aws/sagemaker/ProcessingJobs"


def build_input(name: str, uri: str, path: str, **fields: Any) -> dict[str, Any]:
    """Return an input of a request."""
    source = {"S3Uri": uri, "LocalPath": path, "S3DataType": "S3Prefix", "S3InputMode": "File", **fields}
    return {"InputName": name, "S3Input": source}


def build_output(name: str, uri: str, path: str, mode: str = "EndOfJob") -> dict[str, Any]:
    """Return an output of a request."""
    return {"OutputName": name, "S3Output": {"S3Uri": uri, "LocalPath": path, "S3UploadMode": mode}}


def build_request(drydock: Any, name: str, script: str, **fields: Any) -> dict[str, Any]:
    """Upload a script, and return the request of a job that runs it."""
    drydock.put(f"processing/{name}/code/main.py", script.encode())
    code = build_input("code", f"s3://bucket/processing/{name}/code/", "/opt/ml/processing/input/code")
    outputs = [build_output("out", f"s3://bucket/processing/{name}/out", "/opt/ml/processing/output/out")]
    return {
        "ProcessingJobName": name,
        "RoleArn": ROLE,
        "AppSpecification": {
            "ImageUri": "image",
            "ContainerEntrypoint": ["python3", "/opt/ml/processing/input/code/main.py"],
            "ContainerArguments": ["--depth", "3"],
        },
        "ProcessingResources": {
            "ClusterConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 1}
        },
        "ProcessingInputs": [code, *fields.pop("inputs", [])],
        "ProcessingOutputConfig": {"Outputs": fields.pop("outputs", outputs)},
        **fields,
    }


def wait_for_end(drydock: Any, name: str) -> dict[str, Any]:
    """Wait for the end of a job, and return its description."""

    def find_ended() -> dict[str, Any] | None:
        job = drydock.client("sagemaker").describe_processing_job(ProcessingJobName=name)
        return dict(job) if job["ProcessingJobStatus"] in ("Completed", "Failed", "Stopped") else None

    return dict(drydock.wait_until(f"the end of {name}", find_ended))


COPY = """
import json, pathlib, sys
base = pathlib.Path(__file__).parents[2]
print("args", *sys.argv[1:])
config = json.loads((base.parent / "config" / "processingjobconfig.json").read_text())
assert config["ProcessingJobName"] == "copy"
text = (base / "input" / "data" / "a.csv").read_text()
(base / "output" / "out" / "sub").mkdir()
(base / "output" / "out" / "sub" / "b.csv").write_text(text.upper())
(base.parent / "output" / "message").write_text("completed")
"""


def test_job_downloads_inputs_and_uploads_outputs(drydock: Any) -> None:
    drydock.put("processing/data/a.csv", b"abc")
    data = build_input("data", "s3://bucket/processing/data/", "/opt/ml/processing/input/data")
    request = build_request(
        drydock, "copy", COPY, inputs=[data], Environment={"CUSTOM": "1"}, Tags=[{"Key": "k", "Value": "v"}]
    )
    arn = drydock.client("sagemaker").create_processing_job(**request)["ProcessingJobArn"]
    assert arn == "arn:aws:sagemaker:us-east-1:123456789012:processing-job/copy"
    job = wait_for_end(drydock, "copy")
    assert job["ProcessingJobStatus"] == "Completed" and job["ExitMessage"] == "completed"
    assert job["ProcessingStartTime"] <= job["ProcessingEndTime"] and job["AppSpecification"]["ImageUri"] == "image"
    assert drydock.get("s3://bucket/processing/copy/out/sub/b.csv") == b"ABC"
    assert drydock.read_full_log("copy", GROUP) == ["args --depth 3"]
    summaries = drydock.client("sagemaker").list_processing_jobs(NameContains="copy")["ProcessingJobSummaries"]
    assert [summary["ProcessingJobStatus"] for summary in summaries] == ["Completed"]
    assert drydock.client("sagemaker").list_tags(ResourceArn=arn)["Tags"] == [{"Key": "k", "Value": "v"}]
    with pytest.raises(ClientError, match="already exists"):
        drydock.client("sagemaker").create_processing_job(**request)


def test_failed_command_is_reported(drydock: Any) -> None:
    script = """
import pathlib, sys
(pathlib.Path(__file__).parents[3] / "output" / "message").write_text("no such column")
sys.exit(5)
"""
    drydock.client("sagemaker").create_processing_job(**build_request(drydock, "wrong", script))
    job = wait_for_end(drydock, "wrong")
    assert job["ProcessingJobStatus"] == "Failed" and job["ExitMessage"] == "no such column"
    assert "ExitCode 5" in job["FailureReason"]
    assert drydock.list_keys("processing/wrong/out") == []


def test_missing_input_is_reported(drydock: Any) -> None:
    data = build_input("data", "s3://bucket/not-there/", "/opt/ml/processing/input/data")
    drydock.client("sagemaker").create_processing_job(**build_request(drydock, "missing", "print(1)", inputs=[data]))
    assert "No S3 objects found" in wait_for_end(drydock, "missing")["FailureReason"]


def test_stopped_job_has_its_continuous_output(drydock: Any) -> None:
    script = """
import pathlib, time
(pathlib.Path(__file__).parents[2] / "output" / "live" / "part").write_text("1")
time.sleep(600)
"""
    live = build_output("live", "s3://bucket/processing/live/out", "/opt/ml/processing/output/live", "Continuous")
    drydock.client("sagemaker").create_processing_job(**build_request(drydock, "live", script, outputs=[live]))
    drydock.wait_until("the live output", lambda: drydock.list_keys("processing/live/out/"))
    drydock.client("sagemaker").stop_processing_job(ProcessingJobName="live")
    assert wait_for_end(drydock, "live")["ProcessingJobStatus"] == "Stopped"
    with pytest.raises(ClientError, match="is in status Stopped"):
        drydock.client("sagemaker").stop_processing_job(ProcessingJobName="live")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": [build_input("x", "s3://b/x", "/etc")]}, "LocalPath must be a folder under /opt/ml (got"),
        ({"inputs": [build_input("x", "s3://b/x", "/opt/ml/p", S3CompressionType="Gzip")]}, "only for Pipe mode"),
        ({"inputs": [build_input("code", "s3://b/x", "/opt/ml/p")]}, "InputNames must be unique"),
        ({"AppSpecification": {}}, "appSpecification.imageUri"),
        ({"StoppingCondition": {"MaxRuntimeInSeconds": 0}}, "greater than or equal to 1"),
    ],
)
def test_invalid_request_is_refused(drydock: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(drydock.client("sagemaker").exceptions.ClientError) as error:
        # boto3's own checks would refuse some of these requests before drydock does.
        drydock.create_unchecked_client("sagemaker").create_processing_job(
            **build_request(drydock, "refused", "print(1)", **change)
        )
    assert error.value.response["Error"]["Code"] == "ValidationException"
    assert message in error.value.response["Error"]["Message"]


@pytest.mark.parametrize(
    ("operation", "code"),
    [("describe_processing_job", "ValidationException"), ("stop_processing_job", "ResourceNotFound")],
)
def test_unknown_job_is_refused(drydock: Any, operation: str, code: str) -> None:
    with pytest.raises(ClientError, match="Could not find requested job with name: unknown") as error:
        getattr(drydock.client("sagemaker"), operation)(ProcessingJobName="unknown")
    assert error.value.response["Error"]["Code"] == code
