"""Test which files are tables of prices: valid ones of a day that has come; everything else is one clear line."""

import datetime as dt
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.costs.price_sources.price_tables import MAX_BYTES, PRICES_VARIABLE, read_table
from pipelines.costs.prices import find_price, find_serverless_price, read_region_prices
from pipelines.errors import DataError
from pipelines.settings import settings


def get_today() -> dt.date:
    """Return today: a run of the tests may cross midnight."""
    return dt.datetime.now(dt.UTC).date()


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return the function that writes a table of one type into the folder of the project, and returns its path."""
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    monkeypatch.delenv(PRICES_VARIABLE, raising=False)
    settings.cache_clear()

    def write_table(name: str, as_of: Any, usd: Any = 0.1, **group: Any) -> Path:
        path = tmp_path / "prices" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        prices = [{"regions": ["r"], "usd_per_hour": {"ml.a.b": usd}, **group}]
        path.write_text(json.dumps({"as_of": as_of, "prices": prices}))
        return path

    return write_table


def test_a_table_of_today_is_used(write: Write) -> None:
    write(str(get_today()), str(get_today()), 3)
    assert find_price("ml.a.b", "r").usd_h == 3


@pytest.mark.parametrize(
    "usd", [0, -1, float("inf"), float("-inf"), float("nan"), 1e5 + 1, 1e400, True, "0.1", None, []]
)
@pytest.mark.parametrize("key", ["usd_per_hour", "hosting_usd_per_hour", "savings_plan_usd_per_hour"])
def test_an_amount_that_is_no_price_is_refused(key: str, usd: Any, write: Write) -> None:
    amounts = {"ml.a.b": usd}
    path = write("2026-10-01", "2026-10-01", **{key: {"1y": amounts} if key.startswith("savings") else amounts})
    with pytest.raises(DataError, match=r"ml\.a\.b") as error:
        read_region_prices("r")
    assert str(path) in error.value.message and key in error.value.message


@pytest.mark.parametrize("usd", [0, -1e-5, 2, float("nan")])
def test_a_serverless_amount_that_is_no_price_is_refused(usd: float, write: Write) -> None:
    path = write("2026-10-01", "2026-10-01")
    path.write_text(json.dumps({"as_of": "2026-10-01", "serverless": {"usd_per_gb_second": {"r": usd}}}))
    with pytest.raises(DataError, match=r"serverless\.usd_per_gb_second\.r"):
        find_serverless_price("r")


@pytest.mark.parametrize("as_of", [20261001, 1.5, "01.10.2026", "2026-10-01T00:00:00", True, ""])
def test_a_day_that_is_no_day_is_refused(as_of: Any, write: Write) -> None:
    write("2026-10-01", as_of)
    with pytest.raises(DataError, match="as_of"):
        find_price("ml.a.b", "r")


def test_a_table_of_a_day_that_has_not_come_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day in the far east begins up to 14 hours before that of UTC."""
    tomorrow, later = (str(get_today() + dt.timedelta(days=days)) for days in (1, 2))
    path = write(tomorrow, tomorrow)
    assert find_price("ml.a.b", "r").usd_h == 0.1
    path.unlink()
    path = write(later, later)
    with pytest.raises(DataError, match=f"is of {later}, which has not come") as error:
        find_price("ml.a.b", "r")
    assert str(path) in error.value.message
    monkeypatch.setenv(PRICES_VARIABLE, str(path.rename(path.with_name("own.json"))))
    with pytest.raises(DataError, match=f"is of {later}"):
        find_price("ml.a.b", "r")


def test_a_table_of_the_project_must_have_the_day_of_its_name(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("2026-10-02", "2026-10-01")
    with pytest.raises(DataError, match=r"2026-10-02\.json has as_of 2026-10-01") as error:
        find_price("ml.a.b", "r")
    assert str(path) in error.value.message and "Rename" in error.value.hint
    monkeypatch.setenv(PRICES_VARIABLE, str(path.rename(path.with_name("mine.json"))))
    assert find_price("ml.a.b", "r").date == dt.date(2026, 10, 1), "a file of LEEWAY_PRICES may have any name"


def test_a_type_with_two_prices_in_one_region_is_refused(write: Write) -> None:
    path = write("2026-10-01", "2026-10-01")
    prices: list[dict[str, int]] = [{"ml.a.b": usd, f"ml.c.{usd}": 1} for usd in (1, 2)]
    groups = [{"regions": ["q", "r"], "usd_per_hour": usd_per_hour} for usd_per_hour in prices]
    path.write_text(json.dumps({"as_of": "2026-10-01", "prices": groups}))
    with pytest.raises(DataError, match=r"two prices of ml\.a\.b in q"):
        find_price("ml.a.b", "r")
    prices[1].pop("ml.a.b")
    path.write_text(json.dumps({"as_of": "2026-10-01", "prices": groups}))
    assert find_price("ml.c.2", "r").usd_h == 1, "two groups of a region may have different types"


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(DataError, match="is not a regular file") as error:
            read_table(path)
        assert str(path) in error.value.message


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(DataError, match=r"large\.json has more than 16 MB"):
        read_table(path)


def test_the_file_is_named_in_each_error(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("2026-10-01", "2026-10-01")
    for content in (b"\xff\xfe\x00", b"", b"[]", b"{" * 100_000, b'{"as_of": "2026-10-01"}'):
        path.write_bytes(content)
        with pytest.raises(DataError) as error:
            find_price("ml.a.b", "r")
        assert str(path) in error.value.message and f"{PRICES_VARIABLE}=" not in error.value.message
    path.unlink()
    for name in (str(tmp_path / "missing.json"), "~nobody-knows/prices.json", f"/{'x' * 300}"):
        monkeypatch.setenv(PRICES_VARIABLE, name)
        with pytest.raises(DataError, match=r"the table of prices .* cannot be read") as error:
            find_price("ml.a.b", "r")
        assert PRICES_VARIABLE in error.value.hint


def test_each_table_is_read_once_for_a_region(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("2026-10-01", "2026-10-01", 1, spot_saving={"ml.a.b": 0.6, "ml.c.d": 0.5})
    write("2026-10-02", "2026-10-02", 2, spot_saving={"ml.a.b": 0.7}, savings_plan_usd_per_hour={"3y": {"ml.a.b": 1}})
    names = []
    monkeypatch.setattr(
        "pipelines.costs.price_sources.price_tables.read_table",
        lambda path: names.append(path.stem) or read_table(path),
    )
    prices = read_region_prices("r")
    assert names == ["2026-10-02", "2026-10-01", "prices"]
    assert {name: (price.usd_h, price.date.day) for name, price in prices.on_demand.items()} == {"ml.a.b": (2, 2)}
    assert prices.spot_savings == {"ml.a.b": 0.7, "ml.c.d": 0.5}
    assert prices.plans["3y"]["ml.a.b"].usd_h == 1 and not prices.plans["1y"]
    names.clear()
    assert read_region_prices("r", dt.date(2026, 10, 1)).on_demand["ml.a.b"].usd_h == 1
    assert names == ["2026-10-01", "prices"], "newer tables are not even read"
