"""Provide a local mail server, a local receiver for Slack's webhook, and Airflow's connections to them."""

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
"""The password in each connection. Only the server may receive it."""


@dataclass
class MailServer:
    """The handler of a mail server. It stores the mails that it accepts."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    passwords: list[bytes] = field(default_factory=list)

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address.startswith("nobody@"):
            return "550 no such recipient"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(message_from_bytes(envelope.content, policy=default))
        return "250 accepted"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        self.passwords.append(data.password)
        return AuthResult(success=data.password == CANARY.encode(), handled=False)

    def build_connection(self, **extra: Any) -> str:
        """Return the value of AIRFLOW_CONN_* for this server."""
        defaults = {
            "from_email": "leeway@example.com",
            "to": "crew@example.com",
            "disable_ssl": True,
            "disable_tls": True,
        }
        fields = {
            "conn_type": "smtp",
            "host": "127.0.0.1",
            "port": self.port,
            "login": "mate",
            "password": CANARY,
        }
        return json.dumps({**fields, "extra": {**defaults, **extra}})


class SocketController(Controller):
    """A controller on an open socket, because aiosmtpd 1.4.6 cannot let the system choose the port."""

    server_socket: socket.socket

    def _create_server(self) -> Any:
        return self.loop.create_server(self._factory_invoker, sock=self.server_socket)


@pytest.fixture(scope="session")
def session_mail_server() -> Iterator[MailServer]:
    """Start one mail server for the session; it checks the login."""
    server = MailServer()
    options = {"authenticator": server.authenticate, "auth_require_tls": False}
    with socket.create_server(("127.0.0.1", 0)) as server_socket:
        server.port = server_socket.getsockname()[1]
        controller = SocketController(server, hostname="127.0.0.1", port=server.port, **options)
        controller.server_socket = server_socket
        controller.start()
        yield server
        controller.stop()


@dataclass
class SlackReceiver:
    """The messages that Slack's client posted, and the HTTP status of the receiver's responses."""

    port: int = 0
    status: int = 200
    paths: list[str] = field(default_factory=list)
    posts: list[dict[str, Any]] = field(default_factory=list)

    def build_connection(self) -> str:
        """Return the value of AIRFLOW_CONN_* for this receiver."""
        host = f"http://127.0.0.1:{self.port}/services"
        return json.dumps({"conn_type": "slackwebhook", "host": host, "password": f"T0/B0/{CANARY}"})


@pytest.fixture(scope="session")
def session_slack_receiver() -> Iterator[SlackReceiver]:
    """Start one receiver of Slack's messages for the session."""
    receiver = SlackReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.paths.append(self.path)
            receiver.posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(receiver.status)
            self.end_headers()
            # The response repeats the request's path, as error pages do.
            self.wfile.write(b"ok" if receiver.status == 200 else f"no such hook: {self.path}".encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield receiver
    server.shutdown()
    server.server_close()


@pytest.fixture
def mail_server(session_mail_server: MailServer, set_connections: Callable[..., None]) -> MailServer:
    """Return the mail server without mails, and set Airflow's connection to it."""
    session_mail_server.mails.clear()
    set_connections(smtp_default=session_mail_server.build_connection())
    return session_mail_server


@pytest.fixture
def slack_receiver(session_slack_receiver: SlackReceiver, set_connections: Callable[..., None]) -> SlackReceiver:
    """Return the receiver without messages, and set Airflow's connection to it."""
    session_slack_receiver.posts.clear()
    session_slack_receiver.status = 200
    set_connections(slack_default=session_slack_receiver.build_connection())
    return session_slack_receiver


@pytest.fixture
def set_connections(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return the function that sets connections of Airflow by their names."""
    return lambda **connections: [
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", text) for name, text in connections.items()
    ]
