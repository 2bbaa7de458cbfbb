"""Test the command `metrics` on a real lake: what it prints, serves, and how it ends."""

import datetime as dt
import signal
import subprocess
import sys
import urllib.request
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.errors import ConflictError, SpecError
from pipelines.lake import Lake
from pipelines.registry.lifecycle import Event, Journal, Kind


def parse(text: str) -> dict[tuple[str, ...], float]:
    """Return the values of the metrics of a page: (name, value of each label) to the value."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def test_metrics_have_the_values_of_the_lake(home: Any, source: Any) -> None:
    before = dt.datetime.now().timestamp()
    Lake.open().write_partition("flights", dt.date(2013, 1, 3), source.read(dt.date(2013, 1, 3)))
    event = Event.create(Kind.PROMOTED, "flights", "2", champions=("", "2"))
    Journal.open().append_event("flights", lambda _: event)
    result = CliRunner().invoke(app.build_app("metrics"), ["metrics", "flights"], catch_exceptions=False)
    values = parse(result.stdout)
    assert (
        values["leeway_model_health", "ok", "flights"] == 1 and values["leeway_model_health", "drift", "flights"] == 0
    )
    assert values["leeway_model_champion", "flights", "2"] == 1
    day = dt.datetime(2013, 1, 3, tzinfo=dt.UTC)
    assert values["leeway_model_newest_partition_timestamp_seconds", "flights"] == day.timestamp()
    assert values["leeway_model_last_publication_timestamp_seconds", "flights"] >= before - 1
    assert ("leeway_model_drifted", "flights") not in values, "drift was never decided"
    assert values["leeway_costs_read_timestamp_seconds",] >= before - 1


def test_server_answers_until_sigterm_and_its_port_is_refused_to_another(home: Any) -> None:
    command = [sys.executable, "-m", "pipelines", "metrics", "flights", "--port"]
    with subprocess.Popen([*command, "0"], stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr
            line = server.stderr.readline()
            assert "http:" in line, line
            url = line.split()[-1]
            with urllib.request.urlopen(url) as response:
                assert parse(response.read().decode())["leeway_model_health", "no champion", "flights"] == 1
            port = url.split(":")[2].split("/")[0]
            with pytest.raises(ConflictError, match=f"port {port} of 127.0.0.1 is in use"):
                CliRunner().invoke(app.build_app("metrics"), [*command[3:], port], catch_exceptions=False)
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0


def test_options_of_the_server_without_a_port_are_refused(home: Any) -> None:
    with pytest.raises(SpecError, match="--host and --interval have no effect without --port"):
        CliRunner().invoke(app.build_app("metrics"), ["metrics", "flights", "--interval", "5"], catch_exceptions=False)
