"""The store of docker-compose.yaml: all that it keeps is in its volume, and there is room for each bucket.

SeaweedFS is on no index that tests reach: this holds its files against what the image does, as its sources say.
"""

import re
import tomllib

from tests.tools import compose
from tests.tools.dockerfile import parse_dockerfile

FOLDER = compose.ROOT / "docker" / "seaweedfs"
START = (FOLDER / "start.sh").read_text()
GROWTH = 7
"""Volumes that a collection takes at its first write: each bucket is one, and what is in no bucket."""


def test_names_of_objects_are_kept_where_the_objects_are():
    """The image has a filer.toml with /data, and that counts whatever -dir says."""
    (mount,) = compose.load()["services"]["s3"]["volumes"]
    kept = mount.split(":")[1]
    names = tomllib.loads((FOLDER / "filer.toml").read_text())["leveldb2"]
    assert names["enabled"] is True
    assert names["dir"].startswith(f"{kept}/")
    (stage,) = parse_dockerfile((FOLDER / "Dockerfile").read_text())[1].values()
    assert "filer.toml /etc/seaweedfs/filer.toml" in stage.find_all("COPY")
    assert f"-dir={kept} " in START
    assert f"mkdir -p {names['dir']}\n" in START  # it is not made where a filer.toml names it


def test_there_are_volumes_for_each_bucket():
    init = (compose.ROOT / "docker" / "airflow" / "init.py").read_text()
    buckets = re.findall(r'"(\w+)"', next(line for line in init.splitlines() if line.startswith("BUCKETS")))
    assert len(buckets) == 2
    (most,) = re.findall(r"-volume\.max=(\d+)", START)
    assert int(most) >= 10 * GROWTH * (len(buckets) + 1)


def test_log_is_not_in_memory():
    assert "exec weed -logtostderr=true server " in START  # an option of weed itself: it stands before the command
