"""Test the training of flights as a job: its model equals that of `python -m pipelines train`."""

import io
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from airflow._shared.observability.traces import OverrideableRandomIdGenerator
from airflow.sdk.exceptions import AirflowFailException
from botocore.exceptions import ClientError
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from pipelines.costs.ledger import Ledger
from pipelines.defaults.channels import read_channel
from pipelines.defaults.model import load
from pipelines.system.files import sha256
from tests.tools import untar
from tests.tools.otlp_receiver import run_collector
from tests.tools.outages import post_to_drydock

ROOT = Path(__file__).parents[3]


@pytest.fixture
def flights_fields(tmp_path, monkeypatch, trained):
    """Set LEEWAY_PROJECT to a project with the real code; return the fields of its training task."""
    folder = tmp_path / "flights"
    folder.mkdir()
    (folder / "pipelines").symlink_to(ROOT / "pipelines")
    hyperparameters = yaml.safe_load((trained.data / "training" / "params.json").read_text())
    small_hyperparameters = {"num_round": 40, "early_stopping_rounds": 10, "checkpoint_rounds": 5, "eta": 0.3}
    assert small_hyperparameters.items() <= hyperparameters.items()
    (folder / "params.yaml").write_text(yaml.safe_dump({"train": {"hyperparameters": small_hyperparameters}}))
    monkeypatch.setenv("LEEWAY_PROJECT", str(folder))
    return {
        "entry_point": "pipelines/defaults/training.py",
        "bundle": "pipelines/defaults/bundle.txt",
        "channels": {name: str(trained.data / "features" / name) for name in ("train", "validation")},
        "hyperparameters": None,
        "image_uri": "",
    }


def test_job_trains_the_same_model_as_the_local_training(
    drydock, flights_fields, trained, make_spot_task, context, start, finish, tmp_path
):
    result = finish(make_spot_task(**flights_fields), start(make_spot_task(**flights_fields), context))
    for name, content in drydock.read_archive(result["model"]).items():
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_bytes(content)
    local = trained.data / "model"
    assert (tmp_path / "model" / "model.ubj").read_bytes() == (local / "model.ubj").read_bytes()
    assert sha256(tmp_path / "model") == sha256(local) == trained.training.digest
    assert {"params.json", "environment.json", "rounds.csv", "resources.json"} <= set(
        drydock.read_archive(result["record"])
    )
    image = drydock.describe_job(result["training_job"])["AlgorithmSpecification"]["TrainingImage"]
    assert image.endswith("sagemaker-xgboost:3.2-0")
    (row,) = (row for row in Ledger.open().read_rows() if row["name"] == result["training_job"])
    assert 0 < row["data_wait_share"] < 1, "the script reports how long it read"


@pytest.mark.parametrize(
    ("after_s", "sharded_channels"),
    [
        (2.5, []),
        pytest.param(2.5, ["train"], marks=pytest.mark.soak),
        *(pytest.param(second / 2, [], marks=pytest.mark.soak) for second in range(1, 9)),
    ],
)
def test_job_on_two_hosts_trains_the_same_model_though_it_is_interrupted(
    drydock, flights_fields, trained, make_spot_task, context, start, finish, tmp_path, after_s, sharded_channels
):
    fields = {**flights_fields, "instance_count": "2", "image_uri": "image", "sharded_channels": sharded_channels}
    deferral = start(make_spot_task(**fields), context)
    name = deferral.trigger.wait.job_name
    post_to_drydock(drydock, "interrupt", job=name, after_s=after_s, no_capacity_s=0.1)
    result = finish(make_spot_task(**fields), deferral)
    job = drydock.describe_job(name)
    phases = [transition["Status"] for transition in job["SecondaryStatusTransitions"]]
    assert phases.count("Training") == 1 + result["interruptions"]
    # Both instances are paid for.
    assert result["cost_usd"] == pytest.approx(2 * result["billable_s"] / 3600 * result["price_usd_h"], abs=1e-6)
    model = tmp_path / "model"
    model.mkdir()
    for file, content in drydock.read_archive(result["model"]).items():
        (model / file).write_bytes(content)
    rows, _ = read_channel(trained.data / "features" / "validation")
    scores = [load(folder).score(rows) for folder in (model, trained.data / "model")]
    if sharded_channels:
        shares = [int(line.split()[3]) for line in drydock.read_log(name) if line.endswith(" rows, from S3")]
        assert 0 < min(shares) < max(shares) < trained.features.rows_train, "each host has read only its share"
        assert abs(scores[0] - scores[1]).mean() <= 1e-3
        return
    assert abs(scores[0] - scores[1]).max() <= 1e-6


@pytest.mark.soak
def test_another_number_of_hosts_is_another_job_with_the_same_checkpoints(
    drydock, flights_fields, make_spot_task, context, start, finish
):
    fields = {**flights_fields, "image_uri": "image", "hyperparameters": {"num_round": "6"}}
    first = start(make_spot_task(**fields, instance_count=2), context)
    finish(make_spot_task(**fields, instance_count=2), first)
    second = start(make_spot_task(**fields, instance_count=1), context)
    names = [deferral.trigger.wait.job_name for deferral in (first, second)]
    jobs = [drydock.describe_job(name) for name in names]
    assert names[0] != names[1]
    assert jobs[0]["CheckpointConfig"] == jobs[1]["CheckpointConfig"]
    finish(make_spot_task(**fields, instance_count=1), second)
    log = drydock.read_log(names[1])
    assert any(line.startswith("checkpoint restored: name=000006") for line in log), log


def test_a_channel_with_fewer_objects_than_hosts_is_refused(
    drydock, flights_fields, make_spot_task, context, start, finish, tmp_path
):
    """The channel has one object of another program. SageMaker would start a host without data, and bill it."""
    folder = tmp_path / "train"
    folder.mkdir()
    (folder / "rows.csv").write_text("late\n1\n")
    channels = {**flights_fields["channels"], "train": str(folder)}
    fields = {**flights_fields, "image_uri": "image", "sharded_channels": ["train"], "channels": channels}
    with pytest.raises(AirflowFailException, match="the channel train has 1 objects, which are divided among 2"):
        make_spot_task(**fields, instance_count=2).execute(context)
    with pytest.raises(
        AirflowFailException, match=r"sharded_channels of .* names channels that the task does not have: other\."
    ):
        make_spot_task(**{**fields, "sharded_channels": ["other"]}).execute(context)
    deferral = start(make_spot_task(**fields), context)  # one host has all objects
    channels = drydock.describe_job(deferral.trigger.wait.job_name)["InputDataConfig"]
    distributions = [channel["DataSource"]["S3DataSource"]["S3DataDistributionType"] for channel in channels]
    assert distributions == ["ShardedByS3Key", "FullyReplicated"]
    drydock.stop_job(deferral.trigger.wait.job_name)


@pytest.mark.parametrize("count", [0, -1, "x", 1.5, 21])
def test_a_wrong_number_of_hosts_is_one_line(drydock, flights_fields, make_spot_task, context, count):
    task = make_spot_task(**{**flights_fields, "image_uri": "image"}, instance_count=count, deferrable=False)
    problem = "must be 1 to 20 with drydock" if count == 21 else "instance_count of "
    with pytest.raises(AirflowFailException, match=problem) as error:
        task.execute(context)
    assert "\n" not in str(error.value)


def test_other_hyperparameters_train_another_model(
    drydock, flights_fields, trained, make_spot_task, context, start, finish
):
    fields = {**flights_fields, "hyperparameters": {"eta": "0.1"}, "image_uri": "image"}
    result = finish(make_spot_task(**fields), start(make_spot_task(**fields), context))
    model = drydock.read_archive(result["model"])["model.ubj"]
    assert model != (trained.data / "model" / "model.ubj").read_bytes()


def test_script_continues_the_span_of_its_job(
    drydock, flights_fields, make_spot_task, context, start, finish, monkeypatch
):
    """The phases come from the job's process, the span of the job from the task that collects it."""
    fields = {**flights_fields, "hyperparameters": {"num_round": "3"}, "image_uri": "image"}
    provider = TracerProvider(id_generator=OverrideableRandomIdGenerator())
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    with run_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=tweety-is-a-secret")
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
        with provider.get_tracer("airflow").start_as_current_span("worker.train") as worker:
            task = finish(make_spot_task(**fields), start(make_spot_task(**fields), context))
    worker_id = f"{worker.get_span_context().span_id:016x}"
    job_span = collector.find(name="training_job")
    phases = collector.select(parent=job_span.id)
    names = ["training.read", "training.fit", "training.save"]
    assert [span.name for span in phases if span.name.startswith("training.")] == names
    assert [span.name for span in phases if span.name.startswith("job.")][-1] == "job.Completed"
    assert {span.parent for span in collector.spans if span.name.startswith("step.")} == {worker_id}
    assert len({span.trace for span in collector.spans}) == 1
    assert (job_span.parent, job_span.attributes["leeway.job.name"]) == (worker_id, task["training_job"])
    assert "tweety" not in str(drydock.describe_job(task["training_job"])["Environment"])


BUNDLE_ONLY = """
import importlib.abc, runpy, sys

class BundleFinder(importlib.abc.MetaPathFinder):
    # The project is installed in this environment. A module that the bundle lacks must not be imported from there.
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "pipelines" and not list(path or [sys.path[0]])[0].startswith(sys.path[0]):
            raise ModuleNotFoundError(f"{name} is not in the bundle", name=name)

sys.path.insert(0, sys.argv[1])
sys.meta_path.insert(0, BundleFinder())
sys.argv = ["training.py", "--help"]
try:
    runpy.run_path(sys.path[0] + "/training.py", run_name="__main__")
finally:
    paths = [module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "pipelines"]
    assert paths and all(path.startswith(sys.path[0]) for path in paths), paths
"""


@pytest.mark.soak
@pytest.mark.parametrize("removed", ["", "pipelines/defaults/model.py"])
def test_script_needs_only_its_bundle(drydock, flights_fields, make_spot_task, context, start, tmp_path, removed):
    deferral = start(make_spot_task(**{**flights_fields, "image_uri": "image"}), context)
    uri = drydock.describe_job(deferral.trigger.wait.job_name)["HyperParameters"]["sagemaker_submit_directory"]
    content = drydock.client("s3").get_object(Bucket="leeway", Key=uri.removeprefix("s3://leeway/"))["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        tar.extractall(tmp_path / "bundle", **untar.EXTRACT_OPTIONS)
    if removed:
        (tmp_path / "bundle" / removed).unlink()
    command = [sys.executable, "-c", BUNDLE_ONLY, str(tmp_path / "bundle")]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    with suppress(ClientError):  # the job may have ended by itself
        drydock.stop_job(deferral.trigger.wait.job_name)
    assert (process.returncode == 0) is not bool(removed), process.stderr[-2_000:]
