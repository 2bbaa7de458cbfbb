"""Test the S3 store of docker-compose.yaml: all its data are in its volume, and each bucket has room.

Tests cannot install SeaweedFS from a package index. They compare its configuration with what its sources say.
"""

import re
import tomllib

from tests.tools import compose
from tests.tools.dockerfile import parse_dockerfile

FOLDER = compose.ROOT / "docker" / "seaweedfs"
START = (FOLDER / "start.sh").read_text()
GROWTH = 7
"""Volumes that a collection takes at its first write. Each bucket is a collection; what is in no bucket is one more."""


def test_names_of_objects_are_stored_where_the_objects_are():
    """The image's own filer.toml names /data and overrules -dir, so that this project replaces it."""
    (mount,) = compose.load()["services"]["s3"]["volumes"]
    volume = mount.split(":")[1]
    names = tomllib.loads((FOLDER / "filer.toml").read_text())["leveldb2"]
    assert names["enabled"] is True
    assert names["dir"].startswith(f"{volume}/")
    (stage,) = parse_dockerfile((FOLDER / "Dockerfile").read_text())[1].values()
    assert "filer.toml /etc/seaweedfs/filer.toml" in stage.list_arguments("COPY")
    assert f"-dir={volume} " in START
    assert f"mkdir -p {names['dir']}\n" in START  # SeaweedFS does not create a folder that filer.toml names


def test_each_bucket_has_volumes():
    init = (compose.ROOT / "docker" / "airflow" / "init.py").read_text()
    buckets = re.findall(r'"(\w+)"', next(line for line in init.splitlines() if line.startswith("BUCKETS")))
    assert len(buckets) == 2
    (limit,) = re.findall(r"-volume\.max=(\d+)", START)
    assert int(limit) >= 10 * GROWTH * (len(buckets) + 1)


def test_log_goes_to_stderr_and_not_to_memory():
    assert "exec weed -logtostderr=true server " in START  # an option of weed itself stands before the command
