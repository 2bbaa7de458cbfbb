"""Sum costs by day, and find the days that cost far more than their weekday usually does."""
