"""Free loopback ports."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from stack.services.record import Ports

PREFERRED = Ports(airflow=8080, mlflow=5000, drydock=4566, docs=8090)
"""What a person expects; taken where free."""
ANY = Ports(airflow=0, mlflow=0, drydock=0, docs=0)


def choose(wanted: Ports) -> Ports:
    """Ports that were free a moment ago: the wanted ones where possible, else any. 0 is any."""
    with ExitStack() as held:
        # All are held until all are chosen, or the same one could be chosen twice.
        return Ports(**{name: _free(port, held) for name, port in wanted.model_dump().items()})


def _free(port: int, held: ExitStack) -> int:
    listener = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    # Else a port that was served until a minute ago counts as taken.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError:
        listener.bind(("127.0.0.1", 0))
    return int(listener.getsockname()[1])
