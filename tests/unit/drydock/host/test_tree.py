"""Test what is left of a host's folder tree."""

from pathlib import Path

from drydock.host.tree import HostTree


def test_deleted_tree_leaves_neither_logs_nor_an_exit_code_and_no_file_of_another_host(tmp_path: Path) -> None:
    trees = [HostTree(tmp_path / name) for name in ("i-1", "i-2")]
    for tree in trees:
        tree.create([tree.model])
        tree.log.write_text("loading")
        tree.log.with_name(f"{tree.log.name}.1").write_text("an earlier run")
        tree.exit_file.write_text('{"exit_code": 1, "ended_at": 0}')
    trees[0].delete()
    assert {path.name for path in tmp_path.iterdir()} == {"i-2", "i-2.log", "i-2.log.1", "i-2.exit.json"}
    trees[0].delete()
