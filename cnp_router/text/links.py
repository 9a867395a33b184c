"""Links and paths in a text: what they lead to is not what is asked for."""

from __future__ import annotations

import re

from cnp_router.text.tokenise import UNSPACED

__all__ = ["mask_links"]

# What a URL goes on with: not Chinese or Japanese text, which follows without a space.
_IN_URL = rf"[^\s\"'<>`|\\^{{}}“”„«»\u3000-\u303f\uff00-\uffef{UNSPACED}]"
_URL = re.compile(
    rf"(?<![A-Za-z0-9_])(?:([A-Za-z][A-Za-z0-9+.-]{{,19}})://|www\.(?=[\w-]))"
    rf"{_IN_URL}*(?![.,:;!?)\]]){_IN_URL}"
)
_STEP, _SUFFIX = r"[/\\][\w.@-]*[\w@-]", r"\.(?:[a-z][a-z0-9]{1,4}|[A-Z]{3,4})(?!\w)"
_PATH = re.compile(
    rf"(?<![\w/\\:.@-])(?:(?:~|\.\.?|[A-Za-z]:)(?:{_STEP})+[/\\]?"  # it begins as paths do
    rf"|[\w@-]*(?:{_STEP})+[/\\][\w.@-]*{_SUFFIX})"  # or ends as files do
)
_WEB = ("", "http", "https")


def mask_links(text: str) -> str:
    r"""Return a text with *URL* and the host for each URL, and the suffix for each path of a file.

    *email https://example.org/weather/today* asks for no weather. Of a URL the scheme stays if it
    is not of the Web.

    Examples
    --------
    >>> mask_links("Mail https://www.example.org/weather/today to Ann (or s3://photos/1).")
    'Mail URL example to Ann (or s3 URL photos).'
    >>> mask_links("Move ~/calendar/bill.pdf to C:\\mail, and/or open Node.js/Express")
    'Move pdf to …, and/or open Node.js/Express'
    """
    if "/" not in text and "\\" not in text and "www." not in text:
        return text
    return _PATH.sub(_path, _URL.sub(_url, text))


def _url(match: re.Match[str]) -> str:
    scheme, rest = (match[1] or "").lower(), match[0].partition("://")[2] or match[0]
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2].partition(":")[0]
    labels = [label for label in host.split(".") if label]
    names = [label for label in (labels[:-1] or labels) if label != "www"]
    return " ".join([*([] if scheme in _WEB else [scheme]), "URL", *names])


def _path(match: re.Match[str]) -> str:
    _, dot, suffix = re.split(r"[/\\]", match[0])[-1].rpartition(".")
    return suffix if dot else "…"
