"""Test prices from the packaged table, from the user's table, and from a stub of AWS's price list."""

import datetime as dt
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.costs.price_sources.price_tables import DEFAULT_TABLE, PRICES_VARIABLE, read_table
from pipelines.costs.prices import find_launch_price, find_price, find_serverless_price, suggest_prices
from pipelines.errors import DataError, InvalidError, ServiceError, SpecError


def test_the_packaged_table_is_dated_and_consistent() -> None:
    table = read_table(DEFAULT_TABLE)
    assert table.as_of <= dt.date.today()
    assert table.source.startswith("https://aws.amazon.com/")
    assert "Check the prices" in table.note
    regions = [region for group in table.prices for region in group.regions]
    assert len(set(regions)) == len(regions), "a region in two groups would have two prices"
    for group in table.prices:
        families = {name.split(".")[1] for name in group.usd_per_hour}
        assert {"m5", "c5", "r5", "t3", "g4dn", "g5", "p3"} <= families
        assert all(name.startswith("ml.") and 0.01 < usd < 100 for name, usd in group.usd_per_hour.items())


def test_a_price_carries_its_date_and_source() -> None:
    price = find_price("ml.m5.large", "us-east-1")
    assert (price.usd_h, price.date) == (0.115, read_table(DEFAULT_TABLE).as_of)
    assert price.source.startswith("https://")
    assert find_price("ml.m5.large", "eu-west-1").usd_h != price.usd_h


@pytest.mark.parametrize(
    ("instance_type", "region", "message"),
    [
        ("ml.m5.lage", "us-east-1", "ml.m5.lage in us-east-1"),
        ("m5.large", "us-east-1", "m5.large in us-east-1"),
        ("ml.m5.large", "mars-north-1", "region mars-north-1"),
        ("", "", "region "),
        ("ml.m5.large", "us-gov-west-1", "region us-gov-west-1"),
    ],
)
def test_an_unknown_price_is_an_error_that_says_how_to_add_it(instance_type: str, region: str, message: str) -> None:
    with pytest.raises(DataError, match="no price is known") as error:
        find_price(instance_type, region)
    assert message in error.value.message
    assert f"{PRICES_VARIABLE}=api" in error.value.hint and '"usd_per_hour"' in error.value.hint
    assert ("is not a region with SageMaker" in error.value.hint) == (region in ("", "mars-north-1"))


def test_a_wrong_region_is_told_from_one_without_prices() -> None:
    assert suggest_prices(["us-east-1", "eu-west1"]).startswith(
        "'eu-west1' is not a region with SageMaker. Did you mean eu-west-1 or"
    )
    assert suggest_prices(["ap-south-2"]) == "Run python -m pipelines prices refresh --region ap-south-2"


@pytest.mark.parametrize(("name", "suggestion"), [("m5.large", "ml.m5.large"), ("ml.m5.lage", "ml.m5.large")])
def test_nothing_starts_on_a_type_that_sagemaker_does_not_have(name: str, suggestion: str) -> None:
    with pytest.raises(SpecError, match="is not an instance type of SageMaker") as error:
        find_launch_price(name, "us-east-1")
    assert suggestion in error.value.hint
    with pytest.raises(DataError, match="no price is known for ml"):
        find_launch_price("ml.m7i.large", "us-east-1")


def write_own_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    path = tmp_path / "own.json"
    path.write_text(text)
    monkeypatch.setenv(PRICES_VARIABLE, str(path))
    return path


def test_nothing_starts_on_a_retired_type_whose_past_jobs_are_still_charged() -> None:
    assert find_price("ml.p3.2xlarge", "us-east-1").usd_h == 3.825
    with pytest.raises(SpecError, match=r"ml.p3.2xlarge is retired. Use ml.g5.2xlarge"):
        find_launch_price("ml.p3.2xlarge", "us-east-1")
    assert find_launch_price("ml.m5.large", "us-east-1", "Hosting").usd_h == 0.115


def test_the_users_table_has_priority_over_the_packaged_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = {"regions": ["us-east-1", "mars-north-1"], "usd_per_hour": {"ml.m5.large": 0.1, "ml.new.large": 2}}
    write_own_table(tmp_path, monkeypatch, json.dumps({"as_of": "2026-10-01", "prices": [group]}))
    price = find_price("ml.m5.large", "us-east-1")
    assert (price.usd_h, price.date, price.source) == (0.1, dt.date(2026, 10, 1), "own.json")
    assert find_price("ml.new.large", "mars-north-1").usd_h == 2
    assert find_price("ml.c5.xlarge", "us-east-1").usd_h == 0.204
    with pytest.raises(DataError, match="no price is known"):
        find_price("ml.c5.xlarge", "mars-north-1")


def test_an_endpoint_costs_what_a_training_costs_unless_a_table_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_price("ml.m5.large", "us-east-1", "Hosting") == find_price("ml.m5.large", "us-east-1")
    group = {
        "regions": ["us-east-1"],
        "usd_per_hour": {"ml.m5.large": 0.1},
        "hosting_usd_per_hour": {"ml.m5.large": 0.2},
    }
    write_own_table(tmp_path, monkeypatch, json.dumps({"as_of": "2026-10-01", "prices": [group]}))
    assert find_price("ml.m5.large", "us-east-1", "Hosting").usd_h == 0.2
    assert find_price("ml.m5.large", "us-east-1").usd_h == 0.1
    assert find_price("ml.m5.xlarge", "us-east-1", "Hosting").usd_h == 0.23, "the table of the package"


def test_the_price_of_serverless_endpoints_is_known_in_one_region_and_can_be_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    price = find_serverless_price("us-east-1")
    assert (price.usd_h, price.date) == (pytest.approx(0.072), dt.date(2026, 9, 9))
    assert "ServerlessInf:Mem-3GB" in price.source
    with pytest.raises(DataError, match="no price is known for serverless endpoints in eu-west-1") as error:
        find_serverless_price("eu-west-1")
    example = error.value.hint[error.value.hint.index("{") :]
    write_own_table(tmp_path, monkeypatch, example.replace("YYYY-MM-DD", "2026-10-01").replace("REGION", "eu-west-1"))
    price = find_serverless_price("eu-west-1")
    assert (price.usd_h, price.date, price.source) == (pytest.approx(0.072), dt.date(2026, 10, 1), "own.json")
    assert find_serverless_price("us-east-1").source != "own.json"


def test_the_example_in_the_hint_is_a_valid_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError) as error:
        find_price("ml.new.large", "us-east-1")
    example = error.value.hint[error.value.hint.index("{") :]
    filled = example.replace("YYYY-MM-DD", "2026-10-01").replace("REGION", "us-east-1").replace("TYPE", "new.large")
    write_own_table(tmp_path, monkeypatch, filled)
    assert find_price("ml.new.large", "us-east-1").usd_h == 0.1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a table of prices"),
        ("{}", "as_of is missing"),
        ('{"as_of": "2026-10-01", "prices": []}', "neither prices nor serverless"),
        ('{"as_of": "2026-10-01", "serverless": {}}', "usd_per_gb_second is missing"),
        ('{"as_of": "soon", "prices": [{"regions": [], "usd_per_hour": {}}]}', "as_of"),
        ('{"as_of": "2026-10-01", "prices": [{"regions": ["r"], "usd_per_hour": {"ml.a.b": "free"}}]}', "ml.a.b"),
        ('{"as_of": "2026-10-01", "prices": [{"regions": ["r"], "usd_per_hour": {"ml.a.b": 0}}]}', "greater than 0"),
        ('{"as_of": "2026-10-01", "prices": [{"regions": ["r"], "usd_per_hour": {"ml.a.b": -1}}]}', "greater than 0"),
    ],
)
def test_refuses_an_invalid_table(text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_own_table(tmp_path, monkeypatch, text)
    with pytest.raises(DataError, match=message) as error:
        find_price("ml.a.b", "r")
    assert "own.json" in error.value.message


def test_refuses_a_table_that_is_missing_or_not_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_own_table(tmp_path, monkeypatch, "")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"not a table of prices|not UTF-8"):
        find_price("ml.m5.large", "us-east-1")
    path.unlink()
    with pytest.raises(DataError, match="No such file"):
        find_price("ml.m5.large", "us-east-1")


# AWS's real server could not be reached when this was written. The stub answers in the documented shape, and the
# requests come from botocore's own client.


class PriceList:
    """Answer requests for products, and record them."""

    def __init__(self) -> None:
        self.status, self.pages, self.requests = 200, [[]], []

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(body)
        if self.status != 200:
            return {
                "__type": "AccessDeniedException" if self.status == 400 else "InternalErrorException",
                "Message": "no",
            }
        page = int(body.get("NextToken", 0))
        next_page = {"NextToken": str(page + 1)} if page + 1 < len(self.pages) else {}
        return {
            "FormatVersion": "aws_v1",
            "PriceList": [json.dumps(product) for product in self.pages[page]],
            **next_page,
        }


def build_product(*amounts: tuple[str, str]) -> dict[str, Any]:
    dimensions = {f"d{n}": {"unit": unit, "pricePerUnit": {"USD": usd}} for n, (unit, usd) in enumerate(amounts)}
    return {
        "product": {"attributes": {"instanceName": "ml.x9.large", "component": "Training"}},
        "terms": {"OnDemand": {"t": {"priceDimensions": dimensions}}},
        "publicationDate": "2026-11-20T12:00:00Z",
    }


@pytest.fixture
def price_list(monkeypatch: pytest.MonkeyPatch) -> Iterator[PriceList]:
    """Start the stub of AWS's price list."""
    price_list = PriceList()

    class Stub(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = json.dumps(price_list.answer(body)).encode()
            self.send_response(price_list.status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            return

    monkeypatch.setenv(PRICES_VARIABLE, "api")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", f"http://127.0.0.1:{server.server_port}")
        yield price_list
        server.shutdown()


def test_requests_all_pages_of_the_training_price_of_a_type_in_a_region(price_list: PriceList) -> None:
    price_list.pages = [[], [build_product(("Hrs", "0.0000000000"), ("GB", "9.0"), ("Hrs", "1.2500000000"))]]
    price = find_price("ml.x9.large", "eu-north-1")
    assert (price.usd_h, price.date, price.source) == (1.25, dt.date(2026, 11, 20), "AWS Price List API")
    filters = {field["Field"]: field["Value"] for field in price_list.requests[0]["Filters"]}
    assert price_list.requests[0]["ServiceCode"] == "AmazonSageMaker"
    assert filters == {"regionCode": "eu-north-1", "component": "Training", "instanceName": "ml.x9.large"}
    assert len(price_list.requests) == 2


def test_the_highest_of_several_prices_counts(price_list: PriceList) -> None:
    price_list.pages = [[build_product(("Hrs", "1.0")), build_product(("Hrs", "3.0")), build_product(("Hrs", "2.0"))]]
    assert find_price("ml.x9.large", "eu-north-1").usd_h == 3


def test_requests_the_price_of_hosting_for_an_endpoint(price_list: PriceList) -> None:
    price_list.pages = [[build_product(("Hrs", "0.5"))]]
    assert find_price("ml.x9.large", "eu-north-1", "Hosting").usd_h == 0.5
    filters = {field["Field"]: field["Value"] for field in price_list.requests[0]["Filters"]}
    assert filters == {"regionCode": "eu-north-1", "component": "Hosting", "instanceName": "ml.x9.large"}


def test_requests_the_price_of_serverless_endpoints_per_gb(price_list: PriceList) -> None:
    def build_serverless_product(usage: str, usd: str) -> dict[str, Any]:
        return {**build_product(("Seconds", usd)), "product": {"attributes": {"usagetype": usage}}}

    price_list.pages = [
        [
            build_serverless_product("EUN1-ServerlessInf:Mem-4GB", "0.00008"),
            build_serverless_product("EUN1-ServerlessInf:Mem-1GB", "0.00002"),
            build_serverless_product("EUN1-ServerlessInf:Provisioned-Mem-1GB-Usage", "0.00009"),
        ]
    ]
    price = find_serverless_price("eu-north-1")
    assert (price.usd_h, price.source) == (pytest.approx(0.072), "AWS Price List API")
    filters = {field["Field"]: field["Value"] for field in price_list.requests[0]["Filters"]}
    assert filters == {"regionCode": "eu-north-1", "productFamily": "ML Serverless"}
    price_list.pages = [[build_serverless_product("EUN1-ServerlessInf:Provisioned-Mem-1GB-Usage", "0.00009")]]
    with pytest.raises(DataError, match="no price for serverless endpoints in eu-north-1"):
        find_serverless_price("eu-north-1")


def test_a_type_that_aws_does_not_have_is_an_error(price_list: PriceList) -> None:
    with pytest.raises(DataError, match=r"no price for training on ml\.nix\.large in us-east-1"):
        find_price("ml.nix.large", "us-east-1")


def test_a_refusal_of_aws_is_an_error_that_no_retry_helps(price_list: PriceList) -> None:
    price_list.status = 400
    with pytest.raises(InvalidError, match="AccessDeniedException") as error:
        find_price("ml.m5.large", "us-east-1")
    assert "pricing:GetProducts" in error.value.hint


def test_a_failure_of_aws_is_an_error_that_a_retry_may_help(price_list: PriceList) -> None:
    price_list.status = 500
    with pytest.raises(ServiceError, match="failed"):
        find_price("ml.m5.large", "us-east-1")


def test_missing_credentials_are_an_error_that_no_retry_helps(
    price_list: PriceList, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)  # it has the credentials of other tests
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(InvalidError, match="credentials"):
        find_price("ml.m5.large", "us-east-1")
    assert not price_list.requests


def test_a_missing_answer_of_aws_is_an_error_that_a_retry_may_help(
    price_list: PriceList, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", f"http://127.0.0.1:{probe.getsockname()[1]}")
        with pytest.raises(ServiceError, match="does not answer"):
            find_price("ml.m5.large", "us-east-1")
