"""The options of `python -m drydock`, with their help texts.

Each can also be set by an environment variable, such as DRYDOCK_CORES.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from drydock import configuration


class ExecutorName(StrEnum):
    """The executors that --executor can name."""

    PROCESS = "process"
    DOCKER = "docker"


Host = Annotated[
    str, typer.Option(help="Address to bind. Every client that can reach it can run code on this machine.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to bind; 0 for any free port.")]
OwnHosts = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="More host names of this server, separated by commas; localhost, the machine's name and IP addresses are "
        "always accepted. Requests for other hosts are refused.",
    ),
]
Data = Annotated[Path, typer.Option(help="Folder for everything the server stores; one server per folder.")]
PortFile = Annotated[Path | None, typer.Option(help="File to write the port to once the server answers.")]
Config = Annotated[
    Path | None,
    typer.Option(
        is_eager=True,
        callback=configuration.load_file,
        help="TOML file with values for these options, and a table [spot].",
    ),
]
Executor = Annotated[ExecutorName, typer.Option(help="How jobs run: as processes, or in containers.")]
Dockerfile = Annotated[
    Path | None, typer.Option(help="With docker: Dockerfile to build if the engine does not have a job's image.")
]
Cores = Annotated[int, typer.Option(min=1, help="vCPUs for all running jobs together.")]
MemoryGib = Annotated[float, typer.Option(min=0.1, help="Memory in GiB for all running jobs together.")]
StopGrace = Annotated[float, typer.Option(min=0, help="Seconds from SIGTERM to SIGKILL when a job is stopped.")]
CheckpointInterval = Annotated[
    float, typer.Option(min=0.1, help="Seconds between two uploads of the checkpoints to S3.")
]
ShutdownGrace = Annotated[
    float, typer.Option(min=0, help="Seconds from SIGTERM to SIGKILL for running jobs when the server ends.")
]
InvocationTimeout = Annotated[
    float, typer.Option(min=0.1, help="Seconds within which the model of an endpoint must answer a request.")
]
ServerlessIdle = Annotated[
    float, typer.Option(min=0, help="Seconds without a request after which a serverless variant's process is ended.")
]
ScalingPeriod = Annotated[
    float,
    typer.Option(
        min=0.1, help="Seconds of a period of target tracking, which scales out after 3 periods, and in after 15."
    ),
]
S3 = Annotated[str, typer.Option(metavar="URL", help="S3 server that has the buckets; by default this server.")]
S3Patience = Annotated[float, typer.Option(min=0, help="Seconds for which a job's failed requests to S3 are retried.")]
SpotSeed = Annotated[int | None, typer.Option(help="Seed of the random interruptions.")]
SpotInterruptionProbability = Annotated[
    float | None, typer.Option(help="Probability that a spot job is interrupted within a minute.")
]
SpotNotice = Annotated[
    float | None, typer.Option(help="Seconds from SIGTERM to SIGKILL at an interruption; 120 by default.")
]
SpotNoCapacity = Annotated[
    float | None, typer.Option(help="Seconds after an interruption in which the job gets no instances; 5 by default.")
]
InventedAnswers = Annotated[
    bool, typer.Option(help="Let moto invent the answers of SageMaker where nothing runs, such as AutoML jobs.")
]
Verbose = Annotated[bool, typer.Option(help="Log jobs and requests to stderr.")]
