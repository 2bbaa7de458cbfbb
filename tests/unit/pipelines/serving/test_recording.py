"""What requests saw is recorded, also after a disk that is full, and read without a line that was cut."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from pipelines.errors import DataError, SpecError
from pipelines.serving.recording import Recorder, read_recorded_rows

ORIGIN = {"model": "flights", "version": "1"}
ROW = {"partition": "2013-02-01", "key": {"date": dt.date(2013, 2, 1)}, "features": {"x": 0.1 + 0.2}, "score": 0.5}


def test_rows_are_recorded_and_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "new" / "folder"
    recorder = Recorder(folder)
    recorder.record(ORIGIN, [ROW, ROW])
    (path,) = folder.iterdir()
    with path.open("a") as file:
        file.write('{"model": "fl')  # the server was killed here
    first, second = read_recorded_rows(folder)
    assert {**first, "at": ""} == {**second, "at": ""} == {**ORIGIN, **ROW, "key": {"date": "2013-02-01"}, "at": ""}
    path.unlink()
    folder.rmdir()
    folder.write_text("a file in place of the folder")
    recorder.record(ORIGIN, [ROW])
    assert "a request was not recorded" in caplog.text
    with pytest.raises(SpecError, match="of recorded requests cannot be created: File exists"):
        Recorder(folder)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no recorded requests"):
        list(read_recorded_rows(tmp_path))
    for text in ("[]\n", "{}\n", "no JSON\n"):
        (tmp_path / "a.jsonl").write_text(text)
        with pytest.raises(DataError, match="line 1 is not a recorded row"):
            list(read_recorded_rows(tmp_path))
