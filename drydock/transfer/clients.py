"""The S3 clients of this process: one for each place, since making one takes longer than most calls."""

import os
import threading
from typing import Any

import botocore.session
from boto3.session import Session
from botocore.config import Config

KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_POOL_CONNECTIONS = 32
_CLIENTS: dict[tuple[str, str, str], Any] = {}
# Held while a client is made: botocore's loaders are not thread-safe, and two of one kind are not wanted.
_LOCK = threading.Lock()


def shared_client(url: str, account_id: str, region: str) -> Any:
    """Return the client for the objects of an account; threads share it.

    Args:
        url: The server's own URL, or that of the S3 server that keeps its buckets.
        account_id: The account whose buckets are meant.
        region: The region to sign for.
    """
    place = (url, account_id, region)
    with _LOCK:
        if place not in _CLIENTS:
            _CLIENTS[place] = _client(*place)
        return _CLIENTS[place]


def _keys() -> dict[str, str | None]:
    """Return the process's own credentials, for a server that asks for them; where there are none, any will do."""
    found = {name: os.environ.get(name.upper()) for name in KEYS}
    return found if found[KEYS[0]] else dict.fromkeys(KEYS[:2], "drydock")


def _client(url: str, account_id: str, region: str) -> Any:
    core = botocore.session.Session()
    core.set_config_variable("profile", None)
    session = Session(**_keys(), region_name=region, botocore_session=core)
    config = Config(
        # The server talks to itself or to a neighbour: a proxy from the environment must not stand in between.
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

    def name_account(params: dict[str, Any], **_: Any) -> None:
        params["headers"]["x-moto-account-id"] = account_id

    client.meta.events.register("before-call.s3", name_account)
    return client
