"""Test the secrets of Airflow: they are kept, and a damaged file of them is replaced or reported."""

from pathlib import Path

import pytest

from stack.errors import RequestError
from stack.layout import Layout
from stack.services.commands import read_password, write_secrets


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(home=tmp_path, project=tmp_path)
    layout.airflow.mkdir()
    write_secrets(layout)
    return layout


def test_whole_files_stay(layout: Layout) -> None:
    """This is the negative control."""
    contents = [path.read_text() for path in sorted(layout.airflow.iterdir())]
    write_secrets(layout)
    assert [path.read_text() for path in sorted(layout.airflow.iterdir())] == contents


@pytest.mark.parametrize("content", [b"", b'{"admin": "x', b"[]", b'{"admin": ""}', b'{"other": "x"}', b"\xff\xfe" * 9])
def test_a_damaged_file_of_the_password_is_replaced(layout: Layout, content: bytes) -> None:
    (layout.airflow / "passwords.json").write_bytes(content)
    with pytest.raises(RequestError, match=r"passwords\.json has no password of admin; `make down` and `make up`"):
        read_password(layout)
    write_secrets(layout)
    assert len(read_password(layout)) > 10


@pytest.mark.parametrize("damage", ["empty", "cut after a section", "cut in a key", "garbage", "binary"])
def test_damaged_keys_are_reported_and_stay_as_they_are(layout: Layout, damage: str) -> None:
    """New keys could not read the connections that are encrypted with the old ones."""
    path = layout.airflow / "airflow.cfg"
    content = path.read_bytes()
    damaged_content = {
        "empty": b"",
        "cut after a section": content[: content.index(b"[api_auth]")],
        "cut in a key": content.replace(content[20:50], b""),
        "garbage": b"no configuration",
        "binary": b"\xff\xfe" * 40,
    }[damage]
    path.write_bytes(damaged_content)
    with pytest.raises(RequestError, match=r"airflow\.cfg is damaged.*`make restore`"):
        write_secrets(layout)
    assert path.read_bytes() == damaged_content
