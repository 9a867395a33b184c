"""Learned routing for the Contract Net: who should receive each announcement.

The public names are those of ``__init__.pyi``. Each is imported when it is first asked for, so
that ``import cnp_router`` is quick::

    from cnp_router import fit_router, load_sample

    sample = load_sample()
    router = fit_router(sample.catalog, sample.history)
    router.recommend("Send me a text message when it rains.")
"""

import functools
import importlib
import pathlib

__all__: list[str]


@functools.cache
def _places() -> dict[str, str]:
    """Return the module of each public name, as the stub beside this file says."""
    import ast

    stub = pathlib.Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    imports = (node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def __getattr__(name: str) -> object:
    if name == "__all__":
        value: object = sorted(_places())
    elif name in _places():
        value = getattr(importlib.import_module(_places()[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_places()})
