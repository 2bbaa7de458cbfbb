"""Promoters at once, overtaken and killed: real processes, a real MLflow server, a real lake."""

import http.client
import multiprocessing
import os
import signal
import sqlite3
import subprocess
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
from pipelines.registry.lifecycle import Journal, State, fold, record_registration
from pipelines.registry.lifecycle.mlflow_model import get_aliases_and_tags, set_alias, set_model_tag
from pipelines.registry.versions import Registry
from pipelines.steps import promote as promoting
from pipelines.system.files import sha256, write_json
from tests.tools.names import name_for_test

PROMOTERS = 16
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def model(with_mlflow: str, request: pytest.FixtureRequest) -> str:
    name = name_for_test("r-", request.node.name)
    Registry.open().client.create_registered_model(name)
    return name


def candidate(model: str, champion: str) -> str:
    """A version that passed the gate against `champion`."""
    client = Registry.open().client
    number = str(client.create_model_version(model, "s3://nowhere/model").version)
    record_registration(model, number)
    told = {
        "passed": True,
        "outcome": "passed",
        "model_name": model,
        "version": number,
        "champion": champion,
        "reason": "all is well",
    }
    write_json(Path(f"{number}.json"), told)
    tags = {"verdict": "passed", "verdict_digest": sha256(Path(f"{number}.json")), "as_of": "2013-03-01"}
    for name, value in tags.items():
        client.set_model_version_tag(model, number, f"leeway.{name}", value)
    return number


def promote(model: str, number: str) -> promoting.PromoteResult:
    return promoting.run(promoting.PromoteSpec(model_name=model, version=number, verdict=f"{number}.json"))


def state(model: str) -> State:
    return Journal.open().state(model)


def alias(model: str) -> str:
    found = Registry.open().find_champion(model)
    return str(found.version) if found else ""


def promoter(model: str, number: str, start: Any, told: Any) -> None:
    """In a process of its own."""
    start.wait()
    try:
        told.put((number, "won" if promote(model, number).changed else "was champion already"))
    except PromotionError as error:
        told.put((number, str(error)))
    except BaseException as error:  # the test tells it
        told.put((number, f"{type(error).__name__}: {error}"))


def reader(model: str, over: Any, told: Any) -> None:
    """Whoever serves: each look at the alias gives one whole version, or none before the first."""
    seen = set()
    while not over.is_set():
        found = Registry.open().find_champion(model)
        seen.add((str(found.version), found.tags.get("leeway.verdict")) if found else ("", "passed"))
    told.put(seen)


def race(model: str, numbers: list[str]) -> dict[str, str]:
    """Version to what came of its promoter, all at once."""
    start, told = FORK.Barrier(len(numbers)), FORK.Queue()
    racers = [FORK.Process(target=promoter, args=(model, number, start, told)) for number in numbers]
    for one in racers:
        one.start()
    ended = dict(told.get() for _ in racers)
    for one in racers:
        one.join()
    return ended


@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_only_one_of_sixteen_promoters_wins_each_round_and_no_event_is_lost(model: str, rounds: int) -> None:
    over, seen, winners = FORK.Event(), FORK.Queue(), [""]
    looking = FORK.Process(target=reader, args=(model, over, seen))
    looking.start()
    for _ in range(rounds):
        ended = race(model, [candidate(model, winners[-1]) for _ in range(PROMOTERS)])
        won = [number for number, how in ended.items() if how == "won"]
        assert len(won) == 1, ended
        others = {how for number, how in ended.items() if number not in won}
        assert all("run the gate again" in how for how in others), others
        assert alias(model) == state(model).champion == won[0]
        winners += won
    over.set()
    served = seen.get()
    looking.join()
    assert {version for version, _ in served} <= set(winners)
    assert {verdict for _, verdict in served} == {"passed"}
    events = state(model).events
    moves = [(one.from_version, one.to_version) for one in events if one.changes_champion]
    assert moves == list(pairwise(winners))
    assert len(events) == rounds * PROMOTERS + rounds
    assert fold(events) == state(model)


def test_without_compare_and_swap_more_than_one_wins(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: each decides on the state that it saw at first, and appends whatever came in between."""
    real = Journal.change

    def blind(self: Journal, name: str, decide: Callable[[State], Any]) -> Any:
        event = decide(seen)
        return real(self, name, lambda _: event)

    seen = state(model)
    numbers = [candidate(model, "") for _ in range(4)]
    monkeypatch.setattr(Journal, "change", blind)
    assert list(race(model, numbers).values()).count("won") > 1


def setter(write: Callable[..., object], name: str, number: str, start: Any, told: Any) -> None:
    """In a process of its own: sets what nobody has set yet."""
    start.wait()
    try:
        write(name, number)
        told.put("")
    except Exception as error:  # the test tells it
        told.put(str(error))


def collisions(write: Callable[..., object], name: str, database: Path, held_s: float) -> set[str]:
    """What each of some processes that set the same new alias or tag at once is told; empty for one that set it.

    MLflow looks first and writes then. All look, and none has written, while the test writes to its database itself.
    """
    start, told = FORK.Barrier(PROMOTERS + 1), FORK.Queue()
    setters = [FORK.Process(target=setter, args=(write, name, str(1 + n), start, told)) for n in range(PROMOTERS)]
    for one in setters:
        one.start()
    with closing(sqlite3.connect(database, timeout=60, isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        start.wait()
        time.sleep(held_s)
        held.execute("ROLLBACK")
    said = {told.get() for _ in setters}
    for one in setters:
        one.join()
    return said - {""}


def test_concurrent_writers_of_a_new_alias_or_tag_all_succeed(
    model: str, mlflow_server: tuple[subprocess.Popen[bytes], str]
) -> None:
    registry = Registry.open()
    versions = [candidate(model, "") for _ in range(PROMOTERS)]
    (database,) = (Path(one.removeprefix("sqlite:///")) for one in mlflow_server[0].args if one.startswith("sqlite:"))

    def ours(name: str, number: str) -> None:
        set_alias(registry, model, name, number)
        set_model_tag(registry, model, name, number)
        registry.set_tags(model, "1", {name: number})

    def theirs(name: str, number: str) -> None:
        registry.client.set_registered_model_alias(model, name, number)

    # Longer, where the server is so slow that not two have looked; SQLite lets it wait for 5 s.
    for held_s in (0.5, 1, 2, 4):
        refused = collisions(theirs, f"theirs-{held_s * 1000:.0f}", database, held_s)
        if any("IntegrityError" in why for why in refused):
            break
    assert any("IntegrityError" in why for why in refused), "MLflow's own calls collide"
    rounds = range(3)
    assert not set().union(*(collisions(ours, f"ours-{n}", database, held_s) for n in rounds))
    aliases, tags = get_aliases_and_tags(registry, model)
    assert {aliases[f"ours-{n}"] for n in rounds} | {tags[f"ours-{n}"] for n in rounds} <= set(versions)


class Held(ThreadingHTTPServer):
    """MLflow's server behind a door: a request to set an alias waits in it until it is let through."""

    daemon_threads = True

    def __init__(self, uri: str) -> None:
        super().__init__(("127.0.0.1", 0), Door)
        self.target = urlsplit(uri).netloc
        self.arrived, self.open = threading.Event(), threading.Event()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Door(BaseHTTPRequestHandler):
    server: Held

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command == "POST" and self.path.endswith("/registered-models/alias"):
            self.server.arrived.set()
            self.server.open.wait()
        connection = http.client.HTTPConnection(self.server.target)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        told = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.getheader("Content-Type") or "application/json")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    do_GET = do_POST = do_PATCH = do_DELETE = _pass

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def door(with_mlflow: str) -> Iterator[Held]:
    with Held(with_mlflow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.open.set()
        server.shutdown()


def begun(model: str, number: str, door: Held, commands: Any) -> Any:
    """A promoter whose event is there, and whose request to set the alias is on its way."""
    arguments = ("--model-name", model, "--version", number, "--verdict", f"{number}.json")
    env = {"MLFLOW_TRACKING_URI": door.uri, "MLFLOW_HTTP_REQUEST_TIMEOUT": "600"}
    child = commands.start(*(sys.executable, "-m", "pipelines", "promote", *arguments), env=env)
    assert door.arrived.wait(120), child.communicate()
    assert state(model).champion == number
    return child


def test_check_completes_a_promotion_killed_between_event_and_alias(
    model: str, door: Held, commands: Any, with_mlflow: str
) -> None:
    first = candidate(model, "")
    promote(model, first)
    second = candidate(model, first)
    child = begun(model, second, door, commands)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert (state(model).champion, alias(model)) == (second, first), "readers see the one before, whole"
    done = commands.step("registry", "check", model, env={"MLFLOW_TRACKING_URI": with_mlflow})
    assert (done.code, done.out) == (0, f"{model}: an interrupted change is complete: promoted 2, champion is 2\n")
    assert alias(model) == second
    assert len(state(model).events) == 4, "nothing was moved by hand"


def test_an_overtaken_promoter_leaves_no_stale_alias(model: str, door: Held, commands: Any) -> None:
    first = candidate(model, "")
    child = begun(model, first, door, commands)
    second = candidate(model, first)
    promote(model, second)
    assert alias(model) == second
    door.open.set()
    _, err = child.communicate()
    assert child.returncode == 0, err
    assert alias(model) == state(model).champion == second
    said = [line.split(": ")[-1] for line in err.splitlines() if "alias champion" in line]
    assert said == [f"alias champion names {first}", f"alias champion names {second}"], "the stale one, and the mended"
