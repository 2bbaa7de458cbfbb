"""Processing jobs: CreateProcessingJob and its kin, really run."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

ROLE = "arn:aws:iam::123456789012:role/drydock"
GROUP = "/aws/sagemaker/ProcessingJobs"


def s3_input(name: str, uri: str, path: str, **more: Any) -> dict[str, Any]:
    source = {"S3Uri": uri, "LocalPath": path, "S3DataType": "S3Prefix", "S3InputMode": "File", **more}
    return {"InputName": name, "S3Input": source}


def s3_output(name: str, uri: str, path: str, mode: str = "EndOfJob") -> dict[str, Any]:
    return {"OutputName": name, "S3Output": {"S3Uri": uri, "LocalPath": path, "S3UploadMode": mode}}


def request(drydock: Any, name: str, script: str, **more: Any) -> dict[str, Any]:
    drydock.put(f"processing/{name}/code/main.py", script.encode())
    code = s3_input("code", f"s3://bucket/processing/{name}/code/", "/opt/ml/processing/input/code")
    outputs = [s3_output("out", f"s3://bucket/processing/{name}/out", "/opt/ml/processing/output/out")]
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
        "ProcessingInputs": [code, *more.pop("inputs", [])],
        "ProcessingOutputConfig": {"Outputs": more.pop("outputs", outputs)},
        **more,
    }


def wait_for_end(drydock: Any, name: str) -> dict[str, Any]:
    def probe() -> dict[str, Any] | None:
        found = drydock.client("sagemaker").describe_processing_job(ProcessingJobName=name)
        return dict(found) if found["ProcessingJobStatus"] in ("Completed", "Failed", "Stopped") else None

    return dict(drydock.wait_until(f"the end of {name}", probe))


COPY = """
import json, pathlib, sys
base = pathlib.Path(__file__).parents[2]
print("args", *sys.argv[1:])
config = json.loads((base.parent / "config" / "processingjobconfig.json").read_text())
assert config["ProcessingJobName"] == "copy"
text = (base / "input" / "data" / "a.csv").read_text()
(base / "output" / "out" / "sub").mkdir()
(base / "output" / "out" / "sub" / "b.csv").write_text(text.upper())
(base.parent / "output" / "message").write_text("all well")
"""


def test_downloads_inputs_and_uploads_outputs(drydock: Any) -> None:
    drydock.put("processing/data/a.csv", b"abc")
    data = s3_input("data", "s3://bucket/processing/data/", "/opt/ml/processing/input/data")
    asked = request(drydock, "copy", COPY, inputs=[data], Environment={"OWN": "1"}, Tags=[{"Key": "k", "Value": "v"}])
    arn = drydock.client("sagemaker").create_processing_job(**asked)["ProcessingJobArn"]
    assert arn == "arn:aws:sagemaker:us-east-1:123456789012:processing-job/copy"
    done = wait_for_end(drydock, "copy")
    assert done["ProcessingJobStatus"] == "Completed" and done["ExitMessage"] == "all well"
    assert done["ProcessingStartTime"] <= done["ProcessingEndTime"] and done["AppSpecification"]["ImageUri"] == "image"
    assert drydock.get("s3://bucket/processing/copy/out/sub/b.csv") == b"ABC"
    assert drydock.read_full_log("copy", GROUP) == ["args --depth 3"]
    listed = drydock.client("sagemaker").list_processing_jobs(NameContains="copy")["ProcessingJobSummaries"]
    assert [one["ProcessingJobStatus"] for one in listed] == ["Completed"]
    assert drydock.client("sagemaker").list_tags(ResourceArn=arn)["Tags"] == [{"Key": "k", "Value": "v"}]
    with pytest.raises(ClientError, match="already exists"):
        drydock.client("sagemaker").create_processing_job(**asked)


def test_reports_a_failed_command(drydock: Any) -> None:
    script = """
import pathlib, sys
(pathlib.Path(__file__).parents[3] / "output" / "message").write_text("no such column")
sys.exit(5)
"""
    drydock.client("sagemaker").create_processing_job(**request(drydock, "wrong", script))
    done = wait_for_end(drydock, "wrong")
    assert done["ProcessingJobStatus"] == "Failed" and done["ExitMessage"] == "no such column"
    assert "ExitCode 5" in done["FailureReason"]
    assert drydock.list_keys("processing/wrong/out") == []


def test_reports_a_missing_input(drydock: Any) -> None:
    data = s3_input("data", "s3://bucket/not-there/", "/opt/ml/processing/input/data")
    drydock.client("sagemaker").create_processing_job(**request(drydock, "nowhere", "print(1)", inputs=[data]))
    assert "No S3 objects found" in wait_for_end(drydock, "nowhere")["FailureReason"]


def test_a_stopped_job_has_its_continuous_output(drydock: Any) -> None:
    script = """
import pathlib, time
(pathlib.Path(__file__).parents[2] / "output" / "live" / "part").write_text("1")
time.sleep(600)
"""
    live = s3_output("live", "s3://bucket/processing/live/out", "/opt/ml/processing/output/live", "Continuous")
    drydock.client("sagemaker").create_processing_job(**request(drydock, "live", script, outputs=[live]))
    drydock.wait_until("the live output", lambda: drydock.list_keys("processing/live/out/"))
    drydock.client("sagemaker").stop_processing_job(ProcessingJobName="live")
    assert wait_for_end(drydock, "live")["ProcessingJobStatus"] == "Stopped"
    with pytest.raises(ClientError, match="is in status Stopped"):
        drydock.client("sagemaker").stop_processing_job(ProcessingJobName="live")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"inputs": [s3_input("x", "s3://b/x", "/etc")]}, "LocalPath must be a folder under /opt/ml/processing"),
        ({"inputs": [s3_input("x", "s3://b/x", "/opt/ml/p", S3CompressionType="Gzip")]}, "only for Pipe mode"),
        ({"inputs": [s3_input("code", "s3://b/x", "/opt/ml/p")]}, "InputNames must be unique"),
        ({"AppSpecification": {}}, "appSpecification.imageUri"),
        ({"StoppingCondition": {"MaxRuntimeInSeconds": 0}}, "greater than or equal to 1"),
    ],
)
def test_what_is_refused(drydock: Any, change: dict[str, Any], said: str) -> None:
    with pytest.raises(drydock.client("sagemaker").exceptions.ClientError) as caught:
        # A raw client: boto3 itself would refuse some of these.
        drydock.create_unchecked_client("sagemaker").create_processing_job(
            **request(drydock, "refused", "print(1)", **change)
        )
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert said in caught.value.response["Error"]["Message"]


@pytest.mark.parametrize("operation", ["describe_processing_job", "stop_processing_job"])
def test_an_unknown_job(drydock: Any, operation: str) -> None:
    with pytest.raises(ClientError, match="Could not find processing job") as caught:
        getattr(drydock.client("sagemaker"), operation)(ProcessingJobName="unknown")
    assert caught.value.response["Error"]["Code"] == "ValidationException"
