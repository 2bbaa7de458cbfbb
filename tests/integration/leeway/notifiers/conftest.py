"""A mail server and what Slack's webhook posts to, on this machine; Airflow's connections to them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

CANARY = "tweety-sings-of-secrets"
"""The password of each connection: it must be nowhere but at the server."""


@dataclass
class Post:
    """A mail server that keeps what it takes."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    passwords: list[bytes] = field(default_factory=list)

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address.startswith("nobody@"):
            return "550 no such crew"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(message_from_bytes(envelope.content, policy=default))  # type: ignore[arg-type]
        return "250 taken"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        self.passwords.append(data.password)
        return AuthResult(success=data.password == CANARY.encode(), handled=False)

    def connection(self, **extra: Any) -> str:
        own = {"from_email": "leeway@example.com", "to": "crew@example.com", "disable_ssl": True, "disable_tls": True}
        where = {"conn_type": "smtp", "host": "127.0.0.1", "port": self.port, "login": "mate", "password": CANARY}
        return json.dumps({**where, "extra": {**own, **extra}})


class Bound(Controller):
    """On a socket that is there already: aiosmtpd 1.4.6 cannot let the system choose the port."""

    listening: socket.socket

    def _create_server(self) -> Any:
        return self.loop.create_server(self._factory_invoker, sock=self.listening)


@pytest.fixture(scope="session")
def post_office() -> Iterator[Post]:
    """The server; it looks at the login."""
    post = Post()
    asks = {"authenticator": post.authenticate, "auth_require_tls": False}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        post.port = listening.getsockname()[1]
        controller = Bound(post, hostname="127.0.0.1", port=post.port, **asks)
        controller.listening = listening
        controller.start()
        yield post
        controller.stop()


@dataclass
class Channel:
    """Takes what Slack's client posts, and answers as it is told to."""

    port: int = 0
    status: int = 200
    paths: list[str] = field(default_factory=list)
    posts: list[dict[str, Any]] = field(default_factory=list)

    def connection(self) -> str:
        host = f"http://127.0.0.1:{self.port}/services"
        return json.dumps({"conn_type": "slackwebhook", "host": host, "password": f"T0/B0/{CANARY}"})


@pytest.fixture(scope="session")
def receiver() -> Iterator[Channel]:
    """The receiver."""
    channel = Channel()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            channel.paths.append(self.path)
            channel.posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(channel.status)
            self.end_headers()
            # A server that tells what it was asked, as error pages do.
            self.wfile.write(b"ok" if channel.status == 200 else f"no such hook: {self.path}".encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    channel.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield channel
    server.shutdown()
    server.server_close()


@pytest.fixture
def post(post_office: Post, connect: Callable[..., None]) -> Post:
    """The mail server, empty, and Airflow's connection to it."""
    post_office.mails.clear()
    connect(smtp_default=post_office.connection())
    return post_office


@pytest.fixture
def channel(receiver: Channel, connect: Callable[..., None]) -> Channel:
    """The receiver, empty, and Airflow's connection to it."""
    receiver.posts.clear()
    receiver.status = 200
    connect(slack_default=receiver.connection())
    return receiver


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes connections of Airflow."""
    return lambda **given: [monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", text) for name, text in given.items()]
