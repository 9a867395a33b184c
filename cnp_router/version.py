"""The version of this library, where every room can import it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
