"""Read the objective of each round from the logs of trials, for the report and the MLflow runs of a tuning.

SageMaker keeps only the last objective of a trial. The log has the objectives of all rounds, even if the trial was
stopped. A log can have any size, so the number of lines that are read, and of rounds that are returned, is limited.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leeway.hooks.sagemaker.aws_errors import call_with_retries, format_error_line
from leeway.hooks.step.hook import Logger
from leeway.hooks.tuning.trials import Trial

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
ROUND_NUMBER = re.compile(r"^\[(\d+)\]\s")
"""Start of the line of a round, with its number from 0, as xgboost and Leeway's training script write it."""
MAX_PAGES = 20
"""Largest number of pages of a trial's log that are read: each has at most 10,000 lines, or 1 MiB."""
MAX_ROUNDS = 1_000
"""Largest number of rounds of one trial that are returned."""
MAX_ROUNDS_OF_ALL = 100_000
"""Largest number of rounds of all trials together that are returned, if there are at most 2,000 trials."""
MAX_UNDEFINED_TRIALS = 5
"""Largest number of trials whose logs are searched for an objective that is not a finite number."""
MAX_VALUE_CHARS = 30
"""Largest number of characters of an objective's text in an error."""
MIN_ROUNDS = 50
"""Each trial may have this number of rounds, however many trials there are."""

Rounds = dict[int, float]
"""Maps a number of rounds, at least 1, to the objective after these rounds."""


def read_rounds(client: Any, trials: Sequence[Trial], regex: str, log: Logger) -> dict[str, Rounds]:
    """Return the objective of each round of the trials, by name of the trial.

    The values are only shown in reports. So an error is only logged; that trial and the trials after it have no rounds.
    The rounds of a long trial are thinned evenly; its best and its last round are always among them.

    Args:
        client: boto3 client of CloudWatch Logs.
        trials: ended trials.
        regex: regular expression of the objective, whose first group is the number.
        log: log of the task.
    """
    limit = max(MIN_ROUNDS, min(MAX_ROUNDS, MAX_ROUNDS_OF_ALL // max(1, len(trials))))
    rounds: dict[str, Rounds] = {}
    for trial in trials:
        try:
            rounds[trial.name] = thin_rounds(parse_rounds(_read_lines(client, trial.name, log), regex), limit)
        except Exception as error:
            log.warning(
                "the log of trial %s cannot be read, so the report lacks the objective of each round of %d trials: %s",
                *(trial.name, len(trials) - len(rounds), format_error_line(error)[:300]),
            )
            break
    return rounds


def find_undefined_objective(client: Any, trials: Sequence[Trial], regex: str, log: Logger) -> str:
    """Return which trial's last objective is not a finite number, and what it is; empty if there is none.

    An error is only logged, because the returned text is only part of the message of another error. Only the first
    trials are read.

    Args:
        client: boto3 client of CloudWatch Logs.
        trials: ended trials without an objective.
        regex: regular expression of the objective, whose first group is the number.
        log: log of the task.
    """
    pattern = re.compile(regex)
    for trial in trials[:MAX_UNDEFINED_TRIALS]:
        try:
            matches = [match for line in _read_lines(client, trial.name, log) if (match := pattern.search(line))]
        except Exception as error:
            log.warning("the log of trial %s cannot be read: %s", trial.name, format_error_line(error)[:300])
            return ""
        if matches and _parse_number(matches[-1]) is None:
            return f"the last objective in the log of trial {trial.name} is {matches[-1][1][:MAX_VALUE_CHARS]}"
    return ""


def parse_rounds(lines: Iterator[str], regex: str) -> Rounds:
    """Return the objective of each round in the lines of a log, in the order of the rounds.

    The number of a round is in brackets at the start of its line. If a trial was interrupted, its log may have a round
    twice; the value of the later line is returned. If no line has a number, each line with an objective is one round.
    """
    pattern, rounds, values = re.compile(regex), dict[int, float](), list[float]()
    for line in lines:
        if (value := _parse_objective(pattern, line)) is None:
            continue
        values.append(value)
        if number := ROUND_NUMBER.match(line):
            rounds[int(number[1]) + 1] = value
    return dict(sorted(rounds.items())) or dict(enumerate(values, start=1))


def thin_rounds(rounds: Mapping[int, float], limit: int) -> Rounds:
    """Return at most `limit` rounds at equal intervals, with the last and the best one. `limit` is at least 3."""
    step = max(1, math.ceil(len(rounds) / (limit - 2)))
    numbers = list(rounds)
    selection = {*numbers[::step], *numbers[-1:], *sorted(rounds, key=lambda number: rounds[number])[:1]}
    return {number: value for number, value in rounds.items() if number in selection}


def _parse_objective(pattern: re.Pattern[str], line: str) -> float | None:
    """Return the objective in a line; None if it has none, or one that is not a finite number."""
    match = pattern.search(line)
    return _parse_number(match) if match else None


def _parse_number(match: re.Match[str]) -> float | None:
    """Return the number in the first group of a match; None if it is no finite number."""
    try:
        value = float(match[1])
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _read_lines(client: Any, trial: str, log: Logger) -> Iterator[str]:
    """Yield the lines of a trial's first host, oldest first; none if there is no log."""
    # A job that was interrupted has a stream for each of its starts; the name ends with the time of the start.
    request = {"logGroupName": LOG_GROUP, "logStreamNamePrefix": f"{trial}/algo-1-"}
    try:
        response = call_with_retries(lambda: client.describe_log_streams(**request), log, "CloudWatch Logs")
    except client.exceptions.ResourceNotFoundException:
        return
    pages = 0
    for stream in sorted(stream["logStreamName"] for stream in response["logStreams"]):
        token: dict[str, str] = {}
        while pages < MAX_PAGES:
            request = {"logGroupName": LOG_GROUP, "logStreamName": stream, **token}
            page = call_with_retries(
                lambda request=request: client.get_log_events(startFromHead=True, **request),  # type: ignore[misc]
                *(log, "CloudWatch Logs"),
            )
            yield from (str(event["message"]) for event in page["events"])
            pages += 1
            # At the end of a stream, CloudWatch returns the token of the request again.
            if page["nextForwardToken"] == token.get("nextToken"):
                break
            token = {"nextToken": page["nextForwardToken"]}
