"""Test that services are loaded at their first request."""

from typing import Any

import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication

from drydock.api import lazy_services
from drydock.api.lazy_services import LazyServices, MotoApplication


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the services whose application is made, and of the installations."""
    calls: list[str] = []
    monkeypatch.setattr(lazy_services, "create_backend_app", calls.append)
    return calls


def test_first_request_loads_the_service_once(calls: list[str]) -> None:
    services = LazyServices({"ec2": lambda: calls.append("install ec2"), "logs": lambda: calls.append("install logs")})
    for service in ("sagemaker", "ec2", "ec2"):
        services.create_app(service)
    assert calls == ["sagemaker", "install ec2", "ec2", "ec2"]


def test_installation_that_failed_is_repeated(calls: list[str]) -> None:
    errors = [OSError("the disk is full")]

    def install() -> None:
        calls.append("install")
        if errors:
            raise errors.pop()

    services = LazyServices({"ec2": install})
    with pytest.raises(OSError, match="the disk is full"):
        services.create_app("ec2")
    services.create_app("ec2")
    assert calls == ["install", "install", "ec2"]


def test_service_of_a_host_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[str] = []
    search = DomainDispatcherApplication.get_backend_for_host

    def record(application: DomainDispatcherApplication, host: str) -> Any:
        searches.append(host)
        return search(application, host)

    monkeypatch.setattr(DomainDispatcherApplication, "get_backend_for_host", record)
    application = MotoApplication(lambda service: service)
    hosts = [f"{name}.us-east-1.amazonaws.com" for name in ("s3", "logs", "api.sagemaker")]
    assert [application.get_backend_for_host(host) for host in [*hosts, *hosts]] == ["s3", "logs", "sagemaker"] * 2
    assert searches == hosts
