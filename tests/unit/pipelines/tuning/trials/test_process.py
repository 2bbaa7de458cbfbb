"""Test that the objective is read from a log that grows, also over several starts of a trial."""

from pathlib import Path

import pytest

from pipelines.tuning.trials.process import (
    MAX_LINE_BYTES,
    READ_BYTES,
    TAIL_BYTES,
    ObjectiveLog,
    TrialProcess,
    start_trial,
)
from tests.tools.tuning import make_request


def test_the_lines_of_rounds_and_the_last_line(tmp_path: Path) -> None:
    log = ObjectiveLog(tmp_path / "log.txt")
    log.path.write_text("checkpoint restored: none\n[0]\ttuning-objective:0.6\n[1]\ttuning-obj")
    log.read()
    assert (log.rounds, log.objective) == ({1: 0.6}, 0.6), "an incomplete line is left for later"
    with log.path.open("a") as file:
        file.write("ective:0.5\n[2]\ttuning-objective:0.55\n")
    log.read()
    assert log.rounds == {1: 0.6, 2: 0.5, 3: 0.55}
    assert (log.objective, log.find_best_until(1), log.find_best_until(3)) == (0.55, 0.6, 0.5)
    with log.path.open("a") as file:
        file.write("tuning-objective:0.5\n")
    log.read()
    assert (log.objective, log.find_undefined_round()) == (0.5, None)


def test_a_round_that_is_repeated_after_a_kill_counts_once(tmp_path: Path) -> None:
    log = ObjectiveLog(tmp_path / "log.txt")
    log.path.write_text("[0]\ttuning-objective:0.6\n[1]\ttuning-objective:0.5\n[1]\ttuning-objective:0.5\n")
    log.read()
    assert log.rounds == {1: 0.6, 2: 0.5}


def test_values_that_are_no_numbers(tmp_path: Path) -> None:
    log = ObjectiveLog(tmp_path / "log.txt")
    log.path.write_text("[0]\ttuning-objective:0.6\n[1]\ttuning-objective:nan\n[2]\ttuning-objective:x\n")
    log.read()
    assert log.find_undefined_round() == 2


def test_other_lines_are_not_the_objective(tmp_path: Path) -> None:
    log = ObjectiveLog(tmp_path / "log.txt")
    log.path.write_text("the tuning-objective:0.6 is good\n[0]\ttrain-logloss:0.6\n")
    log.read()
    assert (log.rounds, log.objective) == ({}, None)


@pytest.mark.parametrize("end", ["", "tuning-objective:0.1"])
def test_a_long_line_is_skipped_and_read_once(tmp_path: Path, end: str) -> None:
    log = ObjectiveLog(tmp_path / "log.txt")
    log.path.write_text("[0]\ttuning-objective:0.6\n" + "x" * (3 * READ_BYTES) + end)
    log.read()
    unread_bytes = log.path.stat().st_size - log._position
    assert unread_bytes <= MAX_LINE_BYTES, "a long incomplete line is not read again and again"
    with log.path.open("a") as file:
        file.write("x" * (2 * MAX_LINE_BYTES))
    log.read()
    with log.path.open("a") as file:
        file.write("tuning-objective:0.2\n[1]\ttuning-objective:0.5\n[2]\ttuning-obj")
    log.read()
    assert log.rounds == {1: 0.6, 2: 0.5} and log.final is None
    with log.path.open("a") as file:
        file.write("ective:0.4\ntuning-objective:0.3\n")
    log.read()
    assert (log.rounds, log.final) == ({1: 0.6, 2: 0.5, 3: 0.4}, 0.3)


def test_lines_across_two_reads_of_a_file_are_whole(tmp_path: Path) -> None:
    log = ObjectiveLog(tmp_path / "log.txt")
    count = 2 * READ_BYTES // 30
    log.path.write_text("".join(f"[{number}]\ttuning-objective:0.{number + 1:08d}\n" for number in range(count)))
    log.read()
    assert len(log.rounds) == count and log.rounds[count] == float(f"0.{count:08d}")
    assert log._position == log.path.stat().st_size > READ_BYTES


def test_tail_of_a_long_log_has_its_last_lines(tmp_path: Path) -> None:
    trial = TrialProcess(tmp_path)
    trial.log.path.write_text("x" * 100_000 + "\nerror\n")
    assert trial.read_tail()[-1] == "error" and len(trial.read_tail()[0]) < TAIL_BYTES


@pytest.mark.parametrize("end", ["", "\n", "\nException ignored in: <module 'threa"])
def test_log_of_a_killed_start_hides_no_round_of_the_next_one(tmp_path: Path, end: str) -> None:
    request, folder = make_request(tmp_path), tmp_path / "trial"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints/round").write_text("1")
    (folder / "log.txt").write_text(f"[0]\ttuning-objective:0.6{end}")
    hyperparameters = {"x": 0.3, "num_round": 2}
    trial = start_trial(folder, request.script, request.channels, hyperparameters, threads=1)
    assert trial.process and trial.process.wait() == 0
    trial.poll()
    assert trial.log.rounds == {1: 0.6, 2: 0.5}
