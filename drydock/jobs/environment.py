"""The environment variables that the hosts of every kind of job get."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drydock.host.executor import Executor
from drydock.host.tree import HostTree, list_host_names
from drydock.jobs.job import Job
from drydock.settings import Settings

# Every job inherits these variables of the server. A variable that this module does not name is not inherited, because
# it may be a secret of the server.
INHERITED_VARIABLES = ("LANG", "MLFLOW_TRACKING_URI")
# A container's image sets these variables itself, so only jobs outside a container inherit them.
INHERITED_WITHOUT_CONTAINER = ("HOME", "TMPDIR", "VIRTUAL_ENV")
INHERITED_PREFIXES_WITHOUT_CONTAINER = ("PYTHON", "LC_", "OMP_")
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
# drydock checks no signature, but AWS's clients need credentials.
DUMMY_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "drydock", "AWS_SECRET_ACCESS_KEY": "drydock"}


@dataclass(frozen=True)
class HostContext:
    """The folder of one host of a job, its names and cores, and the URLs that it can reach.

    Attributes:
        base: The folder that the job sees as its tree: /opt/ml, or the tree's own path.
        host: Name of this host.
        hosts: Names of all hosts of the job, algo-1 first.
        cores: Number of vCPUs that this host may use.
        server_env: The server's own environment. The job gets only the variables that this module's constants name,
            and PATH if it does not run in a container.
        is_container: Whether the host runs in a container, with the image's Python and files instead of this machine's.
        url: URL of this server, for the job's AWS clients.
        s3_url: URL of another server for S3; "" if this server has the buckets.
    """

    base: str
    host: str
    hosts: Sequence[str]
    cores: int
    server_env: Mapping[str, str]
    is_container: bool
    url: str
    s3_url: str = ""


def make_host_context(job: Job, tree: HostTree, executor: Executor, settings: Settings) -> HostContext:
    """Return the context of the host that a tree belongs to."""
    return HostContext(
        base=executor.get_path_in_job(tree.root),
        host=tree.host,
        hosts=list_host_names(job.host_count),
        cores=min(job.instance_size.cores, settings.cores),
        server_env=os.environ,
        is_container=executor.is_container,
        url=settings.url,
        s3_url=settings.s3_url,
    )


def build_common_environment(region: str, context: HostContext) -> dict[str, str]:
    """Return the variables that every job gets; the variables of its kind and of its request may override them."""
    server_env = context.server_env
    inherited_variables = {
        name: value for name, value in server_env.items() if _is_inherited(name, is_container=context.is_container)
    }
    credentials = {name: server_env[name] for name in CREDENTIALS if name in server_env}
    if "AWS_ACCESS_KEY_ID" not in credentials:
        credentials = DUMMY_CREDENTIALS
    aws_variables = {**credentials, "AWS_ENDPOINT_URL": context.url, "AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    s3_variables = {"AWS_ENDPOINT_URL_S3": context.s3_url} if context.s3_url else {}
    # SageMaker's containers set PYTHONUNBUFFERED: the log is readable while the job runs.
    return {
        **inherited_variables,
        **_build_path_variable(context),
        **aws_variables,
        **s3_variables,
        "PYTHONUNBUFFERED": "1",
    }


def _build_path_variable(context: HostContext) -> dict[str, str]:
    """Return the variable PATH. It begins with the folder of the server's Python, so that `python` has its packages.

    Return no variable for a container: its image sets PATH.
    """
    if context.is_container:
        return {}
    python_folder = str(Path(sys.executable).parent)
    folders = context.server_env.get("PATH", os.defpath).split(os.pathsep)
    return {"PATH": os.pathsep.join([python_folder, *(folder for folder in folders if folder != python_folder)])}


def _is_inherited(name: str, *, is_container: bool) -> bool:
    if name in INHERITED_VARIABLES:
        return True
    if is_container:
        return False
    return name in INHERITED_WITHOUT_CONTAINER or name.startswith(INHERITED_PREFIXES_WITHOUT_CONTAINER)
