"""Serve the champion as a process: the scores of a request are the bits of the predictions of `score`."""

from __future__ import annotations

import http.client
import json
import random
import shlex
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from pipelines.dataset import load_dataset
from pipelines.lake import Lake
from pipelines.steps import score
from tests.integration.pipelines.scoring.conftest import DAY, Publish, Server

FLIGHTS = load_dataset("flights")
HIDDEN = {FLIGHTS.label, *FLIGHTS.known_later}


@pytest.fixture
def start_server(commands: Any, champion: str, with_mlflow: str) -> Callable[..., Server]:
    """Return the function that starts a server of the champion."""
    variables = {"MLFLOW_TRACKING_URI": with_mlflow}

    def start() -> Server:
        arguments = ("serve", "--model", "scored", "--dataset", "flights", "--port", "0")
        return Server(commands.start(sys.executable, "-m", "pipelines", *arguments, env=variables))

    return start


@pytest.fixture
def serve(commands: Any, with_mlflow: str) -> Callable[..., SimpleNamespace]:
    """Return the function that runs `serve` to its end, which must be an error."""

    def run(*arguments: str, uri: str = with_mlflow) -> SimpleNamespace:
        return commands.run_step("serve", "--dataset", "flights", *arguments, env={"MLFLOW_TRACKING_URI": uri})

    return run


def is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=180).close()
    except ConnectionRefusedError:
        return True
    return False


def read_scores(table: pa.Table) -> dict[tuple[Any, ...], float]:
    names = [*FLIGHTS.key, "score"]
    return {tuple(values[:-1]): values[-1] for values in zip(*(table[name].to_pylist() for name in names), strict=True)}


@pytest.mark.parametrize("max_single_rows", [60, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_day_in_one_request_has_the_bits_of_its_predictions(
    publish: Publish,
    champion: str,
    start_server: Callable[..., Server],
    serve: Callable[..., SimpleNamespace],
    until: Any,
    max_single_rows: int,
) -> None:
    """Each row of the day is sent in one request of all, and so many of them alone."""
    day = publish()
    score.run(score.ScoreSpec(dataset="flights", model="scored", partition=DAY))
    predictions = read_scores(Lake.open().read_partition("flights_predictions", DAY))
    rows = day.select([name for name in day.column_names if name not in HIDDEN]).to_pylist()
    random.Random(1).shuffle(rows)
    server = start_server()
    assert server.line.startswith(f"scored version {champion} answers at ")
    assert server.child.stdout.readline().endswith(
        "so a request without all rows of a day changes them: departures_hour\n"
    )

    status, answer = server.invoke(rows)
    assert (status, answer["model"], answer["version"]) == (200, "scored", champion)
    keys = [tuple(row[name] for name in FLIGHTS.key) for row in rows]
    assert dict(zip(keys, answer["scores"], strict=True)) == predictions
    assert len(predictions) == len(rows) > 500

    # The control: without the other rows of its hour, a flight has another score.
    single_rows = rows[:max_single_rows]
    alone = [server.invoke(row)[1]["scores"][0] for row in single_rows]
    assert alone[:20] != [predictions[key] for key in keys[:20]]

    # Requests at the same time, which are computed together, have the bits that they have alone; wrong ones between
    # them get their own error.
    wrong = {**rows[0], "distance": "far"}
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(server.invoke, [request for row in single_rows for request in (row, wrong)]))
    assert [answer["scores"][0] for _, answer in results[::2]] == alone
    assert len({answer["request_id"] for _, answer in results[::2]}) == len(single_rows)
    error = {"error": "row 1, column distance: 'far' is not a whole number (int32)"}
    assert results[1::2] == [(400, error)] * len(single_rows)

    # A wrong request, or a client that goes away, leaves the server serving.
    with socket.create_connection(("127.0.0.1", server.port), timeout=180) as client:
        client.sendall(b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    status, answer = server.invoke([{**rows[0], "distance": "far"}])
    assert (status, answer) == (400, {"error": "row 1, column distance: 'far' is not a whole number (int32)"})
    assert server.invoke(b"{")[0] == 400
    assert server.invoke(rows[0])[1]["scores"] == alone[:1]

    # The example is a request with the first row of the newest day.
    command = shlex.split(serve("--model", "scored", "--port", str(server.port), "--example").out)
    assert command[:3] == ["curl", "-s", f"http://127.0.0.1:{server.port}/invocations"]
    first_row = min(rows, key=lambda row: tuple(row[name] for name in FLIGHTS.key))
    status, answer = server.invoke(command[-1].encode())
    assert (status, answer["scores"]) == (200, server.invoke(first_row)[1]["scores"])

    # SIGTERM: a request whose body is still arriving is answered, and then the server ends.
    body = json.dumps(rows[0], default=lambda value: value.isoformat()).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=180) as client:
        head = f"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        client.sendall(f"{head}\r\n\r\n".encode() + body[:10])
        server.invoke(rows[0])  # the server has seen the head of the first request by then
        server.child.send_signal(signal.SIGTERM)
        until(lambda: is_refused(server.port))
        client.sendall(body[10:])
        response = http.client.HTTPResponse(client)
        response.begin()
        assert json.loads(response.read())["scores"] == alone[:1]
    _, stderr = server.child.communicate(timeout=180)
    assert (server.child.returncode, [line for line in stderr.splitlines() if "rror" in line]) == (0, [])


def test_what_cannot_be_served_is_one_line(champion: str, serve: Callable[..., SimpleNamespace]) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        cases = [
            (serve("--model", "nothing", "--port", "0"), 2, "the registry has no nothing@champion"),
            (serve("--model", "scored", "--version", "999", "--port", "0"), 2, "no scored version 999"),
            (serve("--model", "scored", "--version", "a b", "--port", "0"), 2, "the registry has no scored@a b"),
            (serve("--model", "scored", "--port", "0"), 2, "the lake has no table flights"),
            (serve("--model", "scored", "--port", port), 75, f"port {port} of 127.0.0.1 is in use. Stop the other"),
            (serve("--model", "scored", "--port", "70000"), 2, "less than or equal to 65535"),
            (serve("--model", "scored", "--host", "no.such.host.invalid"), 2, "--host 'no.such.host.invalid' is no"),
            (serve("--model", "scored", "--port", "0", uri="http://127.0.0.1:9"), 75, "does not answer"),
        ]
    for result, code, message in cases:
        assert (result.code, result.out) == (code, ""), result
        assert message in result.err and result.err.count("error: ") == 1, result.err
