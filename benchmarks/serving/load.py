"""Send requests to a server at a fixed rate, and measure latency and CPU time."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import psutil

CONNECTIONS = 8
"""Number of connections over which the requests are sent at the same time."""


@dataclass(frozen=True)
class Load:
    """The measurements while requests were sent at one rate."""

    latencies_s: Sequence[float]
    """For each answered request, the seconds from the moment when it was due to its answer. So the time in which a
    request waits for a free connection counts."""
    cpu_s: float
    """CPU seconds of the server's processes."""
    own_cpu_s: float
    """CPU seconds of the server's first process, without its children: of drydock, without the models."""
    elapsed_s: float
    """Seconds from the first request to the last answer."""
    failures: int
    """Requests without an answer, or with another HTTP status than 200."""

    @property
    def p50_ms(self) -> float:
        """Median of the latency, milliseconds."""
        return self.compute_quantile_ms(0.5)

    @property
    def p99_ms(self) -> float:
        """99 % of the requests are answered within this time, milliseconds."""
        return self.compute_quantile_ms(0.99)

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds of a request."""
        return 1e3 * self.cpu_s / len(self.latencies_s)

    @property
    def own_cpu_ms(self) -> float:
        """CPU milliseconds of a request in the server's first process."""
        return 1e3 * self.own_cpu_s / len(self.latencies_s)

    def compute_quantile_ms(self, share: float) -> float:
        """Return a quantile of the latency, milliseconds."""
        return 1e3 * sorted(self.latencies_s)[min(int(share * len(self.latencies_s)), len(self.latencies_s) - 1)]


@dataclass(frozen=True)
class Server:
    """A running server, and the bodies, the path and the headers of the requests that it gets."""

    port: int
    pid: int
    bodies: Sequence[str]
    path: str = "/invocations"
    headers: Mapping[str, str] = field(default_factory=dict)


def send(server: Server, rate: float, duration_s: float) -> Load:
    """Send requests at a fixed rate, over `CONNECTIONS` connections that stay open.

    While all connections wait for answers, requests that are due wait, too. They are sent as soon as a connection is
    free.

    Args:
        server: the server on this machine. Its bodies are sent in turn.
        rate: requests a second.
        duration_s: seconds for which requests are sent.
    """
    numbers, latencies, failed_numbers = count(), list[float](), list[int]()
    begin, total = time.perf_counter() + 0.1, int(rate * duration_s)  # 0.1 s later, when all threads are connected
    headers = {"Content-Type": "application/json", **server.headers}

    def send_requests() -> None:
        connection = _connect(server.port)
        for number in iter(lambda: next(numbers), None):
            if number >= total:
                break
            due = begin + number / rate
            time.sleep(max(due - time.perf_counter(), 0))
            connection.request("POST", server.path, server.bodies[number % len(server.bodies)], headers)
            response = connection.getresponse()
            response.read()
            latencies.append(time.perf_counter() - due)
            if response.status != 200:
                failed_numbers.append(number)
        connection.close()

    cpu_before, own_cpu_before = read_cpu_seconds(server.pid), _read_own_cpu_seconds(server.pid)
    _run_threads(send_requests)
    elapsed_s = time.perf_counter() - begin
    cpu_s = read_cpu_seconds(server.pid) - cpu_before
    own_cpu_s = _read_own_cpu_seconds(server.pid) - own_cpu_before
    return Load(latencies, cpu_s, own_cpu_s, elapsed_s, len(failed_numbers) + total - len(latencies))


def _connect(port: int) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _run_threads(work: Callable[[], None]) -> None:
    """Run a function in `CONNECTIONS` threads, and wait until all have ended."""
    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and of its children that still run."""
    root = psutil.Process(pid)
    times = [process.cpu_times() for process in (root, *root.children(recursive=True))]
    return sum(value.user + value.system for value in times)


def _read_own_cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
