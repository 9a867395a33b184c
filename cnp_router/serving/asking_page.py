"""The page at `/`: a person types a request and sees who would be asked, how surely, and why.

It is one file, `page.html`, that loads nothing from elsewhere. Its headers let a browser run that
file's own script and style, and nothing else.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from functools import cache
from importlib.resources import files

__all__ = ["page", "page_headers"]


@cache
def page() -> str:
    """Return the page.

    Returns
    -------
    str
        HTML, for every request the same.

    Examples
    --------
    >>> page().splitlines()[0]
    '<!doctype html>'
    """
    return files("cnp_router.serving").joinpath("page.html").read_text(encoding="utf-8")


def page_headers() -> dict[str, str]:
    """Return the headers that the page is to be sent with.

    The policy names the page's script and style by their SHA-256, as Content Security Policy
    Level 3 does: what is not in the file does not run, whatever a tool's description holds.

    Returns
    -------
    dict of str to str

    Examples
    --------
    >>> headers = page_headers()
    >>> headers["Content-Type"], headers["Referrer-Policy"]
    ('text/html; charset=utf-8', 'no-referrer')
    >>> headers["Content-Security-Policy"].split("; ")[0]
    "default-src 'none'"
    """
    policy = {
        "default-src": "'none'",
        "script-src": _hash_of("script"),
        "style-src": _hash_of("style"),
        "img-src": "data:",  # the icon
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }


@cache
def _hash_of(element: str) -> str:
    (text,) = re.findall(f"<{element}>(.*?)</{element}>", page(), re.DOTALL)
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{b64encode(digest).decode()}'"
