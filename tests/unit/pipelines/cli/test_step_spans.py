"""Test the span of a step's process: its attributes, and that no span changes what the step returns."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.evaluations import write_evaluation
from tests.tools.otlp_receiver import Collector, run_collector

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
POLICY = json.dumps({"draws": 100, "bounds": {"auc": {"at_least": 0.6}}, "baseline": []})
HARD_POLICY = json.dumps({"draws": 100, "bounds": {"auc": {"at_least": 0.999}}, "baseline": []})
CODE = """
import sys
from pipelines.cli.app import main
sys.argv = ["pipelines", "gate", "--help"] if len(sys.argv) < 2 else ["pipelines", *sys.argv[1:]]
try:
    main()
finally:
    print("MODULES", sorted(name for name in sys.modules if name.split(".")[0] == "opentelemetry"), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with run_collector() as collector:
        yield collector


@pytest.fixture
def traced(collector: Collector, tmp_path: Path) -> dict[str, str]:
    """Return the variables that switch tracing on, and write what the step `gate` reads."""
    collector.spans.clear()
    write_evaluation(tmp_path / "data")
    return {"TRACEPARENT": f"00-{TRACE}-{PARENT}-01", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}


def test_span_of_a_step_has_its_outcome(collector: Collector, traced: dict[str, str], commands: Any) -> None:
    for policy, outcome in ((POLICY, "passed"), (HARD_POLICY, "failed")):
        collector.spans.clear()
        result = commands.run_step("gate", "--policy", policy, env=traced)
        assert result.code == 0, result.err
        span = collector.find(name="step.gate")
        assert (span.trace, span.parent, span.is_error) == (TRACE, PARENT, False)
        assert span.attributes["leeway.outcome"] == json.loads(result.out)["outcome"] == outcome


def test_span_of_a_failed_step_has_the_class_of_the_error_only(
    collector: Collector, traced: dict[str, str], commands: Any
) -> None:
    result = commands.run_step("gate", "--evaluation", "tweety-is-a-secret", env=traced)
    assert result.code == 2
    assert "tweety" in result.err
    span = collector.find(name="step.gate")
    assert (span.is_error, span.attributes) == (True, {"error.type": "DataError"})
    assert b"tweety" not in b"".join(collector.bodies)


def test_dead_collector_changes_neither_the_result_nor_the_exit_code(traced: dict[str, str], commands: Any) -> None:
    usual = commands.run_step("gate", "--policy", POLICY)
    dead = {**traced, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    result = commands.run_step("gate", "--policy", POLICY, env=dead)
    assert (result.code, result.out) == (usual.code, usual.out) == (0, usual.out)
    (line,) = [line for line in result.err.splitlines() if "traces:" in line]
    assert line.startswith("W leeway: traces: 127.0.0.1: ")
    assert "traces:" not in usual.err


@pytest.mark.slow
def test_step_imports_no_opentelemetry(traced: dict[str, str], commands: Any) -> None:
    result = commands.run(sys.executable, "-c", CODE, "gate", "--policy", POLICY, is_real=True)
    assert result.code == 0, result.err
    assert result.err.splitlines()[-1] == "MODULES []"
