"""S3 objects on disk: what a request writes is stored before it is answered."""
