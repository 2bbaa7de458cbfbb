"""Find what a module of pipelines imports, by reading the source: at any depth, inside functions too."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def imported_files(start: str, dataset: str, cut: frozenset[str] = frozenset()) -> frozenset[Path]:
    """List the files that run when `start` is imported and every import in its functions is reached.

    Imports for type checkers alone are left out. An `import_module` of a name that is only known at run time counts
    as all modules of its folder; the name of a dataset counts as `dataset`.

    Args:
        start: dotted name of a module.
        dataset: name of the dataset.
        cut: modules and packages that are not followed.

    Returns:
        Paths relative to the project.
    """
    files: set[Path] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if path is None or path in files or any(name == end or name.startswith(f"{end}.") for end in cut):
            continue
        files.add(path)
        waiting += [name.rpartition(".")[0], *_imports(path, dataset)]
    return frozenset(files)


def read_sections(files: Iterable[Path]) -> set[str]:
    """List the sections of params.yaml that the code in `files` names in a call of `params.load_section`."""
    return {section for path in files for section in _sections(path)}


@cache
def _sections(path: Path) -> frozenset[str]:
    calls = [node for node in ast.walk(_tree(path)) if isinstance(node, ast.Call) and len(node.args) > 1]
    named = [call.args[1] for call in calls if ast.unparse(call.func).endswith("load_section")]
    return frozenset(str(argument.value) for argument in named if isinstance(argument, ast.Constant))


def _file(name: str) -> Path | None:
    path = Path(*name.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py") if name.startswith("pipelines") else ()
    return next((candidate for candidate in candidates if (ROOT / candidate).exists()), None)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def _imports(path: Path, dataset: str) -> Iterator[str]:
    for node in _run_nodes(_tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module" and node.args:
            yield from _dynamic(node.args[0], dataset)


def _run_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the tree without the blocks that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _run_nodes(child)


def _dynamic(name: ast.expr, dataset: str) -> Iterator[str]:
    """List the modules that a name may mean; where its end is known at run time only, all of the folder."""
    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
    texts = [str(part.value) if isinstance(part, ast.Constant) else "" for part in parts]
    if texts[0] == "pipelines.datasets.":
        yield "".join(text or dataset for text in texts)
    elif texts[0].startswith("pipelines.") and texts[0] != "pipelines.steps.":  # a command runs one step of the table
        folder = Path(*texts[0].rstrip(".").split("."))
        for path in sorted((ROOT / folder).glob("*.py")):
            yield ".".join([*folder.parts, path.stem]).removesuffix(".__init__")
