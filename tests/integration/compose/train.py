"""Wait for the file of --release_file, and write a model that consists of the rows."""

import argparse
import os
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--release_file", default="")
release_file = parser.parse_known_args()[0].release_file
print("started", flush=True)  # noqa: T201
deadline = time.monotonic() + 300
while release_file and not Path(release_file).exists() and time.monotonic() < deadline:
    time.sleep(0.05)
rows = (Path(os.environ["SM_CHANNEL_TRAIN"]) / "rows").read_text()
(Path(os.environ["SM_MODEL_DIR"]) / "model").write_text(rows)
