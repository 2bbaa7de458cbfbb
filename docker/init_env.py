"""python docker/init_env.py [FILE]: .env, its owner's alone, has each secret that docker-compose.yaml asks for.

What is there stays, so that it serves an upgrade too. With the standard library alone: nothing need be installed.
"""

import os
import secrets
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

PLAIN = {"COMPOSE_PROFILES": "celery"}
PASSWORDS = (
    "POSTGRES_PASSWORD",
    "AIRFLOW_DB_PASSWORD",
    "MLFLOW_DB_PASSWORD",
    "LAKE_DB_PASSWORD",
    "REDIS_PASSWORD",
    "S3_SECRET_ACCESS_KEY",
    "GRAFANA_PASSWORD",
)


def made() -> dict[str, Callable[[], str]]:
    """What makes each value. None has a character that a URL, JSON or compose would read as its own."""
    return {
        **{name: lambda value=value: value for name, value in PLAIN.items()},
        **dict.fromkeys(PASSWORDS, lambda: secrets.token_urlsafe(24)),
        # As long as AWS's own: Airflow masks it wherever it occurs in a log.
        "S3_ACCESS_KEY_ID": lambda: f"LEEWAY{secrets.token_hex(7).upper()}",
        "AIRFLOW_FERNET_KEY": lambda: urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "AIRFLOW_API_SECRET": lambda: secrets.token_hex(32),
        "AIRFLOW_JWT_SECRET": lambda: secrets.token_hex(64),
        "AIRFLOW_ADMIN_PASSWORD": lambda: secrets.token_urlsafe(12),
    }


def complete(path: Path) -> list[str]:
    """The file has a value for each name; returns the names that were added.

    Raises:
        OSError: it cannot be read or written.
    """
    path = path.resolve()  # where it is a link, what it leads to is the file
    text = path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""
    pairs = [line.partition("=") for line in text.splitlines()]
    # A secret without a value is none, and compose would say so; of two lines for one name it takes the last.
    there = {name.strip().removeprefix("export ").strip() for name, _, value in pairs if value.strip(" \t\"'")}
    there |= {name.strip() for name, _, _ in pairs} & set(PLAIN)
    missing = {name: make() for name, make in made().items() if name not in there}
    lines = [text.rstrip("\n")] if text.strip() else []
    whole = "\n".join([*lines, *(f"{name}={value}" for name, value in missing.items())]) + "\n"
    half = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(whole.encode("utf-8", errors="surrogateescape"))
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
    return list(missing)


if __name__ == "__main__":
    file = Path(sys.argv[1] if len(sys.argv) > 1 else ".env")
    try:
        added = complete(file)
    except OSError as error:
        sys.exit(f"error: cannot write {file}: {error.strerror}.")
    sys.stdout.write(f"{file}: {len(added)} values made, for you only.\n" if added else f"{file} is complete.\n")
