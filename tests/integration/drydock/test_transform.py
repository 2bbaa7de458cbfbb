"""Test transform jobs: CreateModel, CreateTransformJob and related operations, run with the model's own code."""

import gzip
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

ROLE = "arn:aws:iam::123456789012:role/drydock"
GROUP = "/aws/sagemaker/TransformJobs"
OPTIONS = ("--cores", "8", "--memory-gib", "100", "--stop-grace", "1", "--shutdown-grace", "1")
# Prints the number of records of each request, and returns twice the number of each record.
INFERENCE = """
import json, os, pathlib

def model_fn(model_dir):
    print("loaded from", model_dir, "for", os.environ["OWNER"], flush=True)
    return int((pathlib.Path(model_dir) / "factor").read_text())

def input_fn(body, content_type):
    if content_type != "text/csv":
        raise ValueError(f"no {content_type}")
    assert isinstance(body, str)
    return [int(line) for line in body.split("\\n")]

def predict_fn(numbers, factor):
    print("received", len(numbers), flush=True)
    return [factor * number for number in numbers]

def output_fn(predictions, accept, context):
    assert accept == "text/csv" and context.get_request_header(0, "Content-Type") == "text/csv"
    return "\\n".join(map(str, predictions))
"""
SLOW = """
import os, pathlib, time
def model_fn(model_dir):
    with open(os.environ["STARTS"], "a") as starts:
        starts.write("started\\n")
def transform_fn(model, body, content_type, accept):
    print("received", body.decode(), flush=True)
    # This is far longer than any test waits: a test without the release file must see that drydock ends this process.
    deadline = time.monotonic() + 3_600
    while body == b"wait" and not pathlib.Path(os.environ["RELEASE_FILE"]).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return body.upper(), accept
"""


def create_model(
    drydock: Any, name: str, code: str = INFERENCE, other_files: dict[str, str] | None = None, **container: Any
) -> str:
    """Upload model data, create a model of them, and return its ARN."""
    files = {"code/inference.py": code, "factor": "2", **(other_files or {})}
    uri = drydock.put(f"models/{name}/model.tar.gz", drydock.pack_archive(files))
    primary = {"Image": "image", "ModelDataUrl": uri, "Environment": {"OWNER": name}, **container}
    response = drydock.client("sagemaker").create_model(ModelName=name, PrimaryContainer=primary, ExecutionRoleArn=ROLE)
    return str(response["ModelArn"])


def build_request(
    name: str, source: dict[str, Any] | None = None, output: dict[str, Any] | None = None, **fields: Any
) -> Any:
    """Return a request to transform s3://bucket/in/NAME/ by the model of that name."""
    data_source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://bucket/in/{name}/"}}
    return {
        "TransformJobName": name,
        "ModelName": name,
        "TransformInput": {"DataSource": data_source, "ContentType": "text/csv", "SplitType": "Line", **(source or {})},
        "TransformOutput": {"S3OutputPath": f"s3://bucket/out/{name}", "Accept": "text/csv", **(output or {})},
        "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
        **fields,
    }


def create_job(drydock: Any, name: str, **fields: Any) -> str:
    """Create a transform job, and return its ARN."""
    return str(drydock.client("sagemaker").create_transform_job(**build_request(name, **fields))["TransformJobArn"])


def describe_job(drydock: Any, name: str) -> dict[str, Any]:
    """Return the description of a transform job."""
    return dict(drydock.client("sagemaker").describe_transform_job(TransformJobName=name))


def wait_for_end(drydock: Any, name: str) -> dict[str, Any]:
    """Wait for the end of a transform job, and return its description."""

    def find_ended() -> dict[str, Any] | None:
        job = describe_job(drydock, name)
        return job if job["TransformJobStatus"] in ("Completed", "Failed", "Stopped") else None

    return dict(drydock.wait_until(f"the end of {name}", find_ended))


def run_job(drydock: Any, name: str, **fields: Any) -> dict[str, Any]:
    """Create a transform job, wait for its end, and return its description."""
    create_job(drydock, name, **fields)
    return wait_for_end(drydock, name)


def read_outputs(drydock: Any, name: str) -> dict[str, bytes]:
    return {
        key.removeprefix(f"out/{name}/"): drydock.get(f"s3://bucket/{key}") for key in drydock.list_keys(f"out/{name}/")
    }


def list_received(drydock: Any, name: str) -> list[str]:
    """List what the model received in each request, by its log."""
    lines = drydock.read_full_log(name, GROUP)
    return [line.removeprefix("received ") for line in lines if line.startswith("received ")]


def test_model_transforms_each_object(drydock: Any) -> None:
    drydock.put("in/whole/a.csv", b"1\n2\n3\n")
    drydock.put("in/whole/sub/b.csv", b"40")
    create_model(drydock, "whole")
    arn = create_job(drydock, "whole", output={"AssembleWith": "Line"}, Tags=[{"Key": "k", "Value": "v"}])
    assert arn == "arn:aws:sagemaker:us-east-1:123456789012:transform-job/whole"
    job = wait_for_end(drydock, "whole")
    assert job["TransformJobStatus"] == "Completed" and job["TransformJobArn"] == arn
    assert job["CreationTime"] <= job["TransformStartTime"] <= job["TransformEndTime"]
    assert job["TransformInput"]["SplitType"] == "Line" and "StoppingCondition" not in job
    assert read_outputs(drydock, "whole") == {"a.csv.out": b"2\n4\n6\n", "sub/b.csv.out": b"80\n"}
    load_lines = [line for line in drydock.read_full_log("whole", GROUP) if line.startswith("loaded")]
    assert len(load_lines) == 1 and load_lines[0].endswith("/model for whole")
    assert drydock.client("sagemaker").list_tags(ResourceArn=arn)["Tags"] == [{"Key": "k", "Value": "v"}]
    with pytest.raises(ClientError, match="already exists") as error:
        create_job(drydock, "whole")
    assert error.value.response["Error"]["Code"] == "ResourceInUse"


@pytest.mark.parametrize(
    ("case", "fields", "counts", "output"),
    [
        ("together", {"BatchStrategy": "MultiRecord"}, ["3"], b"2\n4\n6"),
        ("alone", {"BatchStrategy": "SingleRecord"}, ["1", "1", "1"], b"246"),
        ("lines", {"BatchStrategy": "SingleRecord", "output": {"AssembleWith": "Line"}}, ["1"] * 3, b"2\n4\n6\n"),
        ("unsplit", {"source": {"SplitType": "None"}, "MaxPayloadInMB": 0}, ["3"], b"2\n4\n6"),
    ],
)
def test_records_are_split_and_joined(case: str, fields: Any, counts: Any, output: bytes, drydock: Any) -> None:
    drydock.put(f"in/{case}/a.csv", b"1\n2\n3" if case == "unsplit" else b"1\n2\n3\n")
    create_model(drydock, case)
    assert run_job(drydock, case, **fields)["TransformJobStatus"] == "Completed"
    assert list_received(drydock, case) == counts
    assert read_outputs(drydock, case) == {"a.csv.out": output}


def test_no_request_is_larger_than_max_payload(drydock: Any) -> None:
    lines = [str(number).rjust(1_000, "0") for number in range(2_500)]
    drydock.put("in/large/a.csv", "\n".join(lines).encode())
    create_model(drydock, "large")
    assert (
        run_job(drydock, "large", MaxPayloadInMB=1, output={"AssembleWith": "Line"})["TransformJobStatus"]
        == "Completed"
    )
    assert list_received(drydock, "large") == ["1047", "1047", "406"]
    assert read_outputs(drydock, "large")["a.csv.out"].split() == [str(2 * number).encode() for number in range(2_500)]


def test_record_larger_than_max_payload_is_a_client_error(drydock: Any) -> None:
    drydock.put("in/long/a.csv", b"1\n" + b"0" * (1 << 20) + b"1")
    create_model(drydock, "long")
    job = run_job(drydock, "long", MaxPayloadInMB=1)
    assert job["TransformJobStatus"] == "Failed" and read_outputs(drydock, "long") == {}
    assert job["FailureReason"] == "ClientError: a record of 1048577 bytes is more than MaxPayloadInMB: 1048576 bytes"


def test_failed_job_keeps_the_outputs_of_other_objects(drydock: Any) -> None:
    for name, content in {"a": b"1", "b": b"two", "c": b"0" * (7 << 20), "d": b"4"}.items():
        drydock.put(f"in/partly/{name}.csv", content)
    create_model(drydock, "partly")
    job = run_job(drydock, "partly")
    assert job["TransformJobStatus"] == "Failed" and read_outputs(drydock, "partly") == {
        "a.csv.out": b"2",
        "d.csv.out": b"8",
    }
    assert "ValueError: invalid literal for int() with base 10: 'two'" in job["FailureReason"], (
        "the reason is the first error"
    )
    assert job["FailureReason"].startswith("AlgorithmError: ")


def test_input_may_be_gzip_objects_and_a_manifest(drydock: Any) -> None:
    drydock.put("in/packed/a.csv.gz", gzip.compress(b"5\n"))
    drydock.put("in/packed/not-this", b"nonsense")
    manifest = json.dumps([{"prefix": "s3://bucket/in/packed/"}, "a.csv.gz"])
    data_source = {"S3DataType": "ManifestFile", "S3Uri": drydock.put("manifests/packed", manifest.encode())}
    create_model(drydock, "packed")
    source = {"DataSource": {"S3DataSource": data_source}, "CompressionType": "Gzip"}
    assert run_job(drydock, "packed", source=source)["TransformJobStatus"] == "Completed"
    assert read_outputs(drydock, "packed") == {"a.csv.gz.out": b"10"}


def test_instances_share_the_objects(drydock: Any) -> None:
    for number in range(5):
        drydock.put(f"in/shared/{number}.csv", str(number).encode())
    create_model(drydock, "shared")
    job = run_job(drydock, "shared", TransformResources={"InstanceType": "ml.m5.large", "InstanceCount": 2})
    assert job["TransformJobStatus"] == "Completed"
    assert read_outputs(drydock, "shared") == {f"{number}.csv.out": str(2 * number).encode() for number in range(5)}
    assert len([line for line in drydock.read_full_log("shared", GROUP) if line.startswith("loaded")]) == 2


def test_environment_of_the_job_overrides_that_of_the_model(drydock: Any) -> None:
    drydock.put("in/over/a.csv", b"1")
    create_model(drydock, "over")
    run_job(drydock, "over", Environment={"OWNER": "the job"})
    assert any(line.endswith("for the job") for line in drydock.read_full_log("over", GROUP))


NO_OUTPUT = "exit code 0 and no output for a.csv"
BROKEN = {
    "unreadable": ({"code/inference.py": "def model_fn(:"}, "SyntaxError"),
    "raises": ({"code/inference.py": INFERENCE.replace("return int", "return 1 / 0, int")}, "ZeroDivisionError"),
    "no-model-fn": ({"code/inference.py": "x = 1"}, "LookupError: inference.py has no model_fn"),
    "no-output-fn": ({"code/inference.py": INFERENCE.partition("def output_fn")[0]}, "inference.py has no output_fn"),
    "both": ({"code/inference.py": INFERENCE + "\ntransform_fn = print"}, "Cannot use transform_fn in conjunction"),
    "leaves": (
        {"code/inference.py": INFERENCE.replace("return int", "return __import__('os')._exit(0), int")},
        NO_OUTPUT,
    ),
    "no-requirement": (
        {"code/requirements.txt": "no-such-package==1"},
        "drydock's Python does not meet these lines of requirements.txt",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_model_fails_the_job_with_a_reason(case: str, drydock: Any) -> None:
    files, message = BROKEN[case]
    drydock.put(f"in/{case}/a.csv", b"1")
    create_model(drydock, case, other_files=files)
    job = run_job(drydock, case)
    assert job["TransformJobStatus"] == "Failed" and message in job["FailureReason"]
    assert job["FailureReason"].startswith("ClientError: " if case == "no-requirement" else "AlgorithmError: ")
    assert read_outputs(drydock, case) == {}


def test_model_data_without_code_are_reported(drydock: Any) -> None:
    drydock.put("in/bare/a.csv", b"1")
    uri = drydock.put("models/bare/without.tar.gz", drydock.pack_archive({"factor": "2"}))
    create_model(drydock, "bare", ModelDataUrl=uri)
    assert "no file code/inference.py in the model data" in run_job(drydock, "bare")["FailureReason"]


def test_unsupported_content_type_is_reported(drydock: Any) -> None:
    drydock.put("in/strange/a.csv", b"1")
    create_model(drydock, "strange")
    job = run_job(drydock, "strange", source={"ContentType": "image/png"})
    assert job["TransformJobStatus"] == "Failed" and "ValueError: no image/png" in job["FailureReason"]
    assert any(line.startswith("Traceback") for line in drydock.read_full_log("strange", GROUP))


@pytest.mark.parametrize(
    ("case", "url", "message"),
    [
        ("gone", "s3://bucket/models/gone.tar.gz", "there is no object s3://bucket/models/gone.tar.gz"),
        ("damaged", "s3://bucket/models/damaged.tar.gz", "cannot unpack model.tar.gz"),
        ("nowhere", "s3://no-such-bucket/model.tar.gz", "model data: s3://no-such-bucket/model.tar.gz"),
    ],
)
def test_missing_model_data_are_reported(case: str, url: str, message: str, drydock: Any) -> None:
    drydock.put("models/damaged.tar.gz", b"no archive")
    drydock.put(f"in/{case}/a.csv", b"1")
    create_model(drydock, case, ModelDataUrl=url)
    job = run_job(drydock, case)
    assert job["TransformJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("ClientError: Data download failed") and message in job["FailureReason"]


def test_missing_input_and_missing_output_bucket_are_reported(drydock: Any) -> None:
    create_model(drydock, "empty")
    assert "No S3 objects found" in run_job(drydock, "empty")["FailureReason"]
    drydock.put("in/homeless/a.csv", b"1")
    create_model(drydock, "homeless")
    reason = run_job(drydock, "homeless", output={"S3OutputPath": "s3://no-such-bucket/out"})["FailureReason"]
    assert "NoSuchBucket" in reason


def create_slow_job(drydock: Any, name: str, folder: Path) -> None:
    """Create a job whose model transforms one object, and waits for the release file at the second."""
    drydock.put(f"in/{name}/a.txt", b"text")
    drydock.put(f"in/{name}/b.txt", b"wait")
    create_model(
        drydock,
        name,
        code=SLOW,
        Environment={"RELEASE_FILE": str(folder / "release"), "STARTS": str(folder / "starts")},
    )
    create_job(drydock, name, source={"ContentType": "text/plain"}, output={"Accept": "text/plain"})


def is_half_done(drydock: Any, name: str) -> bool:
    """Return whether the slow job has transformed the first object and received the second."""
    return {"transformed a.txt", "received wait"} <= set(drydock.read_full_log(name, GROUP))


def test_stopped_job_has_no_output(drydock: Any, tmp_path: Path) -> None:
    create_slow_job(drydock, "stopped", tmp_path)
    drydock.wait_until("its log", lambda: is_half_done(drydock, "stopped"))
    sagemaker = drydock.client("sagemaker")
    sagemaker.stop_transform_job(TransformJobName="stopped")
    job = wait_for_end(drydock, "stopped")
    assert job["TransformJobStatus"] == "Stopped" and "TransformEndTime" in job
    assert read_outputs(drydock, "stopped") == {}
    with pytest.raises(ClientError, match="transform job is in status Stopped"):
        sagemaker.stop_transform_job(TransformJobName="stopped")


def test_job_keeps_running_after_its_model_is_deleted(drydock: Any, tmp_path: Path) -> None:
    create_slow_job(drydock, "deleted", tmp_path)
    drydock.client("sagemaker").delete_model(ModelName="deleted")
    with pytest.raises(ClientError, match="Could not find model"):
        drydock.client("sagemaker").describe_model(ModelName="deleted")
    (tmp_path / "release").touch()
    assert wait_for_end(drydock, "deleted")["TransformJobStatus"] == "Completed"
    assert read_outputs(drydock, "deleted") == {"a.txt.out": b"TEXT", "b.txt.out": b"WAIT"}


def test_name_of_a_deleted_model_can_be_used_again(drydock: Any) -> None:
    arn = create_model(drydock, "reused")
    with pytest.raises(ClientError) as error:
        create_model(drydock, "reused", Image="other")
    assert error.value.response["Error"]["Code"] == "ValidationException"
    assert error.value.response["Error"]["Message"] == f'Cannot create already existing model "{arn}".'
    sagemaker = drydock.client("sagemaker")
    assert sagemaker.describe_model(ModelName="reused")["PrimaryContainer"]["Image"] == "image"
    sagemaker.delete_model(ModelName="reused")
    assert create_model(drydock, "reused", Image="other") == arn


def test_jobs_are_listed_by_name_and_status(drydock: Any) -> None:
    drydock.put("in/listed/a.csv", b"1")
    create_model(drydock, "listed")
    run_job(drydock, "listed")
    response = drydock.client("sagemaker").list_transform_jobs(NameContains="listed", StatusEquals="Completed")
    (summary,) = response["TransformJobSummaries"]
    assert summary["TransformJobName"] == "listed" and summary["LastModifiedTime"] >= summary["CreationTime"]
    assert drydock.client("sagemaker").list_transform_jobs(NameContains="never")["TransformJobSummaries"] == []


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "model": (
        {"ModelName": "unknown"},
        "Could not find model 'arn:aws:sagemaker:us-east-1:123456789012:model/unknown'",
    ),
    "name": ({"TransformJobName": "no_name"}, "transformJobName"),
    "split": ({"source": {"SplitType": "RecordIO"}}, "TransformInput.SplitType RecordIO is not supported by drydock"),
    "splits": ({"source": {"SplitType": "Word"}}, "satisfy enum value set: [None, Line, RecordIO, TFRecord]"),
    "payload": ({"MaxPayloadInMB": 101}, "Invalid MaxPayloadInMB 101"),
    "product": ({"MaxPayloadInMB": 30, "MaxConcurrentTransforms": 4}, "Invalid MaxPayloadInMB 30"),
    "negative": ({"MaxPayloadInMB": -1}, "maxPayloadInMB"),
    "join": ({"DataProcessing": {"JoinSource": "Input"}}, "DataProcessing.JoinSource Input is not supported"),
    "filter": ({"DataProcessing": {"InputFilter": "$[1:]"}}, "DataProcessing.InputFilter"),
    "capture": ({"DataCaptureConfig": {"DestinationS3Uri": "s3://bucket/x"}}, "DataCaptureConfig is not supported"),
    "output": ({"output": {"S3OutputPath": "https://bucket/x"}}, "is not an s3:// URI"),
    "many": ({"TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 21}}, "InstanceCount must be 1"),
    "resources": ({"TransformResources": {"InstanceCount": 1}}, "transformResources.instanceType"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_request_is_refused(case: str, drydock: Any) -> None:
    fields, message = REFUSED[case]
    name = f"refused-{case}"
    create_model(drydock, name)
    request = {**build_request(name, source=fields.get("source"), output=fields.get("output"))}
    request |= {name: value for name, value in fields.items() if name not in ("source", "output")}
    with pytest.raises(ClientError) as error:
        drydock.create_unchecked_client("sagemaker").create_transform_job(**request)
    assert error.value.response["Error"]["Code"] == "ValidationException"
    assert message in error.value.response["Error"]["Message"]


MODELS: dict[str, tuple[dict[str, Any], str]] = {
    "no-data": ({"ModelDataUrl": None}, "has no ModelDataUrl"),
    "code-elsewhere": (
        {"Environment": {"SAGEMAKER_SUBMIT_DIRECTORY": "s3://bucket/code.tar.gz"}},
        "use /opt/ml/model/code",
    ),
    "uncompressed": (
        {
            "ModelDataUrl": None,
            "ModelDataSource": {
                "S3DataSource": {"S3Uri": "s3://bucket/m/", "S3DataType": "S3Prefix", "CompressionType": "None"}
            },
        },
        "S3DataType S3Object and CompressionType Gzip only",
    ),
}


@pytest.mark.parametrize("case", MODELS)
def test_model_that_drydock_cannot_run_is_refused(case: str, drydock: Any) -> None:
    container, message = MODELS[case]
    primary = {"Image": "image", "ModelDataUrl": "s3://bucket/model.tar.gz", **container}
    primary = {name: value for name, value in primary.items() if value is not None}
    drydock.client("sagemaker").create_model(ModelName=case, PrimaryContainer=primary, ExecutionRoleArn=ROLE)
    with pytest.raises(ClientError, match="ValidationException") as error:
        create_job(drydock, case)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("operation", "code"),
    [("describe_transform_job", "ValidationException"), ("stop_transform_job", "ResourceNotFound")],
)
def test_unknown_job_is_refused(operation: str, code: str, drydock: Any) -> None:
    with pytest.raises(ClientError, match="Could not find requested job with name: unknown") as error:
        getattr(drydock.client("sagemaker"), operation)(TransformJobName="unknown")
    assert error.value.response["Error"]["Code"] == code


def kill(server: Any, folder: Path) -> None:
    """Kill a server by SIGKILL, so that another one can start in its folder."""
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(60)
    (folder / "port").unlink()


def test_killed_server_keeps_ended_jobs_fails_running_jobs_and_runs_waiting_jobs(
    tmp_path: Path, run_drydock: Any
) -> None:
    with run_drydock(tmp_path, "--cores", "2", "--stop-grace", "1") as server:
        server.put("in/ended/a.csv", b"1")
        create_model(server, "ended")
        ended_job = run_job(server, "ended")
        create_slow_job(server, "running", tmp_path)
        server.wait_until("its log", lambda: is_half_done(server, "running"))
        server.put("in/waiting/a.csv", b"3")
        create_model(server, "waiting")
        create_job(server, "waiting")
        kill(server, tmp_path)
    with run_drydock(tmp_path, "--cores", "2", "--stop-grace", "1") as server:
        assert describe_job(server, "ended") | {"ResponseMetadata": 0} == ended_job | {"ResponseMetadata": 0}
        running_job = wait_for_end(server, "running")
        # A program that ends before the server is back would be finished by it.
        (tmp_path / "release").touch()
        waiting_job = wait_for_end(server, "waiting")
        assert running_job["TransformJobStatus"] == "Failed"
        assert running_job["FailureReason"].startswith("InternalServerError: drydock ended while the job ran")
        assert read_outputs(server, "running") == {} and read_outputs(server, "waiting") == {"a.csv.out": b"6"}
        assert waiting_job["TransformJobStatus"] == "Completed"
        assert "loaded" in " ".join(server.read_full_log("ended", GROUP))
        with pytest.raises(ClientError, match="Cannot create already existing model"):
            create_model(server, "ended")
        with pytest.raises(ClientError, match="already exists"):
            create_job(server, "ended")
    assert (tmp_path / "starts").read_text() == "started\n"
