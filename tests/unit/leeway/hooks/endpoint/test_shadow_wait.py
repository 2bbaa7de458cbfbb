"""Test that a cleared task removes its shadow from an endpoint only if it can, and says otherwise that it may stay."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from leeway.hooks.endpoint.shadow_wait import ShadowWait, remove_shadow


class SageMaker:
    """Stands for SageMaker with one endpoint, and for the connection to it."""

    def __init__(self, status: str, config_name: str) -> None:
        self.endpoint = {"EndpointStatus": status, "EndpointConfigName": config_name}
        self.updates: list[str] = []

    def create_hook(self, _: Any) -> SageMaker:
        return self

    async def get_async_conn(self) -> Any:
        @asynccontextmanager
        async def connect() -> AsyncIterator[SageMaker]:
            yield self

        return connect()

    async def describe_endpoint(self, **_: Any) -> dict[str, str]:
        return self.endpoint

    async def update_endpoint(self, EndpointConfigName: str, **_: Any) -> None:
        self.updates.append(EndpointConfigName)


@pytest.mark.parametrize(
    ("status", "config_name", "updates", "text"),
    [
        ("InService", "shadow", ["base"], "removing candidate from endpoint flights"),
        ("SystemUpdating", "shadow", [], "endpoint flights is SystemUpdating: candidate may stay in it"),
        ("InService", "other", [], ""),
        ("Updating", "other", [], ""),
    ],
)
def test_removes_a_shadow_or_says_that_it_may_stay(
    status: str,
    config_name: str,
    updates: list[str],
    text: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sagemaker = SageMaker(status, config_name)
    monkeypatch.setattr(ShadowWait, "connection", sagemaker)
    wait = ShadowWait(
        endpoint="flights", config_name="shadow", base_name="base", variant="candidate",
        since="2026-12-01T00:00:00+00:00", until="2026-12-01T01:00:00+00:00", requests=0, check_interval_s=1.0,
    )  # fmt: skip
    asyncio.run(remove_shadow(wait, logging.getLogger("test")))
    assert sagemaker.updates == updates
    assert text in caplog.text
    assert bool(text) == bool(caplog.records)
