"""Test the synchronization of the checkpoint folder with S3."""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from drydock.transfer.checkpoints import CheckpointSync
from drydock.transfer.objects import ObjectStore
from drydock.transfer.stable_read import copy_stable

Host = Callable[..., tuple[Path, CheckpointSync]]


@pytest.fixture
def host(tmp_path: Path, s3: Any, objects: ObjectStore) -> Host:
    """Return the function that gives a host's folder and its synchronization: host(name, uri, interval_s)."""

    def make(name: str = "one", uri: str = "", interval_s: float = 0.0) -> tuple[Path, CheckpointSync]:
        folder = tmp_path / name / "checkpoints"
        folder.mkdir(parents=True)
        sync = CheckpointSync(folder, uri or s3.build_uri("run-1"), objects, interval_s)
        sync.download()
        s3.app.writes.clear()
        return folder, sync

    return make


def take_writes(s3: Any) -> list[str]:
    """Return the writes since the last call."""
    writes, s3.app.writes[:] = list(s3.app.writes), []
    return writes


def test_only_changes_are_uploaded(s3: Any, host: Host) -> None:
    s3.put("run-1/old", "from S3")
    s3.put("run-10/other", "of another run")
    folder, sync = host()
    assert os.listdir(folder) == ["old"]
    sync.upload()
    assert take_writes(s3) == []
    (folder / "sub").mkdir()
    (folder / "sub" / "new").write_text("1")
    sync.upload()
    assert take_writes(s3) == ["PUT run-1/sub/new"] and s3.get("run-1/sub/new") == b"1"
    (folder / "sub" / "new").write_text("other")
    (folder / "old").unlink()
    sync.upload()
    assert take_writes(s3) == ["PUT run-1/sub/new", "DELETE run-1/old"] and s3.get("run-1/sub/new") == b"other"
    sync.upload()
    assert take_writes(s3) == [] and s3.list_keys() == ["run-1/sub/new", "run-10/other"]


def test_replaced_file_of_equal_size_and_time_is_uploaded(s3: Any, host: Host) -> None:
    folder, sync = host()
    (folder / "file").write_text("1")
    moment = os.stat(folder / "file").st_mtime_ns
    sync.upload()
    (folder / "new").write_text("2")
    os.utime(folder / "new", ns=(moment, moment))
    os.replace(folder / "new", folder / "file")
    sync.upload()
    assert s3.get("run-1/file") == b"2"


def test_files_are_uploaded_at_most_once_per_interval(s3: Any, host: Host) -> None:
    folder, sync = host(interval_s=3600.0)
    (folder / "file").write_text("1")
    sync.upload_if_due()
    assert take_writes(s3) == []
    sync.upload()
    assert take_writes(s3) == ["PUT run-1/file"]


def test_foreign_objects_are_downloaded_and_not_deleted(s3: Any, host: Host, caplog: pytest.LogCaptureFixture) -> None:
    valid = ["README", "a/b/c", "empty", "ü" * 127, ".hidden", "a b+c%20", "x.sagemaker-uploaded"]
    ignored = ["/etc/passwd", "y" * 256, "README/below", "b//c", "b/c"]
    for name in [*valid, *ignored, "folder/"]:
        s3.put(f"run-1/{name}", "" if name == "empty" else "1")
    keys = s3.list_keys()
    folder, sync = host()
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    # README is a file and a folder in S3; only the folder is downloaded.
    assert names == {*valid, "README/below"} - {"README"}
    assert "cannot" not in caplog.text and len(caplog.records) == 5
    sync.upload()
    (folder / "own").write_text("1")
    sync.upload()
    assert s3.list_keys() == sorted([*keys, "run-1/own"])


def test_host_deletes_only_its_own_objects(s3: Any, host: Host) -> None:
    s3.put("run-1/both", "older")
    (one, sync_one), (two, sync_two) = host("one"), host("two")
    (one / "one").write_text("1")
    (two / "two").write_text("2")
    sync_one.upload()
    sync_two.upload()
    sync_one.upload()
    assert s3.list_keys() == ["run-1/both", "run-1/one", "run-1/two"]
    (two / "both").write_text("overwritten by two")
    sync_two.upload()
    (one / "both").unlink()
    (one / "one").unlink()
    sync_one.upload()
    assert s3.list_keys() == ["run-1/both", "run-1/two"]
    (two / "both").unlink()
    sync_two.upload()
    assert s3.list_keys() == ["run-1/two"]


def test_oldest_file_is_uploaded_first(s3: Any, host: Host) -> None:
    folder, sync = host()
    for name, moment in (("a-state", 300), ("m", 200), ("z-data", 100)):
        (folder / name).write_text(name)
        os.utime(folder / name, (moment, moment))
    sync.upload()
    assert take_writes(s3) == ["PUT run-1/z-data", "PUT run-1/m", "PUT run-1/a-state"]


def test_file_that_vanishes_is_skipped(s3: Any, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, sync = host()
    (folder / "a-here").write_text("1")
    (folder / "b-vanished").write_text("1")
    write = ObjectStore.write

    def vanish(store: ObjectStore, stream: Any, uri: str) -> None:
        (folder / "b-vanished").unlink(missing_ok=True)
        write(store, stream, uri)

    monkeypatch.setattr(ObjectStore, "write", vanish)
    sync.upload()
    assert take_writes(s3) == ["PUT run-1/a-here"]


def test_next_upload_completes_a_failed_one(s3: Any, host: Host) -> None:
    folder, sync = host()
    (folder / "a").write_text("1")
    s3.app.failures_left = 100
    with pytest.raises(ClientError, match=r"SlowDown|503"):
        sync.upload_if_due()
    assert s3.app.failure_count < 10  # the supervision of the job must not wait long
    s3.app.failures_left = 0
    sync.upload_if_due()
    assert s3.list_keys() == ["run-1/a"]


@pytest.mark.parametrize("final", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_upload_waits_for_a_slow_s3(s3: Any, host: Host, final: bool) -> None:
    folder, sync = host()
    (folder / "a").write_text("1")
    s3.app.failures_left = 5
    sync.upload_last_changes(was_killed=False) if final else sync.upload()
    assert s3.app.failure_count == 5 and s3.get("run-1/a") == b"1"


def test_file_that_is_being_written_keeps_its_last_whole_copy(s3: Any, host: Host) -> None:
    folder, sync = host()
    (folder / "state").write_text("first")
    sync.upload()
    for stop_after in ("", "sec"):
        with (folder / "state").open("w") as file:  # a script that truncates a file and fills it again
            file.write(stop_after)
            file.flush()
            sync.upload()
            assert s3.get("run-1/state") == b"first"
    with (folder / "new").open("w") as file:
        file.write("a part")
        file.flush()
        sync.upload_if_due()
        assert "run-1/new" not in s3.list_keys()
    (folder / "state").write_text("second")
    sync.upload()
    assert (s3.get("run-1/state"), s3.get("run-1/new")) == (b"second", b"a part")


def test_file_that_another_process_writes_is_copied_once_it_is_closed(s3: Any, host: Host) -> None:
    folder, sync = host()
    code = "import sys; file = open(sys.argv[1], 'w'); print(flush=True); input(); file.write('whole'); file.close()"
    command = [sys.executable, "-c", f"{code}; print(flush=True); input()", str(folder / "state")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        writer.stdout.readline()
        sync.upload()
        assert s3.list_keys() == []
        writer.stdin.write(b"\n")
        writer.stdout.readline()
        sync.upload()
        assert s3.get("run-1/state") == b"whole"
        writer.kill()


def test_file_that_stays_open_is_copied_while_nobody_writes(
    s3: Any, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log or a database may be open during the whole job."""
    folder, sync = host()
    with (folder / "log").open("a") as file:
        for line in ("one", "two"):
            file.write(line)
            file.flush()
            sync.upload()
            monkeypatch.setattr("drydock.transfer.checkpoints.QUIET_S", 0.0)
            sync.upload()
            assert s3.get("run-1/log").endswith(line.encode())
        # But a file that is shorter than its copy is about to be filled again.
        file.truncate(0)
        sync.upload()
        assert s3.get("run-1/log") == b"onetwo"


@pytest.mark.parametrize("was_killed", [True, False])
def test_file_that_a_killed_command_was_writing_keeps_its_last_whole_copy(
    s3: Any, host: Host, was_killed: bool
) -> None:
    folder, sync = host()
    for name in ("seen", "unseen", "kept", "replaced", "deleted"):
        (folder / name).write_text("whole")
    sync.upload()
    with (folder / "seen").open("w") as seen, (folder / "part").open("w") as part:
        for file in (seen, part):
            file.write("half, but longer")
            file.flush()
        sync.upload()
    # What happens between the last look at the folder and the death of the command.
    (folder / "unseen").write_text("")
    (folder / "empty").write_text("")
    (folder / "kept").write_text("whole, and more")
    (folder / "new").write_text("1")
    os.replace(folder / "new", folder / "replaced")
    (folder / "deleted").unlink()
    sync.upload_last_changes(was_killed)
    contents = {name: s3.get(f"run-1/{name}") for name in ("seen", "unseen", "kept", "replaced")}
    assert (contents["kept"], contents["replaced"]) == (b"whole, and more", b"1")
    names = {key.removeprefix("run-1/") for key in s3.list_keys()}
    if was_killed:
        assert (contents["seen"], contents["unseen"]) == (b"whole", b"whole")
        assert names == {*contents, "deleted"}  # what the skipped files replace may be all that is left
    else:
        assert (contents["seen"], contents["unseen"]) == (b"half, but longer", b"")
        assert names == {*contents, "part", "empty"}


def test_file_that_was_truncated_twice_keeps_its_last_whole_copy(
    s3: Any, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is a part when the folder is read, whole when it is copied, and a part again when the job is killed."""
    folder, sync = host()
    (folder / "state").write_text("wh")

    def fill_and_copy(path: Path, *arguments: Any, **options: Any) -> Any:
        path.write_text("whole")
        return copy_stable(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr("drydock.transfer.checkpoints.copy_stable", fill_and_copy)
        sync.upload()
    assert s3.get("run-1/state") == b"whole"
    (folder / "state").write_text("who")  # longer than when the folder was read, and shorter than the copy
    sync.upload_last_changes(was_killed=True)
    assert s3.get("run-1/state") == b"whole"
    sync.upload_last_changes(was_killed=False)
    assert s3.get("run-1/state") == b"who", "negative control: a job that ended by itself has written a shorter file"


def test_shorter_file_is_uploaded_once_it_has_not_changed_for_a_while(
    s3: Any, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may have ended the job between truncating the file and filling it: then no process has it open.

    Several uploads may come before the end of the job is seen.
    """
    folder, sync = host()
    (folder / "state").write_text("whole")
    sync.upload()
    (folder / "state").write_text("")
    (folder / "longer").write_text("new")
    for _ in range(3):
        sync.upload()
        assert (s3.get("run-1/state"), s3.get("run-1/longer")) == (b"whole", b"new")
    with monkeypatch.context() as patch:
        patch.setattr("drydock.transfer.checkpoints.QUIET_S", 0.0)
        sync.upload()
    assert s3.get("run-1/state") == b"", "the job still runs, and has closed the file: this is what it has written"
    (folder / "new").write_text("by rename")
    sync.upload()
    (folder / "other").write_text("x")
    os.replace(folder / "other", folder / "new")
    sync.upload()
    assert s3.get("run-1/new") == b"x", "another file of the same name is complete"


def test_links_out_of_the_folder_are_not_followed(s3: Any, host: Host) -> None:
    folder, sync = host()
    (folder / "sub").mkdir()
    (folder / "sub" / "epoch-2").write_text("2")
    (folder / "last").symlink_to("sub/epoch-2")
    (folder / "out").symlink_to("/etc/passwd")
    (folder / "folder").symlink_to("sub")
    (folder / "circle").symlink_to("circle")
    os.mkfifo(folder / "fifo")
    sync.upload()
    assert s3.list_keys() == ["run-1/last", "run-1/sub/epoch-2"] and s3.get("run-1/last") == b"2"
    (folder / "last").unlink()
    (folder / "sub" / "epoch-3").write_text("3")
    (folder / "last").symlink_to("sub/epoch-3")
    sync.upload_last_changes(was_killed=False)
    assert s3.get("run-1/last") == b"3"


def test_warning_about_a_file_is_logged_once_and_others_are_uploaded(
    s3: Any, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    folder, sync = host()
    (folder / "a\udcff").write_text("no UTF-8")
    (folder / "here").write_text("1")
    deep = folder.joinpath(*["d" * 250] * 5)
    deep.mkdir(parents=True)
    (deep / "too-long-a-key").write_text("1")
    sync.upload()
    sync.upload()
    assert s3.list_keys() == ["run-1/here"]
    assert [record.getMessage().split("it ")[1][:15] for record in caplog.records] == ["cannot be a key"] * 2


def test_unreadable_files_are_not_deleted_in_s3(s3: Any, host: Host, caplog: pytest.LogCaptureFixture) -> None:
    folder, sync = host()
    (folder / "sub").mkdir()
    for name in ("a", "b", "sub/c"):
        (folder / name).write_text("1")
    sync.upload()
    (folder / "a").write_text("2")
    (folder / "a").chmod(0)
    if os.access(folder / "a", os.R_OK):
        pytest.skip("this user can read all files, as root can")
    (folder / "b").write_text("2")
    (folder / "sub").chmod(0)
    sync.upload()
    (folder / "sub").chmod(0o700)
    assert s3.list_keys() == ["run-1/a", "run-1/b", "run-1/sub/c"]
    assert (s3.get("run-1/a"), s3.get("run-1/b")) == (b"1", b"2")
    assert len(caplog.records) == 2


def test_missing_folder_deletes_nothing(s3: Any, host: Host) -> None:
    folder, sync = host()
    (folder / "a").write_text("1")
    sync.upload()
    shutil.rmtree(folder.parent)
    sync.upload()
    assert s3.list_keys() == ["run-1/a"]


def test_marker_files_of_sagemaker_are_not_uploaded(s3: Any, host: Host) -> None:
    folder, sync = host()
    for name in ("a", "a.sagemaker-uploading", "a.sagemaker-uploaded", "sagemaker-uploaded.txt"):
        (folder / name).write_text("1")
    sync.upload()
    assert s3.list_keys() == ["run-1/a", "run-1/sagemaker-uploaded.txt"]


def test_final_upload_needs_no_disk_space(
    s3: Any, host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder, sync = host()
    (folder / "a").write_text("1")

    def raise_no_space(*args: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("drydock.transfer.stable_read.shutil.copyfileobj", raise_no_space)
    sync.upload()
    assert s3.list_keys() == [] and "No space left" in caplog.text
    sync.upload_last_changes(was_killed=False)
    assert s3.get("run-1/a") == b"1"


@pytest.fixture(autouse=True)
def _log_warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "drydock.transfer.checkpoints")
