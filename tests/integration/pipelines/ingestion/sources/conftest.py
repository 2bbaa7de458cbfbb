"""What sources read in tests: a real PostgreSQL from the system's package, a web server that misbehaves on demand."""

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
"""With what a URL has to quote."""


@pytest.fixture(scope="session")
def postgres_url(free_port: Callable[[], int], until: Callable[..., Any]) -> Iterator[str]:
    """The URL of a PostgreSQL server that listens on loopback, password and all."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "")]
    if not found[-1].is_file():
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    programs = found[-1].parent
    # Not tmp_path: others may not enter it, and PostgreSQL does not run as root.
    folder = Path(tempfile.mkdtemp(prefix="leeway-pg-", dir="/tmp"))
    other: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}
    if other:
        shutil.chown(folder, "nobody", "nogroup")
    word = folder / "word"
    word.write_text("p@ss/w:rd\n")
    word.chmod(0o644)
    make = [programs / "initdb", "-D", folder / "data", "-U", "leeway", "-A", "scram-sha-256", "--pwfile", word]
    subprocess.run([*make, "--no-sync", "--locale=C.UTF-8"], check=True, capture_output=True, cwd=folder, **other)
    port = free_port()
    options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": folder, "fsync": "off"}
    command = [programs / "postgres", "-D", folder / "data", *(f"--{name}={value}" for name, value in options.items())]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True, **other)
    url = f"postgresql+psycopg://leeway:{PASSWORD}@127.0.0.1:{port}/postgres"
    try:
        until(lambda: server.poll() is not None or _answers(url))
        assert server.poll() is None, (folder / "log").read_text()
        yield url
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait()
        shutil.rmtree(folder)


@pytest.fixture
def postgres(postgres_url: str) -> sa.Engine:
    """The server, with an empty schema."""
    engine = sa.create_engine(postgres_url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
    return engine


def _answers(url: str) -> bool:
    try:
        with sa.create_engine(url, poolclass=sa.NullPool).connect():
            return True
    except sa.exc.OperationalError:
        return False


@dataclass
class Site:
    """A web server on loopback that does what a test says."""

    url: str = ""
    answers: list[Callable[[BaseHTTPRequestHandler, dict[str, str]], None]] = field(default_factory=list)
    """What is done, request by request; the last one again and again."""
    asked: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)
    """Path, query and headers of each request."""

    def does(self, *answers: Callable[[BaseHTTPRequestHandler, dict[str, str]], None]) -> None:
        """From now on."""
        self.answers, self.asked = list(answers), []


def _says(content: bytes | str = b"", code: int = 200, half: bool = False, **headers: str) -> Callable[..., None]:
    body = content.encode() if isinstance(content, str) else content

    def answer(to: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        to.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            to.send_header(name.replace("_", "-"), value)
        to.end_headers()
        to.wfile.write(body[: len(body) // 2] if half else body)

    return answer


@pytest.fixture(scope="session", name="says")
def _says_fixture() -> Callable[..., Any]:
    """An answer: content, code, headers; half of it where the server stops in the middle."""
    return _says


@pytest.fixture
def site() -> Iterator[Site]:
    """A web server that misbehaves on demand."""
    made = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query))
            made.asked.append((parts.path, query, dict(self.headers)))
            answer = made.answers.pop(0) if len(made.answers) > 1 else made.answers[0]
            answer(self, query)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were to be waited between attempts; none of them is."""
    from pipelines.ingestion.sources.web import http_client

    waited: list[float] = []
    monkeypatch.setattr(http_client, "sleep", waited.append)
    return waited
