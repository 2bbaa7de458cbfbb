"""Let Prometheus' rules judge series that were recorded: what Leeway exported in successive states of a lake."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from pipelines.status.metrics.models import READ_AT
from tests.tools.imports import ROOT

ALERTS = ROOT / "docker/monitoring/alerts.yaml"
ALERT = re.compile(r'alertname=\\?"(\w+)\\?"(?:, project=\\?"(\w+)\\?")?')
"""Pattern of an alert in what promtool prints. In some versions, the quotes are escaped."""
TIME_SUFFIX = "_timestamp_seconds"
"""End of the names of metrics that are a time. In the series, time begins at 0, so they are moved."""


@dataclass(frozen=True)
class Export:
    """What was exported in a state: samples by series."""

    at_s: float
    """When, seconds since 1970."""
    samples: Mapping[str, float]


def parse_export(at_s: float, text: str) -> Export:
    """Parse metrics in Prometheus' text format that were exported at a time, seconds since 1970."""
    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            samples[f"{sample.name}{{{labels}}}"] = sample.value
    return Export(at_s, samples)


def find_wrong_alerts(
    exports: Sequence[Export], expected: Sequence[Collection[str]], hours: int, minutes: int, folder: Path
) -> set[str]:
    """Let Prometheus' rules judge the exports; return the alerts that are raised and should not be, or the reverse.

    Args:
        exports: samples of each state.
        expected: alerts at the end of each state, each `NAME`, or `NAME of PROJECT` if it has the label project.
        hours: how long each state stays, hours.
        minutes: minutes between two samples of a series.
        folder: an empty folder.
    """
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    names = {rule["alert"] for group in groups for rule in group["rules"]}
    assert {alert.partition(" of ")[0] for alerts in expected for alert in alerts} <= names
    checks = [_build_check(alerts, number * hours * 60 - minutes) for number, alerts in enumerate(expected, start=1)]
    series = _build_series(exports, hours * 60 // minutes, minutes)
    test = {"interval": f"{minutes}m", "input_series": series, "promql_expr_test": checks}
    content = {"rule_files": [str(ALERTS)], "evaluation_interval": f"{minutes}m", "tests": [test]}
    (folder / "test.yaml").write_text(yaml.safe_dump(content))
    result = subprocess.run(["promtool", "test", "rules", "test.yaml"], capture_output=True, text=True, cwd=folder)
    wrong_alerts = _parse_differences(result.stdout + result.stderr)
    assert bool(wrong_alerts) == bool(result.returncode), f"the rules were not judged: {result.stdout}{result.stderr}"
    return wrong_alerts


def _parse_differences(output: str) -> set[str]:
    """Return the alerts that only one of the lines `exp:` and `got:` of a check has."""
    wrong_alerts: set[str] = set()
    for expected, raised in re.findall(r"^\s*exp:(.*)\n\s*got:(.*)$", output, re.MULTILINE):
        wrong_alerts |= _parse_alerts(expected) ^ _parse_alerts(raised)
    return wrong_alerts


def _parse_alerts(text: str) -> set[str]:
    return {f"{name} of {project}" if project else name for name, project in ALERT.findall(text)}


def _build_check(alerts: Collection[str], minutes: int) -> dict[str, Any]:
    """Build the check that these alerts, and no others, fire after a time."""
    samples = []
    for alert in sorted(alerts):
        name, _, project = alert.partition(" of ")
        labels = f'alertname="{name}"' + (f',project="{project}"' if project else "")
        samples.append({"labels": f"{{{labels}}}", "value": 1})
    expression = 'count by (alertname, project) (ALERTS{alertstate="firing"})'
    return {"expr": expression, "eval_time": f"{minutes}m", "exp_samples": samples}


def _build_series(exports: Sequence[Export], count: int, minutes: int) -> list[dict[str, str]]:
    """Build the series in which each export gives `count` samples."""
    names = {name for one in exports for name in one.samples}
    return [{"series": name, "values": _build_values(name, exports, count, minutes)} for name in sorted(names)]


def _build_values(name: str, exports: Sequence[Export], count: int, minutes: int) -> str:
    parts, last_value, moved_value = [], None, 0.0
    for number, one in enumerate(exports):
        start_s = number * count * minutes * 60
        value = one.samples.get(name)
        if value is not None and value != last_value:  # a time that did not change stays the time of its event
            moved_value = value - one.at_s + start_s if TIME_SUFFIX in name else value
        last_value = value
        if value is None:
            parts.append(f"_x{count}")
        elif name.startswith(READ_AT):
            parts.append(f"{start_s}+{minutes * 60}x{count - 1}")
        else:
            parts.append(f"{moved_value!r}x{count - 1}")
    return " ".join(parts)
