"""Test the command line in this process: the sources of values, the outputs, and the exit codes."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from pipelines.cli import app
from pipelines.contract import Report
from pipelines.errors import ConflictError, DataError, LeewayError
from pipelines.steps import gate, validate
from tests.tools.evaluations import write_evaluation
from tests.tools.short_gate import shorten_gate

PARAMS = "gate: {policy: {draws: 100, bounds: {auc: {at_least: 0.6}}, baseline: []}}\n"


@pytest.fixture
def project(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> Iterator[Path]:
    """Build a project with an evaluation for `gate`, the step that needs nothing else."""
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    write_evaluation(tmp_path / "data")
    (tmp_path / "params.yaml").write_text(PARAMS)
    with shorten_gate():
        yield tmp_path


@pytest.fixture
def call(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Return the function that runs the command line and returns its exit code, stdout and stderr."""

    def call_app(*arguments: str, stdin: str = "") -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["pipelines", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = 0
        try:
            app.main()
        except SystemExit as exit_request:
            code = int(exit_request.code or 0)
        out, err = capsys.readouterr()
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        return SimpleNamespace(code=code, out=out, err=err, errors=errors)

    return call_app


def test_stdout_has_the_result_and_nothing_else(call: Callable[..., Any]) -> None:
    result = call("gate")
    assert result.code == 0
    assert json.loads(result.out)["passed"] is True
    assert result.errors == []
    report = Path("data/report/report.html").read_text()
    assert "href=" not in report, "without a registry, the report is the same on each machine"


def test_option_out_writes_the_result_to_a_file_and_not_to_stdout(call: Callable[..., Any], project: Path) -> None:
    result = call("gate", "--out", "deep/result.json")
    assert (result.code, result.out) == (0, "")
    assert gate.GateResult.model_validate_json((project / "deep/result.json").read_text()).passed


def test_a_stage_of_dvc_does_not_write_its_result_to_a_terminal(
    call: Callable[..., Any], project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DVC_STAGE", "gate@flights")
    assert json.loads(call("gate").out)["passed"], "a program or a file gets the result"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    result = call("gate")
    assert (result.code, result.out) == (0, "")
    assert caplog.messages[-2:] == ["verdict: passed: all 4 checks passed", "report: data/report/report.html"]
    assert call("gate", "--out", "result.json").out == ""
    assert gate.GateResult.model_validate_json((project / "result.json").read_text()).passed


def test_a_step_takes_the_only_dataset_and_asks_for_one_of_several(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    specs: list[Any] = []

    def run(spec: validate.ValidateSpec) -> Any:
        specs.append(spec)
        raise DataError("stopped here")

    monkeypatch.setattr(app, "load_run_function", lambda step: run)
    result = call("validate", "--partition", "2013-01-01")
    assert (result.code, specs) == (2, [])
    assert result.errors == [
        "error: no dataset is named. "
        "Give one of this project's datasets: flight_delay, flight_status, flights, weather."
    ]
    monkeypatch.setattr("pipelines.dataset.list_datasets", lambda: ["weather"])
    assert call("validate", "--partition", "2013-01-01").errors == ["error: stopped here"]
    assert call("validate", "--partition", "2013-01-01", "--dataset", "flights").errors == ["error: stopped here"]
    assert [spec.dataset for spec in specs] == ["weather", "flights"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--allow-shrink"], True),
        (["--allow-shrink", "--suite", "mine"], True),
        (["--allow-shrink", "true"], True),
        (["--allow-shrink=true"], True),
        (["--allow-shrink", "false", "--withdraw"], False),
        ([], False),
    ],
)
def test_a_yes_or_no_option_needs_no_value(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: bool
) -> None:
    specs: list[validate.ValidateSpec] = []

    def refuse(spec: validate.ValidateSpec) -> None:
        specs.append(spec)
        raise DataError("refused")

    monkeypatch.setattr(validate, "run", refuse)
    assert call("validate", "--dataset", "flights", "--partition", "2013-01-01", *arguments).code == 2
    assert [spec.allow_shrink for spec in specs] == [expected]
    assert call("validate", "--dataset", "flights", "--partition", "--allow-shrink").code == 2, (
        "another option needs its value"
    )


OPTIONS_WITHOUT_EFFECT = {
    "suggest --force without --out": "expectations suggest --table t --from 2013-01-01 --to 2013-01-02 --force",
    "lineage --table without a day": "lineage flights@champion --table weather",
    "two versions": "reproduce flights@3 --model-version flights@4",
}


@pytest.mark.parametrize("case", OPTIONS_WITHOUT_EFFECT)
def test_an_option_that_would_be_ignored_is_refused(case: str, call: Callable[..., Any]) -> None:
    result = call(*OPTIONS_WITHOUT_EFFECT[case].split())
    assert (result.code, result.out, len(result.errors)) == (2, "", 1)
    assert any(word in result.errors[0] for word in ("--out", "--partition", "Give one of them"))


def test_the_schema_is_written_to_the_file_of_option_out(call: Callable[..., Any], project: Path) -> None:
    assert call("gate", "--schema", "--out", "schema.json").out == ""
    assert (project / "schema.json").read_text() == call("gate", "--schema").out


def test_output_that_a_step_prints_does_not_reach_stdout(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries print: MLflow prints the address of its run."""
    run = gate.run

    def print_and_run(spec: gate.GateSpec) -> gate.GateResult:
        print("View run at ...")  # noqa: T201
        return run(spec)

    monkeypatch.setattr(gate, "run", print_and_run)
    result = call("gate")
    assert json.loads(result.out)["passed"] is True
    assert "View run at" in result.err


def read_bound(result: SimpleNamespace) -> float:
    """Return the bound of the verdict's first check, which is `min_rows` of the policy."""
    return float(json.loads(result.out)["checks"][0]["bound"])


def test_options_override_the_spec_file_params_and_defaults_in_this_order(
    call: Callable[..., Any], project: Path
) -> None:
    assert read_bound(call("gate")) == 5_000
    (project / "params.yaml").write_text("gate: {policy: {min_rows: 10}}\n")
    assert read_bound(call("gate")) == 10
    (project / "spec.yaml").write_text("policy: {min_rows: 20}\n")
    assert read_bound(call("gate", "--spec", "spec.yaml")) == 20
    assert read_bound(call("gate", "--spec", "-", stdin='{"policy": {"min_rows": 30}}')) == 30
    assert read_bound(call("gate", "--spec", "spec.yaml", "--policy", '{"min_rows": "40"}')) == 40


def test_an_empty_text_is_a_valid_value(call: Callable[..., Any], project: Path) -> None:
    result = call("gate", "--model", "", "--version", "")
    assert (result.code, result.errors) == (0, [])


INVALID = {
    "unknown step": ("gates",),
    "unknown option": ("gate", "--polizy", "x"),
    "option without its value": ("gate", "--policy"),
    "not JSON": ("gate", "--policy", "{min_rows: 1"),
    "a key twice": ("gate", "--policy", '{"min_rows": 1, "min_rows": 2}'),
    "unknown key": ("gate", "--policy", '{"min_rowz": 1}'),
    "wrong type": ("gate", "--policy", '{"min_rows": "many"}'),
    "no such file": ("gate", "--spec", "nowhere.yaml"),
    "a folder": ("gate", "--spec", "data"),
    "missing": ("ingest",),
    "no such day": ("ingest", "--dataset", "flights", "--partition", "2013-02-30"),
    "no such dataset": ("ingest", "--partition", "2013-01-01", "--dataset", "nope"),
    "no such evaluation": ("gate", "--evaluation", "nowhere"),
}


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_request_gives_one_line_and_exit_code_2(call: Callable[..., Any], case: str) -> None:
    result = call(*INVALID[case])
    assert (result.code, result.out) == (2, "")
    assert len(result.errors) == 1
    assert "Traceback" not in result.err
    assert len(result.err) < 1_700


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]",
        "a word",
        "{",
        "as_of: 2013-02-30",
        "policy: {min_rows: many}",
        "policy: {min_rows: 1, min_rows: 2}",
        "\x00",
        "!!python/name:os.system",
    ],
)
def test_an_invalid_spec_file_gives_one_line_and_exit_code_2(call: Callable[..., Any], text: str) -> None:
    result = call("gate", "--spec", "-", stdin=text)
    assert result.code == 2
    assert len(result.errors) == 1


def test_an_invalid_params_file_gives_one_line_and_exit_code_2(call: Callable[..., Any], project: Path) -> None:
    (project / "params.yaml").write_text("gate:\n  - x\n y: [\n")
    result = call("gate", "--out", "result.json")
    assert result.code == 2
    assert result.errors[0].startswith("error: params.yaml line ")
    assert Report.model_validate_json((project / "result.json").read_text()).exit_code == 2


@pytest.mark.parametrize(
    "case", ["not JSON", "unknown key", "missing", "no such day", "no such evaluation", "no such file"]
)
def test_option_out_writes_the_report_of_a_failure(call: Callable[..., Any], project: Path, case: str) -> None:
    (project / "result.json").write_text("an old result")
    result = call(*INVALID[case], "--out", "result.json")
    report = Report.model_validate_json((project / "result.json").read_text())
    assert (report.exit_code, result.code) == (2, 2)
    assert result.errors == [f"error: {report.message} {report.hint}".strip()]


@pytest.mark.parametrize(
    ("error", "code", "name"),
    [
        (DataError("no"), 2, "DataError"),
        (ConflictError("busy"), 75, "ConflictError"),
        (KeyError("x"), 1, "LeewayError"),
    ],
)
def test_every_branch_of_errors_has_its_exit_code(
    call: Callable[..., Any], project: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, name: str
) -> None:
    def run(spec: gate.GateSpec) -> gate.GateResult:
        raise error

    monkeypatch.setattr(gate, "run", run)
    result = call("gate", "--out", "result.json")
    report = Report.model_validate_json((project / "result.json").read_text())
    assert (result.code, report.exit_code, report.error) == (code, code, name)
    assert len(result.errors) == 1
    assert ("Traceback" in result.err) is (code == 1), "whoever mends a bug needs its place; other errors are one line"


def test_leeway_debug_shows_the_traceback_of_every_error(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Traceback" not in call(*INVALID["no such evaluation"]).err
    monkeypatch.setenv("LEEWAY_DEBUG", "1")
    errors = call(*INVALID["no such evaluation"]).err
    assert "Traceback" in errors
    assert "gate.py" in errors


def test_a_report_that_cannot_be_written_is_an_error(call: Callable[..., Any], project: Path) -> None:
    (project / "file").write_text("")
    result = call("gate", "--out", "file/result.json")
    assert result.code == 2
    assert "file/result.json" in result.err
    assert "Traceback" not in result.err


def test_option_out_may_name_a_device(call: Callable[..., Any]) -> None:
    assert call("gate", "--out", "/dev/null").code == 0


def test_ctrl_c_gives_exit_code_130_without_a_traceback(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(spec: gate.GateSpec) -> gate.GateResult:
        raise KeyboardInterrupt

    monkeypatch.setattr(gate, "run", run)
    result = call("gate")
    assert (result.code, result.out) == (130, "")
    assert "Traceback" not in result.err


def test_a_failed_verdict_is_a_result_and_no_error(call: Callable[..., Any]) -> None:
    result = call("gate", "--policy", '{"bounds": {"auc": {"at_least": 0.99}}}')
    assert result.code == 0
    assert json.loads(result.out)["passed"] is False


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-300])


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "defect",
    [
        *("score is NaN", "no score", "other rows", "fewer rows", "one label", "missing", "cut", "a folder"),
        *("cut features", "features are a folder", "features are no table", "features without the label"),
    ],
)
def test_gate_refuses_an_invalid_evaluation(call: Callable[..., Any], project: Path, defect: str) -> None:
    """The last verdict stays unchanged."""
    assert call("gate").code == 0
    verdict = (project / "data/verdict.json").read_bytes()
    predictions, rows = project / "data/evaluation/predictions.parquet", project / "data/features/holdout/data.parquet"
    frame, features = pd.read_parquet(predictions), pd.read_parquet(rows)
    {
        "score is NaN": lambda: frame.assign(score=float("nan")).to_parquet(predictions),
        "no score": lambda: frame.drop(columns="score").to_parquet(predictions),
        "other rows": lambda: frame.iloc[::-1].to_parquet(predictions),
        "fewer rows": lambda: frame.iloc[1:].to_parquet(predictions),
        "one label": lambda: features.assign(late=True).to_parquet(rows),
        "missing": predictions.unlink,
        "cut": lambda: cut(predictions),
        "a folder": lambda: replace_by_folder(predictions),
        "cut features": lambda: cut(rows),
        "features are a folder": lambda: replace_by_folder(rows),
        "features are no table": lambda: rows.write_text("date,late\n"),
        "features without the label": lambda: features.drop(columns="late").to_parquet(rows),
    }[defect]()
    result = call("gate")
    assert (result.code, len(result.errors)) == (2, 1), result.err
    assert "Traceback" not in result.err
    if defect.startswith(("cut", "a folder")) or "features" in defect:
        path, step = (rows, "preprocess") if "features" in defect else (predictions, "evaluate")
        assert str(path.relative_to(project)) in result.errors[0]
        assert f"`{step}`" in result.errors[0]
    assert (project / "data/verdict.json").read_bytes() == verdict


def test_an_unknown_error_has_exit_code_1() -> None:
    assert LeewayError("x").exit_code == 1
