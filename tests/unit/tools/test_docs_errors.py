"""Test that the messages on the page of errors are the messages of the code.

On the page, words in capitals (DATASET, N) stand for values that the code fills in, and "..." for omitted text. All
other words have to be in the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "errors.md"
SOURCES = ("pipelines", "plugins/leeway", "drydock", "stack")
FOREIGN = {"expected <block end>", "No such option"}
"""Parts of messages of PyYAML and typer."""
PLACEHOLDER = re.compile(r"\.\.\.|'?\b[A-Z][A-Z_]*\b'?(?!_)")
LITERALS = {
    "LEEWAY_RUN",
    "LEEWAY_MEMORY_MIB",
    "MLFLOW_TRACKING_URI",
    "AWS_ENDPOINT_URL",
    "LEEWAY_PRICES",
    "YAML",
    "MLflow",
    "USD",
    "S",
}
"""Words in capitals that are in the code."""
MIN_LENGTH = 4


def list_messages(page: str) -> list[str]:
    """List the messages of all tables: the code in their second column."""
    rows = [line.split("|")[2] for line in page.splitlines() if line.startswith("| ") and line.count("|") == 4]
    return [message for cell in rows for message in re.findall(r"`([^`]+)`", cell)]


def split_parts(message: str) -> Iterator[str]:
    """Yield the parts of a message that the code must have. No part is longer than a sentence."""
    for sentence in re.split(r"(?<=[.:])\s", message):
        start = 0
        for gap in PLACEHOLDER.finditer(sentence):
            if gap[0] in LITERALS:
                continue
            yield sentence[start : gap.start()]
            start = gap.end()
        yield sentence[start:]


def find_missing(message: str, texts: str) -> list[str]:
    """List the parts of a message that the code does not have."""
    parts = [part.strip(" .:;") for part in split_parts(message)]
    return [part for part in parts if len(part) >= MIN_LENGTH and part not in texts and part not in FOREIGN]


def list_strings(code: str) -> Iterator[str]:
    """Yield all string constants of the code. `ast.walk` takes twice as long."""
    values: list[Any] = [ast.parse(code)]
    while values:
        value = values.pop()
        if isinstance(value, ast.Constant):
            if isinstance(value.value, str):
                yield value.value
        elif isinstance(value, ast.AST):
            values.extend(vars(value).values())
        elif isinstance(value, list):
            values.extend(value)


@pytest.fixture(scope="module")
def texts() -> str:
    """Return all string constants of the code, one after the other, in lines."""
    paths = [path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))]
    return "\n".join(string for path in paths for string in list_strings(path.read_text()))


@pytest.mark.parametrize("message", list_messages(PAGE.read_text()))
def test_code_has_the_message(message: str, texts: str) -> None:
    assert find_missing(message, texts) == []


def test_page_has_messages() -> None:
    assert len(list_messages(PAGE.read_text())) > 30


def test_check_finds_a_message_that_the_code_does_not_have(texts: str) -> None:
    assert find_missing("the registry has no MODEL version N.", texts) == []
    assert find_missing("the register has no MODEL version N.", texts) == ["the register has no"]
    assert find_missing("MLflow at URL is asleep. Check MLFLOW_TRACKING_URI, ...", texts) == ["is asleep"]
