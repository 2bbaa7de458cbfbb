"""Check each request before anything else reads it: who sends it, to which host, and for which account."""

from typing import Any

from drydock.api.http.own_hosts import OwnHosts
from drydock.jobs.rules import is_account_id
from drydock.wsgi import ErrorResponse


class RequestChecks:
    """Refuses requests from web pages of other sites, to other hosts, and for invalid account ids.

    Args:
        url: URL of the server.
        own_hosts: The server's host names.
    """

    def __init__(self, url: str, own_hosts: OwnHosts) -> None:
        self._url, self._own_hosts = url, own_hosts

    def find_error_response(self, environ: dict[str, Any]) -> ErrorResponse | None:
        """Return the error for a request that is refused; None for any other request."""
        # Only browsers send an Origin. moto would answer any web page, but no web page may run code on this machine.
        if environ.get("HTTP_ORIGIN", self._url) != self._url:
            return ErrorResponse(403, "AccessDenied", "drydock refuses requests from web pages of other sites")
        host = environ.get("HTTP_HOST", "")
        if not self._own_hosts.includes(host):
            advice = "to add it, start drydock with --own-hosts"
            return ErrorResponse(403, "AccessDenied", f"{host[:100]!r} is not a host name of this drydock; {advice}")
        # moto accepts any text as an account's id. The id is part of a job's path on the disk, so it is checked here.
        account_id = environ.get("HTTP_X_MOTO_ACCOUNT_ID")
        if account_id is not None and not is_account_id(account_id):
            return ErrorResponse(
                400, "ValidationException", "x-moto-account-id must be an account id, which has 12 digits"
            )
        return None
