"""Benchmarks of routers, rounds and next-tool predictors. The entry point is ``run.py``."""
