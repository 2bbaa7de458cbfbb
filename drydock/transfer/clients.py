"""The S3 clients of this process. They are shared, since creating a client takes longer than most requests."""

import os
import threading
from typing import Any

import botocore.session
from boto3.session import Session
from botocore.config import Config

CREDENTIAL_NAMES = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_POOL_CONNECTIONS = 32
_CLIENTS: dict[tuple[str, str, str], Any] = {}
# Held while a client is created: botocore's loaders are not thread-safe, and each client is created only once.
_LOCK = threading.Lock()


def get_shared_client(url: str, account_id: str, region: str) -> Any:
    """Return the S3 client for an account's objects. Threads may share it.

    Args:
        url: URL of this server, or of the S3 server that has its buckets.
        account_id: The account that owns the buckets.
        region: The region to sign requests for.
    """
    key = (url, account_id, region)
    with _LOCK:
        if key not in _CLIENTS:
            _CLIENTS[key] = _create_client(*key)
        return _CLIENTS[key]


def _read_credentials() -> dict[str, str | None]:
    """Return the credentials of this process's environment variables, or dummy ones if there are none."""
    credentials = {name: os.environ.get(name.upper()) for name in CREDENTIAL_NAMES}
    return credentials if credentials[CREDENTIAL_NAMES[0]] else dict.fromkeys(CREDENTIAL_NAMES[:2], "drydock")


def _create_client(url: str, account_id: str, region: str) -> Any:
    # AWS_PROFILE may name a profile that does not exist; then no session could be created. So it is not read.
    botocore_session = botocore.session.Session(session_vars={"profile": (None, None, None, None)})
    session = Session(**_read_credentials(), region_name=region, botocore_session=botocore_session)
    config = Config(
        # The S3 server is this process or another one nearby: no proxy of the environment may be used.
        proxies={},
        s3={"addressing_style": "path"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        retries={"mode": "standard", "total_max_attempts": 3},
        connect_timeout=5,
        read_timeout=60,
        max_pool_connections=_POOL_CONNECTIONS,
    )
    client = session.client("s3", endpoint_url=url, config=config)

    def add_account(params: dict[str, Any], **_: Any) -> None:
        params["headers"]["x-moto-account-id"] = account_id

    client.meta.events.register("before-call.s3", add_account)
    return client
