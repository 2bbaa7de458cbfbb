"""Start Python processes quickly: fork them from a server that has imported the heavy libraries already.

Of a step's two to five seconds most are imports of third-party libraries. A process that is forked from the server has
them, and only them: the code under test is imported in the child, from the child's own path and working directory.

What differs from a process that was started anew: its parent is the server, and it shares the server's hash seed. Tests
about starting, about parents, about memory, and about bytes that must not depend on a hash seed start real processes
(`subprocess.Popen`).
"""

from tests.tools.forking.client import Popen, run, stop_server
from tests.tools.forking.stand_in import stand_in, write_stand_in

__all__ = ["Popen", "run", "stand_in", "stop_server", "write_stand_in"]
