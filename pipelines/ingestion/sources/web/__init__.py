"""Read JSON APIs, which return their rows in pages, by an HTTP client that retries."""
