"""Benchmarks of spot trainings that are interrupted."""
