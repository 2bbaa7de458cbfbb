"""Single commands for people: each module has one, the function `run_command`."""
