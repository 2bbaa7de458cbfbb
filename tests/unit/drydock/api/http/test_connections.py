"""Test the limits of the HTTP server's connections, with a small application in place of moto."""

import contextlib
import dataclasses
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from drydock.api.http.connections import ConnectionLimits, LimitedServer, LimitedSocket
from tests.tools.waiting import wait_until

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SHORT = ConnectionLimits(max_connections=4, max_wait_s=0.3, min_bytes_per_s=1e6)
PATIENT = ConnectionLimits(max_connections=4, min_silence_s=60.0, max_wait_s=600.0)


class Application:
    """Answer each request with its body; `/wait` waits for `release`."""

    def __init__(self) -> None:
        self.release, self.waiting = threading.Event(), threading.Semaphore(0)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if environ["PATH_INFO"] == "/wait":
            self.waiting.release()
            self.release.wait(60)
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]


@contextmanager
def run_server(limits: ConnectionLimits) -> Iterator[tuple[LimitedServer, Application, tuple[str, int]]]:
    application = Application()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = LimitedServer(listener, application, limits)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server, application, listener.getsockname()
        finally:
            application.release.set()
            server.shutdown()
            thread.join()


def read_to_end(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection; fail if it does not."""
    connection.settimeout(60)
    received = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            received += part
    return received


@pytest.mark.parametrize("sent", [b"", b"GET / HT", REQUEST[:-2]], ids=["silent", "line", "headers"])
def test_connection_without_a_whole_request_ends(sent: bytes) -> None:
    with run_server(SHORT) as (_, _, address), socket.create_connection(address) as connection:
        connection.sendall(sent)
        assert read_to_end(connection) == b""


def test_bytes_that_drip_do_not_keep_a_connection(until: Any) -> None:
    with run_server(SHORT) as (_, _, address), socket.create_connection(address) as connection:
        connection.setblocking(False)

        def drip() -> bool:
            try:
                connection.send(b"X")
                return connection.recv(1) == b""
            except BlockingIOError:
                return False
            except ConnectionError:
                return True

        until(drip)


class SlowClient:
    """A socket that lets the server wait for a second at each call. It keeps the times that the server would wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.limits_s: list[float] = []
        self._now = 0.0
        monkeypatch.setattr("drydock.api.http.connections.time.monotonic", lambda: self._now)

    def settimeout(self, limit_s: float) -> None:
        self.limits_s.append(limit_s)

    def recv_into(self, buffer: Any) -> int:
        return self.send(buffer)

    def send(self, data: Any) -> int:
        self._now += 1
        return len(data)


@pytest.mark.parametrize(("part_bytes", "limits_s"), [(1000, [3, 3, 3, 3]), (500, [3, 2.5, 2, 1.5])])
def test_client_may_take_its_time_if_it_sends_or_reads_much(
    monkeypatch: pytest.MonkeyPatch, part_bytes: int, limits_s: list[float]
) -> None:
    client: Any = SlowClient(monkeypatch)
    stream = LimitedSocket(client, ConnectionLimits(max_wait_s=3.0, min_bytes_per_s=1000.0))
    for _ in range(2):
        stream.readinto(bytearray(part_bytes))
        stream.write(bytes(part_bytes))
    assert client.limits_s == limits_s


def test_large_body_and_response_arrive_whole() -> None:
    body = b"x" * (8 << 20)
    with (
        run_server(PATIENT) as (_, _, address),
        urllib.request.urlopen(f"http://127.0.0.1:{address[1]}/", data=body) as response,
    ):
        assert response.read() == body


def test_client_that_does_not_read_its_response_is_cut() -> None:
    with run_server(dataclasses.replace(SHORT, min_bytes_per_s=1e9)) as (_, _, address), socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(address)
        size = 32 << 20
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
        threads = [thread for thread in threading.enumerate() if "process_request_thread" in thread.name]
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)


def test_silent_connections_make_room_for_requests() -> None:
    other_threads = threading.active_count()  # of the process that runs the tests
    limits = dataclasses.replace(PATIENT, min_silence_s=0.05)
    with run_server(limits) as (_, _, address), contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(20)]
        with urllib.request.urlopen(f"http://127.0.0.1:{address[1]}/") as response:
            assert response.status == 200
        assert read_to_end(silent[0]) == b""
        wait_until(lambda: threading.active_count() <= other_threads + limits.max_connections + 1)


def test_requests_beyond_the_limit_wait_and_are_answered() -> None:
    with run_server(PATIENT) as (_, application, address), contextlib.ExitStack() as stack:
        connections = []
        for number in range(6):
            connections.append(stack.enter_context(socket.create_connection(address)))
            connections[-1].sendall(REQUEST.replace(b"GET /", b"GET /wait"))
            assert number >= PATIENT.max_connections or application.waiting.acquire(timeout=180)
        assert not application.waiting.acquire(timeout=0.2)
        application.release.set()
        assert all(read_to_end(connection).startswith(b"HTTP/1.1 200") for connection in connections)


def test_connection_that_was_just_accepted_is_not_closed_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its request has arrived, but its thread has not read it yet, on a loaded machine."""
    read = LimitedSocket.readinto

    def read_late(stream: LimitedSocket, buffer: Any) -> int:
        time.sleep(0.1)
        return read(stream, buffer)

    monkeypatch.setattr(LimitedSocket, "readinto", read_late)
    with run_server(PATIENT) as (_, _, address), contextlib.ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(address)) for _ in range(12)]
        for connection in connections:
            connection.sendall(REQUEST)
        assert all(read_to_end(connection).startswith(b"HTTP/1.1 200") for connection in connections)


def test_server_stops_while_connections_wait() -> None:
    with run_server(PATIENT) as (_, application, address), contextlib.ExitStack() as stack:
        for _ in range(6):
            connection = stack.enter_context(socket.create_connection(address))
            connection.sendall(REQUEST.replace(b"GET /", b"GET /wait"))
        assert all(application.waiting.acquire(timeout=180) for _ in range(4))
