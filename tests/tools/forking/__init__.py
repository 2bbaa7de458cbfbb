"""Start Python processes quickly: fork them from a server that has imported the heavy libraries already.

A step takes two to five seconds, mostly for imports of third-party libraries. A process that is forked from the server
has these libraries already. It also has the code under test, unless it would import other files from its path or
working directory.

A forked process differs from a new one in two ways: its parent is the server, and it shares the server's hash seed.
Tests of starts, parents, memory, and bytes that must not depend on a hash seed start real processes
(`subprocess.Popen`).
"""

from tests.tools.forking.client import Popen, run, share_server, stop_server
from tests.tools.forking.stand_in import ensure_stand_in, write_stand_in

__all__ = ["Popen", "ensure_stand_in", "run", "share_server", "stop_server", "write_stand_in"]
