"""Archives of our own, on every Python that the project knows: Debian 12's, before 3.11.4, has no filter."""

import tarfile
from typing import Any

DATA: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""For `extract` and `extractall`."""
