"""Test drydock's own endpoints: the requests that they accept and refuse."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from werkzeug.test import Client

from drydock.api.control import MAX_BODY_BYTES, ControlEndpoints
from drydock.ec2.spot_prices import SpotPrices
from drydock.endpoints.faults import VariantFault, VariantFaults
from drydock.endpoints.records import ServedConfig, Variant
from drydock.endpoints.registry import Endpoints
from drydock.execution.queue import JobQueue
from drydock.faults.outages import Outages
from drydock.faults.spot_market import SpotMarket, SpotPolicy
from drydock.notebooks.registry import Notebooks
from drydock.store import Store


def respond_empty(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Answer each request with an empty response."""
    start_response("200 OK", [])
    return [b""]


@pytest.fixture
def outages() -> Outages:
    """Return the outages in front of an application that answers each request."""
    return Outages(respond_empty)


@pytest.fixture
def endpoint() -> SimpleNamespace:
    """Return an endpoint `e` with one variant, `main`, of the configuration `e-1`."""
    config = ServedConfig("e-1", [Variant("main", {}, "ml.m5.large", 1, 1.0)])
    return SimpleNamespace(name="e", faults=VariantFaults(), list_configs=lambda: [config])


@pytest.fixture
def client(outages: Outages, endpoint: SimpleNamespace, tmp_path: Path) -> Client:
    """Return a client of drydock's endpoints, whose queue has only a spot market."""
    store = Store(tmp_path / "drydock.sqlite")
    queue, endpoints = (
        SimpleNamespace(market=SpotMarket(SpotPolicy())),
        SimpleNamespace(iterate=lambda: iter([endpoint])),
    )
    return Client(
        ControlEndpoints(
            cast(JobQueue, queue), outages, cast(Endpoints, endpoints), SpotPrices(store), Notebooks(store)
        )
    )


@pytest.mark.parametrize(
    ("method", "page", "body", "status", "message"),
    [
        ("GET", "nothing", "", 404, "no path /drydock/nothing; the paths are GET /drydock/health"),
        ("GET", "interrupt", "", 405, "use POST"),
        ("POST", "spot", "{}", 405, "use GET"),
        ("POST", "use", "{}", 400, "give one of notebook, app"),
        ("POST", "use", '{"notebook": "n"}', 404, "no notebook n is InService"),
        ("POST", "spot-prices", "{}", 400, "instance_type must be a string"),
        ("POST", "use", '{"notebook": "n", "cpu": Infinity}', 400, "cpu must be at most 100000, not inf"),
        ("POST", "variant", '{"endpoint": "e", "latency_s": 3601}', 400, "latency_s must be at most 3600, not 3601"),
        ("POST", "variant", '{"endpoint": "e", "latency_s": Infinity}', 400, "latency_s must be at most 3600, not inf"),
        ("POST", "spot-prices", '{"instance_type": "m5.large", "region": "r", "prices": [1]}', 400, "a list of lists"),
        ("POST", "outage", "no json", 400, "must be a JSON object"),
        ("POST", "outage", "[]", 400, "must be a JSON object"),
        ("POST", "outage", "\xff", 400, "must be a JSON object"),
        ("POST", "outage", "{}", 400, "service must be a string"),
        ("POST", "outage", '{"service": "s3", "status": 200}', 400, "400 to 599, not 200"),
        ("POST", "outage", '{"service": "s3", "status": Infinity}', 400, "400 to 599, not inf"),
        ("POST", "outage", '{"service": "s3", "status": 1' + "0" * 400 + "}", 400, "must be a number of at least 0"),
        ("POST", "outage", '{"service": "s3", "for_s": NaN}', 400, "for_s must be a number of at least 0"),
        ("POST", "outage", '{"service": "s3", "for_s": true}', 400, "for_s must be a number of at least 0"),
        ("POST", "outage", '{"service": "s3", "for_s": "5"}', 400, "for_s must be a number of at least 0"),
        ("POST", "outage", '{"service": "s3", "times": -1}', 400, "times must be a number of at least 0"),
        ("POST", "capacity", '{"available": "no"}', 400, "available must be true or false"),
        ("POST", "capacity", '{"available": true, "instance_type": 5}', 400, "instance_type must be a string"),
        ("POST", "capacity", "{" + " " * MAX_BODY_BYTES + "}", 400, "the body is too long"),
        ("POST", "interrupt", '{"job": "unknown"}', 404, "no job of that name"),
        ("POST", "variant", '{"endpoint": "unknown"}', 404, "no endpoint unknown"),
        (
            "POST",
            "variant",
            '{"endpoint": "e", "variant": "mian"}',
            404,
            "endpoint e has no variant mian; its variants: ",
        ),
        ("POST", "variant", '{"endpoint": "e", "errors": 1}', 400, "unknown field 'errors'; the fields are endpoint, "),
        ("POST", "variant", '{"endpoint": "e", "error_rate": 1.5}', 400, "error_rate must be 0 to 1, not 1.5"),
        ("POST", "outage", '{"service": "s3", "time": 1}', 400, "unknown field 'time'; the fields are service, "),
        ("POST", "capacity", '{"available": true, "type": "x"}', 400, "unknown field 'type'; the fields are instance"),
        ("POST", "interrupt", '{"job": "j", "after": 1}', 400, "unknown field 'after'; the fields are job, "),
    ],
)
def test_invalid_request_is_refused(
    client: Client, method: str, page: str, body: str, status: int, message: str
) -> None:
    response = client.open(f"/drydock/{page}", method=method, data=body.encode("latin-1"))
    assert response.status_code == status
    assert message in json.loads(response.data)["error"]


def test_valid_commands_are_accepted(client: Client) -> None:
    response = client.post("/drydock/capacity", data='{"available": false, "instance_type": "ml.m5.*", "for_s": null}')
    assert response.status_code == 400, "null is not a number"
    response = client.post("/drydock/capacity", data='{"available": false, "instance_type": "ml.m5.*"}')
    assert json.loads(response.data) == {"instance_type": "ml.m5.*", "available": False}
    (rule,) = json.loads(client.get("/drydock/spot").data)["capacity"]
    assert rule["instance_type"] == "ml.m5.*" and rule["for_s"] > 10**9
    response = client.post("/drydock/outage", data='{"service": "s3", "status": 500, "times": 1}')
    assert json.loads(response.data) == {"service": "s3", "code": "SlowDown"}


@pytest.mark.parametrize(
    ("fields", "serving", "has_fault"),
    [
        ({"variant": "main"}, True, True),
        ({}, True, True),
        ({"config": "e-1", "variant": "main"}, True, True),
        ({"config": "e-2-*", "variant": "new"}, False, False),
    ],
)
def test_fault_of_a_variant_says_whether_a_configuration_has_it_already(
    client: Client, endpoint: SimpleNamespace, fields: dict[str, str], serving: bool, has_fault: bool
) -> None:
    body = {"endpoint": "e", "error_rate": 1, **fields}
    response = client.post("/drydock/variant", data=json.dumps(body))
    assert (response.status_code, json.loads(response.data)["serving"]) == (200, serving)
    assert (endpoint.faults.apply("main", "e-1") is not None) is has_fault


def test_refused_fault_breaks_nothing(client: Client, endpoint: SimpleNamespace) -> None:
    client.post("/drydock/variant", data='{"endpoint": "e", "variant": "mian", "error_rate": 1}')
    assert endpoint.faults.apply("main", "e-1") is None


def test_longest_latency_of_a_variant_is_accepted(client: Client, endpoint: SimpleNamespace) -> None:
    added: list[VariantFault] = []
    endpoint.faults.add = added.append
    response = client.post("/drydock/variant", data='{"endpoint": "e", "latency_s": 3600}')
    assert (response.status_code, [fault.latency_s for fault in added]) == (200, [3600.0])


PRICES = {"instance_type": "m5.large", "region": "us-east-1", "prices": [["2026-01-01", 0.1]]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prices": [["now", 1]]}, "a time must have the form"),
        ({"prices": [["0001-01-01T00:00:00+14:00", 1]]}, "the year of a time must be 1970 to 2999, not 1"),
        ({"prices": [["9999-12-31T23:59:59-14:00", 1]]}, "the year of a time must be 1970 to 2999, not 9999"),
        ({"prices": [["2026-01-01", 0]]}, "from 0.000001 to 1e+06"),
        ({"prices": [["2026-01-01", 1e-9]]}, "not 1e-09"),
        ({"prices": [["2026-01-01", 10**400]]}, "from 0.000001 to 1e+06, not int"),
        ({"prices": [["2026-01-01", float("nan")]]}, "not nan"),
        ({"instance_type": "ml.m5.large"}, "must be EC2's name, such as m5.large, not 'ml.m5.large': leave out ml."),
        ({"instance_type": ""}, "must be EC2's name"),
        ({"region": "us-esat-1"}, "region must be a region of AWS, such as us-east-1, not 'us-esat-1'"),
        ({"zone": "eu-west-1a"}, "zone must be a zone of us-east-1, such as us-east-1a, not 'eu-west-1a'"),
    ],
)
def test_prices_that_no_client_could_read_are_refused(client: Client, changes: dict[str, Any], message: str) -> None:
    response = client.post("/drydock/spot-prices", json={**PRICES, **changes})
    assert response.status_code == 400
    assert message in json.loads(response.data)["error"]


def test_right_prices_are_accepted(client: Client) -> None:
    response = client.post("/drydock/spot-prices", json=PRICES)
    assert json.loads(response.data) == {"instance_type": "m5.large", "zone": "us-east-1a", "prices": 1}
