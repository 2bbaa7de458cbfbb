"""Test what a visitor may not do: an anonymous one, a viewer, and another site with an editor's cookie.

The page acts only by Airflow's own API, so each request of the page is sent to it here.
"""

import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from tests.tools.browser import open_context

REASON = {"why": "distances in km"}
RUNS = {
    "flights_train": {"as_of": "2013-05-01"},
    "flights_rollback": {**REASON, "champion": "4"},
    "flights_reset_breaker": REASON,
    "flights_withdraw": {**REASON, "partition": "2013-11-05"},
    "flights_deploy": {"version": "4"},
}
BACKFILL = {
    **{"dag_id": "flights_ingest", "from_date": "2013-02-01T00:00:00Z", "to_date": "2013-02-03T00:00:00Z"},
    **{"max_active_runs": 1, "reprocess_behavior": "none", "run_backwards": False, "dag_run_conf": {}},
}
ANSWER = {"chosen_options": ["Reject"], "params_input": REASON}


@pytest.fixture(scope="module")
def requests_of_page(server):
    """Return each request that changes something, as the page sends it: method, path, and body."""
    run_id = server.ask_for_approval("Promote flights version 5? (passed)", "auc is better")
    approval = f"dags/flights_train/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    runs = {
        dag_id: ("POST", f"dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
        for dag_id, conf in RUNS.items()
    }
    return {**runs, "approval": ("PATCH", approval, ANSWER), "backfill": ("POST", "backfills", BACKFILL)}


@pytest.mark.parametrize("action", [*RUNS, "approval", "backfill"])
def test_only_an_editor_can_act(server, requests_of_page, action):
    method, path, body = requests_of_page[action]

    def send(**headers):
        url = f"{server.url}/api/v2/{path}"
        return requests.request(method, url, json=body, headers=headers, timeout=180).status_code

    viewer, editor = (f"Bearer {server.get_token(user)}" for user in ("vera", "grace"))
    before = read_state(server, requests_of_page)
    assert (send(), send(Authorization=viewer)) == (401, 403)
    assert read_state(server, requests_of_page) == before, "nothing was done"
    assert send(Authorization=editor) == 200, "the control"
    assert read_state(server, requests_of_page) != before, "the control"


def read_state(server, requests_of_page):
    """Return what the requests of the page change in Airflow."""
    counts = {dag_id: len(server.list_runs(dag_id)) for dag_id in RUNS}
    counts["backfills"] = server.call_api("GET", "/backfills?dag_id=flights_ingest")["total_entries"]
    return counts, server.call_api("GET", "/" + requests_of_page["approval"][1])["response_received"]


@pytest.fixture(scope="module")
def other_origin(tmp_path_factory):
    """Serve an empty page from another port. The browser sends it the cookie of Airflow, since ports are one site."""
    folder = tmp_path_factory.mktemp("other-site")
    (folder / "index.html").write_text("<title>another site</title>")

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def log_message(self, *_):
            pass

    other_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=other_server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{other_server.server_port}"
    other_server.shutdown()
    other_server.server_close()


SEND = """async ([target, type, mode]) => {
    const json = JSON.stringify({logical_date: null, conf: {why: "forged"}});
    // A Blob without a type is sent without Content-Type.
    const body = type === null ? new Blob([json]) : json;
    const headers = type === null ? {} : {"Content-Type": type};
    return fetch(target, {method: "POST", credentials: "include", mode, body, headers})
        .then((response) => response.type === "opaque" ? "opaque" : response.status, () => "blocked");
}"""
READ = """(address) => fetch(address, {credentials: "include", mode: "no-cors"}).then((response) => response.type)"""


def test_another_origin_with_the_cookie_of_an_editor_starts_nothing(server, browser, other_origin):
    context = open_context(browser)
    context.add_cookies(
        [{"name": "_token", "value": server.get_token("grace"), "url": server.url, "sameSite": "Lax", "httpOnly": True}]
    )
    page = context.new_page()
    page.goto(other_origin)
    documents = f"{server.url}/leeway/documents/models"
    with page.expect_response(documents) as response:
        assert page.evaluate(READ, documents) == "opaque", "the other origin cannot read the answer"
    assert response.value.status == 200, "the browser has sent the cookie"
    target = f"{server.url}/api/v2/dags/flights_reset_breaker/dagRuns"
    before = len(server.list_runs("flights_reset_breaker"))
    for content_type in ("text/plain", "application/x-www-form-urlencoded", None):
        with page.expect_response(target) as response:
            assert page.evaluate(SEND, [target, content_type, "no-cors"]) == "opaque"
        assert response.value.status == 422, "it arrives with the cookie, as a form would, and Airflow takes only JSON"
    assert page.evaluate(SEND, [target, "application/json", "cors"]) == "blocked", "the browser does not send JSON"
    assert len(server.list_runs("flights_reset_breaker")) == before
    page.goto(f"{server.url}/leeway/icon.svg")
    assert page.evaluate(SEND, [target, "application/json", "cors"]) == 200, "the control: the same origin may"
    assert len(server.list_runs("flights_reset_breaker")) == before + 1
    context.close()


def test_airflow_allows_no_other_origin_and_sends_its_cookie_only_to_its_own_site(server):
    """A request of JSON from another origin needs this permission first; a request from another site has no cookie."""
    headers = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
        "Cookie": f"_token={server.get_token('grace')}",
    }
    for path in ("dags/flights_train/dagRuns", "backfills"):
        answer = requests.options(f"{server.url}/api/v2/{path}", headers=headers, timeout=180)
        assert not answer.ok and "access-control-allow-origin" not in answer.headers
    address = f"{server.url}/leeway/documents/models"
    answer = requests.get(address, headers=headers, timeout=180)
    assert answer.ok and "access-control-allow-origin" not in answer.headers
