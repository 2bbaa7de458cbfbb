"""Check docker-compose.yaml by rules. Each rule yields its violations as sentences."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.tools.compose import VARIABLE

ONE_TIME = {"init"}
"""Services that run once and end."""
SECRET = re.compile(
    r"PASSWORD|SECRET|FERNET|TOKEN|_KEY\b|ACCESS_KEY|CONN_|DB_URI|BROKER_URL|BACKEND|STORE_URI|SQL_ALCHEMY_CONN|__URI"
)
HAS_PASSWORD = re.compile(r"://[^/@\s]*:(?!\$\{)[^/@\s]+@")
PINNED = re.compile(r":v?\d+(\.\d+)+([-.\w]*)?$")
CONDITIONS = {"service_healthy", "service_completed_successfully"}

Services = Mapping[str, Any]


def find_violations(content: Mapping[str, Any]) -> list[str]:
    """List the violations of all rules in the file, whose variables are not replaced."""
    services = content["services"].items()
    return [f"{name}: {text}" for name, service in services for text in _check_service(name, service, content)]


def _check_service(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    for rule in RULES:
        yield from rule(name, service, content)


def _health(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    check = service.get("healthcheck", {})
    if not check.get("test") and not (name in ONE_TIME and check.get("disable")):
        yield "no health check"


def _limits(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    limits = service.get("deploy", {}).get("resources", {}).get("limits", {})
    if not {"cpus", "memory"} <= set(limits):
        yield "no limit of cores and memory"
    elif (cores := str(limits["cpus"])).isdigit() and int(cores) > 2:
        yield f"needs a machine with {cores} cores"


def _restart(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    policy = "on-failure" if name in ONE_TIME else "unless-stopped"
    if not str(service.get("restart", "")).startswith(policy):
        yield f"restart is not {policy}"


def _user(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    if str(service.get("user", "0")).split(":")[0] in ("", "0", "root"):
        yield "runs as root, or names no user"
    if service.get("privileged") or service.get("cap_add") or service.get("cap_drop") != ["ALL"]:
        yield "has capabilities"
    if "no-new-privileges:true" not in service.get("security_opt", []):
        yield "may gain privileges"
    if not service.get("read_only"):
        yield "may write to its image"


def _ports(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    for port in service.get("ports", []):
        if not str(port).startswith("127.0.0.1:"):
            yield f"port {port} is published beyond loopback"
    if service.get("network_mode"):
        yield "has the host's network"
    if service.get("ports") and "outside" not in service.get("networks", []):
        yield "publishes a port from an internal network"


def _image(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    image = VARIABLE.sub(lambda match: match[3] or "", str(service.get("image", "")))
    if not PINNED.search(image):
        yield f"image {image} is not pinned"


def _secrets(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    for variable, value in (service.get("environment") or {}).items():
        if SECRET.search(variable) and _is_literal(variable, str(value)):
            yield f"{variable} is written out"
    for text in map(str, [*service.get("command", []), *service.get("healthcheck", {}).get("test", [])]):
        if HAS_PASSWORD.search(text) or any(SECRET.search(match[1] or "") for match in VARIABLE.finditer(text)):
            yield "its command has a password"


def _is_literal(variable: str, value: str) -> bool:
    """Whether a secret is written out in a value, or is the default of a variable in it."""
    if value.startswith(("/", "s3://", "http://")) and "@" not in value:
        return False
    variables = list(VARIABLE.finditer(value))
    has_default = any((variable[2] or "").endswith("-") for variable in variables)
    return not variables or HAS_PASSWORD.search(value) is not None or has_default


def _networks(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    networks = service.get("networks", [])
    if not networks:
        yield "is on the default network"
    for network in networks:
        if network not in (content.get("networks") or {}):
            yield f"network {network} does not exist"


def _volumes(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    for volume in service.get("volumes", []):
        source, *rest = str(volume).split(":")
        if "docker.sock" in volume:
            yield "has the engine's socket"
        if source.startswith((".", "/")):
            if rest[-1] != "ro":
                yield f"may write to the host's {source}"
        elif source not in (content.get("volumes") or {}):
            yield f"volume {source} does not exist"


def _depends(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    depends = service.get("depends_on", {})
    for dependency, options in depends.items() if isinstance(depends, dict) else [(word, {}) for word in depends]:
        condition = options.get("condition")
        if dependency not in content["services"]:
            yield f"depends on {dependency}, which does not exist"
        elif condition not in CONDITIONS or (condition == "service_completed_successfully") != (dependency in ONE_TIME):
            yield f"does not wait until {dependency} is ready"
        elif not set(content["services"][dependency].get("profiles", [])) <= set(service.get("profiles", [])):
            yield f"depends on {dependency}, which exists only in a profile"


RULES: list[Callable[[str, Services, Mapping[str, Any]], Iterator[str]]] = [
    _health, _limits, _restart, _user, _ports, _image, _secrets, _networks, _volumes, _depends,
]  # fmt: skip
