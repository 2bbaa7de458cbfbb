"""Wait for the gate file, and write a model that consists of the rows."""

import argparse
import os
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--gate", default="")
gate = parser.parse_known_args()[0].gate
print("started", flush=True)  # noqa: T201
deadline = time.monotonic() + 300
while gate and not Path(gate).exists() and time.monotonic() < deadline:
    time.sleep(0.05)
rows = (Path(os.environ["SM_CHANNEL_TRAIN"]) / "rows").read_text()
(Path(os.environ["SM_MODEL_DIR"]) / "model").write_text(rows)
