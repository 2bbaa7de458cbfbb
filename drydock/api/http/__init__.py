"""Limit the server's connections, check the host names in requests, and answer malformed requests."""
