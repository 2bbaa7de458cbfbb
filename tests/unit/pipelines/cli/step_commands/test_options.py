"""Test how the value of an option becomes the value of a field: JSON, YAML, or a text."""

from typing import Any

import pytest

from pipelines.cli.step_commands.options import parse_value
from pipelines.errors import SpecError
from pipelines.steps.tune import TuneSpec

SPACE = TuneSpec.model_fields["space"]
RANGE = {"eta": {"low": 3, "high": 10, "type": "int"}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"eta": {"low": 3, "high": 10, "type": "int"}}', RANGE),
        ("{eta: {low: 3, high: 10, type: int}}", RANGE),  # as in params.yaml, and in the help
        ("{eta: [0.1, dart]}", {"eta": [0.1, "dart"]}),
        ('{"eta": 1e5}', {"eta": 1e5}),  # a text in YAML
        ("eta: 1", "eta: 1"),
    ],
)
def test_a_mapping_is_json_or_yaml(text: str, value: Any) -> None:
    assert parse_value("space", text, SPACE) == value


def test_a_field_of_text_stays_text() -> None:
    assert parse_value("warm_start", "{a: 1}", TuneSpec.model_fields["warm_start"]) == "{a: 1}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{eta: [1, 2}", "line 1, column 12: "),
        ('{"eta": {"low": 1}', "line 2, column 1: "),
        ("{eta: [1, 2], eta: [3, 4]}", "line 1, column 15: the key 'eta' occurs twice"),
        ('{"eta": [1, 2], "eta": [3, 4]}', "line 1, column 17: the key 'eta' occurs twice"),
        ("{eta: {low: 1, low: 2, high: 3}}", "line 1, column 16: the key 'low' occurs twice"),
        ("{eta: 2013-02-30}", "day is out of range"),
        ("{eta: !!python/object:os.system {}}", "line 1, column 7: could not determine a constructor"),
    ],
)
def test_a_wrong_text_is_refused_on_one_line(text: str, reason: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_value("fold_days", text, SPACE)
    message = str(error.value)
    assert message.startswith(f"--fold-days: {text} cannot be read as JSON or YAML: {reason}") and "\n" not in message
