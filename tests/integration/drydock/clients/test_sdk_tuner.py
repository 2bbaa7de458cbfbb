"""Test drydock with the unmodified HyperparameterTuner of the sagemaker SDK 3.

A tuning job has no entrypoint of its own, so the SDK starts the script as the framework containers do: by the
hyperparameters sagemaker_program and sagemaker_submit_directory.
"""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.soak
CLIENT = """
import json, sys
from sagemaker.core.parameter import CategoricalParameter, ContinuousParameter, IntegerParameter
from sagemaker.core.training.configs import (
    CheckpointConfig, Compute, InputData, OutputDataConfig, SourceCode, StoppingCondition,
)
from sagemaker.train import ModelTrainer
from sagemaker.train.tuner import HyperparameterTuner

settings = json.loads(sys.argv[1])
results = {}

def make_tuner(name, script, ranges, **options):
    trainer = ModelTrainer(
        training_image="image", role=settings["role"], base_job_name=name,
        source_code=SourceCode(source_dir=settings["source"], entry_script=script),
        compute=Compute(
            instance_type="ml.m5.large", instance_count=1, volume_size_in_gb=1, enable_managed_spot_training=True
        ),
        stopping_condition=StoppingCondition(max_runtime_in_seconds=600, max_wait_time_in_seconds=900),
        output_data_config=OutputDataConfig(s3_output_path="s3://bucket/output"),
        checkpoint_config=CheckpointConfig(s3_uri="s3://bucket/checkpoints"),
        hyperparameters={"words": "two words"},
    )
    return HyperparameterTuner(
        trainer, "loss", ranges, metric_definitions=[{"Name": "loss", "Regex": "loss=(.*);"}],
        objective_type="Minimize", base_tuning_job_name=name, tags=[{"Key": "a", "Value": "1"}], **options,
    )

ranges = {
    "rate": ContinuousParameter(0.001, 1, scaling_type="Logarithmic"),
    "depth": IntegerParameter(1, 9),
    "kind": CategoricalParameter(["fast", "slow"]),
}
fine = make_tuner("fine", "train.py", ranges, max_jobs=3, max_parallel_jobs=2, random_seed=7)
rows = [InputData(channel_name="train", data_source="s3://bucket/rows/")]
fine.tune(inputs=rows, wait=True)
job = fine.describe()
results["fine"] = {
    "name": job.hyper_parameter_tuning_job_name, "status": job.hyper_parameter_tuning_job_status,
    "best": fine.best_training_job(), "value": job.best_training_job
    .final_hyper_parameter_tuning_job_objective_metric.value,
}
results["trials"] = [trial.training_job_name for trial in job.get_all_training_jobs()]

stopped = make_tuner("stopped", "waits.py", ranges, max_jobs=2)
stopped.tune(inputs=rows, wait=False)
stopped.stop_tuning_job()
stopped.wait()
results["stopped"] = stopped.describe().hyper_parameter_tuning_job_status

broken = make_tuner("broken", "fails.py", ranges, max_jobs=1)
try:
    broken.tune(inputs=rows, wait=True)
except Exception as error:
    results["broken"] = str(error)
try:
    make_tuner("wrong", "train.py", {"depth": IntegerParameter(9, 1)}, max_jobs=1).tune(inputs=rows)
except Exception as error:
    results["wrong"] = str(error)
print("\\n" + json.dumps(results), flush=True)
"""
TRAIN = """
import argparse, os, pathlib
parser = argparse.ArgumentParser()
for name in ("rate", "depth", "kind", "words"):
    parser.add_argument(f"--{name}", required=True)
values = parser.parse_args()
rows = pathlib.Path(os.environ["SM_CHANNEL_TRAIN"], "rows.csv").read_text()
print("trained on", rows, "with", values.words, "and", values.kind)
print(f"loss={float(values.rate)};")
"""
CONFIG = """
SchemaVersion: '1.0'
SageMaker:
  PythonSDK:
    Modules:
      TelemetryOptOut: true
      Session: {DefaultS3Bucket: bucket}
"""


@pytest.fixture(scope="module")
def run(
    drydock: Any, start_python: Callable[..., Any], scripts: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> SimpleNamespace:
    """Run the client; return its results."""
    folder: Path = tmp_path_factory.mktemp("project")
    (folder / "source").mkdir()
    waits = "import time; time.sleep(600)"
    for name, text in {"train.py": TRAIN, "waits.py": waits, "fails.py": scripts["fails"]}.items():
        (folder / "source" / name).write_text(text)
    (folder / "config.yaml").write_text(CONFIG)
    drydock.put("rows/rows.csv", b"1,2")
    settings = {"role": "arn:aws:iam::123456789012:role/training", "source": str(folder / "source")}
    env = {"SAGEMAKER_VALIDATE_ROLE": "false", "SAGEMAKER_USER_CONFIG_OVERRIDE": str(folder / "config.yaml")}
    process = start_python(CLIENT, settings, **env)
    try:
        output, _ = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    lines = output.splitlines()
    assert lines and lines[-1].startswith("{"), output[-4000:]
    return SimpleNamespace(**json.loads(lines[-1]))


def test_tuner_waits_and_names_the_best_trial(run: SimpleNamespace, drydock: Any) -> None:
    assert run.fine["status"] == "Completed"
    best = drydock.describe_job(run.fine["best"])
    assert float(best["HyperParameters"]["rate"]) == pytest.approx(run.fine["value"], rel=1e-6)
    assert best["CheckpointConfig"]["S3Uri"] == f"s3://bucket/checkpoints/{run.fine['best']}"
    assert best["TuningJobArn"].endswith(f":hyper-parameter-tuning-job/{run.fine['name']}")
    assert [
        line for line in drydock.read_log(run.fine["best"]) if line.startswith("trained on 1,2 with two words and ")
    ]
    assert len(run.trials) == 3 and run.fine["best"] in run.trials


def test_tuner_stops_its_job(run: SimpleNamespace) -> None:
    assert run.stopped == "Stopped"


def test_failures_and_refusals_are_errors_of_the_sdk(run: SimpleNamespace) -> None:
    assert "Failed" in run.broken and "All training jobs failed." in run.broken
    assert "MinValue 9 must be less than MaxValue 1" in run.wrong
