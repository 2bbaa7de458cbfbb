"""Write the secrets that docker-compose.yaml needs to .env: `python docker/init_env.py [FILE]`.

Only the owner can read the file. Existing values stay, so the script can also run after an upgrade. It needs only the
standard library, so nothing has to be installed.
"""

import os
import secrets
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

DEFAULTS = {"COMPOSE_PROFILES": "celery"}
PASSWORDS = (
    "POSTGRES_PASSWORD",
    "AIRFLOW_DB_PASSWORD",
    "MLFLOW_DB_PASSWORD",
    "LAKE_DB_PASSWORD",
    "REDIS_PASSWORD",
    "S3_SECRET_ACCESS_KEY",
    "GRAFANA_PASSWORD",
)


def list_generators() -> dict[str, Callable[[], str]]:
    """Return, for each variable, a function that generates its value.

    No value has a character that must be escaped in URLs, JSON or docker-compose.yaml.
    """
    return {
        **{name: lambda value=value: value for name, value in DEFAULTS.items()},
        **dict.fromkeys(PASSWORDS, lambda: secrets.token_urlsafe(24)),
        # As long as an AWS key: Airflow masks the value wherever it occurs in a log, and a short value occurs often.
        "S3_ACCESS_KEY_ID": lambda: f"LEEWAY{secrets.token_hex(7).upper()}",
        "AIRFLOW_FERNET_KEY": lambda: urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "AIRFLOW_API_SECRET": lambda: secrets.token_hex(32),
        "AIRFLOW_JWT_SECRET": lambda: secrets.token_hex(64),
        "AIRFLOW_ADMIN_PASSWORD": lambda: secrets.token_urlsafe(12),
    }


def complete_file(path: Path) -> list[str]:
    """Add a line for each variable that has no value, and return the names of these variables. Idempotent.

    Raises:
        OSError: the file cannot be read or written.
    """
    path = path.resolve()  # a link stays a link, and its target is written
    text = path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""
    lines = [line.partition("=") for line in text.splitlines()]
    pairs = [(name.strip().removeprefix("export ").strip(), value.strip(" \t\"'")) for name, _, value in lines]
    # The line of an empty secret stays, and a new line is added: of two equal names, Compose uses the last.
    existing_names = {name for name, value in pairs if value or name in DEFAULTS}  # those of DEFAULTS may be empty
    new_values = {name: generate() for name, generate in list_generators().items() if name not in existing_names}
    old_lines = [text.rstrip("\n")] if text.strip() else []
    content = "\n".join([*old_lines, *(f"{name}={value}" for name, value in new_values.items())]) + "\n"
    temporary_path = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content.encode("utf-8", errors="surrogateescape"))
        temporary_path.replace(path)
    finally:
        temporary_path.unlink(missing_ok=True)
    return list(new_values)


if __name__ == "__main__":
    file = Path(sys.argv[1] if len(sys.argv) > 1 else ".env")
    try:
        names = complete_file(file)
    except OSError as error:
        sys.exit(f"error: cannot read or write {file}: {error.strerror}.")
    result = f"{file}: {len(names)} values generated, readable only by you." if names else f"{file} is complete."
    sys.stdout.write(result + "\n")
