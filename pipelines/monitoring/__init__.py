"""Monitor scored days: count their profiles, measure drift, and write the drift report and the drift results."""
