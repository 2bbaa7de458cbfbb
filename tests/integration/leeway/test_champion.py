"""Test the events about a model's champion with a real MLflow: one for each change, none if nothing has changed."""

import asyncio
import contextlib
from typing import Any

import certifi
import pytest
from leeway.hooks.step.champion import needs_library, read_champion
from leeway.triggers.champion import CHAMPION, ChampionTrigger
from mlflow import MlflowClient

MODEL = "watched_alone"


class Store(dict[str, Any]):
    """A fake of Airflow's state store of one asset, which can fail."""

    is_down = False

    async def aget(self, key: str) -> Any:
        self._check()
        return self.get(key)

    async def aset(self, key: str, value: Any) -> None:
        self._check()
        self[key] = value

    def _check(self) -> None:
        if self.is_down:
            raise RuntimeError("the API server does not answer")


class Watch:
    """A trigger that a test lets look at MLflow; `restart` kills it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.restart()

    def restart(self) -> None:
        self.trigger = ChampionTrigger(model=MODEL, check_interval_s=0)
        self.trigger.asset_state_store = self.store

    def look(self, count: int = 3) -> list[dict[str, str]]:
        """Let the trigger look so often; return its events."""
        events, pauses = [], iter(range(1, count))

        async def pause(_: float) -> None:
            next(pauses, None) or self.stop()

        async def collect() -> None:
            async for event in self.trigger.run():
                events.append(event.payload)

        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(TimeoutError):
            patch.setattr("leeway.triggers.champion.asyncio.sleep", pause)
            asyncio.run(collect())
        return events

    def stop(self) -> None:
        raise TimeoutError


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def watch(store):
    return Watch(store)


@pytest.fixture
def registry(with_mlflow):
    """Return MLflow's client, for a model with three versions and no champion."""
    client = MlflowClient(with_mlflow, with_mlflow)
    client.create_registered_model(MODEL)
    for _ in range(3):
        client.create_model_version(MODEL, source="s3://leeway/nothing")
    yield client
    client.delete_registered_model(MODEL)


def test_each_change_has_one_event_whoever_made_it(registry, watch, store):
    assert watch.look() == [] and store == {CHAMPION: ""}, "no model has a champion yet"
    registry.set_registered_model_alias(MODEL, "champion", "1")
    assert watch.look() == [{"champion": "1", "previous": ""}]
    assert watch.look() == []
    registry.set_registered_model_alias(MODEL, "challenger", "3")
    assert watch.look() == [], "another alias"
    registry.set_registered_model_alias(MODEL, "champion", "2")
    assert watch.look() == [{"champion": "2", "previous": "1"}]
    registry.set_registered_model_alias(MODEL, "champion", "1")
    assert watch.look() == [{"champion": "1", "previous": "2"}], "a rollback"
    registry.delete_registered_model_alias(MODEL, "champion")
    assert watch.look() == [], "there is nothing to deploy"
    registry.set_registered_model_alias(MODEL, "champion", "1")
    assert watch.look() == []


def test_restart_emits_nothing_again_and_loses_nothing(registry, watch, store):
    registry.set_registered_model_alias(MODEL, "champion", "1")
    assert watch.look() == [] and store == {CHAMPION: "1"}, "the first look is no change"
    watch.restart()
    assert watch.look() == []
    registry.set_registered_model_alias(MODEL, "champion", "2")
    watch.restart()
    assert watch.look(1) == [{"champion": "2", "previous": "1"}], "it changed while nobody looked"
    assert store == {CHAMPION: "1"}, "Airflow may not have the event yet"
    store.is_down = True
    assert watch.look() == [], "this trigger has emitted it"
    store.is_down = False
    assert watch.look() == [] and store == {CHAMPION: "2"}
    watch.restart()
    assert watch.look() == []


def test_no_event_while_mlflow_does_not_answer(registry, watch, monkeypatch, fresh_settings):
    registry.set_registered_model_alias(MODEL, "champion", "1")
    assert watch.look() == []
    registry.set_registered_model_alias(MODEL, "champion", "2")
    with monkeypatch.context() as patch:
        for address in ("http://127.0.0.1:9", ""):
            patch.setenv("MLFLOW_TRACKING_URI", address)
            fresh_settings()
            assert watch.look() == []
            with pytest.raises(OSError, match=r"Connection refused|MLFLOW_TRACKING_URI is not set"):
                read_champion(MODEL)
    fresh_settings()
    assert watch.look() == [{"champion": "2", "previous": "1"}], "it changed in the meantime"


def test_answer_of_another_server_is_no_answer_of_mlflow(registry, monkeypatch, fresh_settings):
    uri = registry._tracking_client.tracking_uri
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{uri}/elsewhere")
    fresh_settings()
    with pytest.raises(OSError, match="MLflow answered 404"):
        read_champion(MODEL)


def test_credentials_that_only_the_library_reads_lead_to_the_library(registry, monkeypatch):
    """A child process reads the champion of the server with MLflow's library."""
    monkeypatch.setenv("MLFLOW_TRACKING_SERVER_CERT_PATH", certifi.where())
    registry.set_registered_model_alias(MODEL, "champion", "2")
    assert needs_library() and read_champion(MODEL) == "2"


@pytest.mark.soak
def test_store_that_is_no_server_is_read_with_the_library(tmp_path, home, monkeypatch, fresh_settings):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    fresh_settings()
    client = MlflowClient(uri, uri)
    client.create_registered_model(MODEL)
    client.create_model_version(MODEL, source="s3://leeway/nothing")
    assert needs_library() and read_champion(MODEL) == ""
    client.set_registered_model_alias(MODEL, "champion", "1")
    assert read_champion(MODEL) == "1"
    monkeypatch.setenv("LEEWAY_PYTHON", "/bin/false")
    fresh_settings()
    with pytest.raises(OSError, match="cannot be read"):
        read_champion(MODEL)
