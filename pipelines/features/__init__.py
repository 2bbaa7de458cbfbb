"""Build features: open the pinned window, and run the dataset's ibis expression on it with an engine."""
