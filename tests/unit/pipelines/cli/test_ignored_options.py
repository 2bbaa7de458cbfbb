"""Test that no command takes an option that has no effect: each value is checked, or the combination is refused.

Three mechanisms, over all commands of `python -m pipelines`, `python -m stack` and `python -m drydock`:

* A value that is nonsense is refused beside every other option.
* Each option of a function is read on every path through the function that ends without an error.
* A step's field that has an effect only with another field, or only without it, is named in `Spec.prerequisites` or
  `Spec.replaced_fields`.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from drydock.__main__ import app as drydock_app
from pipelines.cli import app
from pipelines.errors import SpecError
from pipelines.steps import STEPS, load_spec_class
from stack.cli import app as stack_app

NONSENSE = "banana"
GROUP_APP = app.build_app()


def list_functions(group: typer.Typer, name: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the name and the function of each command of a typer app, except the steps, which have no own function."""
    for command in group.registered_commands:
        function = command.callback
        assert function is not None
        if "<lambda>" not in function.__qualname__ and not function.__qualname__.startswith("_build_command"):
            yield f"{name} {command.name or function.__name__}", function
    for inner_group in group.registered_groups:
        inner_app = inner_group.typer_instance
        assert inner_app is not None
        yield from list_functions(inner_app, f"{name} {inner_group.name}")
    callback = group.registered_callback.callback if group.registered_callback else None
    if callback and "<lambda>" not in callback.__qualname__:
        yield f"{name} (callback)", callback


FUNCTIONS = dict(
    itertools.chain.from_iterable(
        list_functions(*item) for item in ((GROUP_APP, "pipelines"), (stack_app, "stack"), (drydock_app, "drydock"))
    )
)


def list_reads(node: ast.AST) -> set[str]:
    """Return the names that an expression reads."""
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load)}


Path = tuple[frozenset[str], bool]
"""The names that a path through statements reads, and whether it ends the function."""


def list_paths(statements: Sequence[ast.stmt]) -> list[Path]:
    """Return the paths through statements that raise no error. A loop is run once; an error handler is not a path."""
    paths: list[Path] = [(frozenset(), False)]
    for statement in statements:
        open_paths = [path for path in paths if not path[1]]
        paths = [path for path in paths if path[1]]
        for reads, (more_reads, is_end) in itertools.product([path[0] for path in open_paths], step_through(statement)):
            paths.append((reads | more_reads, is_end))
    return list(set(paths))


def step_through(statement: ast.stmt) -> list[Path]:
    """Return the paths through one statement."""
    if isinstance(statement, ast.Raise):
        return []
    if isinstance(statement, ast.If):
        branches = [*list_paths(statement.body), *list_paths(statement.orelse)]
        return [(reads | list_reads(statement.test), is_end) for reads, is_end in branches]
    if isinstance(statement, ast.With | ast.For | ast.While | ast.Try):
        header = [
            child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt | ast.ExceptHandler)
        ]
        reads_of_header = set().union(*map(list_reads, header))
        return [(reads | reads_of_header, is_end) for reads, is_end in list_paths(statement.body)]
    return [(frozenset(list_reads(statement)), isinstance(statement, ast.Return))]


def find_ignored(function: Callable[..., Any]) -> set[str]:
    """Return the parameters that some path through the function does not read."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    names = {argument.arg for argument in (*tree.args.args, *tree.args.kwonlyargs)}
    return set().union(*(names - reads for reads, _ in list_paths(tree.body)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_option_is_read_on_every_path(name: str) -> None:
    ignored = find_ignored(FUNCTIONS[name])
    # Options of the server before a command: the test of drydock below.
    assert not ignored or name == "drydock (callback)", ignored


def ignore_days_beside_runs(runs: int | None, first: str) -> None:
    """Do what `costs forecast` did: with --runs, --from is not read."""
    if runs is None:
        print(first)  # noqa: T201
        return
    print(runs)  # noqa: T201


def test_an_option_that_a_path_ignores_is_found() -> None:
    """This is the negative control."""
    assert find_ignored(ignore_days_beside_runs) == {"first"}
    assert len(FUNCTIONS) > 20


COMBINATION_TEXTS = (
    *("--runs cannot be combined", "give either MODEL@VERSION or --partition"),
    *("days of the backfill are missing", "--force replaces a file, but --out names none"),
)
"""Messages about options that exclude each other, or that lack another option."""
DAY_METAVARS = ("YYYY-MM-DD", "DATE", "YYYY-MM")
PLAUSIBLE = "1"
"""A value of every option that is not a day: a number, a share, a text or a path."""


def list_commands(group: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words and the definition of each command that has options."""
    for name, command in getattr(group, "commands", {}).items():
        yield from list_commands(command, *words, name)
    if words and group.params and (not hasattr(group, "commands") or group.invoke_without_command):
        yield words, group


def write_argument(parameter: Any, value: str) -> list[str]:
    """Return the words that give a parameter this value; a flag has none."""
    if parameter.param_type_name == "argument":
        return [value]
    return [parameter.opts[0]] if getattr(parameter, "is_flag", False) else [parameter.opts[0], value]


def choose_value(parameter: Any) -> str:
    metavar = parameter.metavar or ""
    if metavar == "MODEL@VERSION":
        return "flights@3"
    if metavar in DAY_METAVARS:
        return "2013-01" if metavar == "YYYY-MM" else "2013-01-02"
    return {"by": "month", "dataset": "flights"}.get(parameter.name, PLAUSIBLE)


def list_combinations() -> Iterator[tuple[str, ...]]:
    """Yield command lines: each day is nonsense, beside each other option, and beside none."""
    for words, command in list_commands(typer.main.get_command(GROUP_APP)):
        if words[0] in STEPS:
            continue
        parameters = [parameter for parameter in command.params if parameter.name != "help"]
        for day in (parameter for parameter in parameters if parameter.metavar in DAY_METAVARS):
            others = [parameter for parameter in parameters if parameter is not day]
            required = [parameter for parameter in others if parameter.required]
            for other in (None, *(parameter for parameter in others if not parameter.required)):
                chosen = [*required, other] if other else required
                arguments = [
                    word for parameter in chosen for word in write_argument(parameter, choose_value(parameter))
                ]
                yield (*words, *arguments, *write_argument(day, NONSENSE))


COMBINATIONS = list(list_combinations())


def test_a_nonsense_day_is_refused_beside_every_other_option(
    home: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option that makes the day irrelevant would otherwise accept it."""
    assert len(COMBINATIONS) > 40
    accepted = []
    for arguments in COMBINATIONS:
        monkeypatch.setattr(sys, "argv", ["pipelines", *arguments])
        with pytest.raises(SystemExit) as end:
            app.main()
        error = capsys.readouterr().err
        is_refused = any(text in error for text in (NONSENSE, *COMBINATION_TEXTS))
        if end.value.code != 2 or not is_refused:
            accepted.append((arguments, end.value.code, error[-300:]))
    assert not accepted, accepted


def refuses_nonsense(step: str, field: str) -> bool:
    """Return whether the step names the field where its value is nonsense, and other fields are missing."""
    try:
        load_spec_class(step).check({field: NONSENSE}, "test")
    except SpecError as error:
        return field in str(error)
    return False


@pytest.mark.parametrize("step", STEPS)
def test_a_nonsense_value_of_a_step_is_refused_whatever_the_other_fields_are(step: str) -> None:
    accepted = {field for field in load_spec_class(step).model_fields if not refuses_nonsense(step, field)}
    texts = {
        name
        for name, field in load_spec_class(step).model_fields.items()
        if any(word in str(field.annotation) for word in ("str", "Path"))
    }
    assert accepted <= texts, "only a text can be anything"


@pytest.mark.parametrize("step", STEPS)
def test_a_field_without_effect_is_refused(step: str) -> None:
    spec_class = load_spec_class(step)
    required = {name: value for name, value in REQUIRED.items() if name in spec_class.model_fields}
    pairs = [*spec_class.prerequisites.items(), *spec_class.replaced_fields.items()]
    for field, other in pairs:
        alone = {field: VALUES.get(field, "x")}
        both = {**alone, other: VALUES.get(other, "y")}
        refused, accepted = (alone, both) if field in spec_class.prerequisites else (both, alone)
        with pytest.raises(SpecError, match=r"has no effect (without|beside)") as error:
            spec_class.parse({**required, **refused}, "test")
        assert field in str(error.value) and other in str(error.value)
        spec_class.parse({**required, **accepted}, "test")
        spec_class.check(refused, "params.yaml")  # another source may set the other field


REQUIRED = {
    **{"model": "", "partition": "2013-01-02", "why": "x", "dataset": "flights"},
    **{"endpoint": "e", "folder": "f", "space": {"eta": [0.1, 0.2]}},
}
VALUES: dict[str, Any] = {
    **{"force": True, "previous": True, "lineage": {"a": "b"}},
    "budget_usd": 1.0,
    **{"serverless_memory_mb": 1_024, "serverless_max_concurrency": 2, "serverless_load": 0.5},
}


def test_there_are_fields_that_need_another() -> None:
    """This is the negative control of the test above."""
    assert (
        sum(bool(load_spec_class(step).prerequisites or load_spec_class(step).replaced_fields) for step in STEPS) >= 5
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--port", "7000", "interrupt", "job"), "--port: only the server has this option; give --url to interrupt"),
        (("--verbose", "capacity", "ml.m5.large", "--unavailable"), "--verbose: only the server"),
        (("--dockerfile", "Dockerfile", "--port", "0"), "--dockerfile has no effect without --executor docker"),
    ],
)
def test_drydock_refuses_options_without_effect(arguments: Sequence[str], text: str, tmp_path: Any) -> None:
    (tmp_path / "Dockerfile").touch()
    words = [str(tmp_path / word) if word == "Dockerfile" else word for word in arguments]
    result = CliRunner().invoke(drydock_app, words)
    assert (result.exit_code, text in result.stderr) == (2, True), result.stderr


def test_the_schema_takes_no_other_option(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["pipelines", "gate", "--schema", "--version", "3"])
    with pytest.raises(SystemExit) as end:
        app.main()
    assert end.value.code == 2
    assert "--schema does not run the step" in capsys.readouterr().err
