"""Benchmarks: `make bench-NAME` runs the module NAME, prints a table and writes build/bench/NAME.json."""
