"""What endpoints cost: rows in the lake, what running endpoints will still cost, and a forecast of a deployment."""
