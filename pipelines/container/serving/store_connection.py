"""Send BatchGetRecord to the online store with less work than boto3's client, which takes twice the CPU time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError, NoCredentialsError
from botocore.httpsession import get_cert_path
from botocore.session import get_session
from botocore.utils import get_environ_proxies
from urllib3 import BaseHTTPResponse, PoolManager, ProxyManager, Timeout

SERVICE, OPERATION = "sagemaker-featurestore-runtime", "BatchGetRecord"
USER_AGENT = "leeway"
"""Name of the client in the store's logs."""


class StoreConnection:
    """Sends requests of the configured account and region, without retries. Threads may share it.

    As for boto3's clients, the environment and AWS's configuration files say which address, region, credentials, proxy
    and certificates are used.

    Args:
        timeout_s: longest time to connect, and to wait for each answer, seconds.
        connections: largest number of connections that stay open.

    Raises:
        BotoCoreError: no region or credentials are configured. A retry can help.
    """

    def __init__(self, timeout_s: float, connections: int) -> None:
        session = get_session()
        client = session.create_client(SERVICE)  # finds the store's address; sends no request
        self._url, self._region = f"{client.meta.endpoint_url.rstrip('/')}/{OPERATION}", client.meta.region_name
        self._signing_name = client.meta.service_model.signing_name
        self._credentials = session.get_credentials()
        if self._credentials is None:
            raise NoCredentialsError()
        options = {
            "timeout": Timeout(connect=timeout_s, read=timeout_s),
            "maxsize": connections,
            "retries": False,
            "ca_certs": get_cert_path(session.get_config_variable("ca_bundle") or True),
        }
        proxy = get_environ_proxies(self._url).get(self._url.partition(":")[0])
        self._pool = ProxyManager(proxy, **options) if proxy else PoolManager(**options)

    def batch_get_record(self, *, Identifiers: Sequence[Mapping[str, Any]]) -> Any:
        """Return the response that boto3's client would return, without its metadata.

        Raises:
            ClientError: the store refuses the request.
            BotoCoreError: the credentials cannot be refreshed. A retry can help.
            HTTPError: the store does not answer. A retry can help.
        """
        body = json.dumps({"Identifiers": Identifiers}).encode()
        headers = {"Content-Type": "application/json", "User-Agent": USER_AGENT}
        request = AWSRequest("POST", self._url, headers, body)
        # This call replaces the credentials of a role before they expire.
        credentials = self._credentials.get_frozen_credentials()
        SigV4Auth(credentials, self._signing_name, self._region).add_auth(request)
        response = self._pool.request("POST", self._url, body=body, headers=dict(request.headers.items()))
        if response.status >= 300:
            raise ClientError({"Error": _describe_error(response)}, OPERATION)
        return json.loads(response.data)


def _describe_error(response: BaseHTTPResponse) -> dict[str, str]:
    """Return code and message of an error, as boto3 does. A proxy before the store may answer without JSON."""
    try:
        content = json.loads(response.data)
        code, message = content.get("__type"), content.get("message", content.get("Message"))
    except (ValueError, AttributeError):
        code, message = None, None
    code = response.headers.get("x-amzn-errortype") or code or str(response.status)
    return {"Code": code.partition(":")[0], "Message": message or f"HTTP status {response.status}"}
