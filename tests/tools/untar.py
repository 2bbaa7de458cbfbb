"""Extract trusted archives on every supported Python: before 3.11.4, as in Debian 12, tarfile has no filters."""

import tarfile
from typing import Any

EXTRACT_OPTIONS: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Options of `TarFile.extract` and `TarFile.extractall`."""
