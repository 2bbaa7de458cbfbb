"""Compare the features and scores of requests with those of the lake, and store the results."""
