"""Measure how many samples a second Leeway's loader for torch reads, compared with plain torch and other libraries.

Each run reads one epoch from files in the system's cache, and includes the start of its workers. So the work of
reading, shuffling and making batches is measured, not the disk. Nothing is trained with the batches. WebDataset is
measured if it is installed.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPEATS = 5
FEATURES, FILES, ROW_GROUP_ROWS = 20, 8, 10_000
"""Numbers of features of a row, of Parquet files, and of rows of a row group."""
ROWS = int(os.environ.get("LEEWAY_BENCH_ROWS", "1000000")) // FILES * FILES
SAMPLES = ROWS // 50
"""Number of samples in the shards: images of 12 KiB as arrays."""


def run() -> dict[str, Any] | None:
    """Return the seconds of an epoch of each pipeline, and as facts the samples a second; None without torch."""
    if importlib.util.find_spec("torch") is None:
        sys.stderr.write("loader: skipped, because torch is not installed: pip install 'leeway[torch]'\n")
        return None
    from benchmarks.training.loader_pipelines import list_parquet_pipelines, list_shard_pipelines

    seconds: dict[str, list[float]] = {}
    facts: dict[str, Any] = {"rows": ROWS, "features": FEATURES, "samples in shards": SAMPLES}
    with tempfile.TemporaryDirectory() as folder:
        rows, shards = Path(folder) / "rows", Path(folder) / "shards"
        _write_rows(rows)
        _write_shards(shards)
        pipelines = [
            *((name, ROWS, read) for name, read in list_parquet_pipelines(rows)),
            *((name, SAMPLES, read) for name, read in list_shard_pipelines(shards)),
        ]
        for repeat in range(REPEATS + 1):  # alternately, so that the machine's load is the same for all
            for name, count, read in pipelines:
                start_s = time.perf_counter()
                read_count = read()
                if read_count != count:
                    raise RuntimeError(f"{name} read {read_count} of {count} samples")
                if repeat:  # the first run warms up
                    seconds.setdefault(name, []).append(time.perf_counter() - start_s)
    for name, count, _ in pipelines:
        facts[f"{name}, samples/s"] = round(count / statistics.median(seconds[name]))
    return {"seconds": seconds, "facts": facts}


def _write_rows(folder: Path) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    generator, count = np.random.default_rng(13), ROWS // FILES
    for number in range(FILES):
        columns = {f"feature_{index}": generator.random(count, np.float32) for index in range(FEATURES)}
        table = pa.table({**columns, "label": generator.integers(0, 2, count)})
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=ROW_GROUP_ROWS)


def _write_shards(folder: Path) -> None:
    import numpy as np

    from pipelines.container.torch.write_shards import write_shards

    generator = np.random.default_rng(13)
    images = (
        {"x.npy": generator.integers(0, 256, (3, 64, 64), np.uint8), "cls": number % 10} for number in range(SAMPLES)
    )
    # WebDataset needs a shard for each worker, whatever LEEWAY_BENCH_ROWS is.
    write_shards(folder, images, shard_bytes=min(16 * 2**20, SAMPLES * 12_288 // 8))
