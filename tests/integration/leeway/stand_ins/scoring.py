"""Run Python with stand-ins for the steps `batch` and `score`, whose partition is the text of a file."""

import io
import json
import os
import sys
import tarfile
from pathlib import Path

INFERENCE = """
import os, pathlib, signal, time
def model_fn(model_dir):
    if os.environ.get("MODE") == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
def transform_fn(model, body, content_type, accept):
    print("scoring", body.decode(), flush=True)
    mode = os.environ.get("MODE", "")
    if mode == "crash":
        raise ValueError("the script failed")
    ends = time.monotonic() + 3_600  # far longer than any test waits
    release_file = pathlib.Path(os.environ["RELEASE_FILE"])
    release_file.with_name("release-reached").touch()
    while mode in ("wait", "stubborn") and not release_file.exists() and time.monotonic() < ends:
        time.sleep(0.05)
    return body.upper()
"""


def batch(spec):
    rows = Path("rows").read_text()
    if Path("no-champion").exists():
        return {"version": "", "request": ""}
    folder = Path(spec["folder"])
    for name in ("model", "rows"):
        (folder / name).mkdir(parents=True)
    (folder / "rows" / "part-00000.jsonl").write_text(rows)
    with tarfile.open(folder / "model" / "model.tar.gz", "w") as tar:
        member = tarfile.TarInfo("code/inference.py")
        member.size = len(INFERENCE)
        tar.addfile(member, io.BytesIO(INFERENCE.encode()))
    return {"version": "7", "request": rows}


def score(spec):
    if 0 < int(spec.get("max_rows", 0)) < len(Path("rows").read_text().splitlines()):
        return {"table": "predictions", "reason": "", "large": True}
    if Path("no-champion").exists():
        return {"table": "predictions", "reason": "there is no champion", "large": False}
    responses = (
        [path.read_text() for path in sorted(Path(spec["response"]).glob("*.out"))] if spec.get("response") else []
    )
    fields = {name: spec.get(name, "") for name in ("dataset", "model", "partition", "version", "request")}
    return {"table": "predictions", "reason": "", "large": False, "responses": responses, **fields}


step = next((function for function in (batch, score) if function.__name__ in sys.argv), None)
if step is None:
    os.execv(os.environ["LEEWAY_PYTHON"], ["python", *sys.argv[1:]])
spec = json.loads(Path(sys.argv[sys.argv.index("--spec") + 1]).read_text())
Path(sys.argv[sys.argv.index("--out") + 1]).write_text(json.dumps({"schema_version": 1, **step(spec)}))
