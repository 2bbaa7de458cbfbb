"""Answer the operations of notebook instances and Studio apps."""

from collections.abc import Mapping
from typing import Any, cast

from moto.core.responses import ActionResult, EmptyResult

from drydock.api import listing
from drydock.api.notebooks.backend import NotebooksBackend
from drydock.api.tuning.responses import TuningResponse
from drydock.notebooks.item import APP, NOTEBOOK

NOTEBOOK_OPERATIONS = (
    *(f"{verb}NotebookInstance" for verb in ("Create", "Describe", "Start", "Stop", "Delete")),
    "ListNotebookInstances",
    *("CreateApp", "DescribeApp", "DeleteApp", "ListApps"),
)
# Maps each filter of ListApps to the member of CreateApp that it is compared with.
_APP_FILTERS = {
    "DomainIdEquals": "DomainId",
    "UserProfileNameEquals": "UserProfileName",
    "SpaceNameEquals": "SpaceName",
}
# The filters that only ListNotebookInstances has.
_LIFECYCLE_FILTER, _DEFAULT_REPOSITORY_FILTER, _ADDITIONAL_REPOSITORY_FILTER = (
    "NotebookInstanceLifecycleConfigNameContains",
    "DefaultCodeRepositoryContains",
    "AdditionalCodeRepositoryEquals",
)


class NotebookResponse(TuningResponse):
    """Answers requests for notebook instances and Studio apps."""

    def create_notebook_instance(self) -> ActionResult:
        """Answer CreateNotebookInstance."""
        arn = self._notebooks_backend.create_notebook(self.read_request("CreateNotebookInstance"))
        return ActionResult({"NotebookInstanceArn": arn})

    def describe_notebook_instance(self) -> ActionResult:
        """Answer DescribeNotebookInstance."""
        name = self.read_request("DescribeNotebookInstance")["NotebookInstanceName"]
        return ActionResult(self._notebooks_backend.find_notebook(name).describe())

    def start_notebook_instance(self) -> ActionResult:
        """Answer StartNotebookInstance."""
        return self._change_notebook("Start")

    def stop_notebook_instance(self) -> ActionResult:
        """Answer StopNotebookInstance."""
        return self._change_notebook("Stop")

    def delete_notebook_instance(self) -> ActionResult:
        """Answer DeleteNotebookInstance."""
        return self._change_notebook("Delete")

    def list_notebook_instances(self) -> ActionResult:
        """Answer ListNotebookInstances."""
        request: dict[str, Any] = {"SortBy": "Name"} | self.read_request("ListNotebookInstances")
        items = [
            item for item in self._notebooks_backend.list_notebook_items(NOTEBOOK) if _is_match(item.request, request)
        ]
        return ActionResult(listing.list_page(items, request, "NotebookInstances"))

    def create_app(self) -> ActionResult:
        """Answer CreateApp, which moto does not have."""
        return ActionResult({"AppArn": self._notebooks_backend.create_app(self.read_request("CreateApp"))})

    def describe_app(self) -> ActionResult:
        """Answer DescribeApp, which moto does not have."""
        return ActionResult(self._notebooks_backend.find_app(self.read_request("DescribeApp")).describe())

    def delete_app(self) -> ActionResult:
        """Answer DeleteApp, which moto does not have."""
        self._notebooks_backend.delete_app(self.read_request("DeleteApp"))
        return EmptyResult()

    def list_apps(self) -> ActionResult:
        """Answer ListApps, which moto does not have."""
        request = self.read_request("ListApps")
        filters = {member: request[name] for name, member in _APP_FILTERS.items() if name in request}
        apps = [
            app
            for app in self._notebooks_backend.list_notebook_items(APP)
            if all(app.request.get(member) == value for member, value in filters.items())
        ]
        return ActionResult(listing.list_page(apps, request, "Apps"))

    def _change_notebook(self, verb: str) -> ActionResult:
        name = self.read_request(f"{verb}NotebookInstance")["NotebookInstanceName"]
        self._notebooks_backend.change_notebook(name, verb.lower())
        return EmptyResult()

    @property
    def _notebooks_backend(self) -> NotebooksBackend:
        return cast(NotebooksBackend, self.sagemaker_backend)


def _is_match(notebook: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Return whether a notebook instance matches the filters that only ListNotebookInstances has.

    Args:
        notebook: The request that created the notebook instance.
        request: The request of the list.
    """
    repository = request.get(_ADDITIONAL_REPOSITORY_FILTER)
    return (
        request.get(_LIFECYCLE_FILTER, "") in notebook.get("LifecycleConfigName", "")
        and request.get(_DEFAULT_REPOSITORY_FILTER, "") in notebook.get("DefaultCodeRepository", "")
        and (repository is None or repository in notebook.get("AdditionalCodeRepositories", []))
    )
