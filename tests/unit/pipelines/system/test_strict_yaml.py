"""Test that YAML with a key twice, or with more than plain values, is refused. test_params.py has merged mappings."""

import pytest
import yaml

from pipelines.system.strict_yaml import describe_yaml_error, load_yaml


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2\n", "line 2, column 1: the key 'a' occurs twice"),
        ('{"b": {"a": 1, "a": 2}}', "line 1, column 16: the key 'a' occurs twice"),
        ("a: !!python/name:os.system\n", "line 1, column 4: could not determine a constructor"),
        ("{", "line 2, column 1: "),
    ],
)
def test_wrong_text_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(yaml.YAMLError) as error:
        load_yaml(text)
    description = describe_yaml_error(error.value)
    assert description.startswith(problem) and "\n" not in description


def test_plain_text_is_read() -> None:
    """This is the negative control."""
    assert load_yaml('{"a": [1, 0.5, "x"], b: true}') == {"a": [1, 0.5, "x"], "b": True}
    assert load_yaml("") is None
