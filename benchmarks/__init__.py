"""Benchmarks of what is claimed to be fast, compared with peers: `make bench`, or `python -m benchmarks NAME ...`."""
