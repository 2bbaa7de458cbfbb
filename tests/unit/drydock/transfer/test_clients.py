"""Test the shared clients of S3."""

import pytest

from drydock.transfer.clients import get_shared_client


def test_a_profile_of_the_environment_that_does_not_exist_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "does-not-exist")
    assert get_shared_client("http://127.0.0.1:1", "3" * 12, "us-east-1").meta.region_name == "us-east-1"
