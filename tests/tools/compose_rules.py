"""What docker-compose.yaml has to be like: each rule tells its breaches in words."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.tools.compose import VARIABLE

ONCE = {"init"}
"""Services that end by themselves."""
SECRET = re.compile(
    r"PASSWORD|SECRET|FERNET|TOKEN|_KEY\b|ACCESS_KEY|CONN_|DB_URI|BROKER_URL|BACKEND|STORE_URI|SQL_ALCHEMY_CONN|__URI"
)
HAS_PASSWORD = re.compile(r"://[^/@\s]*:(?!\$\{)[^/@\s]+@")
PINNED = re.compile(r":v?\d+(\.\d+)+([-.\w]*)?$")
CONDITIONS = {"service_healthy", "service_completed_successfully"}

Services = Mapping[str, Any]


def breaches(content: Mapping[str, Any]) -> list[str]:
    """All breaches of all rules, in the file as it is written: its variables not replaced."""
    return [f"{name}: {told}" for name, service in content["services"].items() for told in _of(name, service, content)]


def _of(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    for rule in RULES:
        yield from rule(name, service, content)


def _health(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    check = service.get("healthcheck", {})
    if not check.get("test") and not (name in ONCE and check.get("disable")):
        yield "no health check"


def _limits(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    limits = service.get("deploy", {}).get("resources", {}).get("limits", {})
    if not {"cpus", "memory"} <= set(limits):
        yield "no limit of processors and memory"
    elif (cores := str(limits["cpus"])).isdigit() and int(cores) > 2:
        yield f"is refused by a machine of fewer than {cores} cores"


def _restart(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    wanted = "on-failure" if name in ONCE else "unless-stopped"
    if not str(service.get("restart", "")).startswith(wanted):
        yield f"restart is not {wanted}"


def _user(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    if str(service.get("user", "0")).split(":")[0] in ("", "0", "root"):
        yield "runs as root, or does not say as whom"
    if service.get("privileged") or service.get("cap_add") or service.get("cap_drop") != ["ALL"]:
        yield "has capabilities"
    if "no-new-privileges:true" not in service.get("security_opt", []):
        yield "may gain privileges"
    if not service.get("read_only"):
        yield "may write to its image"


def _ports(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    for port in service.get("ports", []):
        if not str(port).startswith("127.0.0.1:"):
            yield f"port {port} is published off loopback"
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
        if SECRET.search(variable) and _literal(variable, str(value)):
            yield f"{variable} is written out"
    for text in map(str, [*service.get("command", []), *service.get("healthcheck", {}).get("test", [])]):
        if HAS_PASSWORD.search(text) or any(SECRET.search(one[1] or "") for one in VARIABLE.finditer(text)):
            yield "its command has a password"


def _literal(variable: str, value: str) -> bool:
    """Whether a value that may hold a secret holds one that is no variable without a default."""
    if value.startswith(("/", "s3://", "http://")) and "@" not in value:
        return False
    found = list(VARIABLE.finditer(value))
    return not found or HAS_PASSWORD.search(value) is not None or any((one[2] or "").endswith("-") for one in found)


def _networks(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    joined = service.get("networks", [])
    if not joined:
        yield "is on the default network"
    for one in joined:
        if one not in (content.get("networks") or {}):
            yield f"network {one} is not there"


def _volumes(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    for one in service.get("volumes", []):
        source, *rest = str(one).split(":")
        if "docker.sock" in one:
            yield "has the engine's socket"
        if source.startswith((".", "/")):
            if rest[-1] != "ro":
                yield f"may write to the host's {source}"
        elif source not in (content.get("volumes") or {}):
            yield f"volume {source} is not there"


def _depends(name: str, service: Services, content: Mapping[str, Any]) -> Iterator[str]:
    depends = service.get("depends_on", {})
    for other, how in depends.items() if isinstance(depends, dict) else [(one, {}) for one in depends]:
        condition = how.get("condition")
        if other not in content["services"]:
            yield f"depends on {other}, which is not there"
        elif condition not in CONDITIONS or (condition == "service_completed_successfully") != (other in ONCE):
            yield f"does not wait until {other} is ready"
        elif not set(content["services"][other].get("profiles", [])) <= set(service.get("profiles", [])):
            yield f"depends on {other}, which is only there in a profile"


RULES: list[Callable[[str, Services, Mapping[str, Any]], Iterator[str]]] = [
    _health, _limits, _restart, _user, _ports, _image, _secrets, _networks, _volumes, _depends,
]  # fmt: skip
