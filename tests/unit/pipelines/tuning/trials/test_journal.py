"""Test that a journal survives a kill at any byte."""

from pathlib import Path

import pytest

from pipelines.errors import DataError
from pipelines.tuning.distributions import build_distributions
from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.trials.journal import find_best, list_trials, open_study, read_trials

DISTRIBUTIONS = build_distributions(PlanSpec(space={"x": {"low": 0.0, "high": 1.0}}).space)


def test_a_journal_that_was_cut_loses_only_its_last_line(tmp_path: Path) -> None:
    study = open_study(tmp_path, "t")
    for value in (0.5, 0.25):
        study.tell(study.ask(DISTRIBUTIONS), value)
    path = tmp_path / "journal.log"
    content = path.read_bytes()
    last_line = len(content.splitlines(keepends=True)[-1])
    for cut in (1, last_line // 2, last_line - 1):
        path.write_bytes(content[:-cut])
        study = open_study(tmp_path, "t")
        assert [trial.state.name for trial in list_trials(study)] == ["COMPLETE", "RUNNING"]
        study.tell(1, 0.25)
        best = find_best(open_study(tmp_path, "t"))
        assert best and (best.number, best.value) == (1, 0.25)


def test_no_lock_stays_behind(tmp_path: Path) -> None:
    open_study(tmp_path, "t").ask(DISTRIBUTIONS)
    assert [path.name for path in tmp_path.iterdir()] == ["journal.log"]


def test_another_tuning_is_read_and_not_changed(tmp_path: Path) -> None:
    study = open_study(tmp_path, "t")
    study.tell(study.ask(DISTRIBUTIONS), 0.5)
    path = tmp_path / "journal.log"
    path.write_bytes(path.read_bytes() + b'{"op_code": ')  # its process writes this line just now
    content = path.read_bytes()
    assert [trial.value for trial in read_trials(tmp_path)[0]] == [0.5]
    assert path.read_bytes() == content and [item.name for item in tmp_path.iterdir()] == ["journal.log"]


@pytest.mark.parametrize("line", ["not JSON", '{"op_code": 0}', "[]", '{"op_code": 99, "worker_id": "w"}'])
def test_a_damaged_journal_is_refused(tmp_path: Path, line: str) -> None:
    open_study(tmp_path, "t").ask(DISTRIBUTIONS)
    path = tmp_path / "journal.log"
    path.write_text(line + "\n" + path.read_text())
    with pytest.raises(DataError, match=r"journal\.log is damaged"):
        open_study(tmp_path, "t")
    with pytest.raises(DataError, match=r"journal\.log is damaged"):
        read_trials(tmp_path)
