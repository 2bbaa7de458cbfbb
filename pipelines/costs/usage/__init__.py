"""Read, store and judge what jobs used of their instances: CPU, memory, disk and GPU."""
