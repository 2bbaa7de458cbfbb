"""Describe a variant of an endpoint as the source of the logs of its instances."""

from collections.abc import Sequence
from dataclasses import dataclass

from drydock.resources import Owner


def build_log_group(endpoint: str) -> str:
    """Return the name of the log group of an endpoint, as SageMaker names it."""
    return f"/aws/sagemaker/Endpoints/{endpoint}"


@dataclass(frozen=True)
class VariantLog:
    """A variant of an endpoint, as the source of logs; see `host.log_source.LogSource`.

    Attributes:
        owner: The endpoint's account and region.
        endpoint: The endpoint's name.
        name: The variant's name.
    """

    owner: Owner
    endpoint: str
    name: str
    kind = "endpoint"
    has_metrics = False
    is_discarded = False

    @property
    def account_id(self) -> str:
        """Id of the endpoint's account."""
        return self.owner.account_id

    @property
    def region(self) -> str:
        """The endpoint's region."""
        return self.owner.region

    @property
    def log_group(self) -> str:
        """Name of the log group."""
        return build_log_group(self.endpoint)

    def update_metrics(self, lines: Sequence[str], printed_ms: int) -> None:
        """Do nothing: logs of endpoints have no metrics."""
