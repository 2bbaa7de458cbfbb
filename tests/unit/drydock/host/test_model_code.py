"""Test the functions of a model's code, and the context that they may take."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drydock.host.model_code import ModelAnswer, UndecodableBody, load_model

CODE = """
def model_fn(model_dir, context): return context
def transform_fn(context, body, content_type, accept, same_context):
    assert context is same_context and context.request_processor[0].get_request_properties()
    {change}
    return body
"""
NUMBERS = itertools.count()
ATTRIBUTES = "x-amzn-sagemaker-custom-attributes"
Answer = Callable[..., ModelAnswer]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Answer]:
    """Return the function that loads code whose transform_fn contains a line."""

    def load_code(change: str) -> Answer:
        name = f"model_code_{next(NUMBERS)}"  # a module is imported only once
        (tmp_path / "code").mkdir(exist_ok=True)
        (tmp_path / "code" / f"{name}.py").write_text(CODE.format(change=change))
        monkeypatch.setenv("SAGEMAKER_PROGRAM", f"{name}.py")
        monkeypatch.syspath_prepend(str(tmp_path))  # `load_model` changes the path; the original one is restored
        predict = load_model(tmp_path)
        return lambda body=b"{}": predict(body, "text/csv", "a/b", {"Accept": "a/b"})

    return load_code


def test_code_may_set_status_and_custom_attributes(load: Any) -> None:
    assert load("pass")() == (b"{}", "a/b", 200, "")
    assert load("context.set_response_status(429, 'later')")().status == 429
    assert load(f"context.set_response_header(0, {ATTRIBUTES!r}, 'a=1, b')")().custom_attributes == "a=1, b"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("context.set_response_status(204)", "the status 204; it must be 200, or 400 to 599"),
        ("context.set_response_status('400')", "the status '400'"),
        (f"context.set_response_header(0, {ATTRIBUTES!r}, 'x' * 1025)", "at most 1024 visible ASCII characters"),
        (f"context.set_response_header(0, {ATTRIBUTES!r}, 'a\\nb')", "at most 1024 visible ASCII characters"),
    ],
)
def test_code_that_sets_something_else_is_an_error(load: Any, change: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(change)()


def test_an_earlier_request_does_not_change_a_later_one(load: Any) -> None:
    answer = load("if body == 'first': context.set_response_status(400)")
    assert [answer(body).status for body in (b"first", b"second")] == [400, 200]


def test_a_body_that_is_not_utf_8_is_the_error_of_the_client(load: Any) -> None:
    with pytest.raises(
        UndecodableBody, match="the body is not text/csv: 'utf-8' codec can't decode byte 0xff"
    ) as error:
        load("pass")(b"\xff")
    assert error.value.status_code == 400
