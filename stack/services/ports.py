"""Choose free loopback ports."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from stack.services.record import Ports

PREFERRED_PORTS = Ports(airflow=8080, mlflow=5000, drydock=4566, docs=8090)
"""The ports that users expect. `up` takes them if they are free."""
ANY_PORTS = Ports(airflow=0, mlflow=0, drydock=0, docs=0)
"""Any free ports."""
_CONNECT_TIMEOUT_S = 1.0


def choose_ports(preferred_ports: Ports) -> Ports:
    """Return ports that were free a moment ago: the preferred ports where possible, else others. 0 means any port."""
    with ExitStack() as sockets:
        # All ports stay in use until all are chosen. Otherwise the same port could be chosen twice.
        return Ports(**{name: _occupy_port(port, sockets) for name, port in preferred_ports.model_dump().items()})


def is_listening(port: int) -> bool:
    """Return whether a program listens on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(_CONNECT_TIMEOUT_S)
        return client.connect_ex(("127.0.0.1", port)) == 0


def are_free(ports: Ports) -> bool:
    """Return whether each of the ports can be taken."""
    return choose_ports(ports) == ports


def _occupy_port(port: int, sockets: ExitStack) -> int:
    """Listen on the port, or on another one if it is in use, until `sockets` is closed. Return the port."""
    listener = sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    # Without this option, a port whose server ended less than a minute ago counts as taken.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError:
        listener.bind(("127.0.0.1", 0))
    listener.listen()  # with SO_REUSEADDR, a second socket could be bound to a port on which nobody listens
    return int(listener.getsockname()[1])
