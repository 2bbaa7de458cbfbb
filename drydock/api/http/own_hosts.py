"""Decide whether the host name of a request is one of this server.

A browser lets a page read the responses of the page's own host. The owner of a page can make the host's name resolve to
127.0.0.1 (DNS rebinding); the page could then read everything that this server has. But the Host header of the page's
requests still has the page's host name, so drydock recognises and refuses them.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence

from drydock.errors import InvalidSetting

# AWS's own names, by which moto finds a service or a bucket. Nobody but AWS can make them resolve to this machine.
_AWS_DOMAINS = ("amazonaws.com", "amazonaws.com.cn", "api.aws")
# A Host header: a name, an IPv4 address, or an IPv6 address in brackets; then perhaps a port.
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@/\s]+)(:[0-9]+)?", re.IGNORECASE)


class OwnHosts:
    """Decides whether a request's Host is one of this server.

    IP addresses, `localhost`, the machine's name and AWS's names are always the server's own. A subdomain of an own
    name, such as bucket.localhost, is also its own: the subdomain is the name of a bucket.

    Args:
        names: More names of the server.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = ("localhost", socket.gethostname().lower(), *(name.lower() for name in names), *_AWS_DOMAINS)

    def includes(self, host: str) -> bool:
        """Return whether a Host header names this server. True for "" (no header): every browser sends a header."""
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
