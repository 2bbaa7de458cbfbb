"""Test how `python -m pipelines new` asks a person."""

from collections.abc import Iterator

import pytest

from pipelines.cli.commands import new
from pipelines.errors import SpecError


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the list of answers that a person gives, one after the other."""
    values: list[str] = []
    monkeypatch.setattr("typer.prompt", lambda text: values.pop(0))
    yield values
    assert values == [], "each answer was asked for"


def test_a_question_is_repeated_until_the_answer_is_a_choice(
    answers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answers += ["profit", ",", " store, depot "]
    assert new._ask_person("key", "no columns identify a row.", ["store", "depot"]) == "store,depot"
    out = capsys.readouterr().out
    assert out.splitlines() == [
        "no columns identify a row.",
        "One or several of: store, depot",
        "'profit' is not one or several of these.",
        "',' is not one or several of these.",
    ]


def test_only_a_key_may_have_several_columns(answers: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    answers += ["binary,multiclass", "binary"]
    assert new._ask_person("task", "the task is not clear.", ["binary", "multiclass"]) == "binary"
    assert "'binary,multiclass' is not one of these." in capsys.readouterr().out


def test_a_question_without_choices_takes_any_answer(answers: list[str]) -> None:
    answers += ["orders.csv"]
    assert new._ask_person("source", "the source of the rows is not given.", ()) == "orders.csv"


@pytest.mark.parametrize(
    ("text", "schedule"), [("00:00", "0 0 * * *"), ("3:30", "30 3 * * *"), ("23:59", "59 23 * * *")]
)
def test_the_time_of_ingestion_becomes_a_schedule(text: str, schedule: str) -> None:
    assert new._parse_time(text) == schedule


@pytest.mark.parametrize("text", ["", "daily", "24:00", "12:60", "12", "-1:00"])
def test_another_text_is_no_time_of_day(text: str) -> None:
    with pytest.raises(SpecError, match="is not a time of day"):
        new._parse_time(text)
