"""Test promotions that run at once, are overtaken or are killed, with processes, a real MLflow server and a lake."""

import http.client
import multiprocessing
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pipelines.errors import PromotionError
from pipelines.registry.lifecycle import Journal, State, compute_state, record_registration
from pipelines.registry.lifecycle.mlflow_model import get_aliases_and_tags, set_alias, set_model_tag
from pipelines.registry.versions import Registry
from pipelines.steps import promote as promoting
from pipelines.system.files import sha256, write_json
from tests.tools.names import name_for_test

WRITERS = 16
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def model(with_mlflow: str, request: pytest.FixtureRequest) -> str:
    """Register this test's model, and return its name."""
    name = name_for_test("r-", request.node.name)
    Registry.open().client.create_registered_model(name)
    return name


def register_candidate(model: str, champion: str) -> str:
    """Register a version that passed the gate against `champion`."""
    client = Registry.open().client
    number = str(client.create_model_version(model, "s3://nowhere/model").version)
    record_registration(model, number)
    verdict = {
        "passed": True,
        "outcome": "passed",
        "model_name": model,
        "version": number,
        "champion": champion,
        "reason": "all is well",
    }
    write_json(Path(f"{number}.json"), verdict)
    tags = {"verdict": "passed", "verdict_digest": sha256(Path(f"{number}.json")), "as_of": "2013-03-01"}
    for name, value in tags.items():
        client.set_model_version_tag(model, number, f"leeway.{name}", value)
    return number


def promote(model: str, number: str) -> promoting.PromoteResult:
    """Run the step `promote`."""
    return promoting.run(promoting.PromoteSpec(model=model, version=number, verdict=f"{number}.json"))


def read_state(model: str) -> State:
    return Journal.open().read_state(model)


def read_champion(model: str) -> str:
    """Return the version that the alias names; empty where there is none."""
    version = Registry.open().find_champion(model)
    return str(version.version) if version else ""


def promote_in_race(model: str, number: str, start: Any, outcomes: Any) -> None:
    """Promote as soon as all processes have started, and put the outcome into the queue."""
    start.wait()
    try:
        outcomes.put((number, "won" if promote(model, number).changed else "was champion already"))
    except PromotionError as error:
        outcomes.put((number, str(error)))
    except BaseException as error:  # the test shows it
        outcomes.put((number, f"{type(error).__name__}: {error}"))


def watch_champion(model: str, end: Any, queue: Any) -> None:
    """Read the champion until the end of the race; put the versions and verdicts that were read into the queue."""
    champions = set()
    while not end.is_set():
        version = Registry.open().find_champion(model)
        champions.add((str(version.version), version.tags.get("leeway.verdict")) if version else ("", "passed"))
    queue.put(champions)


def race(model: str, numbers: list[str]) -> dict[str, str]:
    """Promote each version in a process of its own, all at once; return the outcome of each version."""
    start, outcomes = FORK.Barrier(len(numbers)), FORK.Queue()
    processes = [FORK.Process(target=promote_in_race, args=(model, number, start, outcomes)) for number in numbers]
    for process in processes:
        process.start()
    results = dict(outcomes.get() for _ in processes)
    for process in processes:
        process.join()
    return results


@pytest.mark.parametrize(("rounds", "promoters"), [(1, 8), pytest.param(3, 16, marks=pytest.mark.soak)])
def test_only_one_of_many_promoters_wins_each_round_and_no_event_is_lost(
    model: str, rounds: int, promoters: int
) -> None:
    end, queue, winners = FORK.Event(), FORK.Queue(), [""]
    watcher = FORK.Process(target=watch_champion, args=(model, end, queue))
    watcher.start()
    for _ in range(rounds):
        outcomes = race(model, [register_candidate(model, winners[-1]) for _ in range(promoters)])
        round_winners = [number for number, outcome in outcomes.items() if outcome == "won"]
        assert len(round_winners) == 1, outcomes
        reasons = {outcome for number, outcome in outcomes.items() if number not in round_winners}
        assert all("run the gate again" in outcome for outcome in reasons), reasons
        assert read_champion(model) == read_state(model).champion == round_winners[0]
        winners += round_winners
    end.set()
    champions = queue.get()
    watcher.join()
    assert {version for version, _ in champions} <= set(winners)
    assert {verdict for _, verdict in champions} == {"passed"}
    events = read_state(model).events
    moves = [(event.from_version, event.to_version) for event in events if event.changes_champion]
    assert moves == list(pairwise(winners))
    assert len(events) == rounds * promoters + rounds
    assert compute_state(events) == read_state(model)


@pytest.mark.soak
def test_without_compare_and_swap_more_than_one_wins(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: each process decides on the state at its start, and adds its event in any case."""
    append = Journal.append_event

    def append_without_check(self: Journal, name: str, decide: Callable[[State], Any]) -> Any:
        event = decide(old_state)
        return append(self, name, lambda _: event)

    old_state = read_state(model)
    numbers = [register_candidate(model, "") for _ in range(4)]
    monkeypatch.setattr(Journal, "append_event", append_without_check)
    assert list(race(model, numbers).values()).count("won") > 1


def write_in_race(write: Callable[..., object], name: str, number: str, start: Any, errors: Any) -> None:
    """Write as soon as all processes have started; put the error, or an empty text, into the queue."""
    start.wait()
    try:
        write(name, number)
        errors.put("")
    except Exception as error:  # the test shows it
        errors.put(str(error))


def race_to_write(write: Callable[..., object], name: str, database: Path, lock_s: float) -> set[str]:
    """Set the same new alias or tag in several processes at once; return their errors.

    MLflow reads before it writes. The test locks the database, so that all have read before one has written.
    """
    start, errors = FORK.Barrier(WRITERS + 1), FORK.Queue()
    processes = [
        FORK.Process(target=write_in_race, args=(write, name, str(1 + n), start, errors)) for n in range(WRITERS)
    ]
    for process in processes:
        process.start()
    with closing(sqlite3.connect(database, timeout=180, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        start.wait()
        time.sleep(lock_s)
        connection.execute("ROLLBACK")
    messages = {errors.get() for _ in processes}
    for process in processes:
        process.join()
    return messages - {""}


@pytest.mark.soak
def test_concurrent_writers_of_a_new_alias_or_tag_all_succeed(model: str, mlflow_server: Any) -> None:
    registry = Registry.open()
    versions = [register_candidate(model, "") for _ in range(WRITERS)]
    (database,) = (
        Path(argument.removeprefix("sqlite:///"))
        for argument in mlflow_server[0].args
        if argument.startswith("sqlite:")
    )

    def write_by_leeway(name: str, number: str) -> None:
        set_alias(registry, model, name, number)
        set_model_tag(registry, model, name, number)
        registry.set_tags(model, "1", {name: number})

    def write_by_mlflow(name: str, number: str) -> None:
        registry.client.set_registered_model_alias(model, name, number)

    # On a slow server, too few processes read during a short lock. SQLite waits at most 5 s for a lock.
    for lock_s in (0.5, 1, 2, 4):
        errors = race_to_write(write_by_mlflow, f"mlflow-{lock_s * 1000:.0f}", database, lock_s)
        if any("IntegrityError" in error for error in errors):
            break
    assert any("IntegrityError" in error for error in errors), "the control: MLflow's own calls collide"
    rounds = range(3)
    assert not set().union(*(race_to_write(write_by_leeway, f"leeway-{n}", database, lock_s) for n in rounds))
    aliases, tags = get_aliases_and_tags(registry, model)
    assert {aliases[f"leeway-{n}"] for n in rounds} | {tags[f"leeway-{n}"] for n in rounds} <= set(versions)


class DelayingProxy(ThreadingHTTPServer):
    """A proxy of MLflow's server. It holds each request to set an alias until the event `release` is set."""

    daemon_threads = True

    def __init__(self, uri: str) -> None:
        super().__init__(("127.0.0.1", 0), ProxyHandler)
        self.target = urlsplit(uri).netloc
        self.arrived, self.release = threading.Event(), threading.Event()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class ProxyHandler(BaseHTTPRequestHandler):
    server: DelayingProxy

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command == "POST" and self.path.endswith("/registered-models/alias"):
            self.server.arrived.set()
            self.server.release.wait()
        connection = http.client.HTTPConnection(self.server.target)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        content = response.read()
        self.send_response(response.status)
        self.send_header("Content-Type", response.getheader("Content-Type") or "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = _forward

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def proxy(with_mlflow: str) -> Iterator[DelayingProxy]:
    """Start a proxy that delays the aliases; stop it after the test."""
    with DelayingProxy(with_mlflow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.release.set()
        server.shutdown()


def start_promotion(model: str, number: str, proxy: DelayingProxy, commands: Any) -> Any:
    """Start a promotion, and return its process when its event exists and its alias waits in the proxy."""
    arguments = ("--model", model, "--version", number, "--verdict", f"{number}.json")
    env = {"MLFLOW_TRACKING_URI": proxy.uri, "MLFLOW_HTTP_REQUEST_TIMEOUT": "600"}
    process = commands.start(*(sys.executable, "-m", "pipelines", "promote", *arguments), env=env)
    assert proxy.arrived.wait(120), process.communicate()
    assert read_state(model).champion == number
    return process


def test_check_completes_a_promotion_killed_between_event_and_alias(
    model: str, proxy: DelayingProxy, commands: Any, with_mlflow: str
) -> None:
    first = register_candidate(model, "")
    promote(model, first)
    second = register_candidate(model, first)
    promotion = start_promotion(model, second, proxy, commands)
    os.killpg(promotion.pid, signal.SIGKILL)
    promotion.wait()
    assert (read_state(model).champion, read_champion(model)) == (second, first), (
        "readers still see the previous champion"
    )
    process = commands.run_step("registry", "check", model, env={"MLFLOW_TRACKING_URI": with_mlflow})
    assert (process.code, process.out) == (
        0,
        f"{model}: an interrupted change is complete: promoted 2, champion is 2\n",
    )
    assert read_champion(model) == second
    assert len(read_state(model).events) == 4, "`registry check` reports no manual change of the alias"


def test_an_overtaken_promoter_leaves_no_stale_alias(model: str, proxy: DelayingProxy, commands: Any) -> None:
    first = register_candidate(model, "")
    process = start_promotion(model, first, proxy, commands)
    second = register_candidate(model, first)
    promote(model, second)
    assert read_champion(model) == second
    proxy.release.set()
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert read_champion(model) == read_state(model).champion == second
    messages = [line.split(": ")[-1] for line in err.splitlines() if "alias champion" in line]
    assert messages == [f"alias champion names {first}", f"alias champion names {second}"], (
        "the second write corrects the first"
    )
