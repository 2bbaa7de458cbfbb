"""Test which endpoints that do not exist are an error: those that never existed."""

from __future__ import annotations

import pytest

from pipelines.errors import DataError
from pipelines.registry.lifecycle import Event, Kind, State, compute_state
from pipelines.serving.undeployment import require_known_endpoint

STATE = compute_state(
    [
        Event.create(Kind.REGISTERED, "flights.eu", "1"),
        Event.create(Kind.DEPLOYED, "flights.eu", "1", why="", evidence={"endpoint": "trial"}),
        Event.create(Kind.UNDEPLOYED, "flights.eu", "1", why="", evidence={"endpoint": "trial"}),
    ]
)


@pytest.mark.parametrize("endpoint", ["trial", "flights-eu"])
def test_endpoint_that_was_deleted_and_the_models_own_one_are_known(endpoint: str) -> None:
    require_known_endpoint(STATE, "flights.eu", endpoint)


@pytest.mark.parametrize(
    ("state", "endpoint", "text"),
    [
        (State(), "nope", "there is no model flights.eu: its history has no event; nor is there an endpoint nope."),
        (
            STATE,
            "trail",
            "there is no endpoint trail, and flights.eu was never deployed to one of that name. "
            "Its endpoints are or were: flights-eu, trial.",
        ),
    ],
)
def test_misspelled_names_are_refused_in_one_line(state: State, endpoint: str, text: str) -> None:
    with pytest.raises(DataError) as error:
        require_known_endpoint(state, "flights.eu", endpoint)
    assert str(error.value).startswith(text) and "\n" not in str(error.value)
