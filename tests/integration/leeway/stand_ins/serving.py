"""Run the step `serving` with a stand-in for the registry: each version is a file of the project.

The file `versions/N` has the mode of version N, and `champion` the number of the champion. The parameters of the
release are read and checked as by the step itself, and so are the features of a shadow: those of a version are in its
file `versions/N.features`, or else `x`.
"""

import io
import json
import sys
import tarfile
from pathlib import Path

INFERENCE = """
import json, pathlib, time
def model_fn(model_dir):
    version, mode = pathlib.Path(model_dir, "version").read_text().split()
    print("loading version", version, flush=True)
    if mode == "crash":
        raise RuntimeError("the weights are missing")
    return version, mode
def transform_fn(model, body, content_type, accept):
    if model[1] == "broken":
        raise ValueError("cannot score")
    if model[1] == "slow":
        time.sleep(1)
    if content_type == "application/json":
        shift = float(model[1].partition("shift=")[2] or 0)
        started_at = time.perf_counter()
        scores = [min(max(row["x"] + shift, 0), 1) for row in json.loads(body)]
        if model[1].startswith("classes"):
            scores = [{"late": score, "on time": 1 - score} for score in scores]
        return json.dumps({"scores": scores, "latency_ms": 1e3 * (time.perf_counter() - started_at)})
    return model[0]
"""


def serving(spec):
    from pipelines.cli.step_commands.request import build_request
    from pipelines.registry.lifecycle import Journal
    from pipelines.registry.lifecycle.deployments import is_rollback
    from pipelines.serving.release_policy import RELEASE_AT_ONCE
    from pipelines.steps.serving import ServingSpec, _find_previous_version

    request = build_request("serving", spec)
    assert isinstance(request, ServingSpec)
    state = Journal.open().read_state(request.model)
    version = (
        _find_previous_version(request, state) if request.previous else request.version or Path("champion").read_text()
    )
    goes_back = request.previous or is_rollback(state, request.endpoint, version)
    if request.beside:
        check_features(request.model, version, request.beside)
    if request.folder:
        write_package(request.folder, version)
    policy = request.build_release() | (RELEASE_AT_ONCE if goes_back else {})
    return {"model_name": request.model, "version": version, "policy": policy, "is_rollback": goes_back}


def write_package(folder, version):
    folder.mkdir(parents=True)
    members = {"code/inference.py": INFERENCE, "version": f"{version} {Path('versions', version).read_text()}"}
    with tarfile.open(folder / "model.tar.gz", "w") as tar:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))


def check_features(model, *versions):
    import tempfile
    from types import SimpleNamespace

    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, Schema

    from pipelines.shadow_test.input_schema import require_same_features

    with tempfile.TemporaryDirectory() as folder:
        packages = []
        for version in versions:
            file = Path("versions", f"{version}.features")
            columns = [ColSpec("double", name) for name in (file.read_text() if file.exists() else "x").split()]
            package = Path(folder, version)
            package.mkdir()
            Model(signature=ModelSignature(Schema(columns))).save(str(package / "MLmodel"))
            packages.append((SimpleNamespace(name=model, version=version), package))
        require_same_features(*packages)


out = Path(sys.argv[sys.argv.index("--out") + 1])
try:
    result = serving(json.loads(Path(sys.argv[sys.argv.index("--spec") + 1]).read_text()))
except Exception as error:
    report = {"error": type(error).__name__, "message": str(error), "exit_code": 2}
    out.write_text(json.dumps({"schema_version": 1, **report}))
    sys.exit(2)
out.write_text(json.dumps({"schema_version": 1, **result}))
