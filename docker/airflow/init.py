"""Create what the services need: Airflow's password and connections, the folder of the data docs, and the buckets.

Idempotent.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import boto3
from botocore.exceptions import ClientError

BUCKETS = ("leeway", "mlflow")
USER = "admin"


def write_passwords(path: Path, password: str) -> None:
    """Write the password file atomically. Only its owner can read it, even while it is written."""
    temporary_path = path.with_name(f".{path.name}")
    temporary_path.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({USER: password}, file)
    temporary_path.replace(path)


def store_connections(aws: str, lake: str) -> None:
    """Store the steps' connections in Airflow's database, encrypted; replace those of an earlier `.env`. Idempotent.

    Args:
        aws: connection `aws_default` as JSON.
        lake: connection `lake` as a URI.
    """
    connection = json.loads(aws)
    connections = {"aws_default": {**connection, "extra": json.dumps(connection["extra"])}, "lake": lake}
    # Pass them in a file that only this user can read: every user can read the arguments of a command.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "connections.json"
        file.write_text(json.dumps(connections), encoding="utf-8")
        command = [sys.executable, "-m", "airflow", "connections", "import", "--overwrite", str(file)]
        subprocess.run(command, check=True)


def create_bucket(name: str) -> None:
    """Create a bucket. Idempotent."""
    try:
        boto3.client("s3").create_bucket(Bucket=name)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
            raise


if __name__ == "__main__":
    file = Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    write_passwords(file, os.environ["AIRFLOW_ADMIN_PASSWORD"])
    store_connections(os.environ["AWS_CONNECTION"], os.environ["LAKE_CONNECTION"])
    # The service `docs` mounts this folder read-only, so it cannot create the folder.
    Path(os.environ["LEEWAY_HOME"], "docs").mkdir(parents=True, exist_ok=True)
    for bucket in BUCKETS:
        create_bucket(bucket)
