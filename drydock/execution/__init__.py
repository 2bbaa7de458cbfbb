"""How jobs run: the queue, one run, the process and container executors, and recovery after a crash."""
