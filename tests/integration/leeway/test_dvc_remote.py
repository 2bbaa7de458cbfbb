"""DVC's remote on drydock's S3: pushed by one machine, taken by another; and channels that are sent once."""

import json
import shutil
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from leeway.hooks.sagemaker.uploads import S3Uploader

STAGES = """
stages:
  features:
    cmd: mkdir -p data/features && echo one > data/features/a && echo two > data/features/b && echo x >> $COUNT
    deps: [pipelines/work.py]
    outs: [data/features]
"""
BUCKET = "leeway"


def test_a_stage_is_pushed_to_s3_and_taken_from_there(
    drydock_server: Any, commands: Any, home: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    files = {"dvc.yaml": STAGES, "params.yaml": "{}\n", "pipelines/work.py": "", "expectations/x.json": "{}"}
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    env = {
        "LEEWAY_PROJECT": str(project),
        "LEEWAY_HOME": str(home),
        "LEEWAY_DVC_REMOTE": f"s3://{BUCKET}/dvc",
        "AWS_ENDPOINT_URL": drydock_server.url,
        "AWS_ACCESS_KEY_ID": "AKIADRYDOCKTAKESANY0",
        "AWS_SECRET_ACCESS_KEY": "drydock-takes-any",
        "AWS_DEFAULT_REGION": "us-east-1",
        "COUNT": str(tmp_path / "count"),
    }
    for workspace in ("one", "two"):
        done = commands.step("repro", "--workspace", workspace, "--targets", '["features"]', env=env)
        assert done.code == 0, done.err[-3_000:]
        told = json.loads(done.out)["stages"]["features"]["data/features"]
        assert (told["files"], told["size_bytes"]) == (2, 8)
        assert (home / "workspaces" / workspace / "data/features/b").read_text() == "two\n"
        shutil.rmtree(home)
    assert (tmp_path / "count").read_text() == "x\n", "the second machine computed nothing"
    listed = drydock_server.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="dvc/")["Contents"]
    assert sorted({item["Key"].split("/")[1] for item in listed}) == ["files", "runs"]


def test_a_channel_is_sent_once_and_completed_where_it_was_cut_off(drydock: Any, tmp_path: Path) -> None:
    folder = tmp_path / "channel"
    folder.mkdir()
    for n in range(3):
        (folder / f"part-{n}").write_text(str(n))
    hook = S3Uploader(S3Hook("aws_default"), BUCKET, tmp_path.name)
    place = hook.upload_channel(str(folder))
    s3, prefix = drydock.client("s3"), place.removeprefix(f"s3://{BUCKET}/")

    def written() -> dict[str, Any]:
        found = s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]
        return {item["Key"].removeprefix(prefix): item["LastModified"] for item in found}

    first = written()
    assert sorted(first) == ["part-0", "part-1", "part-2"], "and no marker, which a job would take for data"
    s3.delete_object(Bucket=BUCKET, Key=f"{prefix}part-1")
    assert hook.upload_channel(str(folder)) == place
    assert sorted(written()) == sorted(first)
    assert {name for name, at in written().items() if at == first[name]} >= {"part-0", "part-2"}
