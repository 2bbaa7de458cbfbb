"""Run the step `serving` with a stand-in for the registry: each version is a file of the project.

The file `versions/N` has the mode of version N, and `champion` the number of the champion. The parameters of the
release are read and checked as by the step itself.
"""

import io
import json
import sys
import tarfile
from pathlib import Path

INFERENCE = """
import pathlib
def model_fn(model_dir):
    version, mode = pathlib.Path(model_dir, "version").read_text().split()
    print("loading version", version, flush=True)
    if mode == "crash":
        raise RuntimeError("the weights are missing")
    return version, mode
def transform_fn(model, body, content_type, accept):
    if model[1] == "broken":
        raise ValueError("cannot score")
    return model[0]
"""


def serving(spec):
    from pipelines.cli.step_request import build_request

    request = build_request("serving", spec)
    version = find_previous(request) if request.previous else request.version or Path("champion").read_text()
    request.folder.mkdir(parents=True)
    members = {"code/inference.py": INFERENCE, "version": f"{version} {Path('versions', version).read_text()}"}
    with tarfile.open(request.folder / "model.tar.gz", "w") as tar:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    names = {"model", "version", "previous", "endpoint", "folder"}
    return {"model_name": request.model, "version": version, "policy": request.model_dump(exclude=names)}


def find_previous(request):
    from pipelines.registry.lifecycle import Journal
    from pipelines.steps.serving import _find_previous

    return _find_previous(request, Journal.open().read_state(request.model))


out = Path(sys.argv[sys.argv.index("--out") + 1])
try:
    result = serving(json.loads(Path(sys.argv[sys.argv.index("--spec") + 1]).read_text()))
except Exception as error:
    report = {"error": type(error).__name__, "message": str(error), "exit_code": 2}
    out.write_text(json.dumps({"schema_version": 1, **report}))
    sys.exit(2)
out.write_text(json.dumps({"schema_version": 1, **result}))
