"""Transform jobs: CreateModel, CreateTransformJob and its kin, really run on the model's own code."""

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
# Says of each request how many records it had, and of each record twice its number.
INFERENCE = """
import json, os, pathlib

def model_fn(model_dir):
    print("loaded from", model_dir, "for", os.environ["WHOSE"], flush=True)
    return int((pathlib.Path(model_dir) / "factor").read_text())

def input_fn(body, content_type):
    if content_type != "text/csv":
        raise ValueError(f"no {content_type}")
    assert isinstance(body, str)
    return [int(line) for line in body.split("\\n")]

def predict_fn(numbers, factor):
    print("asked of", len(numbers), flush=True)
    return [factor * number for number in numbers]

def output_fn(told, accept, context):
    assert accept == "text/csv" and context is None
    return "\\n".join(map(str, told))
"""
SLOW = """
import os, pathlib, time
def model_fn(model_dir):
    with open(os.environ["LEDGER"], "a") as ledger:
        ledger.write("began\\n")
def transform_fn(model, body, content_type, accept):
    print("asked of", body.decode(), flush=True)
    # Far longer than any test waits: a test that never opens the gate must see this process end otherwise.
    ends = time.monotonic() + 3_600
    while body == b"wait" and not pathlib.Path(os.environ["GATE"]).exists() and time.monotonic() < ends:
        time.sleep(0.05)
    return body.upper(), accept
"""


def model(dock: Any, name: str, code: str = INFERENCE, more: dict[str, str] | None = None, **container: Any) -> str:
    files = {"code/inference.py": code, "factor": "2", **(more or {})}
    uri = dock.put(f"models/{name}/model.tar.gz", dock.tarball(files))
    primary = {"Image": "image", "ModelDataUrl": uri, "Environment": {"WHOSE": name}, **container}
    answer = dock.client("sagemaker").create_model(ModelName=name, PrimaryContainer=primary, ExecutionRoleArn=ROLE)
    return str(answer["ModelArn"])


def request(name: str, source: dict[str, Any] | None = None, output: dict[str, Any] | None = None, **more: Any) -> Any:
    """A request to transform s3://bucket/in/NAME/ by the model of that name."""
    place = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://bucket/in/{name}/"}}
    return {
        "TransformJobName": name,
        "ModelName": name,
        "TransformInput": {"DataSource": place, "ContentType": "text/csv", "SplitType": "Line", **(source or {})},
        "TransformOutput": {"S3OutputPath": f"s3://bucket/out/{name}", "Accept": "text/csv", **(output or {})},
        "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
        **more,
    }


def create(dock: Any, name: str, **more: Any) -> str:
    return str(dock.client("sagemaker").create_transform_job(**request(name, **more))["TransformJobArn"])


def described(dock: Any, name: str) -> dict[str, Any]:
    return dict(dock.client("sagemaker").describe_transform_job(TransformJobName=name))


def wait_for_end(dock: Any, name: str) -> dict[str, Any]:
    def probe() -> dict[str, Any] | None:
        found = described(dock, name)
        return found if found["TransformJobStatus"] in ("Completed", "Failed", "Stopped") else None

    return dict(dock.until(f"the end of {name}", probe))


def run(dock: Any, name: str, **more: Any) -> dict[str, Any]:
    create(dock, name, **more)
    return wait_for_end(dock, name)


def outputs(dock: Any, name: str) -> dict[str, bytes]:
    return {key.removeprefix(f"out/{name}/"): dock.get(f"s3://bucket/{key}") for key in dock.keys(f"out/{name}/")}


def asked_of(dock: Any, name: str) -> list[str]:
    lines = dock.read_full_log(name, GROUP)
    return [line.removeprefix("asked of ") for line in lines if line.startswith("asked of ")]


def test_the_model_transforms_each_object(dock: Any) -> None:
    dock.put("in/whole/a.csv", b"1\n2\n3\n")
    dock.put("in/whole/sub/b.csv", b"40")
    model(dock, "whole")
    arn = create(dock, "whole", output={"AssembleWith": "Line"}, Tags=[{"Key": "k", "Value": "v"}])
    assert arn == "arn:aws:sagemaker:us-east-1:123456789012:transform-job/whole"
    done = wait_for_end(dock, "whole")
    assert done["TransformJobStatus"] == "Completed" and done["TransformJobArn"] == arn
    assert done["CreationTime"] <= done["TransformStartTime"] <= done["TransformEndTime"]
    assert done["TransformInput"]["SplitType"] == "Line" and "StoppingCondition" not in done
    assert outputs(dock, "whole") == {"a.csv.out": b"2\n4\n6\n", "sub/b.csv.out": b"80\n"}
    loaded = [line for line in dock.read_full_log("whole", GROUP) if line.startswith("loaded")]
    assert len(loaded) == 1 and loaded[0].endswith("/model for whole")
    assert dock.client("sagemaker").list_tags(ResourceArn=arn)["Tags"] == [{"Key": "k", "Value": "v"}]
    with pytest.raises(ClientError, match="already exists") as caught:
        create(dock, "whole")
    assert caught.value.response["Error"]["Code"] == "ResourceInUse"


@pytest.mark.parametrize(
    ("case", "fields", "counts", "told"),
    [
        ("together", {"BatchStrategy": "MultiRecord"}, ["3"], b"2\n4\n6"),
        ("alone", {"BatchStrategy": "SingleRecord"}, ["1", "1", "1"], b"246"),
        ("lines", {"BatchStrategy": "SingleRecord", "output": {"AssembleWith": "Line"}}, ["1"] * 3, b"2\n4\n6\n"),
        ("unsplit", {"source": {"SplitType": "None"}, "MaxPayloadInMB": 0}, ["3"], b"2\n4\n6"),
    ],
)
def test_splits_and_joins_records(case: str, fields: Any, counts: Any, told: bytes, dock: Any) -> None:
    dock.put(f"in/{case}/a.csv", b"1\n2\n3" if case == "unsplit" else b"1\n2\n3\n")
    model(dock, case)
    assert run(dock, case, **fields)["TransformJobStatus"] == "Completed"
    assert asked_of(dock, case) == counts
    assert outputs(dock, case) == {"a.csv.out": told}


def test_no_request_is_larger_than_max_payload(dock: Any) -> None:
    lines = [str(number).rjust(1_000, "0") for number in range(2_500)]
    dock.put("in/large/a.csv", "\n".join(lines).encode())
    model(dock, "large")
    assert run(dock, "large", MaxPayloadInMB=1, output={"AssembleWith": "Line"})["TransformJobStatus"] == "Completed"
    assert asked_of(dock, "large") == ["1047", "1047", "406"]
    assert outputs(dock, "large")["a.csv.out"].split() == [str(2 * number).encode() for number in range(2_500)]


def test_a_record_larger_than_max_payload_is_the_clients_error(dock: Any) -> None:
    dock.put("in/long/a.csv", b"1\n" + b"0" * (1 << 20) + b"1")
    model(dock, "long")
    done = run(dock, "long", MaxPayloadInMB=1)
    assert done["TransformJobStatus"] == "Failed" and outputs(dock, "long") == {}
    assert done["FailureReason"] == "ClientError: a record of 1048577 bytes is more than MaxPayloadInMB: 1048576 bytes"


def test_a_failed_job_leaves_the_outputs_of_other_objects(dock: Any) -> None:
    for name, content in {"a": b"1", "b": b"two", "c": b"0" * (7 << 20), "d": b"4"}.items():
        dock.put(f"in/partly/{name}.csv", content)
    model(dock, "partly")
    done = run(dock, "partly")
    assert done["TransformJobStatus"] == "Failed" and outputs(dock, "partly") == {"a.csv.out": b"2", "d.csv.out": b"8"}
    assert "ValueError: invalid literal for int() with base 10: 'two'" in done["FailureReason"], "of the first"
    assert done["FailureReason"].startswith("AlgorithmError: ")


def test_reads_gzip_objects_and_a_manifest(dock: Any) -> None:
    dock.put("in/packed/a.csv.gz", gzip.compress(b"5\n"))
    dock.put("in/packed/not-this", b"nonsense")
    manifest = json.dumps([{"prefix": "s3://bucket/in/packed/"}, "a.csv.gz"])
    place = {"S3DataType": "ManifestFile", "S3Uri": dock.put("manifests/packed", manifest.encode())}
    model(dock, "packed")
    source = {"DataSource": {"S3DataSource": place}, "CompressionType": "Gzip"}
    assert run(dock, "packed", source=source)["TransformJobStatus"] == "Completed"
    assert outputs(dock, "packed") == {"a.csv.gz.out": b"10"}


def test_instances_share_the_objects(dock: Any) -> None:
    for number in range(5):
        dock.put(f"in/shared/{number}.csv", str(number).encode())
    model(dock, "shared")
    done = run(dock, "shared", TransformResources={"InstanceType": "ml.m5.large", "InstanceCount": 2})
    assert done["TransformJobStatus"] == "Completed"
    assert outputs(dock, "shared") == {f"{number}.csv.out": str(2 * number).encode() for number in range(5)}
    assert len([line for line in dock.read_full_log("shared", GROUP) if line.startswith("loaded")]) == 2


def test_the_jobs_environment_has_precedence_over_the_models(dock: Any) -> None:
    dock.put("in/over/a.csv", b"1")
    model(dock, "over")
    run(dock, "over", Environment={"WHOSE": "the job"})
    assert any(line.endswith("for the job") for line in dock.read_full_log("over", GROUP))


LEFT = "exit code 0 and no output for a.csv"
BROKEN = {
    "unreadable": ({"code/inference.py": "def model_fn(:"}, "SyntaxError"),
    "raises": ({"code/inference.py": INFERENCE.replace("return int", "return 1 / 0, int")}, "ZeroDivisionError"),
    "no-model-fn": ({"code/inference.py": "x = 1"}, "LookupError: inference.py has no model_fn"),
    "no-output-fn": ({"code/inference.py": INFERENCE.partition("def output_fn")[0]}, "inference.py has no output_fn"),
    "both": ({"code/inference.py": INFERENCE + "\ntransform_fn = print"}, "Cannot use transform_fn in conjunction"),
    "leaves": ({"code/inference.py": INFERENCE.replace("return int", "return __import__('os')._exit(0), int")}, LEFT),
    "no-requirement": ({"code/requirements.txt": "no-such-package==1"}, "requirements.txt asks for what drydock"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_model_fails_with_its_reason(case: str, dock: Any) -> None:
    files, said = BROKEN[case]
    dock.put(f"in/{case}/a.csv", b"1")
    model(dock, case, more=files)
    done = run(dock, case)
    assert done["TransformJobStatus"] == "Failed" and said in done["FailureReason"]
    assert done["FailureReason"].startswith("ClientError: " if case == "no-requirement" else "AlgorithmError: ")
    assert outputs(dock, case) == {}


def test_reports_model_data_without_code(dock: Any) -> None:
    dock.put("in/bare/a.csv", b"1")
    uri = dock.put("models/bare/without.tar.gz", dock.tarball({"factor": "2"}))
    model(dock, "bare", ModelDataUrl=uri)
    assert "no file code/inference.py in the model data" in run(dock, "bare")["FailureReason"]


def test_reports_an_unsupported_content_type(dock: Any) -> None:
    dock.put("in/strange/a.csv", b"1")
    model(dock, "strange")
    done = run(dock, "strange", source={"ContentType": "image/png"})
    assert done["TransformJobStatus"] == "Failed" and "ValueError: no image/png" in done["FailureReason"]
    assert any(line.startswith("Traceback") for line in dock.read_full_log("strange", GROUP))


@pytest.mark.parametrize(
    ("case", "url", "said"),
    [
        ("gone", "s3://bucket/models/gone.tar.gz", "there is no object s3://bucket/models/gone.tar.gz"),
        ("damaged", "s3://bucket/models/damaged.tar.gz", "cannot unpack model.tar.gz"),
        ("nowhere", "s3://no-such-bucket/model.tar.gz", "model data: s3://no-such-bucket/model.tar.gz"),
    ],
)
def test_reports_missing_model_data(case: str, url: str, said: str, dock: Any) -> None:
    dock.put("models/damaged.tar.gz", b"no archive")
    dock.put(f"in/{case}/a.csv", b"1")
    model(dock, case, ModelDataUrl=url)
    done = run(dock, case)
    assert done["TransformJobStatus"] == "Failed"
    assert done["FailureReason"].startswith("ClientError: Data download failed") and said in done["FailureReason"]


def test_reports_a_missing_input_or_output_bucket(dock: Any) -> None:
    model(dock, "empty")
    assert "No S3 objects found" in run(dock, "empty")["FailureReason"]
    dock.put("in/homeless/a.csv", b"1")
    model(dock, "homeless")
    reason = run(dock, "homeless", output={"S3OutputPath": "s3://no-such-bucket/out"})["FailureReason"]
    assert "NoSuchBucket" in reason


def slow(dock: Any, name: str, folder: Path) -> None:
    """The model answers for one object, and waits at the second for the gate."""
    dock.put(f"in/{name}/a.txt", b"text")
    dock.put(f"in/{name}/b.txt", b"wait")
    model(dock, name, code=SLOW, Environment={"GATE": str(folder / "gate"), "LEDGER": str(folder / "ledger")})
    create(dock, name, source={"ContentType": "text/plain"}, output={"Accept": "text/plain"})


def half_done(dock: Any, name: str) -> bool:
    return {"transformed a.txt", "asked of wait"} <= set(dock.read_full_log(name, GROUP))


def test_a_stop_leaves_no_output(dock: Any, tmp_path: Path) -> None:
    slow(dock, "stopped", tmp_path)
    dock.until("its log", lambda: half_done(dock, "stopped"))
    sagemaker = dock.client("sagemaker")
    sagemaker.stop_transform_job(TransformJobName="stopped")
    done = wait_for_end(dock, "stopped")
    assert done["TransformJobStatus"] == "Stopped" and "TransformEndTime" in done
    assert outputs(dock, "stopped") == {}
    with pytest.raises(ClientError, match="transform job is in status Stopped"):
        sagemaker.stop_transform_job(TransformJobName="stopped")


def test_a_job_keeps_running_after_its_model_is_deleted(dock: Any, tmp_path: Path) -> None:
    slow(dock, "deleted", tmp_path)
    dock.client("sagemaker").delete_model(ModelName="deleted")
    with pytest.raises(ClientError, match="Could not find model"):
        dock.client("sagemaker").describe_model(ModelName="deleted")
    (tmp_path / "gate").touch()
    assert wait_for_end(dock, "deleted")["TransformJobStatus"] == "Completed"
    assert outputs(dock, "deleted") == {"a.txt.out": b"TEXT", "b.txt.out": b"WAIT"}


def test_a_models_name_can_be_reused_after_its_deletion(dock: Any) -> None:
    arn = model(dock, "taken")
    with pytest.raises(ClientError) as caught:
        model(dock, "taken", Image="other")
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert caught.value.response["Error"]["Message"] == f'Cannot create already existing model "{arn}".'
    sagemaker = dock.client("sagemaker")
    assert sagemaker.describe_model(ModelName="taken")["PrimaryContainer"]["Image"] == "image"
    sagemaker.delete_model(ModelName="taken")
    assert model(dock, "taken", Image="other") == arn


def test_list(dock: Any) -> None:
    dock.put("in/listed/a.csv", b"1")
    model(dock, "listed")
    run(dock, "listed")
    found = dock.client("sagemaker").list_transform_jobs(NameContains="listed", StatusEquals="Completed")
    (line,) = found["TransformJobSummaries"]
    assert line["TransformJobName"] == "listed" and line["LastModifiedTime"] >= line["CreationTime"]
    assert dock.client("sagemaker").list_transform_jobs(NameContains="never")["TransformJobSummaries"] == []


REFUSED = {
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
def test_what_is_refused(case: str, dock: Any) -> None:
    fields, said = REFUSED[case]
    name = f"refused-{case}"
    model(dock, name)
    asked = {**request(name, source=fields.get("source"), output=fields.get("output"))}
    asked |= {name: value for name, value in fields.items() if name not in ("source", "output")}
    with pytest.raises(ClientError) as caught:
        dock.create_unchecked_client("sagemaker").create_transform_job(**asked)
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert said in caught.value.response["Error"]["Message"]


MODELS: dict[str, tuple[dict[str, Any], str]] = {
    "no-data": ({"ModelDataUrl": None}, "has no ModelDataUrl"),
    "elsewhere": ({"Environment": {"SAGEMAKER_SUBMIT_DIRECTORY": "s3://bucket/code.tar.gz"}}, "put it at /opt/ml/"),
    "loose": (
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
def test_refuses_models_it_cannot_run(case: str, dock: Any) -> None:
    container, said = MODELS[case]
    primary = {"Image": "image", "ModelDataUrl": "s3://bucket/model.tar.gz", **container}
    given = {name: value for name, value in primary.items() if value is not None}
    dock.client("sagemaker").create_model(ModelName=case, PrimaryContainer=given, ExecutionRoleArn=ROLE)
    with pytest.raises(ClientError, match="ValidationException") as caught:
        create(dock, case)
    assert said in str(caught.value)


@pytest.mark.parametrize("operation", ["describe_transform_job", "stop_transform_job"])
def test_an_unknown_job(operation: str, dock: Any) -> None:
    with pytest.raises(ClientError, match="Could not find transform job") as caught:
        getattr(dock.client("sagemaker"), operation)(TransformJobName="unknown")
    assert caught.value.response["Error"]["Code"] == "ValidationException"


def kill(server: Any, folder: Path) -> None:
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(60)
    (folder / "port").unlink()


def test_a_killed_server(tmp_path: Path, start: Any) -> None:
    """What ended stays; what ran has failed, and nothing of it is alive; what waited runs."""
    with start(tmp_path, "--cores", "2", "--stop-grace", "1") as server:
        server.put("in/done/a.csv", b"1")
        model(server, "done")
        before = run(server, "done")
        slow(server, "ran", tmp_path)
        server.until("its log", lambda: half_done(server, "ran"))
        server.put("in/waited/a.csv", b"3")
        model(server, "waited")
        create(server, "waited")
        kill(server, tmp_path)
    (tmp_path / "gate").touch()
    with start(tmp_path, "--cores", "2", "--stop-grace", "1") as server:
        assert described(server, "done") | {"ResponseMetadata": 0} == before | {"ResponseMetadata": 0}
        ran, waited = wait_for_end(server, "ran"), wait_for_end(server, "waited")
        assert ran["TransformJobStatus"] == "Failed"
        assert ran["FailureReason"].startswith("InternalServerError: drydock ended while the job ran")
        assert outputs(server, "ran") == {} and outputs(server, "waited") == {"a.csv.out": b"6"}
        assert waited["TransformJobStatus"] == "Completed"
        assert "loaded" in " ".join(server.read_full_log("done", GROUP))
        model(server, "done")
        with pytest.raises(ClientError, match="already exists"):
            create(server, "done")
    assert (tmp_path / "ledger").read_text() == "began\n"
