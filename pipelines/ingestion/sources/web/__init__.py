"""HTTP: a client that retries, and JSON APIs that give their rows in pages."""
