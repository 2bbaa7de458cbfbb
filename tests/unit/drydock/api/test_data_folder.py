"""Test that drydock creates the folders of its data for their owner alone."""

import os
from pathlib import Path

from drydock.api.server import lock_data_folder


def test_missing_folders_are_the_owners_alone_and_existing_ones_stay(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    umask = os.umask(0)
    try:
        with lock_data_folder(tmp_path / ".leeway" / "drydock"):
            pass
    finally:
        os.umask(umask)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("", ".leeway", ".leeway/drydock")]
    assert modes == [0o755, 0o700, 0o700]
