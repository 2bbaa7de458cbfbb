"""Test DVC's remote on drydock's S3, which two machines share, and channels, which are uploaded once."""

import json
import logging
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


def test_second_machine_pulls_the_stage_that_the_first_pushed(
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
        result = commands.run_step("repro", "--workspace", workspace, "--targets", '["features"]', env=env)
        assert result.code == 0, result.err[-3_000:]
        output = json.loads(result.out)["stages"]["features"]["data/features"]
        assert (output["files"], output["size_bytes"]) == (2, 8)
        assert (home / "workspaces" / workspace / "data/features/b").read_text() == "two\n"
        shutil.rmtree(home)
    assert (tmp_path / "count").read_text() == "x\n", "the second machine computed nothing"
    objects = drydock_server.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="dvc/")["Contents"]
    assert sorted({item["Key"].split("/")[1] for item in objects}) == ["files", "runs"]


def test_channel_is_uploaded_once_and_a_missing_file_is_added(drydock: Any, tmp_path: Path) -> None:
    folder = tmp_path / "channel"
    folder.mkdir()
    for n in range(3):
        (folder / f"part-{n}").write_text(str(n))
    hook = S3Uploader(S3Hook("aws_default"), BUCKET, tmp_path.name, logging.getLogger())
    uri = hook.upload_channel(str(folder))
    s3, prefix = drydock.client("s3"), uri.removeprefix(f"s3://{BUCKET}/")

    def list_uploads() -> dict[str, Any]:
        objects = s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]
        return {item["Key"].removeprefix(prefix): item["LastModified"] for item in objects}

    first = list_uploads()
    assert sorted(first) == ["part-0", "part-1", "part-2"], "there is no marker file, which a job would read as data"
    s3.delete_object(Bucket=BUCKET, Key=f"{prefix}part-1")
    assert hook.upload_channel(str(folder)) == uri
    assert sorted(list_uploads()) == sorted(first)
    assert {name for name, time in list_uploads().items() if time == first[name]} >= {"part-0", "part-2"}
