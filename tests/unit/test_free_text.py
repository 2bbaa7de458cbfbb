"""Walk all that is shown to people: no free text in it adds a line, commands the terminal or hides a character.

Each case renders something twice: with plain text in every field that can have free text, and with text that holds a
newline, control characters, and characters of direction and without width. Both must have the same number of lines.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import meta
from rich.console import Console

from pipelines.escaping import is_visible
from pipelines.pages import page

HOSTILE = "x\nFORGED\r\x1b[2J\x9b1A\x07\u2028\u202e\u200b\ufeff\ufe0f\u3164[bold]"
MOMENT = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
DAY = dt.date(2013, 1, 1)
Render = Callable[[str], str]


def find_invisible(text: str) -> list[str]:
    """List the characters of a text with several lines that a person cannot see."""
    return sorted({character for character in text if character != "\n" and not is_visible(character)})


def check(render: Render) -> None:
    """Render plain and hostile text, and compare."""
    plain, hostile = render("plain"), render(HOSTILE)
    assert "plain" in plain and "FORGED" in hostile, "the case shows its text"
    assert find_invisible(hostile) == []
    assert len(hostile.splitlines()) == len(plain.splitlines())
    assert not any(line.startswith("FORGED") for line in hostile.splitlines())


def fill(value: Any, text: str, kept: tuple[str, ...] = ()) -> Any:
    """Append the text to every string in a structure, keys of mappings included, without the values of kept keys."""
    if isinstance(value, str):
        return f"{value}{text}"
    if isinstance(value, dict):
        return {key: item if key in kept else fill(item, text, kept) for key, item in value.items()}
    return [fill(item, text, kept) for item in value] if isinstance(value, list | tuple) else value


def fill_fields(record: Any, text: str, **kept: Any) -> Any:
    """Return a dataclass whose texts are the given one, each field that is annotated as text or texts."""
    values = {
        field.name: text if field.type == "str" else (text,)
        for field in fields(record)
        if field.type in ("str", "tuple[str, ...]") and field.name not in kept
    }
    return replace(record, **values, **kept)


# The terminal


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Callable[[Callable[[], Any]], str]:
    """Return the function that calls a function and returns what it wrote to stdout and stderr."""

    def capture(function: Callable[[], Any]) -> str:
        capsys.readouterr()
        function()
        return "".join(capsys.readouterr())

    return capture


def store(event: Any, journal: Any) -> None:
    """Store an event, with all its texts as they are, in a real table of the lake."""
    journal.append_event(event.model, lambda _: event)


def test_events_of_versions(home: Path, output: Any) -> None:
    from pipelines.cli.registry import list_events
    from pipelines.registry.lifecycle import Event, Journal, Kind

    def render(text: str) -> str:
        model = f"m{text}"
        for kind in Kind:
            event = fill_fields(Event.create(kind, model, text), text, id=f"{kind}{text}", model=model)
            store(replace(event, evidence={"kept": True, text: text}), Journal.open())
        return str(output(lambda: list_events(model)))

    check(render)


def test_json_is_for_programs_and_keeps_the_text(home: Path, output: Any) -> None:
    from pipelines.cli.registry import list_events
    from pipelines.registry.lifecycle import Event, Journal, Kind

    store(Event.create(Kind.RETIRED, "m", "1", why=HOSTILE), Journal.open())
    text = output(lambda: list_events("m", as_json=True))
    assert json.loads(text)[0]["why"] == HOSTILE
    assert find_invisible(text) == []


def test_events_of_the_loop(home: Path, output: Any) -> None:
    from pipelines.cli.loop import list_events
    from pipelines.loop.events import Event, Kind
    from pipelines.loop.journal import Journal

    def render(text: str) -> str:
        model = f"m{text}"
        for kind in Kind:
            event = Event.create(kind, model, text, why=text, guard=text)
            store(fill_fields(event, text, id=f"{kind}{text}", model=model, outcome="failed"), Journal.open())
        return str(output(lambda: list_events(model)))

    check(render)


def test_lineage() -> None:
    from mlflow.entities.model_registry import ModelVersion, ModelVersionTag

    from pipelines.registry import lineage_tree
    from pipelines.registry.lifecycle import Event, Kind, State

    tags = [f"leeway.{name}" for names in lineage_tree.BRANCHES.values() for name in names]

    def render(text: str) -> str:
        event = fill_fields(Event.create(Kind.PROMOTED, text, "1"), text, version="1")
        state = State(events=(event,), blocked_versions={"1": text})
        version = ModelVersion(text, "1", 0, tags=[ModelVersionTag(tag, text) for tag in tags])
        tree = lineage_tree.build_tree(version, {f"holdout_{text}": 0.5}, {text: text}, state)
        stream = io.StringIO()
        Console(file=stream, width=1_000).print(tree, soft_wrap=True)
        return stream.getvalue()

    check(render)


def test_costs(output: Any) -> None:
    from pipelines.cli.terminal import make_console
    from pipelines.costs import report

    figures = dict.fromkeys(("training_s", "billable_s", "lost_s", "cost_usd", "on_demand_usd"), 1.0)
    keys = [key for key in report.KEYS if key != "month"]

    def render(text: str) -> str:
        row = {**figures, **dict.fromkeys(keys, text), "instance_count": 1, "interruptions": 0, "price_date": DAY}
        groups, total = report.group_rows([row], keys), report.sum_rows([row])
        console = make_console()
        console.width = 1_000
        return str(output(lambda: console.print(report.build_table(groups, keys, total, "caption"))))

    check(render)
    assert "[bold]" in render(HOSTILE), "text is no markup"


def test_replayed_expectations(output: Any) -> None:
    from pipelines.cli.expectations import _print_differences

    def render(text: str) -> str:
        failure = {"severity": "critical", "expectation": text, "column": text}
        outcome = SimpleNamespace(rows=1, bad_rows=1, verdict=text)
        last_run = SimpleNamespace(verdict=text)
        partition: Any = SimpleNamespace(
            is_different=True, last_run=last_run, failures=[failure], outcome=outcome, verdict=text, partition=DAY
        )
        totals = {"differ": 1, "now": {}, "before": {}, "partitions": 1, "quarantined": 0}
        return str(output(lambda: _print_differences([partition], totals)))

    assert find_invisible(render(HOSTILE)) == []


def test_lines_of_commands_errors_and_log(output: Any) -> None:
    from pipelines.cli.terminal import write_line
    from pipelines.errors import DataError
    from pipelines.system.log import LineFormatter

    check(lambda text: str(output(lambda: write_line(f"why: {text}"))))
    check(lambda text: f"error: {DataError(text, text)}")

    def log(text: str) -> str:
        record = logging.LogRecord("leeway", logging.INFO, "", 0, "%s", (text,), None)
        return LineFormatter("%(levelname).1s %(name)s: %(message)s").format(record)

    check(log)


def test_a_traceback_in_the_log_keeps_its_lines() -> None:
    import sys

    from pipelines.system.log import LineFormatter

    try:
        raise ValueError("x")
    except ValueError:
        record = logging.LogRecord("leeway", logging.ERROR, "", 0, "it failed", (), sys.exc_info())
    assert len(LineFormatter("%(message)s").format(record).splitlines()) > 2


def test_table_of_the_demo_and_errors_of_the_stack(output: Any) -> None:
    from stack import display
    from stack.errors import StackError
    from stack.jobs.results_table import build_results_table
    from stack.jobs.training_runs import TrainingRun

    names = ("version", "window", "rows_train", "rows_holdout", "data_version", "training_job", "verdict")

    def render(text: str) -> str:
        run = TrainingRun(as_of=DAY, aliases=[text], **dict.fromkeys(names, text))
        console = display.open_console()
        console.width = 1_000
        return str(output(lambda: console.print(build_results_table([run]))))

    check(render)
    check(lambda text: str(output(lambda: display.print_error(StackError(text)))))
    error = StackError("it failed")
    error.details = f"one\n{HOSTILE}"
    assert find_invisible(output(lambda: display.print_error(error))) == []


# Messages and forms


@pytest.mark.parametrize("step", ["drift", "gate", "guard", "promote", "rollback"])
def test_messages(step: str) -> None:
    from leeway.notifiers import mail, slack
    from leeway.notifiers.step_messages import build_step_message

    from tests.unit.leeway.notifiers.conftest import RESULTS

    def render(text: str) -> str:
        result = fill(RESULTS[step], text, kept=("outcome",))
        message = build_step_message(step, result, is_backfill=False, log_url=f"https://log/{text}")
        assert message is not None
        message = message.add_links({text: f"https://docs/{text}"})
        blocks = [block["text"]["text"] for block in slack.render_blocks(message)]
        return "\n".join([*blocks, mail.render_text(message), mail.render_html(message, text)])

    check(render)


def test_message_about_a_failed_task() -> None:
    from leeway.notifiers import mail
    from leeway.notifiers.step_messages import build_failure_message

    def render(text: str) -> str:
        error = ValueError(f"x{text}FORGED")
        message = build_failure_message(text, text, text, try_number=1, log_url=text, error=error)
        return mail.render_text(message)

    check(render)


def test_a_label_cannot_end_a_link_of_slack() -> None:
    from leeway.notifiers import slack
    from leeway.notifiers.message import Message

    blocks = slack.render_blocks(Message.create("t", {}, [], {"a|b> <!channel>": "https://docs"}))
    assert blocks[1]["text"]["text"] == "<https://docs|a¦b&gt; &lt;!channel&gt;>"


def test_form_of_the_approval() -> None:
    from leeway.operators.approval import render_body

    from tests.unit.leeway.operators.test_approval import VERDICT

    def render(text: str) -> str:
        verdict = fill({**VERDICT, "next_steps": ["wait"], "differences": {f"w{text}": ["a", "b"]}}, text)
        return render_body({**verdict, "facts": {text: text}})

    check(render)
    body = render_body({**VERDICT, "reason": "<b>a</b> [b](http://evil) `c` | d"})
    assert body.startswith(r"\<b\>a\</b\> \[b\](http://evil) \`c\` \| d")


# Pages


class AnyValue(str):
    """Whatever a template expects: each attribute, item and call of it is one, too. As text it is the given text."""

    def __format__(self, _: str) -> str:
        return str(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return (lambda: [(self, self)]) if name == "items" else self

    def __getitem__(self, _: Any) -> AnyValue:
        return self

    def __call__(self, *_: Any) -> AnyValue:
        return self

    def __iter__(self) -> Iterator[AnyValue]:
        return iter([self])

    def __len__(self) -> int:
        return 1

    __index__ = __len__

    def __float__(self) -> float:
        return 1.0

    def __mul__(self, _: Any) -> Any:
        return 1.0

    def __radd__(self, _: Any) -> int:
        return 1

    def __lt__(self, _: Any) -> bool:
        return False

    def __eq__(self, _: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1

    __rmul__ = __add__ = __mul__
    __gt__ = __ge__ = __le__ = __lt__


def render_with_any_values(name: str, text: str) -> str:
    """Render a template with the text in place of each value."""
    environment = page._build_environment()
    assert environment.loader is not None
    source = environment.loader.get_source(environment, name)[0]
    names = meta.find_undeclared_variables(environment.parse(source))
    return environment.get_template(name).render({variable: AnyValue(text) for variable in names - {"mark"}}, mark="")


PARTS = ("layout.html", "parts.html")
"""Templates that are no pages by themselves."""
TEMPLATES = sorted({path.name for path in Path(page.__file__).parent.glob("templates/*.html")} - set(PARTS))


@pytest.mark.parametrize("name", TEMPLATES)
def test_pages(name: str) -> None:
    check(lambda text: render_with_any_values(name, text))


def test_the_check_of_pages_finds_a_page_that_does_not_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_escape_value", lambda value: value)
    page._build_environment.cache_clear()
    with pytest.raises(AssertionError):
        check(lambda text: render_with_any_values("verdict.html", text))
    page._build_environment.cache_clear()
