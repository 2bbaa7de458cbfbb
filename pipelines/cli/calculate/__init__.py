"""`python -m pipelines calculate`: memory, time, cost, checkpoints, storage, endpoints and machines, by formulas."""

from __future__ import annotations

import typer

from pipelines.cli.calculate import checkpoints, endpoint, inference, machines, memory, storage, training_time
from pipelines.cli.calculate.command import build_command

app = typer.Typer(
    no_args_is_help=True,
    help="Calculate memory, time and cost before a launch, with the formula and the source of each figure.",
)
app.command("memory")(build_command(memory.MemoryRequest, memory.calculate_memory))
app.command("inference")(build_command(inference.InferenceRequest, inference.calculate_inference))
app.command("time")(build_command(training_time.TimeRequest, training_time.calculate_time))
app.command("checkpoints")(build_command(checkpoints.CheckpointsRequest, checkpoints.calculate_checkpoints))
app.command("storage")(build_command(storage.StorageRequest, storage.calculate_storage))
app.command("endpoint")(build_command(endpoint.EndpointRequest, endpoint.calculate_endpoint))
app.command("machines")(build_command(machines.MachinesRequest, machines.calculate_machines))
