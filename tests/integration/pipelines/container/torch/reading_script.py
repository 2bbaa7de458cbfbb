"""Read a channel as a training does: after each step, save the ids that were taken and the position in one file.

    python reading_script.py FOLDER STATE PROCESSES WORKERS

The processes of the training are loaders of this process, which take a step each in turn. A step begins with a byte
from stdin, until stdin is closed: so a test decides how far it can come. SIGTERM stops after a step.
"""

import json
import os
import sys
from pathlib import Path

from pipelines.container.signals import Stopped, StopSignal
from pipelines.container.torch.loader import Loader
from pipelines.container.torch.parquet_rows import ParquetRows


def main(folder: str, state_file: str, processes: int, workers: int) -> None:
    """Read one epoch, or what is left of it."""
    stop, path = StopSignal(), Path(state_file)
    saved = json.loads(path.read_text()) if path.exists() else {"ids": [], "position": None}
    source = ParquetRows(Path(folder), {"id": "id"})
    loaders = [
        Loader(source, 4, seed=1, buffer=100, rank=rank, processes=processes, workers=workers)
        for rank in range(processes)
    ]
    for loader in loaders:
        if saved["position"]:
            loader.load_state_dict(saved["position"])
    stop.defer()
    for batches in zip(*loaders, strict=True):
        sys.stdin.buffer.read(1)
        saved["ids"] += [sample for batch in batches for sample in batch["id"].tolist()]
        saved["position"] = loaders[0].state_dict()
        temporary = path.with_suffix(".making")
        temporary.write_text(json.dumps(saved))
        os.replace(temporary, path)
        if stop.exit_code:
            sys.exit(stop.exit_code)
    path.with_suffix(".done").touch()


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    except Stopped:
        sys.exit(143)
