"""Test how the losses by round are found in the lines of a trial's log. test_tuning.py has real trials."""

import logging
import time
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from leeway.hooks.tuning import rounds
from leeway.hooks.tuning.rounds import LOG_GROUP, find_undefined_objective, parse_rounds, read_rounds, thin_rounds
from leeway.hooks.tuning.trials import Trial
from moto import mock_aws
from moto.logs.models import LogsBackend, logs_backends

from pipelines.tuning.sagemaker_job import METRIC_REGEX

LOG = logging.getLogger("rounds")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["[0]\ttuning-objective:0.5", "[1]\ttuning-objective:0.25", "tuning-objective:0.25"], {1: 0.5, 2: 0.25}),
        # The trial was interrupted after round 1, and resumed from the checkpoint of round 0.
        (
            ["[0] tuning-objective:3", "[1] tuning-objective:2", "resuming", "[1] tuning-objective:1"],
            {1: 3.0, 2: 1.0},
        ),
        (["tuning-objective:2", "epoch", "tuning-objective:1"], {1: 2.0, 2: 1.0}),
        (["[0]\ttuning-objective:nan", "[1]\ttuning-objective:wrong", "[2]\ttuning-objective:1"], {3: 1.0}),
        (["[0]\tloss:0.5"], {}),
        ([], {}),
    ],
)
def test_rounds_have_the_number_of_their_line_or_else_its_position(
    lines: list[str], expected: dict[int, float]
) -> None:
    assert parse_rounds(iter(lines), METRIC_REGEX) == expected


def test_regular_expression_of_a_script_is_used() -> None:
    assert parse_rounds(iter(["epoch 1 val=0.5 lr=1", "epoch 2 val=0.4 lr=1"]), r"val=(\S+)") == {1: 0.5, 2: 0.4}


def test_long_trial_is_thinned_and_keeps_its_best_and_its_last_round() -> None:
    long_trial = {number: abs(number - 501) + 1.0 for number in range(1, 10_000)}
    thinned = thin_rounds(long_trial, 100)
    assert len(thinned) <= 100 and {1, 501, 9_999} <= set(thinned) and list(thinned) == sorted(thinned)
    assert thin_rounds({1: 2.0, 2: 1.0}, 100) == {1: 2.0, 2: 1.0} and thin_rounds({}, 100) == {}


def make_trial(name: str) -> Trial:
    """Return a trial."""
    return Trial("t", {"TrainingJobName": name}, {"TrainingJobName": name})


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a client of CloudWatch Logs, in which the trial t-1 has two streams of seven lines each."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "moto-takes-any")
    # In this process, a test of drydock may have replaced moto's logs.
    monkeypatch.setattr(logs_backends, "backend", LogsBackend)
    logs_backends.clear()
    with mock_aws():
        client = boto3.client("logs", region_name="us-east-1")
        client.create_log_group(logGroupName=LOG_GROUP)
        start_ms = int(time.time() * 1_000) - 60_000
        for start, stream in enumerate(("t-1/algo-1-1", "t-1/algo-1-2")):
            client.create_log_stream(logGroupName=LOG_GROUP, logStreamName=stream)
            events = [
                {
                    "timestamp": start_ms + number,
                    "message": f"[{number + 5 * start}]\ttuning-objective:{start}.{number}",
                }
                for number in range(7)
            ]
            client.put_log_events(logGroupName=LOG_GROUP, logStreamName=stream, logEvents=events)
        yield client
    logs_backends.clear()


def test_all_streams_of_an_interrupted_trial_are_read(client: Any) -> None:
    (result,) = read_rounds(client, [make_trial("t-1")], METRIC_REGEX, LOG).values()
    assert list(result) == list(range(1, 13)) and result[5] == 0.4 and result[6] == 1.0
    # A trial that failed before its script started has no log.
    assert read_rounds(client, [make_trial("t-2")], METRIC_REGEX, LOG) == {"t-2": {}}


@pytest.mark.parametrize(
    ("last_line", "value"),
    [
        ("tuning-objective:nan", "nan"),
        ("[9]\ttuning-objective:-inf", "-inf"),
        ("tuning-objective:none", "none"),
        ("tuning-objective:0.5", ""),  # only the last objective counts
        ("no objective", ""),
    ],
)
def test_objective_that_is_not_a_finite_number_is_found(client: Any, last_line: str, value: str) -> None:
    client.create_log_stream(logGroupName=LOG_GROUP, logStreamName="t-2/algo-1-1")
    events = [
        {"timestamp": int(time.time() * 1_000) - 9 + number, "message": line}
        for number, line in enumerate(["[0]\ttuning-objective:nan", "[1]\ttuning-objective:1", last_line])
    ]
    client.put_log_events(logGroupName=LOG_GROUP, logStreamName="t-2/algo-1-1", logEvents=events)
    trials = [make_trial("t-1"), make_trial("t-2"), make_trial("t-3")]
    expected = f"the last objective in the log of trial t-2 is {value}" if value else ""
    assert find_undefined_objective(client, trials, METRIC_REGEX, LOG) == expected


def test_number_of_pages_is_limited(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MAX_PAGES", 1)
    assert list(read_rounds(client, [make_trial("t-1")], METRIC_REGEX, LOG)["t-1"]) == list(range(1, 8))


def test_log_that_cannot_be_read_ends_the_reading_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(**_: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeLogStreams")

    no_group = type("ResourceNotFoundException", (Exception,), {})
    client = SimpleNamespace(
        describe_log_streams=refuse, exceptions=SimpleNamespace(ResourceNotFoundException=no_group)
    )
    trials = [make_trial("t-1"), make_trial("t-2")]
    assert read_rounds(client, trials, METRIC_REGEX, LOG) == {}
    (warning,) = caplog.messages
    assert "log of trial t-1 cannot be read" in warning and "2 trials" in warning and "AccessDenied" in warning
    caplog.clear()
    assert find_undefined_objective(client, trials, METRIC_REGEX, LOG) == ""
    (warning,) = caplog.messages
    assert "log of trial t-1 cannot be read" in warning and "AccessDenied" in warning
