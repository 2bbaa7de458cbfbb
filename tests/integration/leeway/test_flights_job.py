"""The flights model through the operator: the bytes of `python -m pipelines train`, from nothing but its bundle."""

import io
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from botocore.exceptions import ClientError

from pipelines.system.files import sha256
from tests.tools import untar

ROOT = Path(__file__).parents[3]


@pytest.fixture
def flights(tmp_path, monkeypatch, trained):
    """A project with the real code and the hyperparameters of the training on this machine."""
    folder = tmp_path / "flights"
    folder.mkdir()
    (folder / "pipelines").symlink_to(ROOT / "pipelines")
    hyperparameters = yaml.safe_load((trained.data / "training" / "params.json").read_text())
    small = {"num_round": 40, "early_stopping_rounds": 10, "checkpoint_rounds": 5, "eta": 0.3}
    assert small.items() <= hyperparameters.items()
    (folder / "params.yaml").write_text(yaml.safe_dump({"train": {"hyperparameters": small}}))
    monkeypatch.setenv("LEEWAY_PROJECT", str(folder))
    return {
        "entry_point": "pipelines/datasets/flights/training.py",
        "bundle": "pipelines/datasets/flights/bundle.txt",
        "channels": {name: str(trained.data / "features" / name) for name in ("train", "validation")},
        "hyperparameters": None,
        "image_uri": "",
    }


def test_job_trains_the_same_model_as_this_machine(
    drydock, flights, trained, make_spot_task, context, start, finish, tmp_path
):
    told = finish(make_spot_task(**flights), start(make_spot_task(**flights), context))
    for name, content in drydock.read_archive(told["model"]).items():
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_bytes(content)
    local = trained.data / "model"
    assert (tmp_path / "model" / "model.ubj").read_bytes() == (local / "model.ubj").read_bytes()
    assert sha256(tmp_path / "model") == sha256(local) == trained.training.digest
    assert {"params.json", "environment.json", "rounds.csv", "resources.json"} <= set(
        drydock.read_archive(told["record"])
    )
    image = drydock.describe_job(told["training_job"])["AlgorithmSpecification"]["TrainingImage"]
    assert image.endswith("sagemaker-xgboost:3.2-0")


def test_other_hyperparameters_train_another_model(drydock, flights, trained, make_spot_task, context, start, finish):
    given = {**flights, "hyperparameters": {"eta": "0.1"}, "image_uri": "image"}
    told = finish(make_spot_task(**given), start(make_spot_task(**given), context))
    model = drydock.read_archive(told["model"])["model.ubj"]
    assert model != (trained.data / "model" / "model.ubj").read_bytes()


ALONE = """
import importlib.abc, runpy, sys

class NothingElse(importlib.abc.MetaPathFinder):
    # The project is installed in this environment: what the bundle lacks would be found there.
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "pipelines" and not list(path or [sys.path[0]])[0].startswith(sys.path[0]):
            raise ModuleNotFoundError(f"{name} is not in the bundle", name=name)

sys.path.insert(0, sys.argv[1])
sys.meta_path.insert(0, NothingElse())
sys.argv = ["training.py", "--help"]
try:
    runpy.run_path(sys.path[0] + "/training.py", run_name="__main__")
finally:
    ours = [module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "pipelines"]
    assert ours and all(place.startswith(sys.path[0]) for place in ours), ours
"""


@pytest.mark.parametrize("without", ["", "pipelines/datasets/flights/model.py"])
def test_bundle_is_all_that_the_script_needs(drydock, flights, make_spot_task, context, start, tmp_path, without):
    deferred = start(make_spot_task(**{**flights, "image_uri": "image"}), context)
    uri = drydock.describe_job(deferred.trigger.wait.job_name)["HyperParameters"]["sagemaker_submit_directory"]
    content = drydock.client("s3").get_object(Bucket="leeway", Key=uri.removeprefix("s3://leeway/"))["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        tar.extractall(tmp_path / "alone", **untar.EXTRACT_OPTIONS)
    if without:
        (tmp_path / "alone" / without).unlink()
    command = [sys.executable, "-c", ALONE, str(tmp_path / "alone")]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    with suppress(ClientError):  # it has ended by itself
        drydock.stop_job(deferred.trigger.wait.job_name)
    assert (answer.returncode == 0) is not bool(without), answer.stderr[-2_000:]
