"""Test the renewal of prices with a stub that answers as AWS's price list, EC2 and the savings plans are documented."""

import datetime as dt
import http.server
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from typer.testing import CliRunner

from pipelines.cli.app import build_app
from pipelines.costs.price_sources.price_refresh import request_prices, write_prices
from pipelines.costs.price_sources.price_tables import PRICES_VARIABLE, read_table
from pipelines.costs.prices import find_price, find_serverless_price, read_region_prices
from pipelines.errors import DataError, InvalidError, ServiceError, SpecError
from pipelines.settings import settings

TODAY = dt.date(2026, 11, 20)
REGION = "eu-north-1"


def build_product(attribute: str, name: str, usd: str, currency: str = "USD") -> str:
    dimension = {"unit": "Hrs", "pricePerUnit": {currency: usd}}
    product = {
        "product": {"attributes": {attribute: name}},
        "terms": {"OnDemand": {"t": {"priceDimensions": {"d": dimension}}}},
        "publicationDate": "2026-11-20T12:00:00Z",
    }
    return json.dumps(product)


class Aws:
    """What the stub answers, and the requests that it got."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.currency = "USD"
        self.statuses: dict[str, int] = {}
        self.training = {"ml.m5.large": "0.115", "ml.g5.xlarge": "1.408"}
        self.spot = [("m5.large", "0.040"), ("m5.large", "0.036"), ("m5.large", "0.030"), ("g5.xlarge", "0.5")]
        self.rates = [("Train:ml.m5.large", 31_536_000, "0.08"), ("Host:ml.m5.large", 31_536_000, "0.07")]

    def list_products(self, body: dict[str, Any]) -> dict[str, Any]:
        filters = {field["Field"]: field["Value"] for field in body["Filters"]}
        self.requests.append((body["ServiceCode"], filters))
        if body["ServiceCode"] == "AmazonEC2":
            products = [build_product("instanceType", "m5.large", "0.096"), build_product("instanceType", "x", "1")]
        elif filters["component"] == "Hosting":
            products = [build_product("instanceName", "ml.m5.large", "0.120")]
        else:
            products = [build_product("instanceName", name, usd, self.currency) for name, usd in self.training.items()]
        return {"FormatVersion": "aws_v1", "PriceList": products}

    def list_spot_prices(self, fields: dict[str, list[str]]) -> str:
        self.requests.append(("spot", fields))
        items = "".join(
            f"<item><instanceType>{name}</instanceType><spotPrice>{usd}</spotPrice></item>" for name, usd in self.spot
        )
        root = "DescribeSpotPriceHistoryResponse"
        return f"<{root}><spotPriceHistorySet>{items}</spotPriceHistorySet></{root}>"

    def list_rates(self, body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(("plans", body))
        if not body.get("nextToken"):
            return {"searchResults": [], "nextToken": "more"}
        results = [
            {
                "savingsPlanOffering": {"durationSeconds": s, "currency": "USD"},
                "usageType": f"EUN1-{usage}",
                "rate": usd,
            }
            for usage, s, usd in self.rates
        ]
        return {"searchResults": results}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """Start the stub."""
    stub_data = Aws()

    class Stub(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            is_pricing = "x-amz-json" in self.headers.get("Content-Type", "")
            service = "pricing" if is_pricing else "plans" if text.startswith("{") else "ec2"
            status = stub_data.statuses.get(service, 200)
            if status != 200:
                answer = '{"__type": "AccessDeniedException", "message": "no"}'
                if service == "ec2":
                    code = "UnauthorizedOperation" if status == 403 else "InvalidParameterValue"
                    error = f"<Error><Code>{code}</Code><Message>no</Message></Error>"
                    answer = f"<Response><Errors>{error}</Errors></Response>"
            elif service == "ec2":
                answer = stub_data.list_spot_prices(parse_qs(text))
            else:
                answer = json.dumps((stub_data.list_products if is_pricing else stub_data.list_rates)(json.loads(text)))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: Any) -> None:
            return

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for service in ("PRICING", "EC2", "SAVINGSPLANS"):
            monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", f"http://127.0.0.1:{server.server_port}")
        yield stub_data
        server.shutdown()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Use an empty project."""
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    monkeypatch.delenv(PRICES_VARIABLE, raising=False)
    settings.cache_clear()
    yield tmp_path
    settings.cache_clear()


def test_a_table_has_prices_on_demand_spot_and_savings_plans(aws: Aws) -> None:
    group = request_prices([REGION], 30, TODAY).prices[0]
    assert group.usd_per_hour == {"ml.g5.xlarge": 1.408, "ml.m5.large": 0.115}
    assert group.hosting_usd_per_hour == {"ml.m5.large": 0.12}
    # The median of three spot prices is 0.036, and EC2's own price 0.096. EC2's price of g5.xlarge is not listed.
    assert group.spot_saving == {"ml.m5.large": pytest.approx(1 - 0.036 / 0.096)}
    assert group.savings_plan_usd_per_hour == {"1y": {"ml.m5.large": 0.08}}
    spot_request = next(fields for name, fields in aws.requests if name == "spot")
    assert spot_request["InstanceType.1"] == ["m5.large"] and "InstanceType.2" not in spot_request
    assert spot_request["ProductDescription.1"] == ["Linux/UNIX"]


def test_the_tables_of_the_project_are_used_by_their_dates(aws: Aws, project: Path) -> None:
    assert find_price("ml.m5.large", "us-east-1").date == dt.date(2025, 1, 1)
    write_prices(request_prices(["us-east-1"], 30, dt.date(2026, 11, 20)))
    aws.training["ml.m5.large"] = "0.2"
    path = write_prices(request_prices(["us-east-1"], 30, dt.date(2026, 11, 21)))
    assert path == project / "prices" / "2026-11-21.json" and len(list(path.parent.iterdir())) == 2
    price = find_price("ml.m5.large", "us-east-1")
    assert (price.usd_h, price.date, price.source) == (0.2, dt.date(2026, 11, 21), "AWS Price List API")
    assert find_price("ml.m5.large", "us-east-1", as_of=dt.date(2026, 11, 20)).usd_h == 0.115
    assert find_price("ml.m5.xlarge", "us-east-1").date == dt.date(2025, 1, 1), "the table of the package"
    prices = read_region_prices("us-east-1")
    assert prices.spot_savings == {"ml.m5.large": pytest.approx(0.625)}
    assert read_region_prices("us-east-1", dt.date(2026, 11, 1)).spot_savings == {}
    assert prices.plans["1y"]["ml.m5.large"].usd_h == 0.08 and "ml.m5.large" not in prices.plans["3y"]


def test_a_second_refresh_of_a_day_keeps_other_regions(aws: Aws, project: Path) -> None:
    write_prices(request_prices(["us-east-1", "eu-west-1"], 30, TODAY))
    aws.training["ml.m5.large"] = "0.2"
    path = write_prices(request_prices(["us-east-1", "eu-north-1"], 30, TODAY))
    prices = {group.regions[0]: group.usd_per_hour["ml.m5.large"] for group in read_table(path).prices}
    assert prices == {"eu-west-1": 0.115, "us-east-1": 0.2, "eu-north-1": 0.2}
    write_prices(request_prices(["eu-west-1"], 7, TODAY))
    notes = {group.regions[0]: group.note for group in read_table(path).prices}
    assert "of 7 days" in notes["eu-west-1"] and "of 30 days" in notes["us-east-1"]
    write_prices(request_prices(["us-east-1"], 30, TODAY + dt.timedelta(days=1)))
    assert [group.regions for group in read_table(project / "prices/2026-11-21.json").prices] == [["us-east-1"]]


def test_a_table_of_the_same_day_written_by_hand_keeps_what_is_not_renewed(aws: Aws, project: Path) -> None:
    group = {"regions": ["eu-west-1", "us-east-1"], "usd_per_hour": {"ml.m5.large": 0.3}}
    serverless = {"usd_per_gb_second": {"eu-west-1": 3e-5}}
    path = project / "prices" / f"{TODAY}.json"
    path.parent.mkdir()
    own = {"as_of": str(TODAY), "source": "my contract", "prices": [group], "serverless": serverless}
    path.write_text(json.dumps(own))
    write_prices(request_prices(["us-east-1"], 30, TODAY))
    assert find_price("ml.m5.large", "eu-west-1").usd_h == 0.3 and find_price("ml.m5.large", "us-east-1").usd_h == 0.115
    assert find_price("ml.m5.large", "eu-west-1").source == find_serverless_price("eu-west-1").source == "my contract"
    assert find_price("ml.m5.large", "us-east-1").source == "AWS Price List API"
    assert find_serverless_price("eu-west-1").usd_h == pytest.approx(3e-5 * 3600)


def test_a_file_that_is_no_table_is_not_replaced(aws: Aws, project: Path) -> None:
    path = project / "notes.json"
    path.write_text("{}")
    with pytest.raises(DataError, match="is not a table"):
        write_prices(request_prices(["us-east-1"], 30, TODAY), path)
    assert path.read_text() == "{}"


def test_refreshes_at_the_same_time_lose_no_region(aws: Aws, project: Path) -> None:
    tables = [request_prices([f"eu-west-{n}"], 30, TODAY) for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        path = next(iter(set(pool.map(write_prices, tables))))
    assert len(read_table(path).prices) == 8


def test_what_a_killed_refresh_left_is_removed_by_the_next_one(aws: Aws, project: Path) -> None:
    code = (
        "import datetime as dt, os, signal; from pathlib import Path; from pipelines.costs.price_sources import "
        "price_refresh as p; from pipelines.costs.price_sources.price_tables import PriceTable, RegionGroup; "
        "Path.write_text = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL); "
        "p.write_prices(PriceTable(as_of=dt.date(2026, 11, 19), prices=[RegionGroup(regions=['r'], usd_per_hour={})]))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    folder = project / "prices"
    assert [path.name[:16] for path in folder.iterdir()] == [".2026-11-19.json"]
    (folder / ".2026-11-19.json.swp").touch()  # of an editor
    write_prices(request_prices([REGION], 30, TODAY))
    assert sorted(path.name for path in folder.iterdir()) == [".2026-11-19.json.swp", f"{TODAY}.json"]


def test_absurd_amounts_of_aws_are_one_line(aws: Aws) -> None:
    aws.rates = [("Train:ml.m5.large", 31_536_000, "0"), ("Train:ml.g5.xlarge", 31_536_000, "1")]
    assert request_prices([REGION], 30, TODAY).prices[0].savings_plan_usd_per_hour == {"1y": {"ml.g5.xlarge": 1}}
    aws.training["ml.m5.large"] = "1e6"
    with pytest.raises(DataError, match=f"the prices of AWS in {REGION} are not valid: usd_per_hour.ml.m5.large"):
        request_prices([REGION], 30, TODAY)


def test_a_day_before_all_tables_and_a_past_day_of_the_api_are_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match=r"no price is known for ml\.m5\.large in us-east-1 on 2024-01-01"):
        find_price("ml.m5.large", "us-east-1", as_of=dt.date(2024, 1, 1))
    monkeypatch.setenv(PRICES_VARIABLE, "api")
    with pytest.raises(SpecError, match="only today's prices"):
        find_price("ml.m5.large", "us-east-1", as_of=dt.date(2026, 11, 20))


def test_prices_in_another_currency_are_refused(aws: Aws, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aws.currency = "CNY"
    with pytest.raises(DataError, match="prices in CNY, and all prices here are in USD"):
        request_prices(["cn-north-1"], 30, TODAY)
    table = {"as_of": "2026-10-01", "currency": "EUR", "prices": [{"regions": ["r"], "usd_per_hour": {"ml.a.b": 1}}]}
    (project / "own.json").write_text(json.dumps(table))
    monkeypatch.setenv(PRICES_VARIABLE, str(project / "own.json"))
    with pytest.raises(DataError, match=r"own\.json are in EUR"):
        find_price("ml.a.b", "r")


@pytest.mark.parametrize("share", [-0.1, 1, 70])
def test_an_absurd_saving_is_refused(share: float, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = {"regions": ["r"], "usd_per_hour": {"ml.a.b": 1}, "spot_saving": {"ml.a.b": share}}
    (project / "own.json").write_text(json.dumps({"as_of": "2026-10-01", "prices": [group]}))
    monkeypatch.setenv(PRICES_VARIABLE, str(project / "own.json"))
    with pytest.raises(DataError, match=r"spot_saving\.ml\.a\.b: input should be (less|greater)"):
        read_region_prices("r")


def test_a_region_without_prices_and_a_refusal_leave_no_file(aws: Aws, project: Path) -> None:
    aws.training = {}
    with pytest.raises(DataError, match="no prices of SageMaker training in mars-north-1"):
        write_prices(request_prices(["mars-north-1"], 30, TODAY))
    aws.training, aws.statuses = {"ml.m5.large": "1"}, {"ec2": 403}
    with pytest.raises(InvalidError, match="denies access to EC2's spot price history") as error:
        write_prices(request_prices([REGION], 30, TODAY))
    assert "ec2:DescribeSpotPriceHistory" in error.value.hint
    aws.statuses = {"ec2": 400}
    with pytest.raises(InvalidError, match="AWS refuses the request for EC2's spot price history") as error:
        write_prices(request_prices([REGION], 30, TODAY))
    assert "Allow" not in error.value.hint
    aws.statuses = {"ec2": 500}
    with pytest.raises(ServiceError, match="spot price history failed"):
        write_prices(request_prices([REGION], 30, TODAY))
    assert not (project / "prices").exists()


def test_savings_plans_are_unknown_without_access_to_them(aws: Aws) -> None:
    aws.statuses = {"plans": 403}
    assert request_prices([REGION], 30, TODAY).prices[0].savings_plan_usd_per_hour == {}


def test_the_commands(aws: Aws, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.cli.terminal.sys.stdout.isatty", lambda: False, raising=False)
    run = CliRunner().invoke
    lines = run(build_app("prices"), ["prices", "refresh", "--region", REGION], catch_exceptions=False).stdout
    assert f"{REGION}: 2 price(s) on demand, 1 saving(s) by spot, 1 price(s) with savings plans." in lines
    rows = json.loads(run(build_app("prices"), ["prices", "show", "--region", REGION, "--json"]).stdout)
    assert [(row["instance_type"], row["spot_saving"], row["plan_1y_usd_h"]) for row in rows] == [
        ("ml.g5.xlarge", None, None),
        ("ml.m5.large", 0.625, 0.08),
    ]
    shown = run(build_app("prices"), ["prices", "show", "--region", REGION]).stdout
    assert "unknown" in shown and "62%" in shown
    with pytest.raises(DataError, match="no price is known in mars-north-1"):
        run(build_app("prices"), ["prices", "show", "--region", "mars-north-1"], catch_exceptions=False)
    arguments = ["prices", "show", "--region", "us-east-1", "--as-of", "2024-01-01"]
    with pytest.raises(
        DataError, match=r"no price is known in us-east-1 on 2024-01-01\. The oldest prices are of 2025-01-01"
    ):
        run(build_app("prices"), arguments, catch_exceptions=False)
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(SpecError, match="region of the prices is not known"):
        run(build_app("prices"), ["prices", "show"], catch_exceptions=False)


def test_show_shows_what_is_used_with_the_api(aws: Aws, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_prices(request_prices([REGION], 30, TODAY))
    aws.training = {"ml.m5.large": "0.25", "ml.new.large": "7"}
    run = CliRunner().invoke
    show = ["prices", "show", "--region", REGION, "--json"]
    rows = {row["instance_type"]: row for row in json.loads(run(build_app("prices"), show).stdout)}
    assert rows["ml.m5.large"]["usd_h"] == 0.115
    monkeypatch.setenv(PRICES_VARIABLE, "api")
    rows = {row["instance_type"]: row for row in json.loads(run(build_app("prices"), show).stdout)}
    assert {name: row["usd_h"] for name, row in rows.items()} == {"ml.m5.large": 0.25, "ml.new.large": 7}
    assert rows["ml.m5.large"]["source"] == "AWS Price List API" and rows["ml.m5.large"]["spot_saving"] == 0.625
    with pytest.raises(SpecError, match="only today's prices"):
        run(build_app("prices"), [*show, "--as-of", "2026-11-20"], catch_exceptions=False)


@pytest.mark.parametrize("arguments", [["show", "--as-of", ""], ["refresh", "--out", ""], ["refresh", "--region", ""]])
def test_an_empty_option_is_refused(arguments: list[str], project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", REGION)
    with pytest.raises(SpecError, match=f"{arguments[1]} is empty"):
        CliRunner().invoke(build_app("prices"), ["prices", *arguments], catch_exceptions=False)


def test_a_file_that_cannot_be_written_is_one_line(aws: Aws, project: Path) -> None:
    for out in (project, Path("/dev/null")):
        arguments = ["prices", "refresh", "--region", REGION, "--out", str(out)]
        with pytest.raises(SpecError, match="is not a regular file"):
            CliRunner().invoke(build_app("prices"), arguments, catch_exceptions=False)
    assert Path("/dev/null").is_char_device()
