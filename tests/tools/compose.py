"""Read docker-compose.yaml as a Compose client does, and translate its services' commands to run without Docker."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yaml"
VARIABLE_PATTERN = re.compile(r"\$(?:\$|\{(\w+)(?:(:?[-?])((?:[^{}])*))?\})")


class MissingVariableError(KeyError):
    """Report a variable that needs a value and has none."""


def read_env(path: Path) -> dict[str, str]:
    """Return the variables that a .env file sets."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name.strip(): value.strip() for name, _, value in pairs}


def interpolate(text: str, env: Mapping[str, str]) -> str:
    """Replace $$, ${NAME}, ${NAME:-DEFAULT} and ${NAME:?REASON} in a text.

    Raises:
        MissingVariableError: a variable that needs a value has none.
    """

    def find_value(match: re.Match[str]) -> str:
        name, operator, argument = match.groups()
        if name is None:
            return "$"
        if env.get(name):
            return env[name]
        if operator and "?" in operator:
            raise MissingVariableError(f"{name}: {argument}")
        return argument or ""

    return VARIABLE_PATTERN.sub(find_value, text)


def interpolate_all(node: Any, env: Mapping[str, str]) -> Any:
    """Replace the variables in all texts of a YAML node."""
    if isinstance(node, dict):
        return {key: interpolate_all(value, env) for key, value in node.items()}
    if isinstance(node, list):
        return [interpolate_all(value, env) for value in node]
    return interpolate(node, env) if isinstance(node, str) else node


def load(env: Mapping[str, str] | None = None, path: Path = FILE) -> dict[str, Any]:
    """Return the file's content. Its variables are replaced where an environment is given.

    Raises:
        MissingVariableError: a variable that needs a value has none.
    """
    content = yaml.safe_load(path.read_text())
    return dict(content if env is None else interpolate_all(content, env))


@dataclass
class LocalTranslator:
    """Translate a service's definition from addresses and paths of containers to those of this machine.

    Args:
        services: services of the file, with their variables replaced.
        ports: a free local port for each port of a service in its container.
        paths: a local path for each path in a container. The longest path that matches counts.
    """

    services: Mapping[str, Any]
    ports: Mapping[tuple[str, int], int]
    paths: Mapping[str, str] = field(default_factory=dict)

    def translate(self, value: str, service: str) -> str:
        """Return a value of the service's definition with local addresses and paths."""
        for (name, port), local_port in self.ports.items():
            value = re.sub(rf"\b{re.escape(name)}:{port}\b", f"127.0.0.1:{local_port}", value)
            if name == service:
                value = re.sub(rf"\b127\.0\.0\.1:{port}\b", f"127.0.0.1:{local_port}", value)
        value = value.replace("0.0.0.0", "127.0.0.1")
        for path in sorted(self.paths, key=len, reverse=True):
            value = re.sub(rf"{re.escape(path)}(?=/|$|\b)", self.paths[path], value)
        return value

    def translate_command(self, service: str) -> list[str]:
        """Return the service's command for this machine."""
        words = [*(self.services[service].get("entrypoint") or ()), *self.services[service]["command"]]
        return [self.translate(word, service) for word in words]

    def translate_healthcheck(self, service: str) -> list[str]:
        """Return the command of the service's health check for this machine."""
        command_type, *command = self.services[service]["healthcheck"]["test"]
        command = [self.translate(word, service) for word in command]
        return command if command_type == "CMD" else ["/bin/sh", "-c", *command]

    def translate_environment(self, service: str) -> dict[str, str]:
        """Return the variables that the file sets for the service."""
        variables = self.services[service].get("environment") or {}
        return {name: self.translate(str(value), service) for name, value in variables.items()}
