"""Airflow's API over SQLite, which has one writer: for a lock it answers 500 or 503, and takes back what it began."""

import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry


def patient() -> requests.Session:
    """A session that asks again where the database was locked."""
    again = Retry(
        connect=0, read=0, status=10, status_forcelist=(500, 503), allowed_methods=None, raise_on_status=False,
        backoff_factor=0.3, backoff_max=5,
    )  # fmt: skip
    session = requests.Session()
    session.headers["Connection"] = "close"  # one that is kept the server may close just when it is used again
    session.mount("http://", HTTPAdapter(max_retries=again))
    return session
