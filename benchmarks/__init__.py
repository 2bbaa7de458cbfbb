"""What is claimed fast, measured beside its peers: `make bench`, or `python -m benchmarks NAME ...`."""
