"""Test the use of another S3 server."""

from typing import Any

import pytest

from drydock.jobs.environment import HostContext, build_common_environment
from drydock.s3_store.external_s3 import ExternalS3Middleware
from drydock.transfer.clients import _read_credentials


def send_request(s3_url: str, service: str, **fields: str) -> tuple[str, bytes]:
    statuses: list[str] = []

    def answer_request(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"ok"]

    scope = f"AWS4-HMAC-SHA256 Credential=x/20250101/us-east-1/{service}/aws4_request, ..."
    environ = {"REQUEST_METHOD": "GET", **({"HTTP_AUTHORIZATION": scope} if service else {}), **fields}
    body = b"".join(
        ExternalS3Middleware(answer_request, s3_url)(environ, lambda status, headers: statuses.append(status))
    )
    return statuses[0], body


def test_refuses_s3_requests_and_names_the_s3_server() -> None:
    status, body = send_request("http://s3:8333", "s3")
    assert status == "400 Bad Request"
    assert b"<Code>InvalidRequest</Code>" in body and b"AWS_ENDPOINT_URL_S3 to http://s3:8333" in body


def test_refuses_presigned_requests_to_s3_in_the_format_of_s3() -> None:
    query = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=x%2F20250101%2Fus-east-1%2Fs3%2Faws4_request"
    status, body = send_request("http://s3:8333", "", QUERY_STRING=query, CONTENT_TYPE="application/json")
    assert status == "400 Bad Request" and b"<Code>InvalidRequest</Code>" in body


@pytest.mark.parametrize(("s3_url", "service"), [("", "s3"), ("http://s3:8333", "sagemaker"), ("http://s3:8333", "")])
def test_answers_all_other_requests(s3_url: str, service: str) -> None:
    assert send_request(s3_url, service) == ("200 OK", b"ok")


def test_jobs_get_the_url_of_the_s3_server() -> None:
    here = HostContext("/tree", "algo-1", ["algo-1"], 1, {}, False, "http://u")
    there = HostContext("/tree", "algo-1", ["algo-1"], 1, {}, False, "http://u", "http://s3:8333")
    assert "AWS_ENDPOINT_URL_S3" not in build_common_environment("eu-west-1", here)
    assert build_common_environment("eu-west-1", there)["AWS_ENDPOINT_URL_S3"] == "http://s3:8333"
    assert build_common_environment("eu-west-1", there)["AWS_ENDPOINT_URL"] == "http://u"


def test_the_servers_own_credentials_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert set(_read_credentials().values()) == {"drydock"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "LEEWAY1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "word")
    assert _read_credentials() == {
        "aws_access_key_id": "LEEWAY1", "aws_secret_access_key": "word", "aws_session_token": None,
    }  # fmt: skip
