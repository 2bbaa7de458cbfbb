"""Read YAML that people write: only plain values, and no key twice in a mapping."""

from __future__ import annotations

from typing import Any

import yaml
from yaml.error import MarkedYAMLError

BASE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader in C takes a tenth of the time; PyYAML may have been built without it."""


class _Loader(BASE_LOADER):
    """Load YAML, and refuse a key that occurs twice in a mapping: PyYAML silently takes the last one."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        first, last = node.start_mark.index, node.end_mark.index
        # PyYAML adds the keys of a merge (<<) to the node. They are elsewhere in the text, and may be overridden.
        own_keys = [key for key, _ in node.value if first <= key.start_mark.index < last]
        known_keys = set()
        for key in own_keys:
            if str(key.value) in known_keys:
                raise MarkedYAMLError(problem=f"the key {key.value!r} occurs twice", problem_mark=key.start_mark)
            known_keys.add(str(key.value))
        return dict(super().construct_mapping(node, deep))


def load_yaml(text: str) -> Any:
    """Read a text of YAML, or of JSON, which is YAML with few exceptions. Tags that name Python types are refused.

    Raises:
        yaml.YAMLError: the text is not YAML, or a key occurs twice in a mapping. A retry cannot help.
        ValueError: a value is not valid, such as the date 2013-02-30. A retry cannot help.
    """
    return yaml.load(text, _Loader)  # noqa: S506 (a safe loader)


def describe_yaml_error(error: yaml.YAMLError) -> str:
    """Describe an error of `load_yaml` on one line: line, column and problem."""
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{place}{getattr(error, 'problem', None) or 'not valid'}"
