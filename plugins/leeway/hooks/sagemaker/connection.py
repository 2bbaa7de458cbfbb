"""The Airflow connection through which a task calls AWS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AwsConnection:
    """The connection arguments that every operator of the Amazon provider has."""

    aws_conn_id: str | None
    region_name: str | None
    verify: bool | str | None
    botocore_config: dict[str, Any] | None

    def create_hook(self, hook_class: Any) -> Any:
        """Return a hook of the Amazon provider, of the given class, that uses this connection."""
        fields = {"aws_conn_id": self.aws_conn_id, "region_name": self.region_name, "verify": self.verify}
        return hook_class(**fields, config=self.botocore_config)


@dataclass(frozen=True, kw_only=True)
class AwsWait:
    """A wait that calls AWS, in the triggerer or in a worker. All fields can be written as JSON.

    Args:
        aws_conn_id: Airflow connection.
        region_name: AWS region; None: the region of the Airflow connection.
        verify: `verify` of boto3's clients: whether, or with which CA bundle, TLS certificates are checked.
        botocore_config: configuration of the clients.
    """

    aws_conn_id: str | None = "aws_default"
    region_name: str | None = None
    verify: bool | str | None = None
    botocore_config: dict[str, Any] | None = None

    @property
    def connection(self) -> AwsConnection:
        """The connection to AWS."""
        return AwsConnection(self.aws_conn_id, self.region_name, self.verify, self.botocore_config)
