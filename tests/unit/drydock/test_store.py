"""Test the server's tables."""

import sqlite3
import threading
from pathlib import Path

import pytest

from drydock.store import Store

SCHEMA = "CREATE TABLE IF NOT EXISTS things (name TEXT PRIMARY KEY)"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store.sqlite")
    store.create_tables(SCHEMA)
    return store


def list_names(store: Store) -> list[str]:
    return [name for (name,) in store.query("SELECT name FROM things ORDER BY name")]


def test_the_next_server_reads_what_was_written(tmp_path: Path, store: Store) -> None:
    with store.transaction() as db:
        db.execute("INSERT INTO things VALUES ('one')")
    # The first store stays open, as after a killed server.
    other = Store(tmp_path / "store.sqlite")
    other.create_tables(SCHEMA)
    assert list_names(other) == ["one"]


def test_a_transaction_that_raises_changes_nothing(store: Store) -> None:
    def insert_two(name: str) -> None:
        with store.transaction() as db:
            db.execute("INSERT INTO things VALUES ('half')")
            db.execute("INSERT INTO things VALUES (?)", (name,))

    with pytest.raises(sqlite3.IntegrityError):
        insert_two("half")
    assert list_names(store) == []
    insert_two("whole")
    assert list_names(store) == ["half", "whole"]


def test_the_store_works_again_after_a_full_disk(store: Store) -> None:
    with store.transaction() as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")

    def add(name: str) -> None:
        with store.transaction() as db:
            db.execute("INSERT INTO things VALUES (?)", (name,))

    with pytest.raises(sqlite3.OperationalError, match="full"):
        add("x" * 100_000)
    add("small")
    assert list_names(store) == ["small"]


def test_threads_take_turns(store: Store) -> None:
    def add(letter: str) -> None:
        for number in range(50):
            with store.transaction() as db:
                db.execute("INSERT INTO things VALUES (?)", (f"{letter}{number:02d}",))

    threads = [threading.Thread(target=add, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list_names(store) == [f"{letter}{number:02d}" for letter in "abcd" for number in range(50)]
