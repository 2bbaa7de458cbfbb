"""The Airflow connection through which a task calls AWS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AwsConnection:
    """The arguments about the connection that every operator of the Amazon provider has."""

    aws_conn_id: str | None
    region_name: str | None
    verify: bool | str | None
    botocore_config: dict[str, Any] | None

    def create_hook(self, hook_class: Any) -> Any:
        """Return a hook of the Amazon provider, of the given class, that uses this connection."""
        fields = {"aws_conn_id": self.aws_conn_id, "region_name": self.region_name, "verify": self.verify}
        return hook_class(**fields, config=self.botocore_config)
