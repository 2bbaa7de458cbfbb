"""Test that the page needs no MLflow: all views work while its address refuses connections.

The control is a server at this address: it counts the requests, of which there are none until a visitor follows a link.
"""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.tools.page_views import VIEWS, wait_for_view

pytestmark = [pytest.mark.usefixtures("changes"), pytest.mark.soak]
FIXTURES_MLFLOW = "http://127.0.0.1:5000"
"""Address of MLflow in the documents of the fixtures."""
LINKS = {"models": 1, "model": 4, "data": 0, "costs": 0}
"""View to its number of links to MLflow: those of a model are of two versions and their lineage."""
ERROR = re.compile(r"\[(?:error|critical) *\]|Traceback|status_code=5\d\d")
"""What Airflow's API server writes to its log if something goes wrong."""


@pytest.fixture(autouse=True)
def mlflow_url(server, documents):
    """Let the documents link to the MLflow of the server's settings; return its address."""
    url = server.env["MLFLOW_TRACKING_URI"]
    for path in server.status.rglob("*.json"):
        path.write_text(path.read_text().replace(FIXTURES_MLFLOW, url))
    return url


@contextmanager
def record_requests(port: int) -> Iterator[list[str]]:
    """Answer requests at MLflow's address; yield the list of their paths."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Write no log."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as mlflow:
        threading.Thread(target=mlflow.serve_forever, daemon=True).start()
        yield paths
        mlflow.shutdown()


def list_errors(page, server, act):
    """List the errors in the browser's console and in the server's log while a function acts."""
    errors, size = [], server.log.stat().st_size
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    act()
    with server.log.open("rb") as log:
        log.seek(size)
        return errors + [line for line in log.read().decode().splitlines() if ERROR.search(line)]


def open_view(page, server, view):
    """Open a view in an open page, with the lineage of a version, and wait for two more reads of its documents."""
    page.goto(f"{server.url}/plugin/leeway{VIEWS[view][0]}")
    wait_for_view(page, view)
    if view == "model":
        page.get_by_text("Lineage of version 5").click()
        page.get_by_role("list", name="Lineage of version 5").wait_for()
    for _ in range(2):
        page.wait_for_event("response", lambda response: "/leeway/documents/" in response.url)


def list_mlflow_links(page, url):
    return [
        link for link in page.get_by_role("link", name="MLflow").all() if link.get_attribute("href").startswith(url)
    ]


def test_each_view_is_complete_while_mlflow_refuses_connections(server, open_page, mlflow_url):
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.mlflow_port), timeout=5)
    page = open_page("ada")
    wait_for_view(page, "models")
    for view in VIEWS:
        assert list_errors(page, server, lambda view=view: open_view(page, server, view)) == [], view
        assert len(list_mlflow_links(page, mlflow_url)) == LINKS[view], "the links stay: MLflow may be back soon"
        assert page.get_by_text(re.compile("could not be read|not known because", re.IGNORECASE)).all_inner_texts() == (
            ["The state of old_model could not be read."] if view == "models" else []
        ), view


def test_model_says_what_mlflow_knows_of_its_versions(server, open_page):
    """The verdict with its values, the report and the lineage are in the documents."""
    page = open_page("vera", "/models/flights")
    open_view(page, server, "model")
    page.get_by_text("all checks passed: auc 0.684 (0.661 to 0.701)").first.wait_for()
    page.get_by_role("table", name="Checks of the gate").get_by_text("log_loss against champion").wait_for()
    lineage = page.get_by_role("list", name="Lineage of version 5")
    for text in ("trained on 2013-", "judged on 2013-", "snapshot ", "commit ", "flights-train-20131217"):
        assert lineage.get_by_text(text).count() == 1, text
    assert lineage.get_by_role("link", name="report").count() == 1


def test_only_a_visitor_who_follows_a_link_calls_mlflow(server, open_page, mlflow_url):
    """The control: a call of the page or of its server would be counted, too."""
    page = open_page("ada")
    with record_requests(server.mlflow_port) as paths:
        for view in VIEWS:
            open_view(page, server, view)
        open_view(page, server, "models")
        assert paths == []
        with page.expect_popup() as popup:
            list_mlflow_links(page, mlflow_url)[0].click()
        popup.value.wait_for_load_state()
        popup.value.close()
        assert paths[0] == "/"


def test_a_call_of_mlflow_would_be_logged_as_an_error(server, open_page, mlflow_url, problems):
    page = open_page("ada")
    wait_for_view(page, "models")
    errors = list_errors(page, server, lambda: page.evaluate("url => fetch(url).catch(() => 0)", mlflow_url))
    assert len(errors) == 1 and "ERR_CONNECTION_REFUSED" in errors[0]
    assert problems == [f"request to another server: {mlflow_url}/"]
    problems.clear()


@pytest.mark.parametrize(
    ("line", "is_error"),
    [
        ("2026-11-29T04:20:34.299614Z [error    ] boom       [x] loc=app.py:7", True),
        ("2026-11-29T04:20:34.299614Z [info     ] request finished [http.access] path=/ status_code=500", True),
        ("2026-11-29T04:20:34.299614Z [info     ] request finished [http.access] path=/ status_code=200", False),
    ],
)
def test_errors_in_the_log_are_found(line, is_error):
    assert bool(ERROR.search(line)) == is_error
