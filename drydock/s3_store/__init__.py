"""S3 objects on disk: the changes of a request are stored before the request is answered."""
