"""`python -m pipelines calculate storage`: the throughput that keeps GPUs busy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from pipelines.cli.calculate.output import Report
from pipelines.errors import SpecError
from pipelines.planning.storage import (
    compute_data_wait_share,
    compute_needed_throughput_gb_s,
    estimate_download_s,
)


@dataclass(frozen=True, kw_only=True)
class StorageRequest:
    """The options of the command."""

    gpus: Annotated[int, typer.Option(help="GPUs of all instances.")]
    batch: Annotated[float, typer.Option(help="Samples of a step on one GPU.")]
    sample_kb: Annotated[float, typer.Option(help="Mean size of a sample as it is stored, kB of 1,000 bytes.")]
    step_s: Annotated[float, typer.Option(help="Seconds of a step that never waits for data.")]
    use: Annotated[float, typer.Option(help="Share of the time in which a GPU should compute.")] = 1.0
    available_gb_s: Annotated[float | None, typer.Option(help="Throughput that the storage has, GB/s.")] = None
    data_gb: Annotated[
        float | None, typer.Option(help="Size of all data, GB, to estimate a download before the training.")
    ] = None


def calculate_storage(request: StorageRequest) -> Report:
    """Calculate the throughput that storage needs to keep GPUs busy, and how long they wait if it has less.

    Example: python -m pipelines calculate storage --gpus 8 --batch 7 --sample-kb 146600 --step-s 0.323 --use 0.9
    """
    report = Report("Storage")
    inputs = (request.gpus, request.batch, request.sample_kb * 1e3, request.step_s)
    report.add("throughput", compute_needed_throughput_gb_s(*inputs, request.use), "GB/s", "needed_throughput")
    if request.available_gb_s is not None:
        share = compute_data_wait_share(compute_needed_throughput_gb_s(*inputs), request.available_gb_s)
        report.add("wait for data", share, "share of the time", "data_wait")
    if request.data_gb is not None:
        if request.available_gb_s is None:
            raise SpecError("--data-gb needs --available-gb-s, the throughput of the storage.")
        report.add("download", estimate_download_s(request.data_gb, request.available_gb_s), "s", "download")
    report.notes.append("Each sample is read once an epoch: nothing is cached. Reading and computation overlap.")
    return report
