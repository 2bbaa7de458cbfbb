"""Test that the objective is read from a log that grows."""

from pathlib import Path

from pipelines.tuning.trials.process import ObjectiveLog


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
