"""Provide what sources read in tests: a real PostgreSQL server, and a web server whose responses a test chooses."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import sqlalchemy as sa

from tests.tools.postgres import run_postgres


@pytest.fixture(scope="session")
def postgres_url(free_port: Callable[[], int]) -> Iterator[str]:
    """Start a PostgreSQL server on loopback; return its URL with the password."""
    with run_postgres(free_port()) as url:
        yield url


@pytest.fixture
def postgres(postgres_url: str) -> sa.Engine:
    """Return an engine of the PostgreSQL server, whose schema is empty."""
    engine = sa.create_engine(postgres_url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
    return engine


@dataclass
class Site:
    """A web server on loopback that gives the responses that a test chooses."""

    url: str = ""
    responses: list[Callable[[BaseHTTPRequestHandler, dict[str, str]], None]] = field(default_factory=list)
    """The responses to the requests, in order. The last one is repeated."""
    requests: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)
    """Path, query and headers of each request so far."""

    def set_responses(self, *responses: Callable[[BaseHTTPRequestHandler, dict[str, str]], None]) -> None:
        """Set the responses to the next requests, and clear the list of requests."""
        self.responses, self.requests = list(responses), []


def _create_response(
    content: bytes | str = b"", code: int = 200, is_half: bool = False, **headers: str
) -> Callable[..., None]:
    body = content.encode() if isinstance(content, str) else content

    def respond(handler: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        handler.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body[: len(body) // 2] if is_half else body)

    return respond


@pytest.fixture(scope="session")
def create_response() -> Callable[..., Any]:
    """Return the function that creates a response of the site from its content, code and headers.

    With `is_half`, the server sends half of the content and closes the connection.
    """
    return _create_response


@pytest.fixture
def site() -> Iterator[Site]:
    """Start a web server whose responses the test chooses."""
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query))
            site.requests.append((parts.path, query, dict(self.headers)))
            respond = site.responses.pop(0) if len(site.responses) > 1 else site.responses[0]
            respond(self, query)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list of pauses between attempts, in seconds. The client records them and does not wait."""
    from pipelines.ingestion.sources.web import http_client

    pauses_s: list[float] = []
    monkeypatch.setattr(http_client, "sleep", pauses_s.append)
    return pauses_s
