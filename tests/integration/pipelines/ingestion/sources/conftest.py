"""Provide what sources read in tests: a real PostgreSQL server, and a web server whose responses a test chooses."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import sqlalchemy as sa

PASSWORD = "p%40ss/w:rd"
"""A password with characters that a URL must quote."""


@pytest.fixture(scope="session")
def postgres_url(free_port: Callable[[], int], until: Callable[..., Any]) -> Iterator[str]:
    """Start a PostgreSQL server on loopback; return its URL with the password."""
    initdb_paths = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "")]
    if not initdb_paths[-1].is_file():
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    program_folder = initdb_paths[-1].parent
    # Other users cannot enter tmp_path, and PostgreSQL does not run as root.
    folder = Path(tempfile.mkdtemp(prefix="leeway-pg-", dir="/tmp"))
    user_options: dict[str, Any] = (
        {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}
    )
    if user_options:
        shutil.chown(folder, "nobody", "nogroup")
    password_file = folder / "password"
    password_file.write_text("p@ss/w:rd\n")
    password_file.chmod(0o644)
    initdb_command = [
        program_folder / "initdb",
        "-D",
        folder / "data",
        "-U",
        "leeway",
        "-A",
        "scram-sha-256",
        "--pwfile",
        password_file,
    ]
    subprocess.run(
        [*initdb_command, "--no-sync", "--locale=C.UTF-8"], check=True, capture_output=True, cwd=folder, **user_options
    )
    port = free_port()
    options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": folder, "fsync": "off"}
    command = [
        program_folder / "postgres",
        "-D",
        folder / "data",
        *(f"--{name}={value}" for name, value in options.items()),
    ]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True, **user_options)
    url = f"postgresql+psycopg://leeway:{PASSWORD}@127.0.0.1:{port}/postgres"
    try:
        until(lambda: server.poll() is not None or _accepts_connections(url))
        assert server.poll() is None, (folder / "log").read_text()
        yield url
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait()
        shutil.rmtree(folder)


@pytest.fixture
def postgres(postgres_url: str) -> sa.Engine:
    """Return an engine of the PostgreSQL server, whose schema is empty."""
    engine = sa.create_engine(postgres_url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
    return engine


def _accepts_connections(url: str) -> bool:
    try:
        with sa.create_engine(url, poolclass=sa.NullPool).connect():
            return True
    except sa.exc.OperationalError:
        return False


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
