"""Let Python scripts of a job find the other hosts by name where a host has no /etc/hosts of its own.

Python imports this module when it starts, because its folder is the first one in the job's PYTHONPATH. It is
stand-alone: the job's Python may not have drydock. It replaces functions of the module `socket`, so only Python code
finds the names; libraries in C, and programs such as `curl`, do not.

DRYDOCK_HOSTS has the names: "algo-1=127.4.7.1 algo-2=127.4.7.2". The first one is this host's own.
"""

import importlib.machinery
import importlib.util
import os
import socket
import sys
from typing import Any

ADDRESSES = dict(pair.split("=", 1) for pair in os.environ.get("DRYDOCK_HOSTS", "").split())


def find_address(host: Any) -> Any:
    """Return the address of a host of the job; any other value unchanged."""
    name = host.decode(errors="replace") if isinstance(host, bytes) else host
    return ADDRESSES.get(name, host) if isinstance(name, str) else host


def patch_lookups() -> None:
    """Replace the functions that look up a name, and the one that returns this host's name."""
    getaddrinfo, gethostbyname, gethostbyname_ex = socket.getaddrinfo, socket.gethostbyname, socket.gethostbyname_ex
    socket.getaddrinfo = lambda host, *args, **options: getaddrinfo(find_address(host), *args, **options)
    socket.gethostbyname = lambda host: gethostbyname(find_address(host))
    socket.gethostbyname_ex = lambda host: gethostbyname_ex(find_address(host))
    own_name = next(iter(ADDRESSES))
    socket.gethostname = lambda: own_name


def patch_sockets() -> None:
    """Replace the methods of sockets that look up a name themselves."""

    def patch(name: str) -> None:
        method = getattr(socket.socket, name)

        def call(self: socket.socket, address: Any) -> Any:
            if isinstance(address, tuple) and address:
                address = (find_address(address[0]), *address[1:])
            return method(self, address)

        setattr(socket.socket, name, call)

    for name in ("bind", "connect", "connect_ex"):
        patch(name)


def import_next() -> None:
    """Import the `sitecustomize` that Python would have imported without this module, if there is one."""
    own_folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  pathlib takes long to import
    folders = [folder for folder in sys.path if os.path.abspath(folder) != own_folder]  # noqa: PTH100
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", folders)
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if ADDRESSES:
    patch_lookups()
    patch_sockets()
import_next()
