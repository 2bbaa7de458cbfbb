"""Operators, one a file, each named as its step."""
