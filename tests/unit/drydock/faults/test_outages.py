"""Test simulated outages in front of an application."""

import json
import math
import time
from typing import Any

import pytest

from drydock.faults.outages import Outage, Outages


class Service:
    """Answer each request by OK."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"ok"]


def send(
    outages: Outages, service: str, *, target: str = "", method: str = "POST", signed: bool = True
) -> tuple[str, bytes]:
    """Send a request, and return status and body of the response."""
    statuses: list[str] = []
    environ = {"REQUEST_METHOD": method}
    if signed:
        environ["HTTP_AUTHORIZATION"] = f"AWS4-HMAC-SHA256 Credential=x/20250101/us-east-1/{service}/aws4_request, ..."
    if target:
        environ["HTTP_X_AMZ_TARGET"] = f"SageMaker.{target}"
    body = b"".join(outages(environ, lambda status, headers: statuses.append(status)))
    return statuses[0], body


def build_outage(
    service: str, operation: str = "", *, for_s: float = 60, remaining: float = math.inf, code: str = "Slow"
) -> Outage:
    return Outage(service, operation, 503, code, time.monotonic() + for_s, remaining)


@pytest.fixture
def outages() -> Outages:
    return Outages(Service())


def test_outage_affects_only_its_service_and_operation(outages: Outages) -> None:
    outages.add(build_outage("sagemaker", "DescribeTrainingJob"))
    outages.add(build_outage("s3", "PUT"))
    status, body = send(outages, "sagemaker", target="DescribeTrainingJob")
    assert status == "503 Service Unavailable" and json.loads(body)["__type"] == "Slow"
    assert send(outages, "s3", method="PUT")[0] == "503 Service Unavailable"
    for request in ({"target": "ListTrainingJobs"}, {"target": "DescribeTrainingJob", "signed": False}):
        assert send(outages, "sagemaker", **request)[1] == b"ok"
    assert send(outages, "s3", method="GET")[1] == send(outages, "logs")[1] == b"ok"


@pytest.mark.parametrize(("for_s", "remaining", "hits"), [(0, math.inf, 0), (60, 2, 2), (60, 0, 0), (60, math.inf, 5)])
def test_outage_ends_by_time_or_by_number(outages: Outages, for_s: float, remaining: float, hits: int) -> None:
    outages.add(build_outage("s3", for_s=for_s, remaining=remaining))
    answers = [send(outages, "s3")[0] for _ in range(5)]
    assert answers == ["503 Service Unavailable"] * hits + ["200 OK"] * (5 - hits)


@pytest.mark.parametrize(("service", "method"), [("s3", "GET"), ("s3", "HEAD"), ("sagemaker", "POST")])
@pytest.mark.parametrize("status", [503, 429, 499])
def test_response_has_a_length_and_that_of_head_has_no_body(service: str, method: str, status: int) -> None:
    """A client may keep the connection: what follows the response on it would be taken for the next one."""
    outages = Outages(Service())
    outages.add(Outage(service, "", status, "Slow", time.monotonic() + 60, 1))
    environ = {
        "REQUEST_METHOD": method,
        "HTTP_AUTHORIZATION": f"AWS4-HMAC-SHA256 Credential=x/20250101/us-east-1/{service}/aws4_request, ...",
    }
    responses: list[tuple[str, dict[str, str]]] = []
    body = b"".join(outages(environ, lambda status, headers: responses.append((status, dict(headers)))))
    ((status_line, headers),) = responses
    assert status_line.startswith(str(status))
    assert int(headers["Content-Length"]) > 0
    assert len(body) == (0 if method == "HEAD" else int(headers["Content-Length"]))


def test_error_code_is_escaped(outages: Outages) -> None:
    outages.add(build_outage("s3", code="<a&b>"))
    assert b"<Code>&lt;a&amp;b&gt;</Code>" in send(outages, "s3")[1]
