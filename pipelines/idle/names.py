"""Define the names of the kinds of resources that a sweep checks.

This module imports only the standard library, because Airflow imports it.
"""

from typing import Literal, get_args

KindName = Literal["notebook", "app", "endpoint", "processing"]
"""notebook: notebook instances. app: Studio apps. endpoint: endpoints; only those of Leeway are stopped. processing:
processing jobs."""
KINDS: tuple[KindName, ...] = get_args(KindName)
