"""Run Python with a stand-in for the step `pack`, whose window is the text of snapshot.json."""

import json
import os
import sys
from pathlib import Path

if "pack" not in sys.argv:
    os.execv(os.environ["LEEWAY_PYTHON"], ["python", *sys.argv[1:]])
spec = json.loads(Path(sys.argv[sys.argv.index("--spec") + 1]).read_text())
folder = Path(spec["folder"])
folder.mkdir()
(folder / "rows").write_text(Path(spec["snapshot"]).read_text())
Path(sys.argv[sys.argv.index("--out") + 1]).write_text(json.dumps({"schema_version": 1}))
