"""The host names of this server.

A browser lets a page read the responses of the page's own host. If the owner of a page makes its name mean 127.0.0.1
(DNS rebinding), the page could read everything that this server has. The Host of its requests is still its own name.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence

from drydock.errors import InvalidSetting

# AWS's own names, which no other person can point at this machine: moto finds a service or a bucket by them.
_AWS_DOMAINS = ("amazonaws.com", "amazonaws.com.cn", "api.aws")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@/\s]+)(:[0-9]+)?", re.IGNORECASE)


class OwnHosts:
    """Decides whether a request's Host is one of this server.

    Always its own are: addresses, `localhost`, the machine's name, and AWS's names. A name below an own name is a
    bucket's, such as bucket.localhost.

    Args:
        names: More names of the server.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = ("localhost", socket.gethostname().lower(), *(name.lower() for name in names), *_AWS_DOMAINS)

    def includes(self, host: str) -> bool:
        """Return whether a Host header names this server; "" (no header) does, since each browser sends one."""
        match = _HOST.fullmatch(host)
        if match is None:
            return not host
        name = match[1].lower().removesuffix(".")
        return _is_address(name) or any(name == own_name or name.endswith(f".{own_name}") for own_name in self._names)


def parse_host_names(text: str) -> Sequence[str]:
    """Return the host names of a list that is separated by commas.

    Raises:
        InvalidSetting: One of them is not a host name. A retry cannot help.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if not re.fullmatch("[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*", name):
            raise InvalidSetting(f"--own-hosts must be host names without port, separated by commas; not {name!r}")
    return names


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
