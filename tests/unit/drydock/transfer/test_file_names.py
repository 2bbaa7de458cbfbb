"""Test the file names of keys."""

import pytest

from drydock.transfer.file_names import build_local_name, find_invalid_names


@pytest.mark.parametrize(
    ("key", "prefix", "name"),
    [
        ("data/train/a.csv", "data/train/", "a.csv"),
        ("data/train/a.csv", "data/train", "a.csv"),
        ("data/train/x/a.csv", "data/train", "x/a.csv"),
        ("data/train.csv", "data/train.csv", "train.csv"),
        ("data/train-2.csv", "data/train", "train-2.csv"),
        ("a.csv", "", "a.csv"),
        ("a.csv", "a", "a.csv"),
    ],
)
def test_local_names_follow_the_prefix(key: str, prefix: str, name: str) -> None:
    assert build_local_name(key, prefix) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../escaped", "outside its folder"),
        ("a/../../escaped", "outside its folder"),
        ("/etc/escaped", "outside its folder"),
        (".", "names no file"),
        ("", "names no file"),
        ("x" * 256, "more than 255 bytes"),
        ("ü" * 128, "more than 255 bytes"),
        ("a\0b", "NUL"),
    ],
)
def test_invalid_file_names_are_refused(name: str, reason: str) -> None:
    problems = find_invalid_names([name, "fine"])
    assert list(problems) == [name] and reason in problems[name]


def test_valid_file_names_are_accepted() -> None:
    assert find_invalid_names(["a", "b/c", "b/d/e", ".hidden", "..b", "x" * 255, "ü" * 127, "a b", "%2e%2e"]) == {}


def test_a_file_cannot_be_a_folder_too() -> None:
    assert find_invalid_names(["a", "a/b", "a/c/d"]) == {"a": "is both a file and the folder of another file"}


def test_two_objects_cannot_be_one_file() -> None:
    assert set(find_invalid_names(["a//b", "a/b", "c"])) == {"a//b", "a/b"}
    assert set(find_invalid_names(["a", "a"])) == {"a"}
