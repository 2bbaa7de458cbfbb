"""docker-compose.yaml as a Compose client reads it, and its services' commands as they run without Docker."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yaml"
VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?:(:?[-?])((?:[^{}])*))?\})")


class Missing(KeyError):
    """A variable that must have a value has none."""


def read_env(path: Path) -> dict[str, str]:
    """What a .env file sets."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name.strip(): value.strip() for name, _, value in pairs}


def interpolate(text: str, env: Mapping[str, str]) -> str:
    """The text with $$, ${NAME}, ${NAME:-DEFAULT} and ${NAME:?REASON} replaced."""

    def value(match: re.Match[str]) -> str:
        name, how, rest = match.groups()
        if name is None:
            return "$"
        if env.get(name):
            return env[name]
        if how and "?" in how:
            raise Missing(f"{name}: {rest}")
        return rest or ""

    return VARIABLE.sub(value, text)


def resolved(node: Any, env: Mapping[str, str]) -> Any:
    """The node with the variables of all its values replaced."""
    if isinstance(node, dict):
        return {key: resolved(value, env) for key, value in node.items()}
    if isinstance(node, list):
        return [resolved(value, env) for value in node]
    return interpolate(node, env) if isinstance(node, str) else node


def load(env: Mapping[str, str] | None = None, path: Path = FILE) -> dict[str, Any]:
    """The file; with its variables replaced where an environment is given.

    Raises:
        Missing: a variable that must have a value has none.
    """
    content = yaml.safe_load(path.read_text())
    return dict(content if env is None else resolved(content, env))


@dataclass
class Here:
    """How what stands in the file for a place in a container reads on this machine.

    Args:
        services: of the file, resolved.
        ports: (service, port in its container) to a free port.
        places: path in a container to a path here; the longest that fits counts.
    """

    services: Mapping[str, Any]
    ports: Mapping[tuple[str, int], int]
    places: Mapping[str, str] = field(default_factory=dict)

    def text(self, value: str, service: str) -> str:
        """A value of the service's definition, with addresses and paths of this machine."""
        for (name, port), here in self.ports.items():
            value = re.sub(rf"\b{re.escape(name)}:{port}\b", f"127.0.0.1:{here}", value)
            if name == service:
                value = re.sub(rf"\b127\.0\.0\.1:{port}\b", f"127.0.0.1:{here}", value)
        value = value.replace("0.0.0.0", "127.0.0.1")
        for path in sorted(self.places, key=len, reverse=True):
            value = re.sub(rf"{re.escape(path)}(?=/|$|\b)", self.places[path], value)
        return value

    def command(self, service: str) -> list[str]:
        """The service's command."""
        return [self.text(one, service) for one in self.services[service]["command"]]

    def healthcheck(self, service: str) -> list[str]:
        """The command of the service's health check."""
        kind, *command = self.services[service]["healthcheck"]["test"]
        command = [self.text(one, service) for one in command]
        return command if kind == "CMD" else ["/bin/sh", "-c", *command]

    def environment(self, service: str) -> dict[str, str]:
        """The service's environment: its own alone."""
        own = self.services[service].get("environment") or {}
        return {name: self.text(str(value), service) for name, value in own.items()}
