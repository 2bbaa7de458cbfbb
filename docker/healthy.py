"""Check the health of a service: `python healthy.py URL [COMPONENT]`.

The exit code is 0 if the URL answers with a success status and, with COMPONENT, its JSON reports that component as
healthy. Containers run the script every ten seconds, so it must be fast: it imports only the standard library.
"""

import json
import sys
import urllib.request

TIMEOUT_S = 4


def main(url: str, component: str = "") -> str:
    """Return a description of the problem, or an empty string if the service is healthy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIMEOUT_S) as response:
            body = response.read()
        status = json.loads(body)[component]["status"] if component else "healthy"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{url}: {type(error).__name__} {error}"
    return "" if status == "healthy" else f"{component} is {status}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) or 0)
