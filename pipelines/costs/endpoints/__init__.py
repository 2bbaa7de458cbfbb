"""What endpoints cost: rows in the lake, their report, and what running endpoints will still cost."""
