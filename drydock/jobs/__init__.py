"""What a job is: its record, its states, and what each kind of job needs on a host."""
