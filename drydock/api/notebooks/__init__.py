"""Answer the requests for notebook instances and Studio apps."""
