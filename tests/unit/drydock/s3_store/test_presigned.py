"""Test the times of presigned requests: each kind, at its limit, and the malformed ones."""

import base64
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from werkzeug.test import EnvironBuilder

from drydock.s3_store.presigned import InvalidPresignedRequest, PresignedMiddleware, check_request

SIGNED_AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
V4 = {
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": "key/20260101/us-east-1/s3/aws4_request",
    "X-Amz-Date": "20260101T120000Z",
    "X-Amz-Expires": "60",
    "X-Amz-SignedHeaders": "host",
    "X-Amz-Signature": "0",
}
V2 = {"AWSAccessKeyId": "key", "Signature": "s", "Expires": str(int(SIGNED_AT.timestamp()) + 60)}


def build_query(**parameters: Any) -> dict[str, Any]:
    """Return the description of a GET request."""
    return {"REQUEST_METHOD": "GET", "QUERY_STRING": urlencode(parameters)}


def build_post(expiration: str) -> dict[str, Any]:
    """Return the description of an upload by POST with a policy."""
    policy = base64.b64encode(json.dumps({"expiration": expiration, "conditions": []}).encode()).decode()
    form = {"key": "k", "Policy": policy, "file": (io.BytesIO(b"body"), "name")}
    environ = EnvironBuilder("/bucket", method="POST", data=form).get_environ()
    environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read())
    return environ


@pytest.mark.parametrize(
    "environ", [build_query(**V4), build_query(**V2), build_post("2026-01-01T12:01:00Z")], ids=["v4", "v2", "post"]
)
def test_request_is_refused_after_its_time(environ: dict[str, Any]) -> None:
    check_request(environ, SIGNED_AT + timedelta(seconds=60))
    with pytest.raises(InvalidPresignedRequest, match="expired") as error:
        check_request(environ, SIGNED_AT + timedelta(seconds=61))
    assert error.value.error_response[:2] == (403, "AccessDenied")


def test_response_is_an_error_of_s3_whatever_the_content_type() -> None:
    statuses: list[str] = []

    def answer_all(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        raise AssertionError("the request is not refused")

    environ = {**build_query(**V2), "CONTENT_TYPE": "application/json"}
    response = PresignedMiddleware(answer_all)(environ, lambda status, headers: statuses.append(status))
    body = b"".join(response)
    assert statuses == ["403 Forbidden"]
    assert b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message>" in body
    assert b"<Expires>2026-01-01T12:01:00Z</Expires><ServerTime>" in body


def test_body_of_an_upload_is_left_as_it_was() -> None:
    environ = build_post("2026-01-01T12:01:00Z")
    body = environ["wsgi.input"].getvalue()
    check_request(environ, SIGNED_AT)
    assert environ["wsgi.input"].read() == body and b"body" in body


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"X-Amz-Date": "20260101T121501Z"}, "AccessDenied", "not valid yet"),
        ({"X-Amz-Expires": "604801"}, "AuthorizationQueryParametersError", "less than a week"),
        ({"X-Amz-Expires": "-1"}, "AuthorizationQueryParametersError", "non-negative"),
        ({"X-Amz-Expires": "soon"}, "AuthorizationQueryParametersError", "should be a number"),
        ({"X-Amz-Date": "2026-01-01"}, "AuthorizationQueryParametersError", "ISO8601 Long Format"),
    ],
)
def test_malformed_times_are_refused(change: dict[str, str], code: str, message: str) -> None:
    with pytest.raises(InvalidPresignedRequest, match=message) as error:
        check_request(build_query(**{**V4, **change}), SIGNED_AT)
    assert error.value.error_response.code == code


@pytest.mark.parametrize("name", V4)
def test_incomplete_query_never_passes_after_its_time(name: str) -> None:
    query = {key: value for key, value in V4.items() if key != name}
    with pytest.raises(InvalidPresignedRequest):
        check_request(build_query(**query), SIGNED_AT + timedelta(days=1))


@pytest.mark.parametrize("expires", ["", "later", "9" * 40])
def test_malformed_time_of_version_2_is_refused(expires: str) -> None:
    with pytest.raises(InvalidPresignedRequest, match="Invalid date"):
        check_request(build_query(**{**V2, "Expires": expires}), SIGNED_AT)


@pytest.mark.parametrize("expiration", ["", "tomorrow"])
def test_malformed_policy_is_refused(expiration: str) -> None:
    with pytest.raises(InvalidPresignedRequest, match="Invalid Policy"):
        check_request(build_post(expiration), SIGNED_AT)


@pytest.mark.parametrize(
    "environ",
    [
        build_query(),
        build_query(**{"response-expires": "0", "versionId": "1"}),
        build_query(**{**V4, "X-Amz-Credential": "key/20260101/us-east-1/sts/aws4_request"}),
    ],
)
def test_other_requests_pass(environ: dict[str, Any]) -> None:
    check_request(environ, SIGNED_AT + timedelta(days=1))
