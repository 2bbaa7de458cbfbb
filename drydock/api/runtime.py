"""SageMaker's runtime, which invokes endpoints: no endpoint runs in drydock, so each invocation is refused."""

from typing import Any, NoReturn

from moto.sagemakerruntime import urls
from moto.sagemakerruntime.models import SageMakerRuntimeBackend

from drydock.api.operations import refuse_operation


class RefusingRuntime(SageMakerRuntimeBackend):
    """The runtime of one account and region. moto's would answer with a constant, even for an unknown endpoint."""

    @property
    def url_bases(self) -> list[str]:
        """The host names at which moto serves the runtime."""
        return list(urls.url_bases)

    @property
    def url_paths(self) -> dict[str, Any]:
        """The paths at which moto serves the runtime."""
        return {path.format(""): handler for path, handler in urls.url_paths.items()}

    def invoke_endpoint(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse InvokeEndpoint.

        Raises:
            NotImplementedError: Always. A retry cannot help.
        """
        refuse_operation("InvokeEndpoint", "endpoints")

    def invoke_endpoint_async(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse InvokeEndpointAsync.

        Raises:
            NotImplementedError: Always. A retry cannot help.
        """
        refuse_operation("InvokeEndpointAsync", "endpoints")
