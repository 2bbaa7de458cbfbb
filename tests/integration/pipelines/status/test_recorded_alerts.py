"""Test the alerts on series that `python -m pipelines metrics` exported while the state of a real lake changed."""

import datetime as dt
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lake import Lake
from pipelines.loop.events import Kind as LoopKind
from pipelines.registry.lifecycle import Kind
from tests.tools.lake_states import MONDAY, add_event, add_loop_event, write_drift
from tests.tools.recorded_alerts import Export, find_wrong_alerts, parse_export

HOURS, MINUTES = 30, 5
"""How long each state stays, and the time between two samples."""


def export() -> Export:
    """Run the command."""
    at_s = dt.datetime.now(dt.UTC).timestamp()
    result = CliRunner().invoke(app.build_app(), ["metrics", "flights"])
    assert result.exit_code == 0, result.output
    return parse_export(at_s, result.stdout)


@pytest.fixture
def exports(home: Path, source: Any) -> list[Export]:
    """Change the state of a model, from no champion to drift and to a failed training; export each state."""
    exports = []
    day = MONDAY
    Lake.open().write_partition("flights", day, source.read(day))
    add_loop_event(LoopKind.STARTED, "d/1", as_of=day, trigger="manual")
    add_loop_event(LoopKind.ENDED, "d/1", as_of=day, outcome="not_passed", version="1")
    exports.append(export())
    add_event(Kind.PROMOTED, "2", champions=("", "2"))
    exports.append(export())
    write_drift(day, "drift", {"distance": 0.3})
    exports.append(export())
    add_loop_event(LoopKind.STARTED, "d/2", as_of=day, trigger="drift")
    add_loop_event(LoopKind.ENDED, "d/2", as_of=day, outcome="failed", version="")
    exports.append(export())
    return exports


@pytest.mark.soak
@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool (Debian's package prometheus)")
def test_recorded_states_raise_the_alerts_that_they_should(exports: list[Export], tmp_path: Path) -> None:
    unanswered_drift = {"LeewayDriftUnanswered", "LeewayDataStale"}
    expected = [{"LeewayNoChampion"}, {"LeewayDataStale"}, unanswered_drift, {*unanswered_drift, "LeewayModelFailed"}]

    def find_wrong(exports: list[Export], expected: list[set[str]]) -> set[str]:
        return find_wrong_alerts(exports, expected, HOURS, MINUTES, tmp_path)

    assert find_wrong(exports, expected) == set()
    # The negative controls: an alert too few, and a state that was not exported.
    assert find_wrong(exports, [set(), *expected[1:]]) == {"LeewayNoChampion"}
    drifted = 'leeway_model_drifted{model="flights"}'
    without_drift = [replace(one, samples={**one.samples, drifted: 0.0}) for one in exports]
    assert find_wrong(without_drift, expected) == {"LeewayDriftUnanswered"}
