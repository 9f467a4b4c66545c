"""Measurements of speed: each module is a program, `python -m benchmarks.NAME --help`."""
