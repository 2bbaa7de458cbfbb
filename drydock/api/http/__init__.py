"""The HTTP side of the server: its connections, the host names that it answers for, and malformed requests."""
