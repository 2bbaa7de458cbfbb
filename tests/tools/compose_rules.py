"""Check docker-compose.yaml by rules. Each rule yields its violations as sentences."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.tools.compose import VARIABLE_PATTERN

ONE_TIME_SERVICES = {"init", "pipelines"}
"""Services that run once and end."""
SECRET_NAME_PATTERN = re.compile(
    r"PASSWORD|SECRET|FERNET|TOKEN|_KEY\b|ACCESS_KEY|CONN_(?!ID$)|CONNECTION|DB_URI|BROKER_URL|BACKEND|STORE_URI|SQL_ALCHEMY_CONN|__URI"
)
URL_PASSWORD_PATTERN = re.compile(r"://[^/@\s]*:(?!\$\{)[^/@\s]+@")
PINNED_PATTERN = re.compile(r":v?\d+(\.\d+)+([-.\w]*)?$")
READY_CONDITIONS = {"service_healthy", "service_completed_successfully"}

Service = Mapping[str, Any]


def find_violations(content: Mapping[str, Any]) -> list[str]:
    """List the violations of all rules in the file. Its variables, such as ${NAME}, must not be replaced yet."""
    services = content["services"].items()
    return [f"{name}: {text}" for name, service in services for text in _check_service(name, service, content)]


def _check_service(name: str, service: Service, content: Mapping[str, Any]) -> Iterator[str]:
    for rule in RULES:
        yield from rule(name, service, content)


def _check_health(name: str, service: Service, content: Mapping[str, Any]) -> Iterator[str]:
    check = service.get("healthcheck", {})
    if not check.get("test") and not (name in ONE_TIME_SERVICES and check.get("disable")):
        yield "no health check"


def _check_limits(name: str, service: Service, content: Mapping[str, Any]) -> Iterator[str]:
    limits = service.get("deploy", {}).get("resources", {}).get("limits", {})
    if not {"cpus", "memory"} <= set(limits):
        yield "no limit of cores and memory"
    elif (cores := str(limits["cpus"])).isdigit() and int(cores) > 2:
        yield f"needs a machine with {cores} cores"


def _check_restart(name: str, service: Service, content: Mapping[str, Any]) -> Iterator[str]:
    policy = "on-failure" if name in ONE_TIME_SERVICES else "unless-stopped"
    if not str(service.get("restart", "")).startswith(policy):
        yield f"restart is not {policy}"


def _check_user(name: str, service: Service, content: Mapping[str, Any]) -> Iterator[str]:
    if str(service.get("user", "0")).split(":")[0] in ("", "0", "root"):
        yield "runs as root, or names no user"
    if service.get("privileged") or service.get("cap_add") or service.get("cap_drop") != ["ALL"]:
        yield "has capabilities"
    if "no-new-privileges:true" not in service.get("security_opt", []):
        yield "may gain privileges"
    if not service.get("read_only"):
        yield "may write to its image"


def _check_ports(name: str, service: Service, content: Mapping[str, Any]) -> Iterator[str]:
    for port in service.get("ports", []):
        if not str(port).startswith("127.0.0.1:"):
            yield f"port {port} is published beyond loopback"
    if service.get("network_mode"):
        yield "has the host's network"
    if service.get("ports") and "outside" not in service.get("networks", []):
        yield "publishes a port from an internal network"


def _check_image(name: str, service: Service, content: Mapping[str, Any]) -> Iterator[str]:
    image = VARIABLE_PATTERN.sub(lambda match: match[3] or "", str(service.get("image", "")))
    if not PINNED_PATTERN.search(image):
        yield f"image {image} is not pinned"


def _check_secrets(name: str, service: Service, content: Mapping[str, Any]) -> Iterator[str]:
    for variable, value in (service.get("environment") or {}).items():
        if SECRET_NAME_PATTERN.search(variable) and _is_literal(variable, str(value)):
            yield f"{variable} is a literal value"
    for text in map(str, [*service.get("command", []), *service.get("healthcheck", {}).get("test", [])]):
        if URL_PASSWORD_PATTERN.search(text) or any(
            SECRET_NAME_PATTERN.search(match[1] or "") for match in VARIABLE_PATTERN.finditer(text)
        ):
            yield "its command has a password"


def _is_literal(variable: str, value: str) -> bool:
    """Return whether a value contains a secret as plain text, or as the default of a variable."""
    if value.startswith(("/", "s3://", "http://")) and "@" not in value:
        return False
    variables = list(VARIABLE_PATTERN.finditer(value))
    has_default = any((variable[2] or "").endswith("-") for variable in variables)
    return not variables or URL_PASSWORD_PATTERN.search(value) is not None or has_default


def _check_networks(name: str, service: Service, content: Mapping[str, Any]) -> Iterator[str]:
    networks = service.get("networks", [])
    if not networks:
        yield "is on the default network"
    for network in networks:
        if network not in (content.get("networks") or {}):
            yield f"network {network} does not exist"


def _check_volumes(name: str, service: Service, content: Mapping[str, Any]) -> Iterator[str]:
    for volume in service.get("volumes", []):
        source, *options = str(volume).split(":")
        if "docker.sock" in volume:
            yield "mounts the engine's socket"
        if source.startswith((".", "/")):
            if options[-1] != "ro":
                yield f"may write to the host's {source}"
        elif source not in (content.get("volumes") or {}):
            yield f"volume {source} does not exist"


def _check_dependencies(name: str, service: Service, content: Mapping[str, Any]) -> Iterator[str]:
    dependencies = service.get("depends_on", {})
    for dependency, options in (
        dependencies.items() if isinstance(dependencies, dict) else [(word, {}) for word in dependencies]
    ):
        condition = options.get("condition")
        if dependency not in content["services"]:
            yield f"depends on {dependency}, which does not exist"
        elif condition not in READY_CONDITIONS or (condition == "service_completed_successfully") != (
            dependency in ONE_TIME_SERVICES
        ):
            yield f"does not wait until {dependency} is ready"
        elif not set(content["services"][dependency].get("profiles", [])) <= set(service.get("profiles", [])):
            yield f"depends on {dependency}, which exists only in a profile"


RULES: list[Callable[[str, Service, Mapping[str, Any]], Iterator[str]]] = [
    _check_health, _check_limits, _check_restart, _check_user, _check_ports, _check_image, _check_secrets,
    _check_networks, _check_volumes, _check_dependencies,
]  # fmt: skip
