"""Test what `restore` says of an archive that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from stack.backups import verification
from stack.errors import RequestError


def test_error_without_a_text_is_named_by_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(archive: Path) -> None:
        raise EOFError

    monkeypatch.setattr(verification, "_verify_members", fail)
    with pytest.raises(RequestError, match=r"not a complete archive .* or was changed: EOFError\.$"):
        verification.verify_archive(Path("backup.tar"))
