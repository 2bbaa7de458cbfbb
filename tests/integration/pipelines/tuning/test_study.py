"""Test searches with a quick training script in real processes: results, failures, early stops, and kills."""

import json
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from pipelines.errors import ConflictError, SpecError, TrainingError
from pipelines.steps.tune import _tune
from pipelines.system.files import read_json
from pipelines.tuning.report.results import TuningResult
from pipelines.tuning.request import Request
from pipelines.tuning.trials.journal import list_trials, open_study
from tests.tools import tuning as tuning_tools
from tests.tools.tuning import make_request, read_diary

CODE = """
import importlib.util, json, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("tools", sys.argv[1])
tools = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tools)
from pipelines.steps.tune import _tune
Path("out").mkdir(exist_ok=True)
_tune(tools.make_request(Path.cwd(), **json.loads(sys.argv[2])), Path("out"))
"""
GRID = {"strategy": "grid", "space": {"x": [0.1, 0.3, 0.7, 0.9]}}


@pytest.fixture
def tune(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TuningResult]:
    """Return the function that runs a search; the charts are left out."""
    monkeypatch.setattr("pipelines.tuning.report.page.draw_figures", lambda *_: [])
    monkeypatch.setattr("pipelines.tuning.report.page.write_page", lambda *_, **__: None)

    def run(request: Request | None = None, **values: Any) -> TuningResult:
        (tmp_path / "out").mkdir(exist_ok=True)
        return _tune(request or make_request(tmp_path, **values), tmp_path / "out")

    return run


def list_events(folder: Path, event: str) -> list[tuple[str, str]]:
    return [(job, x) for job, x, text in read_diary(folder) if text.startswith(event)]


def test_a_grid_tries_each_point_once_and_finds_the_best(tmp_path: Path, tune: Callable[..., TuningResult]) -> None:
    result = tune(parallel=3, **GRID)
    assert [trial.parameters["x"] for trial in result.trials] == [0.1, 0.3, 0.7, 0.9]
    assert (result.winner.number, result.winner.objective) == (1, pytest.approx(1 / 6))
    assert result.winner.rounds == {number: pytest.approx(1 / number) for number in range(1, 7)}
    assert len(list_events(tmp_path, "end")) == 4
    assert tune(parallel=1, **GRID).trials == result.trials
    assert len(list_events(tmp_path, "start")) == 4, "a finished trial has no second run"
    best = read_json(tmp_path / "out/best.json", "tune writes it")
    assert best["counts"] == {"trials": 4, "complete": 4, "pruned": 0, "stopped": 0, "failed": 0}
    assert (tmp_path / "out/trials.csv").read_text().splitlines()[0].endswith(",param_x")


def test_more_trials_continue_a_finished_search(tmp_path: Path, tune: Callable[..., TuningResult]) -> None:
    first = tune(trials=3)
    more = tune(trials=5)
    assert list(more.trials)[:3] == list(first.trials) and len(more.trials) == 5
    assert len({x for _, x in list_events(tmp_path, "start")}) == len(list_events(tmp_path, "start")) == 5


def test_poor_trials_are_stopped_early(tmp_path: Path, tune: Callable[..., TuningResult]) -> None:
    result = tune(fixed={"num_round": 20, "round_s": 0.01}, strategy="hyperband", trials=12, parallel=3)
    pruned_trials = [trial for trial in result.trials if trial.state == "pruned"]
    assert pruned_trials, "of twelve trials, some are poor"
    for trial in pruned_trials:
        assert trial.objective is None and trial.reason.startswith("pruned after round ")
        assert max(trial.rounds) in (2, 6), "the rungs"
    assert result.winner.state == "complete"
    folders = tmp_path / "home/tuning/t/trials"
    assert not [path for path in folders.glob("*/checkpoints")], "the checkpoints of ended trials are removed"


@pytest.mark.soak
def test_the_median_stops_a_trial_that_is_worse(tune: Callable[..., TuningResult]) -> None:
    result = tune(fixed={"num_round": 20, "round_s": 0.01}, early_stopping="median", strategy="random", trials=9)
    assert [trial.state for trial in list(result.trials)[:5]] == ["complete"] * 5, "the median needs five trials"
    assert "pruned" in [trial.state for trial in result.trials]


@pytest.mark.soak
def test_without_early_stopping_none_is_stopped(tune: Callable[..., TuningResult]) -> None:
    """This is the negative control."""
    result = tune(fixed={"num_round": 20}, strategy="random", trials=9, parallel=3)
    assert {trial.state for trial in result.trials} == {"complete"}


def test_a_trial_whose_objective_is_no_number_never_wins(tune: Callable[..., TuningResult]) -> None:
    result = tune(fixed={"mode": "nan", "round_s": 0.02}, **GRID)
    assert [trial.state for trial in result.trials] == ["failed", "failed", "complete", "complete"]
    assert result.trials[0].reason == "the objective after round 3 was not a finite number"
    assert result.winner.number == 2


def test_a_trial_that_crashes_is_recorded_with_its_reason(tune: Callable[..., TuningResult]) -> None:
    result = tune(fixed={"mode": "crash some"}, **GRID)
    assert [trial.state for trial in result.trials] == ["failed", "failed", "complete", "complete"]
    assert result.trials[0].reason == "quick.py ended with exit code 1: x is wrong"


@pytest.mark.parametrize(
    ("mode", "reason"),
    [("silent", "its log never showed tuning-objective:NUMBER"), ("crash", "ended with exit code 1: x is wrong")],
)
def test_a_search_without_any_objective_ends_after_three_trials(
    tmp_path: Path, tune: Callable[..., TuningResult], mode: str, reason: str
) -> None:
    with pytest.raises(TrainingError, match=rf"none of 3 trials has an objective\. Trial 0: .*{reason}\. A script"):
        tune(fixed={"mode": mode}, trials=30)
    assert len(list_events(tmp_path, "start")) == 3


def test_a_trial_that_takes_too_long_fails(tune: Callable[..., TuningResult]) -> None:
    with pytest.raises(TrainingError, match="it ran longer than max_trial_s, 1 s"):
        tune(fixed={"num_round": 100, "round_s": 0.1}, trials=1, max_trial_s=1)


def test_after_the_hours_no_trial_is_started(tune: Callable[..., TuningResult]) -> None:
    assert len(tune(trials=30, max_hours=1e-6).trials) == 1


def test_only_one_process_runs_a_search(tmp_path: Path, commands: Any, tune: Callable[..., TuningResult]) -> None:
    process = start_tuning(commands, fixed={"num_round": 100, "round_s": 0.05}, trials=1)
    wait_for(lambda: list_events(tmp_path, "start"))
    with pytest.raises(ConflictError, match="another process runs the tuning t"):
        tune(fixed={"num_round": 100, "round_s": 0.05}, trials=1)
    end(process, signal.SIGKILL)


def start_tuning(commands: Any, **values: Any) -> Any:
    """Start a search in a process of its own, in the working directory."""
    return commands.start(sys.executable, "-c", CODE, tuning_tools.__file__, json.dumps(values))


def wait_for(condition: Callable[..., Any]) -> None:
    while not condition():
        time.sleep(0.01)


def end(process: Any, number: int) -> None:
    process.send_signal(number)
    process.communicate()


def test_a_search_that_is_killed_again_and_again_runs_each_trial_once(
    tmp_path: Path, home: Path, commands: Any, tune: Callable[..., TuningResult]
) -> None:
    values: dict[str, Any] = {"fixed": {"num_round": 12, "round_s": 0.02}, "trials": 10, "parallel": 2}
    values |= {"strategy": "random"}
    chance = random.Random(1)
    for kill in range(5):
        events = len(read_diary(tmp_path))
        process = start_tuning(commands, **values)
        wait_for(lambda events=events: len(read_diary(tmp_path)) > events)
        time.sleep(chance.uniform(0, 0.5))
        end(process, signal.SIGKILL if kill % 2 == 0 else signal.SIGTERM)
    result = tune(**values)
    assert [trial.state for trial in result.trials] == ["complete"] * 10
    ends = list_events(tmp_path, "end")
    assert len(ends) == len(set(ends)) == 10, "no trial was finished twice"
    starts = set(list_events(tmp_path, "start"))
    assert starts == set(ends), "an interrupted trial resumed with the same values, and no proposal was lost"
    resumed = [text for _, _, text in read_diary(tmp_path) if text.startswith("start ") and text != "start 0"]
    assert resumed, "from a checkpoint"
    for trial in result.trials:
        log = (home / "tuning/t/trials" / f"{trial.number:04d}" / "log.txt").read_text()
        assert list(trial.rounds) == list(range(1, 13)), log


@pytest.mark.soak
def test_a_killed_random_search_proposes_what_one_without_a_kill_does(
    tmp_path: Path, home: Path, commands: Any, tune: Callable[..., TuningResult]
) -> None:
    values: dict[str, Any] = {"trials": 6, "strategy": "random", "fixed": {"num_round": 6, "round_s": 0.02}}
    process = start_tuning(commands, **values)
    wait_for(lambda: len(list_events(tmp_path, "start")) >= 3)
    end(process, signal.SIGKILL)
    killed = [trial.parameters for trial in tune(**values).trials]
    other = make_request(tmp_path / "other", **values)
    whole = tune(Request(**{**vars(other), "name": "whole"}))
    assert killed == [trial.parameters for trial in whole.trials]


def test_a_trial_whose_result_was_written_before_a_kill_is_not_run_again(
    tmp_path: Path, home: Path, tune: Callable[..., TuningResult]
) -> None:
    """Cut the journal before the result, as if the kill had come between the trial's end and its record."""
    first = tune(trials=2)
    path = home / "tuning/t/journal.log"
    lines = path.read_text().splitlines(keepends=True)
    last_start = max(index for index, line in enumerate(lines) if '"starts"' in line)
    path.write_text("".join(lines[: last_start + 1]))
    (trial,) = [trial for trial in list_trials(open_study(home / "tuning/t", "t")) if not trial.state.is_finished()]
    assert trial.number == 1
    again = tune(trials=2)
    assert [trial.objective for trial in again.trials] == [trial.objective for trial in first.trials]
    assert len(list_events(tmp_path, "start")) == 2


def test_a_proposal_that_was_half_written_is_completed(
    tmp_path: Path, home: Path, tune: Callable[..., TuningResult]
) -> None:
    study = open_study(home / "tuning/t", "t")
    study.ask()  # killed before any value
    result = tune(trials=2)
    assert len(result.trials) == 2 and all("x" in trial.parameters for trial in result.trials)


def test_a_stop_signal_leaves_the_trials_for_later(
    tmp_path: Path, home: Path, commands: Any, tune: Callable[..., TuningResult]
) -> None:
    values: dict[str, Any] = {"fixed": {"num_round": 200, "round_s": 0.02}, "trials": 2, "parallel": 2}
    process = start_tuning(commands, **values)
    wait_for(lambda: len(list_events(tmp_path, "start")) == 2)
    end(process, signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM
    assert len(list_events(tmp_path, "stopped")) == 2
    states = [trial.state.name for trial in list_trials(open_study(home / "tuning/t", "t"))]
    assert states == ["RUNNING", "RUNNING"]


def test_a_warm_start_gives_the_strategy_earlier_trials(
    tmp_path: Path, home: Path, tune: Callable[..., TuningResult]
) -> None:
    earlier = tune(trials=3)
    later = make_request(tmp_path, trials=2, warm_start=str(tmp_path / "out"), space={"x": {"low": 0, "high": 2}})
    request = Request(**{**vars(later), "name": "later"})
    result = tune(request)
    assert (earlier.earlier_trials, result.earlier_trials) == (0, 3)
    assert [trial.number for trial in result.trials] == [0, 1], "trials of the earlier search are not counted"
    warm = [trial for trial in open_study(home / "tuning/later", "later").trials if "warm" in trial.user_attrs]
    assert [trial.value for trial in warm] == [trial.objective for trial in earlier.trials]
    tune(request)
    assert len(open_study(home / "tuning/later", "later").trials) == 5, "they are given once"
    by_name = make_request(tmp_path, trials=1, warm_start="t")
    assert len(tune(Request(**{**vars(by_name), "name": "by name"})).trials) == 1
    by_folder = make_request(tmp_path, trials=1, warm_start=str(home / "tuning/t"))
    assert len(tune(Request(**{**vars(by_folder), "name": "by folder"})).trials) == 1
    chain = make_request(tmp_path, trials=1, warm_start="by name")
    assert tune(Request(**{**vars(chain), "name": "chain"})).earlier_trials == 4, "with those of the search before"
    by_table = make_request(tmp_path, trials=1, warm_start=str(tmp_path / "out"))
    assert tune(Request(**{**vars(by_table), "name": "by table"})).earlier_trials == 5, "best.json has those of `chain`"
    warm = [trial for trial in open_study(home / "tuning/chain", "chain").trials if "warm" in trial.user_attrs]
    assert len(warm) == 1, "the trials from which the earlier search started are not its own"


@pytest.mark.parametrize(
    ("space", "origin", "text"),
    [
        ({"y": [1, 2]}, "out", "none of its 2 completed trials has values of y inside the space"),
        ({"x": {"low": 5, "high": 6}}, "out", "none of its 2 completed trials has values of x inside the space"),
        ({"x": [0, 1]}, "nowhere", "there is neither a folder with trials.csv nor a tuning of this name"),
    ],
)
def test_a_warm_start_of_another_space_is_refused(
    tmp_path: Path, home: Path, tune: Callable[..., TuningResult], space: Any, origin: str, text: str
) -> None:
    tune(trials=2)
    later = make_request(tmp_path, trials=2, warm_start=str(tmp_path / origin), space=space)
    with pytest.raises(SpecError, match=text):
        tune(Request(**{**vars(later), "name": "later"}))


def test_optuna_alone_reads_the_journal(home: Path, tune: Callable[..., TuningResult]) -> None:
    """A person can open the study with Optuna's own tools."""
    result = tune(trials=2)
    backend = optuna.storages.journal.JournalFileBackend(str(home / "tuning/t/journal.log"))
    study = optuna.load_study(study_name="t", storage=optuna.storages.JournalStorage(backend))
    assert study.best_value == result.objective
