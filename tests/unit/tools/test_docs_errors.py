"""The messages on the page of errors are those of the code.

A message on the page has words in capitals (DATASET, N) for what the code fills in, and "..." for what is left out. All
other words have to be in the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "errors.md"
SOURCES = ("pipelines", "plugins/leeway", "drydock", "stack")
FOREIGN = {"expected <block end>", "No such option"}
"""Parts that PyYAML and typer write."""
FILLED_IN = re.compile(r"\.\.\.|'?\b[A-Z][A-Z_]*\b'?(?!_)")
KEPT = {"LEEWAY_RUN", "MLFLOW_TRACKING_URI", "AWS_ENDPOINT_URL", "LEEWAY_PRICES", "YAML", "MLflow", "USD", "S"}
"""Words in capitals that are the code's own."""
MIN_LENGTH = 4


def messages(page: str) -> list[str]:
    """Return the messages of all tables: what the second column has as code."""
    rows = [line.split("|")[2] for line in page.splitlines() if line.startswith("| ") and line.count("|") == 4]
    return [message for cell in rows for message in re.findall(r"`([^`]+)`", cell)]


def parts(message: str) -> Iterator[str]:
    """Yield what of a message the code has word by word; a sentence is a part of its own."""
    for sentence in re.split(r"(?<=[.:])\s", message):
        start = 0
        for gap in FILLED_IN.finditer(sentence):
            if gap[0] in KEPT:
                continue
            yield sentence[start : gap.start()]
            start = gap.end()
        yield sentence[start:]


def missing(message: str, texts: str) -> list[str]:
    """Return the parts of a message that the code does not have."""
    wanted = [part.strip(" .:;") for part in parts(message)]
    return [part for part in wanted if len(part) >= MIN_LENGTH and part not in texts and part not in FOREIGN]


@pytest.fixture(scope="module")
def texts() -> str:
    """Every text in the code, what is filled in left out, each in a line."""
    trees = [ast.parse(path.read_text()) for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))]
    found = []
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return "\n".join(found)


@pytest.mark.parametrize("message", messages(PAGE.read_text()))
def test_the_code_has_the_message(message: str, texts: str) -> None:
    assert missing(message, texts) == []


def test_there_are_messages() -> None:
    assert len(messages(PAGE.read_text())) > 30


def test_a_message_that_the_code_does_not_have_is_found(texts: str) -> None:
    assert missing("the registry has no MODEL version N.", texts) == []
    assert missing("the register has no MODEL version N.", texts) == ["the register has no"]
    assert missing("MLflow at URL is asleep. Is MLFLOW_TRACKING_URI right, ...", texts) == ["is asleep"]
