"""Tables and queries of PostgreSQL and SQLite."""
