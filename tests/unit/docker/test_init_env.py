"""`make compose-init`: secrets in a file that is its owner's alone."""

import stat
import subprocess
import sys
from base64 import urlsafe_b64decode
from pathlib import Path

from tests.tools import compose

SCRIPT = compose.ROOT / "docker" / "init_env.py"


def run(path: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-I", str(SCRIPT), str(path)], capture_output=True, text=True)


def test_file_is_its_owners_alone_and_each_has_its_own_secrets(tmp_path):
    told = run(tmp_path / "a")
    assert told.returncode == 0
    run(tmp_path / "b")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    one, other = compose.read_env(tmp_path / "a"), compose.read_env(tmp_path / "b")
    assert one.keys() == other.keys()
    assert {name for name in one if one[name] == other[name]} == {"COMPOSE_PROFILES"}
    secrets = [one[name] for name in one if name != "COMPOSE_PROFILES"]
    assert len(set(secrets)) == len(secrets) and min(map(len, secrets)) >= 16
    assert not any(value in told.stdout + told.stderr for value in secrets)
    assert len(urlsafe_b64decode(one["AIRFLOW_FERNET_KEY"])) == 32


def test_what_is_there_stays_and_what_is_missing_is_added(tmp_path):
    path = tmp_path / ".env"
    path.write_text("# mine\nREDIS_PASSWORD=as it was\nDOCS_PORT=9000")
    path.chmod(0o644)
    assert run(path).returncode == 0
    assert path.read_text().startswith("# mine\nREDIS_PASSWORD=as it was\nDOCS_PORT=9000\nCOMPOSE_PROFILES=celery\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    assert run(path).stdout == f"{path} is complete.\n"
    assert path.read_bytes() == before


def test_folder_that_cannot_be_written_is_one_line(tmp_path):
    told = run(tmp_path / "none" / ".env")
    assert told.returncode == 1
    assert told.stderr == f"error: cannot write {tmp_path / 'none' / '.env'}: No such file or directory.\n"


def test_secret_without_a_value_is_made_and_one_that_is_exported_stays(tmp_path):
    path = tmp_path / ".env"
    path.write_bytes(
        b'REDIS_PASSWORD=\nMLFLOW_DB_PASSWORD=""\nexport GRAFANA_PASSWORD=mine\nCOMPOSE_PROFILES=\n# caf\xe9\n'
    )
    assert run(path).returncode == 0
    lines = path.read_bytes().splitlines()
    assert lines[4] == b"# caf\xe9"
    assert not [one for one in lines if one.startswith((b"GRAFANA_PASSWORD", b"COMPOSE_PROFILES=c"))]
    for name in (b"REDIS_PASSWORD=", b"MLFLOW_DB_PASSWORD="):
        assert len([one for one in lines if one.startswith(name)][-1]) > len(name) + 16  # the last line counts
    before = path.read_bytes()
    assert run(path).stdout == f"{path} is complete.\n"
    assert path.read_bytes() == before


def test_link_stays_a_link(tmp_path):
    (tmp_path / ".env").symlink_to(tmp_path / "kept")
    assert run(tmp_path / ".env").returncode == 0
    assert (tmp_path / ".env").is_symlink()
    assert "REDIS_PASSWORD" in compose.read_env(tmp_path / "kept")
