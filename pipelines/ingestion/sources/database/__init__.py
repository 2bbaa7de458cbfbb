"""Read tables and queries of PostgreSQL and SQLite."""
