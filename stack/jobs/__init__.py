"""The long jobs that a person starts on the stack: `demo` and `replay`."""
