"""Test how much of a disk a folder takes."""

from pathlib import Path

from drydock.host.disk import measure_folder

KIB = 1024


def test_files_of_all_folders_count_and_links_do_not(tmp_path: Path) -> None:
    folder, other = tmp_path / "tree", tmp_path / "other"
    (folder / "a/b").mkdir(parents=True)
    other.write_bytes(b"x" * 512 * KIB)
    (folder / "a/b/file").write_bytes(b"x" * 64 * KIB)
    (folder / "link").symlink_to(other)
    (folder / "loop").symlink_to(folder)
    size_bytes = measure_folder(folder)
    assert size_bytes is not None and 64 * KIB <= size_bytes < 256 * KIB


def test_hole_in_a_file_takes_nothing(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    size_bytes = measure_folder(tmp_path)
    assert size_bytes is not None and size_bytes < 64 * KIB


def test_too_many_files_are_not_known_instead_of_too_small(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).touch()
    assert measure_folder(tmp_path, max_entries=5) is not None
    assert measure_folder(tmp_path, max_entries=4) is None


def test_folder_that_is_gone_takes_nothing(tmp_path: Path) -> None:
    assert measure_folder(tmp_path / "gone") == 0
