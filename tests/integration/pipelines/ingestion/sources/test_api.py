"""Test the source that reads rows from an HTTP JSON API."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import DataError, LeewayError, ServiceError, SpecError
from pipelines.ingestion.sources import CursorToken, HttpChanges, HttpSource, LinkHeader, Offset, PageNumber
from pipelines.ingestion.sources.convert import UTC
from pipelines.window import Days

DAY = dt.date(2013, 1, 2)
COLUMNS = {"id": pa.int64()}
TEXT = '"7"'
PAGES = [[{"id": 1}, {"id": 2}], [{"id": 3}, {"id": 4}], [{"id": 5}]]


@pytest.fixture
def source(home: Path, site: Any) -> Any:
    """Return the function that creates a source of the site."""

    def create_source(**options: Any) -> HttpSource:
        return HttpSource(f"{site.url}/sales", **{"params": {"on": "{date}"}, "columns": COLUMNS, **options})

    return create_source


def read_ids(source: HttpSource) -> list[int]:
    ids: list[int] = source.read(DAY).read_all()["id"].to_pylist()
    return ids


def create_json_response(create_response: Any, body: Any, **options: Any) -> Any:
    return create_response(json.dumps(body), **options)


def test_one_response_can_have_all_rows(source: Any, site: Any, create_response: Any) -> None:
    site.set_responses(create_json_response(create_response, {"data": {"items": PAGES[0]}}))
    assert source(rows="data.items").read(DAY).read_all().to_pylist() == [{"id": n, "date": DAY} for n in (1, 2)]
    assert site.requests[0][:2] == ("/sales", {"on": "2013-01-02"})
    site.set_responses(create_json_response(create_response, PAGES[0]))
    dated_source = HttpSource(f"{site.url}/{{date:%Y/%m/%d}}/sales", columns=COLUMNS)
    assert read_ids(dated_source) == [1, 2] and site.requests[0][:2] == ("/2013/01/02/sales", {})
    assert dated_source.list_partitions(Days(DAY, DAY)) == [DAY]


def test_numbered_pages_end_with_a_page_without_rows(source: Any, site: Any, create_response: Any) -> None:
    site.set_responses(*(create_json_response(create_response, page) for page in [*PAGES, []]))
    assert read_ids(source(pages=PageNumber(param="p", start=0, size_param="n", size=2))) == [1, 2, 3, 4, 5]
    assert [query for _, query, _ in site.requests] == [{"on": "2013-01-02", "p": str(n), "n": "2"} for n in range(4)]


def test_the_offset_counts_the_rows_that_came_before(source: Any, site: Any, create_response: Any) -> None:
    site.set_responses(*(create_json_response(create_response, page) for page in [*PAGES, []]))
    assert read_ids(source(pages=Offset(limit=100))) == [1, 2, 3, 4, 5]
    assert [query["offset"] for _, query, _ in site.requests] == ["0", "2", "4", "5"]


def test_pages_by_token_end_with_a_page_without_a_token(source: Any, site: Any, create_response: Any) -> None:
    bodies = [{"rows": page, "meta": {"next": f"t{n + 1}"}} for n, page in enumerate(PAGES)]
    bodies[-1]["meta"] = {"next": None}
    site.set_responses(*(create_json_response(create_response, body) for body in bodies))
    assert read_ids(source(rows="rows", pages=CursorToken("after", "meta.next"))) == [1, 2, 3, 4, 5]
    assert [query.get("after") for _, query, _ in site.requests] == [None, "t1", "t2"]


def test_pages_follow_the_next_link(source: Any, site: Any, create_response: Any) -> None:
    site.set_responses(
        create_json_response(create_response, PAGES[0], Link='</sales?c=2>; rel="next"'),
        create_json_response(create_response, PAGES[1], Link='</x>; rel="prev"'),
    )
    assert read_ids(source(pages=LinkHeader())) == [1, 2, 3, 4]
    assert site.requests[1][:2] == ("/sales", {"c": "2"})
    site.set_responses(
        create_json_response(create_response, {"rows": PAGES[0], "next": f"{site.url}/2"}),
        create_json_response(create_response, {"rows": PAGES[1], "next": None}),
    )
    assert read_ids(source(rows="rows", pages=LinkHeader("next"))) == [1, 2, 3, 4]


def test_no_request_goes_to_another_host(
    source: Any, site: Any, create_response: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SALES_TOKEN", "Bearer hunter2")
    paged_source = source(pages=LinkHeader(), headers_env={"Authorization": "SALES_TOKEN"})
    port = site.url.rpartition(":")[2]
    for other_url in (
        "https://evil.example/",
        f"http://localhost:{port}/",
        f"http://127.0.0.1:{int(port) ^ 1}/",
        "http://127.0.0.1:99999/",
        "//evil.example/",
    ):
        site.set_responses(create_json_response(create_response, PAGES[0], Link=f'<{other_url}>; rel="next"'))
        with pytest.raises(DataError, match="another host"):
            read_ids(paged_source)
        assert len(site.requests) == 1 and site.requests[0][2]["Authorization"] == "Bearer hunter2"
        site.set_responses(create_response(code=302, Location=other_url))
        with pytest.raises(DataError, match=r"redirects \(302\)|an address that is not valid"):
            read_ids(paged_source)
        assert len(site.requests) == 1


def test_a_secret_is_only_in_the_environment(
    source: Any, site: Any, create_response: Any, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret_source = source(headers_env={"X-Key": "SALES_TOKEN"}, params={"on": "{date}", "key": "hunter2"})
    monkeypatch.delenv("SALES_TOKEN", raising=False)
    with pytest.raises(SpecError, match="SALES_TOKEN is not set"):
        read_ids(secret_source)
    site.set_responses(create_response(code=500))
    for value in ("hunter2", "hunter2\nX-Other: 1"):
        monkeypatch.setenv("SALES_TOKEN", value)
        with pytest.raises(LeewayError) as error:
            read_ids(secret_source)
        assert "hunter2" not in f"{error.value}{secret_source!r}{secret_source.describe()}"


def test_a_failed_page_is_requested_again(source: Any, site: Any, create_response: Any, pauses: list[float]) -> None:
    page = create_json_response(create_response, PAGES[1])
    site.set_responses(
        create_json_response(create_response, PAGES[0]),
        create_response(code=500),
        create_response(code=429, Retry_After="3"),
        create_json_response(create_response, PAGES[1], is_half=True),
        page,
        create_json_response(create_response, []),
    )
    assert read_ids(source(pages=PageNumber())) == [1, 2, 3, 4]
    assert 3.0 in pauses and len(site.requests) == 6
    site.set_responses(create_json_response(create_response, PAGES[0]), create_response(code=500))
    reader = source(pages=PageNumber()).read(DAY)
    with pytest.raises(ServiceError, match="500, 5 times"):
        reader.read_all()


def test_the_rate_limit_spreads_requests_over_time(
    source: Any, site: Any, create_response: Any, pauses: list[float]
) -> None:
    site.set_responses(*(create_json_response(create_response, page) for page in [*PAGES, []]))
    assert read_ids(source(pages=PageNumber(), rate_per_s=0.01)) == [1, 2, 3, 4, 5]
    assert len(pauses) == 3 and all(90 < pause <= 300 for pause in pauses)


@pytest.mark.parametrize(
    ("bodies", "options", "message"),
    [
        (["<html>"], {}, "page 1 of .* is not JSON"),
        ([{"items": []}], {"rows": "data"}, r"no list of objects at rows='data'. It has: 'items'"),
        ([[1, 2]], {}, "no list of objects"),
        ([PAGES[0], PAGES[0]], {"pages": PageNumber()}, "page 2 of .* is the same as a page before it"),
        ([{"r": [], "next": "a"}, {"r": [], "next": "a"}], {"rows": "r", "pages": CursorToken(path="next")}, "before"),
        ([[{"id": 1}, {"id": "x"}]], {}, "row 2, column id: 'x' is not of type int64"),
        ([[{"id": 1.5}]], {}, "row 1, column id: '1.5' is not of type int64"),
        ([[{"id": 1}], [{"id": True}], []], {"pages": PageNumber()}, "row 2, column id: 'True'"),
        ([[{"x": 1}]], {}, r"lacks the column\(s\) id. It has: 'x'"),
        ([[{"id": 1}], [{"id": 2, "new": 1}]], {"pages": PageNumber()}, "begins with row 2 has a column new"),
        ([[{"id": 1, "x": 1}], [{"id": 2, "x": "a"}]], {"pages": PageNumber()}, "column x: 'a' is not of type int64"),
        ([[{"id": 1, "x": 1}, {"id": 2, "x": "a"}]], {}, "row 2, column x: 'a' is of another type"),
        ([[{"id": "1"}, {"id": 2}, {"id": [3]}]], {}, "row 3, column id: .* is not of type int64"),
        ([[{"id": n} for n in range(1_000)]], {"max_bytes": 1_000}, "longer than 1000 bytes"),
        ([[{"id": 1, "at": "2013-01-02T05:00"}]], {"columns": {**COLUMNS, "at": UTC}}, "has no time zone"),
        ([[{"id": 1, "at": 5}]], {"columns": {**COLUMNS, "at": UTC}}, "'5' is not of type timestamp"),
        ([[{"id": 1, "date": "2013-01-02"}, {"id": 1, "date": None}]], {}, "row 2, column date: an empty value"),
        ([[{"id": 2**70}]], {}, "row 1, column id"),
    ],
)  # fmt: skip
def test_an_unexpected_response_is_refused(
    source: Any, site: Any, create_response: Any, bodies: list[Any], options: dict[str, Any], message: str
) -> None:
    site.set_responses(
        *(
            create_response(body) if isinstance(body, str) else create_json_response(create_response, body)
            for body in bodies
        )
    )
    with pytest.raises(DataError, match=message):
        source(**options).read(DAY).read_all()


def test_values_have_their_types(source: Any, site: Any, create_response: Any) -> None:
    row = '{"id": 7, "price": 0.10, "at": "2013-01-02T05:00:00-05:00", "tree": {"a": [1]}, "whole": 1, "part": 2.5}'
    site.set_responses(create_response(f"[{row}, {row.replace('7', TEXT)}]"))
    columns = {**COLUMNS, "price": pa.decimal128(10, 2), "at": UTC}
    assert source(columns=columns).read(DAY).read_all().to_pylist() == 2 * [
        {
            **{"id": 7, "price": Decimal("0.10"), "at": dt.datetime(2013, 1, 2, 10, tzinfo=dt.UTC)},
            **{"tree": '{"a": [1]}', "whole": 1, "part": 2.5, "date": DAY},
        }
    ]
    assert source(columns=columns, extra="ignore").read(DAY).schema.names == [*columns, "date"]


def test_a_day_without_rows_is_empty(source: Any, site: Any, create_response: Any) -> None:
    site.set_responses(create_json_response(create_response, []))
    reader = source(pages=PageNumber()).read(DAY)
    assert reader.schema.names == ["id", "date"] and list(reader) == []
    site.set_responses(create_json_response(create_response, []))
    reader = source(pages=PageNumber(), day="seen").read(DAY)
    assert list(reader) == [], "the day's column is not declared, so no page says its type"


@pytest.fixture
def changes(home: Path, site: Any) -> HttpChanges:
    columns = {"id": pa.int64(), "seen": UTC}
    return HttpChanges(f"{site.url}/sales", columns=columns, day="seen", cursor="seen", pages=Offset())


def test_changes_are_the_rows_after_the_watermark(changes: HttpChanges, site: Any, create_response: Any) -> None:
    page = [{"id": n, "seen": f"2013-01-0{n}T00:00:00Z"} for n in (1, 2, 3)]
    site.set_responses(create_json_response(create_response, page), create_json_response(create_response, []))
    table = changes.read_changes(None).read_all()
    assert table["id"].to_pylist() == [1, 2, 3] and table["date"].to_pylist()[1] == DAY
    assert "since" not in site.requests[0][1]
    since = table["seen"][1].as_py().isoformat()
    site.set_responses(create_json_response(create_response, page[1:]), create_json_response(create_response, []))
    assert changes.read_changes(since).read_all()["id"].to_pylist() == [3]
    assert site.requests[0][1]["since"] == since
    with pytest.raises(SpecError, match="the watermark 'noon' is not of type"):
        changes.read_changes("noon")


def test_no_changes_are_no_error(home: Path, site: Any, create_response: Any) -> None:
    changes = HttpChanges(f"{site.url}/sales", columns={"seen": UTC}, cursor="seen")
    site.set_responses(create_json_response(create_response, []))
    assert changes.read_changes("2013-01-01T00:00:00+00:00").read_all().num_rows == 0


def test_changes_that_are_not_in_cursor_order_are_refused(
    changes: HttpChanges, site: Any, create_response: Any
) -> None:
    for days in ((2, 1), (1, 3, 2)):
        site.set_responses(
            *(create_json_response(create_response, [{"id": n, "seen": f"2013-01-0{n}T00:00:00Z"}]) for n in days),
            create_json_response(create_response, []),
        )
        with pytest.raises(DataError, match="not come in the order of seen"):
            changes.read_changes(None).read_all()


def test_the_constructor_refuses_invalid_arguments() -> None:
    for url, options in (("ftp://x/{date}", {}), ("https://x/", {}), ("https://x/{date}", {"timezone": "Mars"})):
        with pytest.raises(SpecError):
            HttpSource(url, **options)
    with pytest.raises(SpecError, match="cursor"):
        HttpChanges("https://x/", columns=COLUMNS, cursor="seen")
    for url, params in (("https://x/{date}", {}), ("https://x/", {"from": "{date}"})):
        with pytest.raises(SpecError, match=r"has \{date\}, but changes have no day"):
            HttpChanges(url, columns=COLUMNS, cursor="id", params=params)
