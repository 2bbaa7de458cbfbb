"""Plan the process or the container of an instance: its command, its environment and its size."""

import os
from collections.abc import Mapping
from pathlib import Path

from drydock.endpoints.instances import model_server
from drydock.endpoints.records import Variant
from drydock.host.executor import Executor, HostPlan
from drydock.host.machines import MachineSize
from drydock.host.tree import HostTree
from drydock.jobs.environment import HostContext, build_common_environment
from drydock.resources import Owner
from drydock.settings import Settings

CONTAINER_PORT = 8080
"""The port at which SageMaker's containers answer /ping and /invocations."""
SERVE = "serve"
"""The argument with which SageMaker starts the image of a model."""


def plan_host(
    variant: Variant, tree: HostTree, owner: Owner, executor: Executor, settings: Settings, variables: Mapping[str, str]
) -> HostPlan:
    """Return what an executor needs to start an instance.

    A model with script-mode code is served by drydock's model server. In a container, a model without such code is
    served by the image's own entrypoint.

    Args:
        variant: The variant that the instance serves.
        tree: The instance's folder tree, which has the model.
        owner: The endpoint's account and region.
        executor: Starts the instance.
        settings: The server's settings.
        variables: More environment variables, for drydock's model server.
    """
    size = variant.size.limit_to(MachineSize(settings.cores, settings.memory_mib))
    environment = _build_environment(variant, tree, owner, executor, settings, size.cores)
    port = CONTAINER_PORT if executor.is_container else 0
    address = f"0.0.0.0:{port}" if port else "127.0.0.1:0"  # a container has a network of its own
    return HostPlan(
        name=tree.root.parent.name,
        host=tree.host,
        addresses={tree.host: "127.0.0.1"},
        root=tree.root,
        command=_build_command(tree, executor, environment["SAGEMAKER_PROGRAM"]),
        env={**environment, **variables, model_server.ADDRESS_VARIABLE: address},
        cwd=tree.model,
        log=tree.log,
        process_file=tree.process_file,
        image=str(variant.container.get("Image", "")),
        cores=size.cores,
        memory_mib=size.memory_mib,
        arguments=[SERVE],
        port=port,
    )


def _build_command(tree: HostTree, executor: Executor, program: str) -> list[str]:
    """Return the command of drydock's model server; empty for the image's own entrypoint."""
    if executor.is_container and not (tree.model / "code" / program).is_file():
        return []
    base = executor.get_path_in_job(tree.root)
    return [executor.get_interpreter(), str(Path(base) / "code" / model_server.PROGRAM_FILE)]


def _build_environment(
    variant: Variant, tree: HostTree, owner: Owner, executor: Executor, settings: Settings, cores: int
) -> dict[str, str]:
    base = executor.get_path_in_job(tree.root)
    context = HostContext(
        base=base,
        host=tree.host,
        hosts=[tree.host],
        cores=cores,
        server_env=os.environ,
        is_container=executor.is_container,
        url=settings.url,
        s3_url=settings.s3_url,
    )
    options = {
        # Idle threads of OpenMP would otherwise spin and delay the next request.
        "OMP_WAIT_POLICY": "passive",
        "SAGEMAKER_BASE_DIR": base,
        "SM_MODEL_DIR": f"{base}/model",
        "SAGEMAKER_PROGRAM": "inference.py",
    }
    container_variables = variant.container.get("Environment", {})
    return {**build_common_environment(owner.region, context), **options, **container_variables}
