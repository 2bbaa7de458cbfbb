"""Operators, one in each module. An operator over a step has the step's name."""
