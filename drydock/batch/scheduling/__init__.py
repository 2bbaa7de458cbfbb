"""The rules by which jobs of queues start and are preempted: pure functions of what waits and what runs."""
