"""Run `python -m stack`."""

from stack.cli import app

app(prog_name="python -m stack")
