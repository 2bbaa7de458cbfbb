"""Provide an API server of Airflow with Leeway's page, documents of 20 models, and a browser.

No scheduler runs: a DAG run that a test starts stays queued, and the test reads what was requested.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.tools import forking
from tests.tools.airflow_db import copy_migrated_database
from tests.tools.browser import open_context, start_browser

ROOT = Path(__file__).parents[4]
WRITE_FIXTURES = ROOT / "ui/fixtures/write_fixtures.py"
"""Script that writes documents of 20 models."""
HTML = "<img src=x onerror=window.hacked=1>"
"""Name of a person, a run or a pool that would run a script if it were shown as HTML."""
ROLES = {"ada": "admin", "grace": "user", "vera": "viewer", "rita": "viewer", HTML: "admin"}
PASSWORDS = {name: f"password of {name}" for name in ROLES}
AUTH_MANAGER = '''
"""Airflow's simple auth manager with a role of the team's own: rita reads, and answers approvals."""
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

class TeamAuthManager(SimpleAuthManager):
    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        is_answer = method == "PUT" and access_entity == DagAccessEntity.HITL_DETAIL
        if is_answer and user.get_name() == "rita":
            return True
        return super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)
'''
DAG_FILE = """
# Airflow reads only files that have the words airflow and dag.
import datetime as dt
from leeway.lifecycle import create_lifecycle_dags
create_lifecycle_dags(model="flights", start=dt.datetime(2013, 1, 1), dataset="flights", deploy=True)
"""
WAITING = '''
"""Make the task `approve` of a run wait for an answer, as the triggerer leaves it."""
import sys
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session

dag_id, run_id, subject, body = sys.argv[1:]
with create_session() as session:
    task = session.query(TaskInstance).filter_by(dag_id=dag_id, run_id=run_id, task_id="approve").one()
    task.state = "deferred"
    session.add(HITLDetail(
        ti_id=task.id, options=["Approve", "Reject"], subject=subject, body=body, defaults=["Reject"], multiple=False,
        params={"why": {"value": "", "schema": {"type": "string"}, "description": "Reason"}},
    ))
'''
SCHEDULED = """
import sys
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session

dag_id, run_id, task_id, pool = sys.argv[1:]
with create_session() as session:
    task = session.query(TaskInstance).filter_by(dag_id=dag_id, run_id=run_id, task_id=task_id).one()
    task.state, task.pool = "scheduled", pool
"""
ENDED_BACKFILL = """
import sys
from airflow._shared.timezones.timezone import utcnow
from airflow.models.backfill import Backfill
from airflow.utils.session import create_session

with create_session() as session:
    session.get(Backfill, int(sys.argv[1])).completed_at = utcnow()
"""


class PageServer:
    """An API server with the page, its users, and the folder of the documents. At MLflow's address nothing answers."""

    def __init__(self, folder: Path, port: int, mlflow_port: int) -> None:
        self.folder, self.url, self.mlflow_port = folder, f"http://127.0.0.1:{port}", mlflow_port
        self.status, self.log = folder / "home/status", folder / "api-server.log"
        settings = {
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__DAGS_FOLDER": str(folder / "dags"),
            "CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
            "CORE__AUTH_MANAGER": "team_auth_manager.TeamAuthManager",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in ROLES.items()),
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
            "API__HOST": "127.0.0.1",
            "API__PORT": str(port),
            "API__BASE_URL": self.url,
            "API__WORKERS": "1",
            "API__SECRET_KEY": "only-for-this-test",
            "API_AUTH__JWT_SECRET": "only-for-this-test-and-long-enough-for-sha512-only-for-this-test-and-long",
            "USAGE_DATA_COLLECTION__ENABLED": "False",
        }
        self.env = {
            **os.environ,
            **{f"AIRFLOW__{name}": value for name, value in settings.items()},
            "AIRFLOW_HOME": str(folder),
            "LEEWAY_HOME": str(folder / "home"),
            "LEEWAY_PROJECT": str(ROOT),
            "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{mlflow_port}",
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "plugins", folder))),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def write_files(self) -> None:
        """Write the DAG file, the passwords and the documents, and read the DAGs into the database."""
        (self.folder / "dags").mkdir()
        (self.folder / "dags/flights.py").write_text(DAG_FILE)
        (self.folder / "team_auth_manager.py").write_text(AUTH_MANAGER)
        (self.folder / "passwords.json").write_text(json.dumps(PASSWORDS))
        self.reset_documents()
        self.run("-m", "airflow", "dags", "reserialize")

    def reset_documents(self) -> None:
        """Write all documents again."""
        shutil.rmtree(self.status, ignore_errors=True)
        self.run(str(WRITE_FIXTURES), str(self.status))
        self.touch_watched()

    def touch_watched(self) -> None:
        """Record that the lake was checked now, as `status --watch` does."""
        (self.status / "watched").touch()

    def run(self, *arguments: str) -> None:
        """Run a Python command in the server's environment."""
        result = forking.run(
            [sys.executable, *arguments], env=self.env, cwd=self.folder, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr[-3_000:]

    def start(self) -> None:
        """Start the API server."""
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "airflow", "api-server"]
            options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            self.process = forking.Popen(command, cwd=self.folder, env=self.env, start_new_session=True, **options)

    def is_ready(self) -> bool:
        """Return whether the server answers."""
        with contextlib.suppress(requests.RequestException):
            return requests.get(f"{self.url}/api/v2/version", timeout=5).ok
        return False

    def stop(self) -> None:
        """Kill the server."""
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def get_token(self, user: str) -> str:
        """Return a token of the API for a user."""
        body = {"username": user, "password": PASSWORDS[user]}
        response = requests.post(f"{self.url}/auth/token", json=body, timeout=120)
        response.raise_for_status()
        return str(response.json()["access_token"])

    def call_api(self, method: str, path: str, user: str = "ada", **options: Any) -> Any:
        """Call Airflow's API as a user, and return the JSON of the answer."""
        headers = {"Authorization": f"Bearer {self.get_token(user)}"}
        response = requests.request(method, f"{self.url}/api/v2{path}", headers=headers, timeout=120, **options)
        response.raise_for_status()
        return response.json() if response.content else None

    def end_backfill(self, backfill_id: int) -> None:
        """Record that a backfill has ended, as the scheduler does. Its runs stay as they are."""
        self.run("-c", ENDED_BACKFILL, str(backfill_id))

    def list_runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Return the runs of a DAG, the newest last."""
        path = f"/dags/{dag_id}/dagRuns?order_by=run_after"
        return list(self.call_api("GET", path)["dag_runs"])

    def add_waiting_task(self, pool: str) -> None:
        """Start a run of flights_train whose task `train` waits for a slot of the pool, as the scheduler leaves it."""
        json_body = {"dag_run_id": f"waits-{time.time_ns()}", "logical_date": None, "conf": {"as_of": "2013-06-01"}}
        run_id = self.call_api("POST", "/dags/flights_train/dagRuns", json=json_body)["dag_run_id"]
        self.run("-c", SCHEDULED, "flights_train", run_id, "train", pool)

    def ask_for_approval(self, subject: str, body: str) -> str:
        """Start a run of flights_train whose task `approve` waits; return the run's id."""
        conf = {"as_of": "2013-04-01", "promote_in_backfill": None}
        run_id = f"waiting-{len(self.list_runs('flights_train'))}"
        json_body = {"dag_run_id": run_id, "logical_date": None, "conf": conf}
        self.call_api("POST", "/dags/flights_train/dagRuns", json=json_body)
        self.run("-c", textwrap.dedent(WAITING), "flights_train", run_id, subject, body)
        return run_id


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], until: Callable[..., Any]
) -> Iterator[PageServer]:
    """Start the API server once for all tests of the page."""
    folder = tmp_path_factory.mktemp("page")
    copy_migrated_database(tmp_path_factory.getbasetemp().parent, folder)
    page_server = PageServer(folder, free_port(), free_port())
    page_server.write_files()
    page_server.start()
    try:
        until(page_server.is_ready, 180)
        yield page_server
    finally:
        page_server.stop()


@pytest.fixture
def documents(server: PageServer) -> Iterator[None]:
    """Write the documents again where a test has changed them, and keep them watched."""
    server.touch_watched()
    yield
    if (server.status / "changed").exists():
        server.reset_documents()


@pytest.fixture
def changes(documents: None, server: PageServer) -> None:
    """Declare that the test changes documents."""
    (server.status / "changed").touch()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start the browser once for all tests of the page."""
    with start_browser() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def get_context(browser: Any, server: PageServer) -> Iterator[Callable[..., Any]]:
    """Return the function that returns a person's browser context, whose cache keeps Airflow's scripts.

    Each theme has a context of its own, because all pages of a context follow the theme that one of them stores.
    """
    contexts: dict[tuple[str, str], Any] = {}

    def get(user: str, theme: str = "light") -> Any:
        context = contexts.get((user, theme)) or open_context(browser)
        contexts[user, theme] = context
        context.add_cookies([{"name": "_token", "value": server.get_token(user), "url": server.url}])
        return context

    yield get
    for context in contexts.values():
        context.close()


@pytest.fixture
def problems() -> list[str]:
    """Collect the errors of the browser, and its requests to other servers than Airflow's. They fail the test."""
    return []


class PageRecorder:
    """Open Airflow's pages for a test, and collect their problems.

    Args:
        server: the API server.
        problems: list of the test, to which problems are added.
    """

    def __init__(self, server: PageServer, problems: list[str]) -> None:
        self._server, self._problems = server, problems
        self.pages: list[Any] = []

    def record(self, page: Any) -> None:
        """Collect the problems of a page until `stop`."""
        self.pages.append(page)
        for event, function in self._functions.items():
            page.on(event, function)

    def stop(self) -> None:
        """Collect nothing more."""
        for page in self.pages:
            for event, function in self._functions.items():
                page.remove_listener(event, function)

    @property
    def _functions(self) -> dict[str, Callable[[Any], None]]:
        return {"request": self._check_request, "pageerror": self._add_error, "dialog": self._dismiss}

    def _check_request(self, request: Any) -> None:
        if not request.url.startswith((f"{self._server.url}/", "data:", "blob:")):
            self._problems.append(f"request to another server: {request.url}")

    def _add_error(self, error: Any) -> None:
        self._problems.append(str(error))

    def _dismiss(self, dialog: Any) -> None:
        self._problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()


def create_page(context: Any, theme: str) -> Any:
    """Return a new page of a browser context with a theme: light or dark."""
    page = context.new_page()
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    page.add_init_script(f"localStorage.setItem('theme', {theme!r})")
    return page


@pytest.fixture
def open_page(get_context: Callable[..., Any], server: PageServer, problems: list[str]) -> Iterator[Callable[..., Any]]:
    """Return the function that logs a person in, opens an address in a new page, and collects problems."""
    recorder = PageRecorder(server, problems)

    def open_as(user: str, path: str = "", width: int = 1280, height: int = 900, theme: str = "light") -> Any:
        page = create_page(get_context(user, theme), theme)
        page.set_viewport_size({"width": width, "height": height})
        recorder.record(page)
        page.goto(f"{server.url}/plugin/leeway{path}")
        return page

    yield open_as
    for page in recorder.pages:
        page.close()
    assert problems == []


SHOW_ADDRESS = """async path => {
  const go = address => { history.pushState(null, '', address); dispatchEvent(new PopStateEvent('popstate')); };
  const isShown = () => [...document.querySelectorAll('h1')].some(heading => heading.textContent === 'Leeway');
  go('/no-such-page');
  while (isShown()) await new Promise(requestAnimationFrame);
  go(path);
}"""
"""Script that removes Leeway's page from Airflow's, and shows another address of it, as Airflow's links do."""


@pytest.fixture(scope="module")
def loaded_pages() -> dict[tuple[str, str], list[Any]]:
    """Keep the pages that `reuse_page` has loaded: person and theme to pages that no test uses."""
    return {}


@pytest.fixture
def reuse_page(
    get_context: Callable[..., Any],
    server: PageServer,
    problems: list[str],
    loaded_pages: dict[tuple[str, str], list[Any]],
) -> Iterator[Callable[..., Any]]:
    """Return a function as `open_page` does, for tests that leave nothing in the page.

    Airflow's scripts take seconds to start. So the function shows the address in a page of an earlier test.
    """
    recorder = PageRecorder(server, problems)
    keys: list[tuple[str, str]] = []

    def open_as(user: str, path: str = "", width: int = 1280, height: int = 900, theme: str = "light") -> Any:
        context, free_pages = get_context(user, theme), loaded_pages.setdefault((user, theme), [])
        is_loaded = bool(free_pages)
        page = free_pages.pop() if is_loaded else create_page(context, theme)
        keys.append((user, theme))
        page.set_viewport_size({"width": width, "height": height})
        recorder.record(page)
        if is_loaded:
            page.evaluate(SHOW_ADDRESS, f"/plugin/leeway{path}")
        else:
            page.goto(f"{server.url}/plugin/leeway{path}")
        return page

    yield open_as
    recorder.stop()
    for key, page in zip(keys, recorder.pages, strict=True):
        page.evaluate(SHOW_ADDRESS, "/no-such-page")
        loaded_pages[key].append(page)
    assert problems == []
