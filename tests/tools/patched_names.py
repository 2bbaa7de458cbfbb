"""Find the names that tests replace with `monkeypatch.setattr`, and that the patched module no longer has.

mypy does not see these names, as they are strings. Without this check, only the test that replaces the name fails, and
it may be slow.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


def find_unknown_names(file: Path, roots: tuple[Path, ...]) -> list[str]:
    """Return the names that a test file replaces in modules of the roots, and that these modules do not have.

    Args:
        file: a Python file of tests.
        roots: folders that packages are imported from. Modules from elsewhere are not examined.

    Returns:
        one text for each unknown name: the line, the module and the name.
    """
    text = file.read_text()
    if "setattr(" not in text and "delattr(" not in text:
        return []
    tree = ast.parse(text)
    modules = dict(_list_imported_modules(tree, roots))
    return [
        f"{file}:{line}: {module.stem} has no {name}"
        for line, module, name in _list_replaced_names(tree, modules)
        if name not in list_names(module)
    ]


@cache
def list_names(module: Path) -> frozenset[str]:
    """Return the names that the module defines or imports outside functions and classes."""
    return frozenset(_list_bound_names(ast.parse(module.read_text()).body))


def _list_bound_names(statements: list[ast.stmt]) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.alias):
                yield node.asname or node.name.partition(".")[0]
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name


def _list_imported_modules(tree: ast.Module, roots: tuple[Path, ...]) -> Iterator[tuple[str, Path]]:
    """Yield the names that the file gives to imported modules, with the files of these modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports = [(alias.asname, alias.name) for alias in node.names if alias.asname]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imports = [(alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names]
        else:
            continue
        for name, module_name in imports:
            if module := find_module(module_name, roots):
                yield name, module


def find_module(name: str, roots: tuple[Path, ...]) -> Path | None:
    """Return the file of a module in one of the roots, or None."""
    for root in roots:
        path = root.joinpath(*name.split("."))
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.is_file():
                return candidate
    return None


def _list_replaced_names(tree: ast.Module, modules: dict[str, Path]) -> Iterator[tuple[int, Path, str]]:
    """Yield line, module and name of each `setattr(MODULE, "NAME", ...)`, if the name has to exist before."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="setattr" | "delattr"),
                args=[ast.Name(id=module_name), ast.Constant(value=str(name)), *_],
                keywords=keywords,
            ) if module_name in modules and not any(keyword.arg == "raising" for keyword in keywords):
                yield node.lineno, modules[module_name], name
