"""The command line in this process: where values come from, what is written where, which code it exits with."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from pipelines.cli import app
from pipelines.contract import Report
from pipelines.errors import ConflictError, DataError, LeewayError
from pipelines.steps import gate
from tests.tools.evaluations import write_evaluation

QUICK = "gate: {policy: {draws: 100, bounds: {auc: {at_least: 0.6}}, baseline: []}}\n"


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> Path:
    """A project of its own, with an evaluation for `gate` to judge: the step that needs no more than that."""
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    write_evaluation(tmp_path / "data")
    (tmp_path / "params.yaml").write_text(QUICK)
    return tmp_path


@pytest.fixture
def call(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs the command line: its code, stdout and stderr."""

    def called(*arguments: str, stdin: str = "") -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["pipelines", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = 0
        try:
            app.main()
        except SystemExit as left:
            code = int(left.code or 0)
        out, err = capsys.readouterr()
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        return SimpleNamespace(code=code, out=out, err=err, errors=errors)

    return called


def test_stdout_has_the_result_and_nothing_else(call: Callable[..., Any]) -> None:
    done = call("gate")
    assert done.code == 0
    assert json.loads(done.out)["passed"] is True
    assert done.errors == []


def test_out_has_the_result_and_stdout_nothing(call: Callable[..., Any], project: Path) -> None:
    done = call("gate", "--out", "deep/result.json")
    assert (done.code, done.out) == (0, "")
    assert gate.GateResult.model_validate_json((project / "deep/result.json").read_text()).passed


def test_what_a_step_prints_does_not_reach_stdout(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries print: MLflow its run's address, for one."""
    real = gate.run

    def chatty(spec: gate.GateSpec) -> gate.GateResult:
        print("View run at ...")  # noqa: T201
        return real(spec)

    monkeypatch.setattr(gate, "run", chatty)
    done = call("gate")
    assert json.loads(done.out)["passed"] is True
    assert "View run at" in done.err


def bound(done: SimpleNamespace) -> float:
    return float(json.loads(done.out)["checks"][0]["bound"])


def test_options_win_over_the_file_over_params_over_defaults(call: Callable[..., Any], project: Path) -> None:
    assert bound(call("gate")) == 5_000
    (project / "params.yaml").write_text("gate: {policy: {min_rows: 10}}\n")
    assert bound(call("gate")) == 10
    (project / "spec.yaml").write_text("policy: {min_rows: 20}\n")
    assert bound(call("gate", "--spec", "spec.yaml")) == 20
    assert bound(call("gate", "--spec", "-", stdin='{"policy": {"min_rows": 30}}')) == 30
    assert bound(call("gate", "--spec", "spec.yaml", "--policy", '{"min_rows": "40"}')) == 40


def test_an_empty_text_is_a_text(call: Callable[..., Any], project: Path) -> None:
    done = call("gate", "--model-name", "", "--version", "")
    assert (done.code, done.errors) == (0, [])


BAD = {
    "unknown step": ("gates",),
    "unknown option": ("gate", "--polizy", "x"),
    "an option without its value": ("gate", "--policy"),
    "not JSON": ("gate", "--policy", "{min_rows: 1"),
    "unknown key": ("gate", "--policy", '{"min_rowz": 1}'),
    "wrong type": ("gate", "--policy", '{"min_rows": "many"}'),
    "no such file": ("gate", "--spec", "nowhere.yaml"),
    "a folder": ("gate", "--spec", "data"),
    "missing": ("ingest",),
    "no such day": ("ingest", "--partition", "2013-02-30"),
    "no such dataset": ("ingest", "--partition", "2013-01-01", "--dataset", "nope"),
    "no such evaluation": ("gate", "--evaluation", "nowhere"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_request_is_one_line_and_2(call: Callable[..., Any], case: str) -> None:
    done = call(*BAD[case])
    assert (done.code, done.out) == (2, "")
    assert len(done.errors) == 1
    assert "Traceback" not in done.err
    assert len(done.err) < 1_700


@pytest.mark.parametrize(
    "text",
    ["[1, 2]", "a word", "{", "as_of: 2013-02-30", "policy: {min_rows: many}", "\x00", "!!python/name:os.system"],
)
def test_a_bad_spec_file_is_one_line_and_2(call: Callable[..., Any], text: str) -> None:
    done = call("gate", "--spec", "-", stdin=text)
    assert done.code == 2
    assert len(done.errors) == 1


def test_a_bad_params_file_is_one_line_and_2(call: Callable[..., Any], project: Path) -> None:
    (project / "params.yaml").write_text("gate:\n  - x\n y: [\n")
    done = call("gate", "--out", "result.json")
    assert done.code == 2
    assert done.errors[0].startswith("error: params.yaml line ")
    assert Report.model_validate_json((project / "result.json").read_text()).exit_code == 2


@pytest.mark.parametrize(
    "case", ["not JSON", "unknown key", "missing", "no such day", "no such evaluation", "no such file"]
)
def test_out_has_the_report_of_a_failure(call: Callable[..., Any], project: Path, case: str) -> None:
    (project / "result.json").write_text("an old result")
    done = call(*BAD[case], "--out", "result.json")
    report = Report.model_validate_json((project / "result.json").read_text())
    assert (report.exit_code, done.code) == (2, 2)
    assert done.errors == [f"error: {report.message} {report.hint}".strip()]


@pytest.mark.parametrize(
    ("error", "code", "name"),
    [
        (DataError("no"), 2, "DataError"),
        (ConflictError("busy"), 75, "ConflictError"),
        (KeyError("x"), 1, "LeewayError"),
    ],
)
def test_every_branch_has_its_code(
    call: Callable[..., Any], project: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, name: str
) -> None:
    def run(spec: gate.GateSpec) -> gate.GateResult:
        raise error

    monkeypatch.setattr(gate, "run", run)
    done = call("gate", "--out", "result.json")
    report = Report.model_validate_json((project / "result.json").read_text())
    assert (done.code, report.exit_code, report.error) == (code, code, name)
    assert len(done.errors) == 1
    assert "Traceback" not in done.err


def test_a_traceback_only_where_it_is_asked_for(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in call(*BAD["no such evaluation"]).err
    monkeypatch.setenv("LEEWAY_DEBUG", "1")
    told = call(*BAD["no such evaluation"]).err
    assert "Traceback" in told
    assert "gate.py" in told


def test_a_report_that_cannot_be_written_says_so(call: Callable[..., Any], project: Path) -> None:
    (project / "file").write_text("")
    done = call("gate", "--out", "file/result.json")
    assert done.code == 2
    assert "file/result.json" in done.err
    assert "Traceback" not in done.err


def test_out_may_be_a_pipe_or_a_device(call: Callable[..., Any]) -> None:
    assert call("gate", "--out", "/dev/null").code == 0


def test_ctrl_c_is_130_without_a_traceback(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(spec: gate.GateSpec) -> gate.GateResult:
        raise KeyboardInterrupt

    monkeypatch.setattr(gate, "run", run)
    done = call("gate")
    assert (done.code, done.out) == (130, "")
    assert "Traceback" not in done.err


def test_a_no_is_a_result(call: Callable[..., Any]) -> None:
    done = call("gate", "--policy", '{"bounds": {"auc": {"at_least": 0.99}}}')
    assert done.code == 0
    assert json.loads(done.out)["passed"] is False


@pytest.mark.parametrize("broken", ["score is NaN", "no score", "other rows", "fewer rows", "one label", "gone"])
def test_an_evaluation_that_is_none_is_bad_data(call: Callable[..., Any], project: Path, broken: str) -> None:
    """The verdict of before stays as it was."""
    assert call("gate").code == 0
    before = (project / "data/verdict.json").read_bytes()
    told, rows = project / "data/evaluation/predictions.parquet", project / "data/features/holdout/data.parquet"
    frame, features = pd.read_parquet(told), pd.read_parquet(rows)
    {
        "score is NaN": lambda: frame.assign(score=float("nan")).to_parquet(told),
        "no score": lambda: frame.drop(columns="score").to_parquet(told),
        "other rows": lambda: frame.iloc[::-1].to_parquet(told),
        "fewer rows": lambda: frame.iloc[1:].to_parquet(told),
        "one label": lambda: features.assign(late=True).to_parquet(rows),
        "gone": told.unlink,
    }[broken]()
    done = call("gate")
    assert (done.code, len(done.errors)) == (2, 1), done.err
    assert (project / "data/verdict.json").read_bytes() == before


def test_unknown_errors_are_bugs() -> None:
    assert LeewayError("x").exit_code == 1
