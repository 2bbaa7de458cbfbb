"""The program of the process that `pattern_search` starts. It imports only the standard library, so it starts at once.

It reads requests from its input, one JSON object a line, and writes the answers to its output. A search that takes too
long ends the process by a signal: nothing else can interrupt Python's regular expressions.
"""

import json
import re
import signal
import sys


def answer_requests() -> None:
    """Answer requests until the input ends."""
    for text in sys.stdin:
        request = json.loads(text)
        signal.setitimer(signal.ITIMER_VIRTUAL, request["limit_s"])  # seconds of CPU; then SIGVTALRM ends the process
        pattern = re.compile(request["regex"])
        lines = request["lines"] if pattern.groups else []
        texts = [match.group(1) for line in lines for match in pattern.finditer(line)]
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.stdout.write(json.dumps(texts) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    answer_requests()
