"""Test the storage of resources."""

from pathlib import Path

from drydock.resources import Owner, Resources
from drydock.store import Store

OWNER, OTHER = Owner("123456789012", "us-east-1"), Owner("123456789012", "eu-west-1")


def test_resources_keep_their_order_and_their_owner(tmp_path: Path) -> None:
    store = Store(tmp_path / "db")
    models, configs = Resources(store, "model"), Resources(store, "config")
    for name in ("b", "a", "c"):
        models.write(OWNER, name, name)
    models.write(OWNER, "b", "b, changed")
    models.write(OTHER, "b", "of the other")
    configs.write(OWNER, "a", "a config")
    assert Resources(store, "model").list_texts(OWNER) == ["b, changed", "a", "c"]
    models.delete(OWNER, "a")
    models.delete(OWNER, "a")
    assert models.list_texts(OWNER) == ["b, changed", "c"]
    models.delete_all(OWNER)
    assert [text for _, text in models.iterate()] == ["of the other"]
    assert configs.list_texts(OWNER) == ["a config"]
