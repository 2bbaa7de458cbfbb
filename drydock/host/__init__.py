"""One host of a job: its folder tree, its size, its command's arguments, and how an executor runs it."""
