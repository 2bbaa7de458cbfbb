"""Measure speed, memory and decisions, often beside another tool (the peer): `python -m benchmarks NAME ...`."""
