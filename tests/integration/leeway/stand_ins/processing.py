"""Stand in for pipelines/container/processing.py: features are texts, and the variable MODE selects the behaviour."""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

base = Path(os.environ["SAGEMAKER_BASE_DIR"])
rows = (base / "processing/input/window/rows").read_text()
print("building", rows, *sys.argv[1:], flush=True)  # noqa: T201
mode = os.environ.get("MODE", "")
if mode.startswith("exit"):
    (base / "output").mkdir(exist_ok=True)
    (base / "output" / "message").write_text(f"[exit {mode[4:]}] the script failed.")
    sys.exit(int(mode[4:]))
deadline = time.monotonic() + 3_600  # far longer than any test waits
while mode == "wait" and not Path(os.environ["RELEASE_FILE"]).exists() and time.monotonic() < deadline:
    time.sleep(0.05)
out = base / "processing/output"
listing = ""
for name in ("holdout", "train", "validation"):
    (out / "features" / name).mkdir(parents=True)
    (out / "features" / name / "data.parquet").write_text(f"{rows} {name}")
    listing += f"{name}/data.parquet\0{hashlib.sha256(f'{rows} {name}'.encode()).hexdigest()}\n"
digest = hashlib.sha256(listing.encode()).hexdigest()
counts = {"rows_train": 3, "rows_validation": 2, "rows_holdout": 1}
(out / "result.json").write_text(json.dumps({"schema_version": 1, "features": "x", **counts, "digest": digest}))
