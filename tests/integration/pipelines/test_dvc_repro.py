"""Test DVC as Airflow's runs use it (one workspace for each run, one cache) and as a person does (`dvc repro`)."""

import csv
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines import params
from pipelines.errors import ConflictError, DataError, SpecError
from pipelines.steps.repro import ReproSpec
from pipelines.steps.repro import run as repro
from tests.tools import forking
from tests.tools.groups import end_group
from tests.tools.otlp_receiver import run_collector
from tests.tools.parameters import copy_models, keep_one_model, list_models, read_hyperparameters, update_params
from tests.tools.policies import EASY_POLICY

ROOT = Path(__file__).parents[3]
SMALL_WINDOW = {"as_of": "2013-01-15", "train_days": 8, "holdout_days": 4, "min_train_days": 4}
SMALL_SNAPSHOT = {"as_of": "2013-01-25", "train_days": 8, "holdout_days": 4, "min_train_days": 4, "missing": "fail"}
PARAMS = {"snapshot": SMALL_SNAPSHOT, "preprocess": {"validation_days": 2}}


@pytest.fixture
def shared_home(
    quarter_home: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> Iterator[Path]:
    """Return the LEEWAY_HOME with three published months, and set the project to this checkout.

    DVC's files and workspaces are removed after the test.
    """
    monkeypatch.setenv("LEEWAY_PROJECT", str(ROOT))
    fresh_settings()
    yield quarter_home
    for name in ("dvc", "workspaces"):
        shutil.rmtree(quarter_home / name, ignore_errors=True)


def run_repro(workspace: str, *targets: str, **fields: Any) -> Any:
    fields = {"params": PARAMS, "model": "flights", **fields}
    return repro(ReproSpec(workspace=workspace, targets=targets or ("preprocess",), **fields))


@pytest.mark.soak
def test_a_second_run_does_nothing_and_another_workspace_uses_the_run_cache(shared_home: Path) -> None:
    first = run_repro("one", refresh=["snapshot"])
    assert first.ran == ["snapshot", "preprocess"]
    assert {name: set(outputs) for name, outputs in first.stages.items()} == {
        "snapshot": {"data/snapshot.json"},
        "preprocess": {"data/features"},
    }
    features = first.stages["preprocess"]["data/features"]
    files = [path for path in (first.workspace / "data/features").rglob("*") if path.is_file()]
    assert (features.files, features.size_bytes) == (3, sum(path.stat().st_size for path in files))
    assert features.digest.endswith(".dir")
    assert (first.workspace / "data/features/holdout/data.parquet").exists()
    second = run_repro("one")
    assert (second.ran, second.stages, second.lock_digest) == ([], first.stages, first.lock_digest)

    other = run_repro("two", refresh=["snapshot"])
    assert other.ran == ["snapshot"], "the features came from the run cache"
    assert other.stages == first.stages
    holdout = Path("data/features/holdout/data.parquet")
    assert (other.workspace / holdout).read_bytes() == (first.workspace / holdout).read_bytes()

    changed = run_repro(
        "three", refresh=["snapshot"], params={**PARAMS, "snapshot": {**SMALL_SNAPSHOT, "train_days": 7}}
    )
    assert changed.ran == ["snapshot", "preprocess"]
    assert changed.stages != first.stages


@pytest.mark.soak
def test_stages_continue_the_trace_of_dvc_repro(shared_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with run_collector() as collector:
        monkeypatch.setenv("TRACEPARENT", f"00-{trace}-{parent}-01")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        run_repro("traced", "snapshot", refresh=["snapshot"])
    span = collector.find(name="step.snapshot")
    assert (span.trace, span.parent, span.is_error) == (trace, parent, False)
    assert span.attributes == {
        "leeway.dataset": "flights",
        "leeway.as_of": "2013-01-25",
        "leeway.model": "flights",
        "leeway.outcome": "done",
    }


def test_a_locked_workspace_is_a_conflict(shared_home: Path) -> None:
    import fcntl

    folder = shared_home / "workspaces/.locks"
    folder.mkdir(parents=True)
    with (folder / "locked").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConflictError, match="locked") as error:
            run_repro("locked")
        assert error.value.exit_code == 75
    with pytest.raises(SpecError):
        run_repro("locked", params={"snapshot": {"oops": 1}})


INVALID: dict[str, dict[str, Any]] = {
    "unknown key": {"params": {"snapshot": {"oops": 1}}},
    "unknown section": {"params": {"snapshots": {}}},
    "wrong value": {"params": {"snapshot": {**SMALL_SNAPSHOT, "train_days": "many"}}},
    "unknown stage": {"targets": ["preproces"]},
    "unknown stage to refresh": {"refresh": ["snapshots"]},
}


@pytest.mark.parametrize(
    "case",
    [
        *("unknown key", "wrong value", "unknown stage"),
        *(pytest.param(case, marks=pytest.mark.soak) for case in ("unknown section", "unknown stage to refresh")),
    ],
)
def test_an_invalid_request_gives_a_short_message(case: str, shared_home: Path) -> None:
    fields: dict[str, Any] = {"workspace": "bad", "targets": ["preprocess"], "model": "flights", "params": PARAMS}
    fields |= INVALID[case]
    with pytest.raises(SpecError) as error:
        repro(ReproSpec(**fields))
    assert error.value.exit_code == 2
    assert len(str(error.value)) < 600


def test_a_failed_stage_gives_its_reason_and_exit_code(shared_home: Path) -> None:
    with pytest.raises(DataError, match=r"flights lacks|demanded") as error:
        run_repro("late", params={**PARAMS, "snapshot": {**SMALL_SNAPSHOT, "as_of": "2013-09-01"}})
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("lines", "code", "expected"),
    [
        (["error: no data. Do this.", "ERROR: failed to run: python -m pipelines snapshot, exited with 2"], 255, 2),
        (["error: no space.", "ERROR: failed to reproduce 'train': failed to run: x, exited with 75"], 255, 75),
        (["error: KeyError. This is a bug", "ERROR: failed to run: x, exited with 1"], 255, 1),
        (["ERROR: unexpected error - [Errno 28] No space left on device: '/x'"], 255, 75),
        (["ERROR: Unable to acquire lock. Most likely another DVC process is running"], 255, 75),
        (["ERROR: failed to run: x, exited with -9"], 255, 75),
        (["Running stage 'train':"], -9, 75),
        (["ERROR: Stage 'nope' not found inside 'dvc.yaml' file"], 255, 2),
    ],
)
def test_the_output_of_dvc_decides_the_exit_code(lines: list[str], code: int, expected: int) -> None:
    from pipelines.versioning.dvc_calls import _explain_failure

    assert _explain_failure(lines, code).exit_code == expected


@pytest.mark.parametrize("name", ["", "..", "---", "///"])
def test_a_workspace_is_a_folder_directly_in_the_folder_of_workspaces(name: str) -> None:
    with pytest.raises(SpecError):
        ReproSpec.parse({"workspace": name, "targets": ["x"]}, "here")
    spec = ReproSpec(workspace="../../etc/manual__2013-04-01T00:00:00+00:00", targets=["x"])
    assert "/" not in spec.workspace
    assert not spec.workspace.startswith(".")


@pytest.mark.soak
def test_a_stopped_run_leaves_no_process(
    shared_home: Path, commands: Any, until: Callable[..., Any], tmp_path: Path
) -> None:
    run_repro("stopped", refresh=["snapshot"])
    endless = {"num_round": 100_000, "early_stopping_rounds": 100_000, "eta": 0.001, "checkpoint_s": 1}
    params = json.dumps({**PARAMS, "train": {"hyperparameters": endless}})
    log = tmp_path / "log"  # a full pipe that nobody reads would block the training before its first checkpoint
    child = commands.start(
        *(
            sys.executable,
            "-m",
            "pipelines",
            "repro",
            "--workspace",
            "stopped",
            "--model",
            "flights",
            "--targets",
            '["train"]',
            "--params",
            params,
        ),
        env={"LEEWAY_HOME": str(shared_home), "LEEWAY_PROJECT": str(ROOT), "LEEWAY_PARENT": str(os.getpid())},
        stderr=log.open("w"),
    )
    until(lambda: child.poll() is not None or list(shared_home.glob("training/*/checkpoints/[0-9]*")))
    assert child.poll() is None, log.read_text()[-2_000:]
    assert len(commands.list_members(child.pid)) >= 3
    child.terminate()
    child.communicate(timeout=180)
    until(lambda: not commands.list_members(child.pid))
    assert not (shared_home / "workspaces/stopped/models/flights/data/model").exists()
    shutil.rmtree(shared_home / "training", ignore_errors=True)
    assert run_repro("stopped").ran == [], "the workspace is usable again"


@pytest.mark.soak
@pytest.mark.parametrize("model", ["flight_delay", "flight_status"])
def test_the_siblings_pass_the_gate_with_their_own_parameters(model: str, shared_home: Path) -> None:
    result = repro(ReproSpec(workspace=model, targets=("gate",), model=model))
    verdict = json.loads((result.workspace / "data/verdict.json").read_text())
    assert verdict["outcome"] == "passed", verdict["reason"]
    (metric,) = params.load(ROOT, model)["gate"]["policy"]["baseline"]
    names = [check["name"] for check in verdict["checks"]]
    assert any(name.startswith(f"{metric} against") for name in names), f"the model's own policy judged it: {names}"


# What a person does


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project in its own git repository, with a small window and an empty lake."""
    folder = tmp_path_factory.mktemp("dvc-repro") / "project"
    folder.mkdir()
    for name in ("pipelines", "expectations", ".dvc"):
        ignore = shutil.ignore_patterns("__pycache__", "tmp", "cache")
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    for name in ("dvc.yaml", "params.yaml", ".dvcignore", ".gitignore"):
        shutil.copy2(ROOT / name, folder / name)
    copy_models(ROOT, folder)
    keep_one_model(folder)
    update_params(
        folder,
        snapshot=SMALL_WINDOW,
        preprocess={"validation_days": 1},
        train={"hyperparameters": {**read_hyperparameters(folder), "num_round": 30}},
        gate={"policy": EASY_POLICY},
    )
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q"], cwd=folder, check=True)
    subprocess.run([*git, "add", "-A"], cwd=folder, check=True)
    subprocess.run([*git, "commit", "-qm", "start"], cwd=folder, check=True)
    return folder


@pytest.fixture
def dvc(project: Path) -> Iterator[Callable[..., SimpleNamespace]]:
    """Return the function that runs `dvc` in the copy of the project, without variables of this test run.

    DVC and its stages are forked. The tests of the demo run them in processes of their own.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LEEWAY_", "PYTHONPATH"))}
    folders = [Path(forking.ensure_stand_in()).parent, Path(sys.executable).parent, os.environ["PATH"]]
    path = os.pathsep.join(map(str, folders))
    children: list[subprocess.Popen[str]] = []

    def run_dvc(
        *arguments: str, start: Callable[..., subprocess.Popen[str]] = forking.Popen, **variables: str
    ) -> SimpleNamespace:
        child = start(
            [sys.executable, "-m", "dvc", *arguments], cwd=project, env={**env, "PATH": path, **variables}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        children.append(child)
        out, _ = child.communicate(timeout=300)
        return SimpleNamespace(code=child.returncode, out=out)

    yield run_dvc
    for child in children:
        end_group(child)


@pytest.mark.stateful
def test_dvc_repro_trains_from_an_empty_lake_and_then_has_nothing_to_do(project: Path, dvc: Callable[..., Any]) -> None:
    first = dvc("repro")
    assert first.code == 0, first.out
    verdict = json.loads((project / "models/flights/data/verdict.json").read_text())
    assert verdict["passed"] is True, verdict["reason"]
    assert (project / "models/flights/data/model/model.ubj").exists()
    second = dvc("repro")
    assert second.code == 0
    assert "Data and pipelines are up to date." in second.out
    metrics = dvc("metrics", "show", "--json")
    assert metrics.code == 0, metrics.out
    assert '"auc"' in metrics.out
    plots = dvc("plots", "show")
    assert plots.code == 0, plots.out
    page = (project / "dvc_plots/index.html").read_text()
    assert "vegaEmbed('#flights-calibration'" in page
    assert 'src="http' not in page, "DVC's own page would load Vega from a server"
    git_status = subprocess.run(["git", "status", "--short"], cwd=project, capture_output=True, text=True, check=True)
    assert git_status.stdout.split() == ["??", "dvc.lock"]
    # A person commits dvc.lock. The tests after this one begin with that commit.
    commit = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "lock"]
    for command in (["git", "add", "dvc.lock"], commit):
        subprocess.run(command, cwd=project, check=True)


def list_shown_columns(dvc: Callable[..., Any]) -> list[str]:
    """Return the columns of the table that docs/how-to/experiments.md shows."""
    (command,) = re.findall(r"(?m)^\$ dvc (exp show .*)$", (ROOT / "docs/how-to/experiments.md").read_text())
    shown = dvc(*shlex.split(command), "--csv")
    assert shown.code == 0, shown.out
    return next(csv.reader(io.StringIO(shown.out)))


@pytest.mark.soak
def test_experiments_run_in_folders_of_their_own_with_the_project_lake(
    project: Path, dvc: Callable[..., Any], until: Callable[..., Any]
) -> None:
    model = (project / "models/flights/data/model/model.ubj").read_bytes()

    def run_experiment(where: str, rounds: int, *targets: str) -> None:
        parameter = f"models/flights/params.yaml:train.hyperparameters.num_round={rounds}"
        result = dvc("exp", "run", where, "--name", f"rounds-{rounds}", "--set-param", parameter, *targets)
        assert result.code == 0, result.out

    def count_ended_tasks() -> int:
        statuses = dvc("queue", "status").out.split()
        return statuses.count("Success") + statuses.count("Failed")

    run_experiment("--temp", 10)
    # Without the gate, which takes longer than the other stages together.
    run_experiment("--queue", 11, "evaluate@flights")
    run_experiment("--queue", 12, "evaluate@flights")
    # The workers of the queue outlive this command, so it is started as users do.
    assert dvc("queue", "start", "--jobs", "2", start=subprocess.Popen).code == 0
    until(lambda: count_ended_tasks() == 2, 120, 2.0)
    experiments = {
        row["Experiment"]: row for row in csv.DictReader(io.StringIO(dvc("exp", "show", "--csv", "--all-commits").out))
    }
    for rounds in (10, 11, 12):
        experiment = experiments[f"rounds-{rounds}"]
        assert experiment["train.hyperparameters.num_round"] == str(rounds)
        assert 0.5 < float(experiment["auc"]) < 1
    assert (project / "models/flights/data/model/model.ubj").read_bytes() == model, "the workspace is as it was"
    columns = list_shown_columns(dvc)
    assert {"Experiment", "train.hyperparameters.num_round", "auc"} <= set(columns)
    assert len(columns) < 20 and not [name for name in columns if "/" in name], columns
    assert len(experiments["rounds-10"]) > 100, "without the options of the page"
    assert json.loads(dvc("metrics", "diff", "--json").out) == {}, "the workspace has the metrics of the commit"
    differences = json.loads(dvc("metrics", "diff", "--json", "HEAD", "rounds-10").out)
    auc = differences["models/flights/data/evaluation/metrics.json"]["auc"]
    assert auc["diff"] == pytest.approx(auc["new"] - auc["old"]) != 0
    assert not (project.parent / ".leeway").exists(), "nothing is written beside the project"


def list_stages(result: SimpleNamespace) -> list[str]:
    """Return the stages that `dvc repro` ran, in their order."""
    assert result.code == 0, result.out
    return re.findall(r"(?m)^Running stage '(.+)':$", result.out)


@pytest.mark.soak
def test_two_models_are_computed_apart(project: Path, dvc: Callable[..., Any]) -> None:
    """Flights is up to date. A model that dvc.yaml lists twice has each stage once."""
    rounds = {"train": {"hyperparameters": {"num_round": 20}}}
    update_params(project, "flight_delay", snapshot=SMALL_WINDOW, preprocess={"validation_days": 1}, **rounds)
    list_models(project, "flights", "flight_delay", "flight_delay")
    delay = [f"{stage}@flight_delay" for stage in ("snapshot", "preprocess", "train", "evaluate", "gate")]
    try:
        assert list_stages(dvc("repro", "train@flight_delay")) == delay[:3], "one model by its name"
        update_params(project, train={"hyperparameters": {**read_hyperparameters(project), "num_round": 31}})
        both = list_stages(dvc("repro", "evaluate"))
        assert set(both) == {"train@flights", "evaluate@flights", delay[3]}, "what changed, and what was missing"
        assert len(both) == 3
        update_params(project, "flight_delay", train={"hyperparameters": {"num_round": 21}})
        assert list_stages(dvc("repro", "evaluate")) == delay[2:4], "only the model whose parameter changed"
        shown = json.loads(dvc("metrics", "show", "--json").out)[""]["data"]
        assert "mae" in shown["models/flight_delay/data/evaluation/metrics.json"]["data"]
        assert "auc" in shown["models/flights/data/evaluation/metrics.json"]["data"]
    finally:
        for command in ("checkout -q dvc.yaml dvc.lock models", "clean -qfdX models"):
            subprocess.run(["git", *command.split()], cwd=project, check=True)
        dvc("checkout")


def test_dvc_repro_names_an_unknown_parameter_in_one_line(project: Path, dvc: Callable[..., Any]) -> None:
    params = project / "models/flights/params.yaml"
    text = params.read_text()
    params.write_text(text.replace("min_rows", "min_rowz"))
    result = dvc("repro")
    params.write_text(text)
    assert result.code != 0
    assert "min_rowz" in result.out
    assert "Traceback" not in result.out


@pytest.mark.soak
def test_a_stage_finds_what_the_user_has_in_pythonpath(project: Path, dvc: Callable[..., Any], tmp_path: Path) -> None:
    """The dataset of the project is in a module of the user, outside of the project."""
    (tmp_path / "company_data.py").write_text(
        "from dataclasses import replace\n"
        "from pipelines.datasets.flights import DATASET as FLIGHTS\n"
        'DATASET = replace(FLIGHTS, name="company", rows_from="flights")\n'
    )
    for path, text in {
        "datasets/company/__init__.py": "from company_data import DATASET\n",
        "models/company/params.yaml": (project / "models/flights/params.yaml").read_text(),
        "dvc.yaml": (project / "dvc.yaml").read_text().replace("[flights]", "[flights, company]"),
    }.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text.replace("dataset: flights", "dataset: company"))
    try:
        missing = dvc("repro", "--single-item", "snapshot@company")
        assert missing.code != 0 and "company_data" in missing.out, "a negative control: without the variable"
        found = dvc("repro", "--single-item", "snapshot@company", PYTHONPATH=str(tmp_path))
        assert found.code == 0, found.out
        assert json.loads((project / "models/company/data/snapshot.json").read_text())["dataset"] == "company"
        again = dvc("repro", "--single-item", "snapshot@company", PYTHONPATH=f"{tmp_path}:/nowhere")
        assert "Data and pipelines are up to date." in again.out, "the variable is not part of the stage"
    finally:
        subprocess.run(["git", "checkout", "-q", "dvc.yaml"], cwd=project, check=True)
        for folder in ("datasets", "models/company"):
            shutil.rmtree(project / folder)
