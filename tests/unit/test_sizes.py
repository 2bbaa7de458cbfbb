"""Test that modules, functions and folders stay small enough to be read by walking through them."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("benchmarks", "dags", "drydock", "pipelines", "plugins", "stack", "templates", "tools")
MAX_MODULE_LINES, MAX_FUNCTION_LINES, MAX_FOLDER_MODULES = 300, 40, 16
LISTS = {"pipelines/steps", "plugins/leeway/operators"}
"""Folders that are lists: one module for each step, and for each operator."""
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def walk_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in a node. Expressions hold no functions but lambdas."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from walk_statements(child)


def list_long_functions(code: str) -> Iterator[str]:
    """Yield each function with more lines than allowed.

    Of a constructor, only the body counts: an operator has many parameters, one on each line.
    """
    for node in walk_statements(ast.parse(code)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            begin = node.body[0].lineno if node.name == "__init__" else node.lineno
            if (lines := node.end_lineno - begin + 1) > MAX_FUNCTION_LINES:
                yield f"{node.name}: {lines} lines"


def test_modules_and_functions_are_short():
    codes = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in MODULES}
    assert [name for name, code in codes.items() if len(code.splitlines()) > MAX_MODULE_LINES] == []
    assert [f"{name}: {function}" for name, code in codes.items() for function in list_long_functions(code)] == []


def test_folders_hold_few_modules():
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in MODULES if path.name != "__init__.py")
    large_folders = {folder: count for folder, count in counts.items() if count > MAX_FOLDER_MODULES}
    assert set(large_folders) <= LISTS


def test_long_functions_are_found():
    body = "    x = 1\n" * MAX_FUNCTION_LINES
    assert list(list_long_functions(f"def long():\n{body}")) == ["long: 41 lines"]
    inner = "\n".join(f"     {line}" for line in f"def inner():\n{body}".splitlines())
    nested = f"class A:\n  try: pass\n  except E:\n   match x:\n    case 1:\n{inner}"
    assert list(list_long_functions(nested)) == ["inner: 41 lines"]
    assert list(list_long_functions(f"def __init__(self):\n{body}")) == []
    assert list(list_long_functions(f"def __init__(self):\n{body}    y = 1\n")) == ["__init__: 41 lines"]
