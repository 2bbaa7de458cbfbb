"""Operators, one a module, each named after its step."""
