"""Test that `new` finds out how an HTTP API has its pages, and that the source that it writes follows them."""

import datetime as dt
import json
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipelines.errors import DataError
from pipelines.ingestion.sources.web import records
from pipelines.ingestion.sources.web.pages import Page, PageRequest
from pipelines.scaffold.creation import create
from pipelines.scaffold.request import Request, refuse_to_ask
from pipelines.scaffold.sampling.next_page import LinkFinder
from pipelines.system.log import log

LABEL = {"label": "returned"}
PAGE_ROWS = 25


@contextmanager
def serve_pages(orders: pd.DataFrame, form: str) -> Iterator[tuple[str, list[str]]]:
    """Serve the orders of each day in pages of 25 rows; yield the address, and the list of paths that are requested.

    Args:
        orders: orders of several days.
        form: where a page has the address of the next one: `header`, `next` or `_links.next.href`. `none`: it has the
            address of the next day, and no more rows.
    """
    rows = {str(day): json.loads(part.to_json(orient="records")) for day, part in orders.groupby(orders["day"])}
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            day, _, start = self.path.strip("/").partition("?start=")
            end = int(start or 0) + PAGE_ROWS
            next_page = f"/{day}?start={end}" if end < len(rows[day]) else None
            next_day = f"/{dt.date.fromisoformat(day) + dt.timedelta(1)}"
            body: dict[str, Any] = {"items": rows[day][int(start or 0) : end]}
            if form == "next":
                body["next"] = next_page
            elif form == "_links.next.href":
                body["_links"] = {"next": {"href": next_page}}
            elif form == "none":
                body["next"] = next_day
            self.send_response(200)
            if form == "header" and next_page:
                self.send_header("Link", f'<{next_page}>; rel="next"')
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *arguments: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", paths
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("form", "pages", "rows"),
    [
        ("header", "LinkHeader()", 60),
        ("next", 'LinkHeader("next")', 60),
        pytest.param("_links.next.href", 'LinkHeader("_links.next.href")', 60, marks=pytest.mark.soak),
        ("none", "LinkHeader()", PAGE_ROWS),
    ],
)
def test_an_http_api_with_pages(
    form: str, pages: str, rows: int, home: Path, project: Path, orders: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages are followed in the sample, and by the source that is written. A link to the next day is not."""
    table = orders.assign(day=orders["sold_at"].str[:10])
    days = sorted(table["day"].unique())
    first, last = (dt.date.fromisoformat(days[n]) for n in (0, -1))
    with serve_pages(table, form) as (url, paths):
        request = Request("orders", f"{url}/{{date}}", rows="items", first=first, last=last, **LABEL)
        plan = create(request, project, refuse_to_ask).plan
        assert plan.sample.table.num_rows == rows * len(days)
        text = (project / "datasets/orders/source.py").read_text()
        assert f"pages={pages},\n" in text
        source = runpy.run_path(str(project / "datasets/orders/source.py"))["open_source"]()
        paths.clear()
        assert source.read(first).read_all().num_rows == rows
        assert paths == [f"/{first}", *(f"/{first}?start={start}" for start in range(PAGE_ROWS, rows, PAGE_ROWS))]
        monkeypatch.setattr(records, "MAX_PAGES", 2)
        if rows > 2 * PAGE_ROWS:
            with pytest.raises(DataError, match="has more than 2 pages"):
                source.read(first).read_all()
    if form == "next":
        check = subprocess.run([sys.executable, "-m", "ruff", "check", "datasets"], cwd=project, check=False)
        assert check.returncode == 0


def test_a_token_of_the_next_page_is_named_and_pages_that_were_null_are_followed_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    finder = LinkFinder("https://x.example/{date}", dt.date(2013, 1, 2))
    assert finder.get_next_request(Page(0, {"rows": [], "next": None}, 0, 0, "")) is None
    assert finder.path == "next", "a day of one page"
    finder = LinkFinder("https://x.example/{date}", dt.date(2013, 1, 2))
    with caplog.at_level("WARNING", logger=log.name):
        assert finder.get_next_request(Page(0, {"rows": [], "next": "t1"}, 0, 0, "")) is None
    assert "has 't1' at next, which is not an address: only the first page is read" in caplog.text
    assert finder.path == ""
    assert finder.get_next_request(Page(0, [], 0, 0, "/2?x")) == PageRequest({}, "/2?x")
    assert finder.get_next_request(Page(1, {"next": None}, 0, 0, "")) is None
    assert finder.path == "", "this API has its addresses in the header"
