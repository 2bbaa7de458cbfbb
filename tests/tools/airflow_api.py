"""Call Airflow's API over SQLite, which has one writer: where the database is locked, the API answers 500 or 503."""

import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry


def open_retrying_session() -> requests.Session:
    """Open a session that repeats a request where the database was locked. Airflow has rolled that request back."""
    retry = Retry(
        connect=0, read=0, status=10, status_forcelist=(500, 503), allowed_methods=None, raise_on_status=False,
        backoff_factor=0.3, backoff_max=5,
    )  # fmt: skip
    session = requests.Session()
    session.headers["Connection"] = "close"  # the server may close an idle connection at the moment of its next use
    session.mount("http://", HTTPAdapter(max_retries=retry))
    return session
