"""Test how requests and their copies are paired: by their bodies, whatever the order, and whatever is missing."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipelines.dataset import Task
from pipelines.errors import DataError
from pipelines.serving.captured_requests import Capture
from pipelines.shadow_test.pairs import Pairs, Period, pair_requests, read_shadow_scores

SINCE = dt.datetime(2026, 3, 1, 9, 59, 30, tzinfo=dt.UTC)
PERIOD = Period(SINCE, SINCE + dt.timedelta(minutes=2))
JSON, LINES, CSV = "application/json", "application/jsonlines", "text/csv"


def write(folder: Path, variant: str, body: str, scores: Any, at: dt.datetime = SINCE, kind: str = JSON) -> None:
    """Capture a request and its answer as SageMaker does."""
    text = json.dumps({"scores": scores}) if kind == JSON else "\n".join(map(json.dumps, scores))
    parts = {"endpointInput": (body, kind), "endpointOutput": (text, JSON if kind == JSON else LINES)}
    data = {
        name: {"observedContentType": content_type, "data": value, "encoding": "JSON"}
        for name, (value, content_type) in parts.items()
    }
    event = {"captureData": data, "eventMetadata": {"eventId": "e", "inferenceTime": f"{at:%Y-%m-%dT%H:%M:%SZ}"}}
    path = folder / f"boats/{variant}/{at:%Y/%m/%d/%H}/0.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(event) + "\n")


def pair(folder: Path, task: Task = "binary") -> Pairs:
    shadow_scores = read_shadow_scores(Capture(str(folder), "boats", "shadow-2"), PERIOD, task)
    return pair_requests(Capture(str(folder), "boats", "AllTraffic"), PERIOD, task, shadow_scores)


def test_requests_are_paired_by_body_in_any_order(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, "AllTraffic", json.dumps([{"x": number}]), [number / 10])
    for number in (2, 0):  # the copy of request 1 was left out
        write(tmp_path, "shadow-2", json.dumps([{"x": number}]), [number / 10 + 0.5], SINCE + dt.timedelta(minutes=1))
    pairs = pair(tmp_path)
    assert (pairs.requests, pairs.champion, pairs.challenger) == (2, [0.0, 0.2], [0.5, 0.7])
    assert pairs.rows == [{"x": 0}, {"x": 2}]


def test_equal_bodies_are_paired_as_often_as_both_answered(tmp_path: Path) -> None:
    for variant, count in (("AllTraffic", 3), ("shadow-2", 2)):
        for _ in range(count):
            write(tmp_path, variant, '[{"x": 1}]', [0.1])
    assert pair(tmp_path).requests == 2


def test_lines_without_names_and_csv_are_paired_too(tmp_path: Path) -> None:
    for variant in ("AllTraffic", "shadow-2"):
        write(tmp_path, variant, "[1]\n[2]", [0.1, 0.2], kind=LINES)
        write(tmp_path, variant, "x\n3\n", [0.3], kind=CSV)
    pairs = pair(tmp_path)
    assert (pairs.requests, pairs.champion) == (2, [0.1, 0.2, 0.3])
    assert (pairs.rows, pairs.text_rows) == ([{}, {}, {"x": "3"}], [False, False, True])


def test_lines_with_looked_up_values_are_paired_with_lines_of_scores(tmp_path: Path) -> None:
    """The newer version looks values up, and the other one does not."""
    write(tmp_path, "AllTraffic", "[1]", [0.1], kind=LINES)
    write(tmp_path, "shadow-2", "[1]", [{"score": 0.3, "looked_up": {"wind": 3.5}}], kind=LINES)
    pairs = pair(tmp_path)
    assert (pairs.requests, pairs.champion, pairs.challenger) == (1, [0.1], [0.3])


def test_what_is_no_score_or_not_of_the_period_is_left_out(tmp_path: Path) -> None:
    late = PERIOD.until + dt.timedelta(seconds=1)
    for number, (scores, at) in enumerate([(["?"], SINCE), ([None], SINCE), ([0.5, 0.6], SINCE), ([0.5], late)]):
        write(tmp_path, "AllTraffic", json.dumps([{"x": number}]), [0.5], at)
        write(tmp_path, "shadow-2", json.dumps([{"x": number}]), scores, at)
    assert pair(tmp_path).requests == 0
    assert read_shadow_scores(Capture(str(tmp_path), "boats", "shadow-2"), PERIOD, "binary").lines == 3


@pytest.mark.parametrize(
    ("task", "score", "expected"),
    [
        ("regression", {"0.1": 1, "0.5": 2, "0.9": 3}, [2.0]),
        ("multiclass", {"late": 0.9, "on time": 0.1}, [{"late": 0.9, "on time": 0.1}]),
        ("multiclass", [0.9, 0.1], [{"0": 0.9, "1": 0.1}]),
    ],
)
def test_scores_of_other_tasks(tmp_path: Path, task: Task, score: Any, expected: Any) -> None:
    for variant in ("AllTraffic", "shadow-2"):
        write(tmp_path, variant, "[1]", [score], kind=LINES)
    assert pair(tmp_path, task).champion == expected


def test_both_versions_have_the_columns_of_all_classes() -> None:
    pairs = Pairs(1, [{"a": 0.4, "b": 0.6}], [{"b": 0.3, "c": 0.7}], [{}], [False])
    champion, challenger = pairs.tabulate()
    assert isinstance(champion, pd.DataFrame) and isinstance(challenger, pd.DataFrame)
    assert champion.to_numpy().tolist() == [[0.4, 0.6, 0.0]] and challenger.to_numpy().tolist() == [[0.0, 0.3, 0.7]]


@pytest.mark.parametrize(
    ("champion", "challenger", "text"),
    [
        (
            [{"a": 0.4, "b": 0.6}],
            [{"0": 0.3, "1": 0.7}],
            "the champion's scores have the classes a, b, and the challenger's have 0, 1",
        ),
        ([{"a": 0.4, "b": 0.6}, {"0": 0.4, "1": 0.6}], [{"a": 1.0, "b": 0.0}] * 2, "the champion's answers do not all"),
    ],
)
def test_classes_that_cannot_be_compared_are_refused(champion: list[Any], challenger: list[Any], text: str) -> None:
    """A version that answers with names of classes and one that answers with lists have no class in common."""
    with pytest.raises(DataError, match=text):
        Pairs(len(champion), champion, challenger, [{}] * len(champion), [False] * len(champion)).tabulate()


def test_a_place_that_does_not_exist_is_refused() -> None:
    with pytest.raises(DataError, match=r"is neither an s3:// URI nor a folder"):
        pair(Path("nowhere"))
