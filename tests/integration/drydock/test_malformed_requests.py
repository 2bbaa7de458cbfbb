"""Test requests that no client sends: each gets an error as AWS has it, and leaves drydock's folder alone."""

import http.client
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

JSON = "application/x-amz-json-1.1"
FORM = "application/x-www-form-urlencoded"
DEEP = b'{"TrainingJobName":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
LOGS = "Logs_20140328"


def sign(service: str, region: str = "us-east-1") -> str:
    scope = f"AKIDEXAMPLE/20260101/{region}/{service}/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"


def send(drydock: Any, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str, str]:
    """Send a request; return the status, the content type and the error's code."""
    connection = http.client.HTTPConnection(urlsplit(drydock.url).netloc, timeout=180)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    text, content_type = response.read(), str(response.getheader("Content-Type"))
    connection.close()
    if "json" in content_type:
        return response.status, content_type, str(json.loads(text).get("__type"))
    return response.status, content_type, str(ET.fromstring(text).findtext(".//Code")) if text else ""


def send_json(drydock: Any, target: str, body: bytes, service: str = "sagemaker", **headers: str) -> tuple[int, str]:
    """Send a request of the JSON protocol; return the status and the error's code."""
    fields = {"X_Amz_Target": target, "Content_Type": JSON, "Authorization": sign(service), **headers}
    status, content_type, code = send(
        drydock, "POST", "/", body, **{name: text for name, text in fields.items() if text}
    )
    assert "json" in content_type
    return status, code


@pytest.mark.parametrize(
    ("target", "body", "options", "expected"),
    [
        ("SageMaker.Nonsense", b"{}", {}, (400, "UnknownOperationException")),
        ("Nonsense", b"{}", {}, (400, "UnknownOperationException")),
        ("Nonsense.Nonsense", b"{}", {"Authorization": ""}, (400, "UnknownOperationException")),
        (f"{LOGS}.Nonsense", b"{}", {"service": "logs"}, (400, "UnknownOperationException")),
        ("", b"{}", {"service": "dynamodb"}, (400, "UnknownOperationException")),
        ("A.B", b"{}", {"service": "nonsense"}, (400, "UnknownService")),
        ("SageMaker.ListModels", b"{}", {"Authorization": sign("sagemaker", "mars-1")}, (403, "SignatureDoesNotMatch")),
        ("SageMaker.ListModels", b"{}", {"Authorization": "nonsense"}, (403, "IncompleteSignature")),
        ("SageMaker.CreateTrainingJob", DEEP, {}, (400, "SerializationException")),
        ("SageMaker.ListModels", DEEP, {}, (400, "SerializationException")),
        (f"{LOGS}.CreateLogGroup", DEEP, {"service": "logs"}, (400, "SerializationException")),
        (f"{LOGS}.CreateLogGroup", b"no json", {"service": "logs"}, (400, "SerializationException")),
        (f"{LOGS}.CreateLogGroup", b"[]", {"service": "logs"}, (400, "SerializationException")),
        (f"{LOGS}.CreateLogGroup", b"\xff", {"service": "logs"}, (400, "SerializationException")),
        (f"{LOGS}.CreateLogGroup", b'{"logGroupName": 1}', {"service": "logs"}, (400, "ValidationException")),
        ("SageMaker.ListModels", b"{}", {"Content_Encoding": "gzip"}, (400, "SerializationException")),
        ("SageMaker.ListModels", b"{}", {"x_moto_account_id": "12345678901"}, (400, "ValidationException")),
        ("SageMaker.ListModels", b"{}", {"x_moto_account_id": "12345678901a"}, (400, "ValidationException")),
        # AWS has the operation, but moto does not: the client must not try again.
        (f"{LOGS}.TestTransformer", b"{}", {"service": "logs"}, (501, "NotImplemented")),
    ],
)  # fmt: skip
def test_json_request_is_refused(drydock: Any, target: str, body: bytes, options: Any, expected: Any) -> None:
    assert send_json(drydock, target, body, **options) == expected


@pytest.mark.parametrize(
    ("method", "path", "body", "service", "expected"),
    [
        ("PUT", "/bucket?lifecycle", b"<no xml", "s3", (400, "MalformedXML")),
        ("PUT", "/bucket?lifecycle", b"<Other/>", "s3", (400, "MalformedXML")),
        ("PUT", "/bucket?lifecycle", b"\xff\xfe", "s3", (400, "MalformedXML")),
        ("PUT", "/bucket?tagging", b"", "s3", (400, "MissingRequestBodyError")),
        ("PUT", "/bucket?versioning", b"<Other/>", "s3", (400, "MalformedXML")),
        ("POST", "/bucket?delete", b"<a>" * 5_000, "s3", (400, "MalformedXML")),
        ("PUT", "/bucket/key?tagging", b"<Other/>", "s3", (400, "MalformedXML")),
        ("PUT", "/new-bucket", b"<no xml", "s3", (400, "MalformedXML")),
        ("GET", "/bucket?max-keys=many", b"", "s3", (400, "InvalidArgument")),
        ("GET", "/no/such/path", b"", "lambda", (404, "UnknownOperationException")),
        ("POST", "/2015-03-31/functions", b"no json", "lambda", (400, "SerializationException")),
        ("POST", "/", b"Action=Nonsense", "iam", (400, "InvalidAction")),
        ("POST", "/", b"Action=AssumeRole&Version=2011-06-15", "sts", (400, "ValidationException")),
        ("BREW", "/", b"", "s3", (405, "MethodNotAllowed")),
    ],
)
def test_request_of_other_protocols_is_refused(
    drydock: Any, method: str, path: str, body: bytes, service: str, expected: Any
) -> None:
    drydock.put("key", b"content")
    content_type = FORM if service in ("iam", "sts") else "application/octet-stream"
    status, answer_type, code = send(
        drydock, method, path, body, Authorization=sign(service), Content_Type=content_type
    )
    assert (status, code) == expected and "html" not in answer_type


def test_length_that_is_no_number_is_refused(drydock: Any) -> None:
    status, _, code = send(drydock, "PUT", "/bucket/key", Content_Length="many", Authorization=sign("s3"))
    assert (status, code) == (400, "InvalidArgument")


def test_outage_with_any_status_answers_as_aws(drydock: Any) -> None:
    drydock.send_command("outage", service="s3", status=499, code="Odd", times=1)
    assert send(drydock, "GET", "/bucket", Authorization=sign("s3")) == (499, "application/xml", "Odd")
    assert drydock.send_refused_command("outage", service="s3", status=399)[0] == 400
    nested = b'{"service":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    assert send(drydock, "POST", "/drydock/outage", nested)[:2] == (400, "application/json")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/bucket", "/", "/drydock/health", "/moto-api/data.json"])
def test_foreign_host_is_refused(drydock: Any, method: str, path: str) -> None:
    port = urlsplit(drydock.url).port
    assert send(drydock, method, path, Host=f"rebound.example:{port}")[0] == 403
    assert send(drydock, "GET", "/drydock/health", Host=f"localhost:{port}")[0] == 200


def test_buckets_are_found_by_host_names(drydock: Any) -> None:
    drydock.put("by-host", b"content")
    for host in ("bucket.s3.amazonaws.com", "bucket.s3.us-east-1.amazonaws.com", "bucket.localhost"):
        connection = http.client.HTTPConnection(urlsplit(drydock.url).netloc, timeout=180)
        connection.request("GET", "/by-host", headers={"Host": host, "Authorization": sign("s3")})
        assert connection.getresponse().read() == b"content", host
        connection.close()


def test_own_hosts_can_be_configured(run_drydock: Any, tmp_path: Path) -> None:
    with run_drydock(tmp_path, "--own-hosts", "drydock,s3.example") as server:
        assert send(server, "GET", "/bucket", Host="drydock:5005", Authorization=sign("s3"))[0] == 200
        assert send(server, "GET", "/", Host="bucket.s3.example", Authorization=sign("s3"))[0] == 200
        assert send(server, "GET", "/bucket", Host="other.example", Authorization=sign("s3"))[0] == 403


def test_no_account_leads_out_of_the_data_folder(drydock: Any) -> None:
    request = json.dumps(drydock.build_request("escaped")).encode()
    header = {"x_moto_account_id": "../../../../EVIL"}
    assert send_json(drydock, "SageMaker.CreateTrainingJob", request, **header) == (400, "ValidationException")
    assert not list(drydock.data.parents[1].rglob("EVIL"))
    # moto takes the account from the ARN of the role that a client assumes.
    keys = drydock.client("sts").assume_role(RoleArn="arn:aws:iam::1234567:role/some", RoleSessionName="session")[
        "Credentials"
    ]
    session = boto3.session.Session(keys["AccessKeyId"], keys["SecretAccessKey"], region_name="us-east-1")
    client = session.client("sagemaker", endpoint_url=drydock.url, config=Config(proxies={}))
    with pytest.raises(ClientError, match="12 digits"):
        client.create_training_job(**drydock.build_request("escaped"))
