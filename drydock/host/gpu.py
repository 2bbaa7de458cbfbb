"""Measure what processes use of NVIDIA's GPUs, as nvidia-smi reports it. Without nvidia-smi, nothing is measured.

The module was tested only with recorded tables of nvidia-smi: when it was written, no machine with a GPU was available.
"""

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

TIMEOUT_S = 20.0
"""Seconds after which nvidia-smi is killed."""
PROGRAM = "nvidia-smi"
PROCESS_ARGUMENTS = ("pmon", "-c", "1", "-s", "um")
"""Arguments that print, for each GPU and process, the share of the time in which the process used the GPU (percent),
and the GPU memory that it uses (MB)."""
MEMORY_ARGUMENTS = ("--query-gpu=index,memory.total", "--format=csv,noheader,nounits")
"""Arguments that print the index of each GPU, and its memory in MB."""


@dataclass(frozen=True)
class GpuUsage:
    """GPU time and memory in percent of one GPU, summed over the GPUs. None for a number that is not reported."""

    gpu_percent: float | None
    memory_percent: float | None


def measure_gpus(pids: Collection[int]) -> GpuUsage | None:
    """Return what processes use of the GPUs; None if none of them uses a GPU, or if nvidia-smi is missing or fails.

    The measurement takes a second or more.

    Args:
        pids: The ids of the processes.
    """
    if not pids or shutil.which(PROGRAM) is None:
        return None
    rows = [row for row in parse_processes(_run(*PROCESS_ARGUMENTS)) if row.get("pid") in {str(pid) for pid in pids}]
    if not rows:
        return None
    totals_mb = dict(_parse_memory(_run(*MEMORY_ARGUMENTS)))
    shares: dict[str, list[float]] = defaultdict(list)
    for row in rows:  # sm: share of the time in percent; fb: memory in MB
        if (share := _parse_number(row.get("sm"))) is not None:
            shares["gpu"].append(share)
        used_mb, total_mb = _parse_number(row.get("fb")), totals_mb.get(row.get("gpu", ""))
        if used_mb is not None and total_mb:
            shares["memory"].append(100 * used_mb / total_mb)
    return GpuUsage(*(sum(shares[name]) if shares[name] else None for name in ("gpu", "memory")))


def parse_processes(text: str) -> Iterator[Mapping[str, str]]:
    """Yield the rows of the table that `nvidia-smi pmon` prints. Its first line names the columns."""
    header: list[str] = []
    for line in text.splitlines():
        words = line.lstrip("#").split()
        if line.startswith("#"):
            header = header or words
        elif header and words:
            yield dict(zip(header, words, strict=False))


def _parse_memory(text: str) -> Iterator[tuple[str, float]]:
    """Yield the index and the memory in MB of each GPU."""
    for line in text.splitlines():
        index, _, total = line.partition(",")
        if (total_mb := _parse_number(total.strip())) is not None:
            yield index.strip(), total_mb


def _parse_number(word: str | None) -> float | None:
    """Return the number; None for `-` and other words."""
    try:
        return float(word or "")
    except ValueError:
        return None


def _run(*arguments: str) -> str:
    """Return what nvidia-smi prints; "" if it fails, for example because there is no driver."""
    try:
        result = subprocess.run(
            [PROGRAM, *arguments],
            capture_output=True,
            check=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout
