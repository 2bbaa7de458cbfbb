"""Create, find, change and delete the notebook instances and Studio apps of one account and region."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

from moto.sagemaker.exceptions import AWSValidationException, ResourceInUseException, ResourceNotFound
from moto.sagemaker.utils import arn_formatter

from drydock.api.tuning.backend import TuningBackend
from drydock.jobs.rules import check_owner
from drydock.notebooks.item import APP, NOTEBOOK, NotebookItem, build_app_key
from drydock.notebooks.registry import Notebooks

_STATES_BEFORE = {"start": ("Stopped", "Failed"), "stop": ("InService",), "delete": ("Stopped", "Failed")}
"""The states in which a notebook instance can be started, stopped or deleted."""
_STATES_DURING = {"start": "Pending", "stop": "Stopping", "delete": "Deleting"}
"""The state while a notebook instance is started, stopped or deleted."""


class NotebooksBackend(TuningBackend):
    """The SageMaker backend of one account and region, with notebook instances and Studio apps.

    Args:
        notebooks: The notebook instances and Studio apps of all accounts and regions.
        arguments: Arguments of `TuningBackend`.
    """

    def __init__(self, notebooks: Notebooks, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._notebooks = notebooks

    def delete_stored_resources(self) -> None:
        """Delete all notebook instances and Studio apps, and what `TuningBackend` stores."""
        self._notebooks.delete_all(self._owner)
        super().delete_stored_resources()

    def create_notebook_instance(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse a notebook instance of a CloudFormation stack. Only moto's CloudFormation calls this method.

        Raises:
            NotImplementedError: Always. A retry cannot help.
        """
        raise NotImplementedError(
            "Notebook instances of CloudFormation stacks are not supported by drydock: use CreateNotebookInstance."
        )

    def list_notebook_items(self, kind: str) -> list[NotebookItem]:
        """Return all notebook instances (if `kind` is NOTEBOOK) or all Studio apps (APP)."""
        return list(self._notebooks.get_items(self._owner, kind).values())

    def create_notebook(self, request: Mapping[str, Any]) -> str:
        """Create a notebook instance, begin to start it, and return its ARN.

        Raises:
            AWSValidationException: The name is in use. A retry cannot help.
        """
        name = request["NotebookInstanceName"]
        arn = str(arn_formatter(NOTEBOOK, name, self.account_id, self.region_name))
        if not self._add(NOTEBOOK, name, arn, request):
            raise AWSValidationException(f"Cannot create a duplicate Notebook Instance ({arn})")
        return arn

    def create_app(self, request: Mapping[str, Any]) -> str:
        """Create a Studio app, begin to start it, and return its ARN. Whether its domain exists is not checked.

        Raises:
            AWSValidationException: The request has neither a user profile nor a space, or both. A retry cannot help.
            ResourceInUseException: An app of this name exists. A retry cannot help.
        """
        if ("UserProfileName" in request) == ("SpaceName" in request):
            raise AWSValidationException("An app must have either UserProfileName or SpaceName.")
        key = build_app_key(dict(request))
        arn = str(arn_formatter(APP, key.lower(), self.account_id, self.region_name))
        if not self._add(APP, key, arn, request):
            raise ResourceInUseException(f"App {key} already exists ({arn})")
        return arn

    def find_notebook(self, name: str) -> NotebookItem:
        """Return a notebook instance by its name.

        Raises:
            AWSValidationException: The notebook instance does not exist. A retry cannot help.
        """
        if notebook := self._notebooks.find(self._owner, NOTEBOOK, name):
            return notebook
        raise AWSValidationException("RecordNotFound")

    def find_app(self, request: Mapping[str, Any]) -> NotebookItem:
        """Return the Studio app that a request names by domain, user profile or space, type and name.

        Raises:
            ResourceNotFound: The app does not exist. A retry cannot help.
        """
        if app := self._notebooks.find(self._owner, APP, build_app_key(dict(request))):
            return app
        raise ResourceNotFound(f"App [{build_app_key(dict(request))}] does not exist.")

    def change_notebook(self, name: str, action: str) -> None:
        """Begin to start, stop or delete a notebook instance.

        Args:
            name: Name of the notebook instance.
            action: start, stop or delete.

        Raises:
            AWSValidationException: The notebook instance does not exist, or its state does not allow the action. A
                retry can help after its state has changed.
        """
        allowed_states = _STATES_BEFORE[action]
        notebook = self.find_notebook(name)
        if (status := notebook.status) not in allowed_states:
            transition = f"Unable to transition to ({_STATES_DURING[action]}) for Notebook Instance ({notebook.arn})."
            raise AWSValidationException(f"Status ({status}) not in ([{', '.join(allowed_states)}]). {transition}")
        self._notebooks.change(self._owner, notebook, action)

    def delete_app(self, request: Mapping[str, Any]) -> None:
        """Begin to delete a Studio app.

        Raises:
            ResourceNotFound: The app does not exist, was deleted or is being deleted. A retry cannot help.
        """
        app = self.find_app(request)
        if app.last_request == "delete":
            raise ResourceNotFound(f"App [{app.name}] does not exist.")
        self._notebooks.change(self._owner, app, "delete")

    def save_notebook_item(self, item: NotebookItem) -> None:
        """Store a notebook instance or an app, and its tags."""
        self._notebooks.save(self._owner, item)

    def _add(self, kind: str, name: str, arn: str, request: Mapping[str, Any]) -> bool:
        check_owner(self.account_id, self.region_name)
        now = datetime.now(UTC)
        stored_request = {key: value for key, value in request.items() if key != "Tags"}
        tags = list(request.get("Tags", []))
        item = NotebookItem(kind, name, arn, stored_request, created_at=now, changed_at=now, used_at=now, tags=tags)
        return self._notebooks.add(self._owner, item)

    def _get_resource_from_arn(self, arn: str) -> Any:
        """Return the resource that has an ARN. moto calls this method to read and change tags."""
        kind = arn.rpartition(":")[2].partition("/")[0]
        if kind not in (NOTEBOOK, APP):
            return super()._get_resource_from_arn(arn)
        for item in self.list_notebook_items(kind):
            if item.arn == arn:
                return item
        raise AWSValidationException("RecordNotFound")
