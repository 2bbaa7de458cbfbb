"""Answer the operations of endpoints and their configurations."""

from typing import cast

from moto.core.responses import ActionResult, EmptyResult

from drydock.api import listing
from drydock.api.endpoints_backend import EndpointsBackend
from drydock.api.models.responses import ModelResponse

ENDPOINT_OPERATIONS = (
    *(f"{verb}EndpointConfig" for verb in ("Create", "Describe", "Delete")),
    *(f"{verb}Endpoint" for verb in ("Create", "Describe", "Update", "Delete")),
    "ListEndpointConfigs",
    "ListEndpoints",
    "UpdateEndpointWeightsAndCapacities",
)


class EndpointResponse(ModelResponse):
    """Answers the requests about endpoints and their configurations."""

    def create_endpoint_config(self) -> ActionResult:
        """Answer CreateEndpointConfig."""
        config = self._endpoints_backend.create_config(self.read_request("CreateEndpointConfig"))
        return ActionResult({"EndpointConfigArn": config.arn})

    def describe_endpoint_config(self) -> ActionResult:
        """Answer DescribeEndpointConfig."""
        request = self.read_request("DescribeEndpointConfig")
        return ActionResult(self._endpoints_backend.find_config(request["EndpointConfigName"]).describe())

    def delete_endpoint_config(self) -> ActionResult:
        """Answer DeleteEndpointConfig."""
        self._endpoints_backend.delete_config(self.read_request("DeleteEndpointConfig")["EndpointConfigName"])
        return EmptyResult()

    def list_endpoint_configs(self) -> ActionResult:
        """Answer ListEndpointConfigs."""
        request = listing.NEWEST_FIRST | self.read_request("ListEndpointConfigs")
        configs = self._endpoints_backend.endpoint_configs.values()
        return ActionResult(listing.list_page(configs, request, "EndpointConfigs"))

    def create_endpoint(self) -> ActionResult:
        """Answer CreateEndpoint."""
        arn = self._endpoints_backend.begin_endpoint_creation(self.read_request("CreateEndpoint"))
        return ActionResult({"EndpointArn": arn})

    def describe_endpoint(self) -> ActionResult:
        """Answer DescribeEndpoint."""
        request = self.read_request("DescribeEndpoint")
        return ActionResult(self._endpoints_backend.find_endpoint(request["EndpointName"]).describe())

    def update_endpoint(self) -> ActionResult:
        """Answer UpdateEndpoint, which moto does not have."""
        arn = self._endpoints_backend.update_endpoint(self.read_request("UpdateEndpoint"))
        return ActionResult({"EndpointArn": arn})

    def update_endpoint_weights_and_capacities(self) -> ActionResult:
        """Answer UpdateEndpointWeightsAndCapacities."""
        arn = self._endpoints_backend.scale_endpoint(self.read_request("UpdateEndpointWeightsAndCapacities"))
        return ActionResult({"EndpointArn": arn})

    def delete_endpoint(self) -> ActionResult:
        """Answer DeleteEndpoint."""
        self._endpoints_backend.begin_endpoint_deletion(self.read_request("DeleteEndpoint")["EndpointName"])
        return EmptyResult()

    def list_endpoints(self) -> ActionResult:
        """Answer ListEndpoints."""
        request = listing.NEWEST_FIRST | self.read_request("ListEndpoints")
        return ActionResult(listing.list_page(self._endpoints_backend.endpoints.values(), request, "Endpoints"))

    @property
    def _endpoints_backend(self) -> EndpointsBackend:
        return cast(EndpointsBackend, self.sagemaker_backend)
