"""The command line: a skin over the library. Heavy imports happen inside the commands."""

from cnp_router.cli.app import app, main

__all__ = ["app", "main"]
