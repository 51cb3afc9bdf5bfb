"""What the benchmark of scale consists of: an API server, its load, and the operators that are compared."""
