"""Find what a module of pipelines imports, directly or not, by reading the source. Imports in functions count too."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def list_imported_files(start: str, dataset: str, excluded: frozenset[str] = frozenset()) -> frozenset[Path]:
    """List the files that run when `start` is imported and every function of each of these files is called.

    Imports for type checkers alone are left out. A call of `import_module` whose name ends in a variable counts as an
    import of all modules of that folder. If the variable is the name of a dataset, only `dataset` counts.

    Args:
        start: dotted name of a module.
        dataset: name of the dataset.
        excluded: modules and packages that are left out.

    Returns:
        Paths relative to the project.
    """
    files: set[Path] = set()
    names = [start]
    while names:
        name = names.pop()
        path = _find_file(name)
        if path is None or path in files or any(name == prefix or name.startswith(f"{prefix}.") for prefix in excluded):
            continue
        files.add(path)
        names += [name.rpartition(".")[0], *_list_imports(path, dataset)]
    return frozenset(files)


def read_sections(files: Iterable[Path]) -> set[str]:
    """List the sections of params.yaml that the code in `files` names in a call of `params.load_section`."""
    return {section for path in files for section in _list_sections(path)}


@cache
def _list_sections(path: Path) -> frozenset[str]:
    calls = [node for node in ast.walk(_parse_file(path)) if isinstance(node, ast.Call) and len(node.args) > 1]
    arguments = [call.args[1] for call in calls if ast.unparse(call.func).endswith("load_section")]
    return frozenset(str(argument.value) for argument in arguments if isinstance(argument, ast.Constant))


def _find_file(name: str) -> Path | None:
    path = Path(*name.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py") if name.startswith("pipelines") else ()
    return next((candidate for candidate in candidates if (ROOT / candidate).exists()), None)


@cache
def _parse_file(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def _list_imports(path: Path, dataset: str) -> Iterator[str]:
    for node in _walk_runtime_nodes(_parse_file(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module" and node.args:
            yield from _list_dynamic_imports(node.args[0], dataset)


def _walk_runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the tree without the blocks that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _walk_runtime_nodes(child)


def _list_dynamic_imports(name: ast.expr, dataset: str) -> Iterator[str]:
    """List the modules that a call of `import_module` may import: all of the folder if the name ends in a variable."""
    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
    texts = [str(part.value) if isinstance(part, ast.Constant) else "" for part in parts]
    if texts[0] == "pipelines.datasets.":
        yield from (
            _list_modules(f"pipelines.datasets.{dataset}") if len(texts) > 2 else [f"pipelines.datasets.{dataset}"]
        )
    elif texts[0].startswith("pipelines.") and texts[0] != "pipelines.steps.":  # a command imports only its own step
        yield from _list_modules(texts[0].rstrip("."))


def _list_modules(package: str) -> Iterator[str]:
    """List a package and the modules of its folder."""
    for path in sorted((ROOT / Path(*package.split("."))).glob("*.py")):
        yield f"{package}.{path.stem}".removesuffix(".__init__")
