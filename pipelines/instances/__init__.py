"""Find instance types of SageMaker and their figures, in a dated table with its sources. Needs no network."""
