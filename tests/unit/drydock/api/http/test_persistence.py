"""Test connections that carry several frequent requests, with a small application in place of moto."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from drydock.api.http.connections import ConnectionLimits, LimitedServer, LimitedSocket
from tests.tools.waiting import wait_until

INVOKE, BATCH = "/endpoints/e/invocations", "/BatchGetRecord"
SHORT = ConnectionLimits(max_connections=2, min_silence_s=0.05, max_wait_s=0.3)
PATIENT = ConnectionLimits(max_connections=2, min_silence_s=60.0, max_wait_s=600.0)


def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request with its body; with the header `X-Unread`, without reading it."""
    is_read = "HTTP_X_UNREAD" not in environ
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) if is_read else b""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"answer to ", body]


@contextmanager
def run_server(limits: ConnectionLimits) -> Iterator[tuple[LimitedServer, tuple[str, int]]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = LimitedServer(listener, answer, limits)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server, listener.getsockname()
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def connect(address: tuple[str, int]) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(*address, timeout=30)
    connection.connect()
    try:
        yield connection
    finally:
        connection.close()


def post(connection: http.client.HTTPConnection, path: str, body: bytes, **headers: str) -> bytes:
    connection.request("POST", path, body, headers)
    return connection.getresponse().read()


def is_closed(connection: http.client.HTTPConnection) -> bool:
    """Return whether the server has closed the connection, or closes it within 30 seconds."""
    return connection.sock is None or connection.sock.recv(1) == b""


def wait_until_idle(server: LimitedServer) -> None:
    """Wait until all connections wait for a request: a client has its answer before that."""
    wait_until(lambda: None not in server._waiting_since.values())


@pytest.mark.parametrize("path", [INVOKE, BATCH])
def test_connection_carries_several_frequent_requests(path: str) -> None:
    with run_server(PATIENT) as (_, address), connect(address) as connection:
        used_socket = connection.sock
        for number in range(3):
            body = b"%d" % number * (1 + 70_000 * number)
            assert post(connection, path, body) == b"answer to " + body
            assert connection.sock is used_socket


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/bucket/key", {}),
        (INVOKE, {"Connection": "close"}),
        (INVOKE + "?x=1", {}),
        ("/endpoints/e/async-invocations", {}),
    ],
)
def test_connection_of_another_request_ends(path: str, headers: dict[str, str]) -> None:
    with run_server(PATIENT) as (_, address), connect(address) as connection:
        assert post(connection, path, b"body", **headers) == b"answer to body"
        assert is_closed(connection)


def test_unread_body_is_not_taken_for_a_request() -> None:
    """Otherwise a body could contain a request that nobody checked (request smuggling)."""
    hidden_request = f"POST {INVOKE} HTTP/1.1\r\nContent-Length: 6\r\n\r\nhidden".encode()
    with run_server(PATIENT) as (_, address), connect(address) as connection:
        assert post(connection, INVOKE, hidden_request, **{"X-Unread": "1"}) == b"answer to "
        assert is_closed(connection)


def test_large_body_that_is_not_read_does_not_cost_the_client_its_answer() -> None:
    """With unread bytes, the system would answer the client's next bytes by a reset, which discards the answer."""
    with run_server(PATIENT) as (_, address):
        for _ in range(5):
            with connect(address) as connection:
                assert post(connection, INVOKE, b"x" * (8 << 20), **{"X-Unread": "1"}) == b"answer to "


def test_request_with_two_lengths_hides_no_other_request() -> None:
    hidden_request = b"POST /BatchGetRecord HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
    lengths = f"Content-Length: 3\r\nContent-Length: {3 + len(hidden_request)}\r\n\r\n".encode()
    with run_server(SHORT) as (_, address), socket.create_connection(address, 30) as connection:
        connection.sendall(f"POST {INVOKE} HTTP/1.1\r\n".encode() + lengths + b"one" + hidden_request)
        received = b""
        while part := connection.recv(1 << 16):
            received += part
        assert received.count(b"200 OK") == 1


def test_requests_that_arrive_together_are_answered_one_after_the_other() -> None:
    request = b"POST /BatchGetRecord HTTP/1.1\r\nContent-Length: 3\r\n\r\n"
    with run_server(SHORT) as (_, address), socket.create_connection(address, 30) as connection:
        connection.sendall(request + b"one" + request + b"two")
        received = b""
        while part := connection.recv(1 << 16):
            received += part
        assert received.count(b"200 OK") == 2
        assert received.index(b"answer to one") < received.index(b"answer to two")


def test_connection_without_a_next_request_ends() -> None:
    with run_server(SHORT) as (_, address), connect(address) as connection:
        assert post(connection, INVOKE, b"1") == b"answer to 1"
        assert is_closed(connection)


def test_each_request_has_the_whole_waiting_time() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream = LimitedSocket(ours, PATIENT)
        timer = threading.Timer(0.1, theirs.sendall, [b"x"])
        timer.start()
        assert stream.read(1) == b"x"
        assert stream.remaining_s < PATIENT.max_wait_s - 0.05
        stream.restart_wait()
        assert stream.remaining_s == PATIENT.max_wait_s


def test_idle_connections_end_if_others_need_their_place() -> None:
    limits = ConnectionLimits(max_connections=2, min_silence_s=0.05, max_wait_s=600.0)
    with run_server(limits) as (server, address), connect(address) as first, connect(address) as second:
        for connection, body in ((first, b"1"), (second, b"2"), (first, b"3")):
            assert post(connection, INVOKE, body) == b"answer to " + body
            wait_until_idle(server)
        with connect(address) as third:
            assert post(third, INVOKE, b"4") == b"answer to 4"
            assert is_closed(second), "it was silent for longest"
            assert post(first, INVOKE, b"5") == b"answer to 5"


def test_new_connection_that_waits_for_a_place_gets_that_of_one_that_becomes_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release, waiting = threading.Event(), threading.Semaphore(0)

    def answer_later(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        waiting.release()
        assert release.wait(60)
        return answer(environ, start_response)

    limits = ConnectionLimits(max_connections=1, min_silence_s=0.05, max_wait_s=600.0)
    with run_server(limits) as (server, address), connect(address) as first:
        monkeypatch.setattr(server, "app", answer_later)
        first.request("POST", INVOKE, b"1")
        assert waiting.acquire(timeout=60)
        is_waiting = threading.Event()
        close_oldest = server._close_oldest_silent_connection
        monkeypatch.setattr(server, "_close_oldest_silent_connection", lambda: (is_waiting.set(), close_oldest()))
        with connect(address) as second:
            second.request("POST", INVOKE, b"2")
            assert is_waiting.wait(60)
            release.set()
            assert first.getresponse().read() == b"answer to 1"
            assert second.getresponse().read() == b"answer to 2"


def test_idle_connections_end_when_the_server_stops() -> None:
    with run_server(PATIENT) as (server, address), connect(address) as connection:
        assert post(connection, INVOKE, b"1") == b"answer to 1"
        wait_until_idle(server)
        server.shutdown()
        assert is_closed(connection)
