"""Benchmarks: quality, growth and speed. The entry point is ``run.py``."""
