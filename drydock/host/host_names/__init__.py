"""The `sitecustomize` of jobs whose hosts have no /etc/hosts of their own."""
