"""Prices: the packaged table, a table of one's own, AWS's price list as a stub of its server tells it."""

import datetime as dt
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.costs import prices
from pipelines.costs.prices import VARIABLE, find_price
from pipelines.errors import DataError, InvalidError, ServiceError


def test_the_packaged_table_is_dated_and_sound() -> None:
    table = prices._read_table(prices.DEFAULT_TABLE)
    assert table.as_of <= dt.date.today()
    assert table.source.startswith("https://aws.amazon.com/")
    assert "check" in table.note
    regions = [region for group in table.prices for region in group.regions]
    assert len(set(regions)) == len(regions), "a region in two groups would have two prices"
    for group in table.prices:
        families = {name.split(".")[1] for name in group.usd_per_hour}
        assert {"m5", "c5", "r5", "t3", "g4dn", "g5", "p3"} <= families
        assert all(name.startswith("ml.") and 0.01 < usd < 100 for name, usd in group.usd_per_hour.items())


def test_a_price_carries_its_date_and_source() -> None:
    told = find_price("ml.m5.large", "us-east-1")
    assert (told.usd_h, told.date) == (0.115, prices._read_table(prices.DEFAULT_TABLE).as_of)
    assert told.source.startswith("https://")
    assert find_price("ml.m5.large", "eu-west-1").usd_h != told.usd_h


@pytest.mark.parametrize(
    ("instance_type", "region", "said"),
    [
        ("ml.m5.lage", "us-east-1", "ml.m5.lage in us-east-1"),
        ("m5.large", "us-east-1", "m5.large in us-east-1"),
        ("ml.m5.large", "mars-north-1", "region mars-north-1"),
        ("", "", "region "),
    ],
)
def test_what_no_table_has_is_said_with_the_way_to_add_it(instance_type: str, region: str, said: str) -> None:
    with pytest.raises(DataError, match="no price is known") as caught:
        find_price(instance_type, region)
    assert said in caught.value.message
    assert f"{VARIABLE}=api" in caught.value.hint and '"usd_per_hour"' in caught.value.hint


def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    path = tmp_path / "own.json"
    path.write_text(text)
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def test_a_table_of_ones_own_comes_first_and_the_packaged_one_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = {"regions": ["us-east-1", "mars-north-1"], "usd_per_hour": {"ml.m5.large": 0.1, "ml.new.large": 2}}
    own(tmp_path, monkeypatch, json.dumps({"as_of": "2026-10-01", "prices": [group]}))
    told = find_price("ml.m5.large", "us-east-1")
    assert (told.usd_h, told.date, told.source) == (0.1, dt.date(2026, 10, 1), "own.json")
    assert find_price("ml.new.large", "mars-north-1").usd_h == 2
    assert find_price("ml.c5.xlarge", "us-east-1").usd_h == 0.204
    with pytest.raises(DataError, match="no price is known"):
        find_price("ml.c5.xlarge", "mars-north-1")


def test_the_example_of_the_hint_is_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError) as caught:
        find_price("ml.new.large", "us-east-1")
    example = caught.value.hint[caught.value.hint.index("{") :]
    filled = example.replace("YYYY-MM-DD", "2026-10-01").replace("REGION", "us-east-1").replace("TYPE", "new.large")
    own(tmp_path, monkeypatch, filled)
    assert find_price("ml.new.large", "us-east-1").usd_h == 0.1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a table of prices"),
        ("{}", "as_of is missing"),
        ('{"as_of": "2026-10-01", "prices": []}', "prices"),
        ('{"as_of": "soon", "prices": [{"regions": [], "usd_per_hour": {}}]}', "as_of"),
        ('{"as_of": "2026-10-01", "prices": [{"regions": ["r"], "usd_per_hour": {"ml.a.b": "free"}}]}', "ml.a.b"),
        ('{"as_of": "2026-10-01", "prices": [{"regions": ["r"], "usd_per_hour": {"ml.a.b": 0}}]}', "more than 0"),
        ('{"as_of": "2026-10-01", "prices": [{"regions": ["r"], "usd_per_hour": {"ml.a.b": -1}}]}', "more than 0"),
    ],
)
def test_a_table_that_is_none_is_refused(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own(tmp_path, monkeypatch, text)
    with pytest.raises(DataError, match=said) as caught:
        find_price("ml.a.b", "r")
    assert "own.json" in caught.value.message


def test_a_table_that_is_not_there_or_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = own(tmp_path, monkeypatch, "")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"not a table of prices|not UTF-8"):
        find_price("ml.m5.large", "us-east-1")
    path.unlink()
    with pytest.raises(DataError, match="No such file"):
        find_price("ml.m5.large", "us-east-1")


# AWS's price list. Its real server could not be reached where this was written: the stub answers in the shape that
# AWS documents, and botocore's own client asks it.


class PriceList:
    """What the stub answers, and what it was asked."""

    def __init__(self) -> None:
        self.status, self.pages, self.asked = 200, [[]], []

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        if self.status != 200:
            return {
                "__type": "AccessDeniedException" if self.status == 400 else "InternalErrorException",
                "Message": "no",
            }
        page = int(body.get("NextToken", 0))
        more = {"NextToken": str(page + 1)} if page + 1 < len(self.pages) else {}
        return {"FormatVersion": "aws_v1", "PriceList": [json.dumps(one) for one in self.pages[page]], **more}


def product(*amounts: tuple[str, str]) -> dict[str, Any]:
    dimensions = {f"d{n}": {"unit": unit, "pricePerUnit": {"USD": usd}} for n, (unit, usd) in enumerate(amounts)}
    return {
        "product": {"attributes": {"instanceName": "ml.x9.large", "component": "Training"}},
        "terms": {"OnDemand": {"t": {"priceDimensions": dimensions}}},
        "publicationDate": "2026-11-20T12:00:00Z",
    }


@pytest.fixture
def price_list(monkeypatch: pytest.MonkeyPatch) -> Iterator[PriceList]:
    told = PriceList()

    class Stub(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = json.dumps(told.answer(body)).encode()
            self.send_response(told.status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            return

    monkeypatch.setenv(VARIABLE, "api")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", f"http://127.0.0.1:{server.server_port}")
        yield told
        server.shutdown()


def test_aws_is_asked_for_training_of_that_type_and_region_over_all_pages(price_list: PriceList) -> None:
    price_list.pages = [[], [product(("Hrs", "0.0000000000"), ("GB", "9.0"), ("Hrs", "1.2500000000"))]]
    told = find_price("ml.x9.large", "eu-north-1")
    assert (told.usd_h, told.date, told.source) == (1.25, dt.date(2026, 11, 20), "AWS Price List API")
    asked = {one["Field"]: one["Value"] for one in price_list.asked[0]["Filters"]}
    assert price_list.asked[0]["ServiceCode"] == "AmazonSageMaker"
    assert asked == {"regionCode": "eu-north-1", "component": "Training", "instanceName": "ml.x9.large"}
    assert len(price_list.asked) == 2


def test_of_several_prices_the_dearest_is_taken(price_list: PriceList) -> None:
    price_list.pages = [[product(("Hrs", "1.0")), product(("Hrs", "3.0")), product(("Hrs", "2.0"))]]
    assert find_price("ml.x9.large", "eu-north-1").usd_h == 3


def test_a_type_that_aws_does_not_have(price_list: PriceList) -> None:
    with pytest.raises(DataError, match=r"no training on ml\.nix\.large in us-east-1"):
        find_price("ml.nix.large", "us-east-1")


def test_a_refusal_of_aws_is_no_matter_of_trying_again(price_list: PriceList) -> None:
    price_list.status = 400
    with pytest.raises(InvalidError, match="AccessDeniedException") as caught:
        find_price("ml.m5.large", "us-east-1")
    assert "pricing:GetProducts" in caught.value.hint


def test_a_failure_of_aws_is(price_list: PriceList) -> None:
    price_list.status = 500
    with pytest.raises(ServiceError, match="failed"):
        find_price("ml.m5.large", "us-east-1")


def test_aws_that_does_not_answer(price_list: PriceList, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", f"http://127.0.0.1:{probe.getsockname()[1]}")
        with pytest.raises(ServiceError, match="does not answer"):
            find_price("ml.m5.large", "us-east-1")
