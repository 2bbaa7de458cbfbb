"""A notebook instance or a Studio app. Its state follows from the last action on it, and from the time since then."""

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

DELAY = timedelta(seconds=3)
"""Time from an action until its final state is reached. On AWS it takes minutes."""
NOTEBOOK, APP = "notebook-instance", "app"
_STATES = {
    NOTEBOOK: {
        "start": ("Pending", "InService"),
        "stop": ("Stopping", "Stopped"),
        "delete": ("Deleting", "Deleted"),
    },
    APP: {"start": ("Pending", "InService"), "delete": ("Deleting", "Deleted")},
}
"""The states during and after each action."""

_NAMES_IN_DESCRIBE = {
    "LifecycleConfigName": "NotebookInstanceLifecycleConfigName",
    "SecurityGroupIds": "SecurityGroups",
}
"""The names in DescribeNotebookInstance of members that have another name in CreateNotebookInstance."""


@dataclass
class NotebookItem:
    """A notebook instance or a Studio app. All of it is stored.

    Attributes:
        kind: NOTEBOOK or APP.
        name: Name of the notebook instance; of an app, what identifies it: DOMAIN/USER/TYPE/NAME. USER is a user
            profile or a space.
        arn: ARN.
        request: The request that created it, without its tags.
        created_at: CreationTime.
        changed_at: When the last action began.
        used_at: When it was last started or used. A request to /drydock/use simulates a use.
        last_request: The last action: start, stop or delete.
        tags: The tags. AddTags and DeleteTags change them.
    """

    kind: str
    name: str
    arn: str
    request: dict[str, Any]
    created_at: datetime
    changed_at: datetime
    used_at: datetime
    last_request: str = "start"
    tags: list[dict[str, str]] = field(default_factory=list)

    @property
    def status(self) -> str:
        """The state now."""
        state_during, state_after = _STATES[self.kind][self.last_request]
        return state_after if datetime.now(UTC) - self.changed_at >= DELAY else state_during

    @property
    def modified_at(self) -> datetime:
        """LastModifiedTime."""
        return self.changed_at

    def change(self, action: str) -> None:
        """Begin an action: start, stop (of a notebook instance only) or delete."""
        self.last_request, self.changed_at = action, datetime.now(UTC)
        if action == "start":
            self.used_at = self.changed_at

    def summarize(self) -> dict[str, Any]:
        """Return the entry in ListNotebookInstances or ListApps."""
        return self._summarize_notebook() if self.kind == NOTEBOOK else self._summarize_app()

    def describe(self) -> dict[str, Any]:
        """Return the response of DescribeNotebookInstance or DescribeApp."""
        if self.kind == APP:
            times = {"LastHealthCheckTimestamp": datetime.now(UTC), "LastUserActivityTimestamp": self.used_at}
            return {**self._summarize_app(), "AppArn": self.arn, **times}
        defaults = {"DirectInternetAccess": "Enabled", "VolumeSizeInGB": 5, "RootAccess": "Enabled"}
        request = {_NAMES_IN_DESCRIBE.get(name, name): value for name, value in self.request.items()}
        return {**defaults, **request, **self._summarize_notebook()}

    def _summarize_notebook(self) -> dict[str, Any]:
        region = self.arn.split(":")[3]
        return {
            "Url": f"{self.name}.notebook.{region}.sagemaker.aws",  # nothing answers there
            "NotebookInstanceName": self.name,
            "NotebookInstanceArn": self.arn,
            "NotebookInstanceStatus": self.status,
            "InstanceType": self.request["InstanceType"],
            "CreationTime": self.created_at,
            "LastModifiedTime": self.changed_at,
        }

    def _summarize_app(self) -> dict[str, Any]:
        members = ("DomainId", "UserProfileName", "SpaceName", "AppType", "AppName", "ResourceSpec")
        request = {name: self.request[name] for name in members if name in self.request}
        return {**request, "Status": self.status, "CreationTime": self.created_at}

    def dump(self) -> str:
        """Return the item as JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def load(cls, text: str) -> Self:
        """Return what `dump` wrote as JSON."""
        content = json.loads(text)
        times = {name: datetime.fromisoformat(content[name]) for name in ("created_at", "changed_at", "used_at")}
        return cls(**{**content, **times})


def build_app_key(request: dict[str, Any]) -> str:
    """Return what identifies a Studio app: its domain, its user profile or space, its type and its name."""
    owner = request.get("UserProfileName") or request.get("SpaceName") or ""
    return "/".join((request["DomainId"], owner, request["AppType"], request["AppName"]))
