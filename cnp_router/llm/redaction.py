"""`without_secrets`: keys, tokens and passwords, taken out of what is kept or shown to a model.

By the names of fields (``api_key``, ``Authorization``, ``DB_PASSWORD``) and by shapes that are well
known (keys of providers, JWTs, private keys, passwords in addresses). What is written like none of
these, such as a password in the middle of a sentence, is not found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["MASK", "names_secret", "without_secrets"]

MASK = "***"

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WORDS = frozenset((
    "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "otp", "passcode",
    "passphrase", "passwd", "password", "passwords", "pwd", "secret", "secrets",
))  # fmt: skip
_JOINED = re.compile(
    r"(?:api|access|private|secret|signing|encryption)keys?|(?:access|auth|refresh|session|bearer)"
    r"tokens?|password|passwd|passphrase|clientsecret|authorization"
)
_KINDS_OF_KEY = frozenset((
    "access", "account", "api", "app", "auth", "client", "consumer", "deploy", "encryption", "hmac",
    "license", "master", "private", "secret", "service", "shared", "signing", "ssh", "storage",
    "subscription",
))  # fmt: skip
_KINDS_OF_TOKEN = frozenset((
    "access", "api", "auth", "bearer", "csrf", "id", "oauth", "personal", "refresh", "session",
))  # fmt: skip
_PLACES = frozenset(("continuation", "cursor", "next", "page", "previous", "sync"))  # of a list
_OTHER_LANGUAGES = ("パスワード", "暗証番号", "秘密鍵", "密码", "密碼", "비밀번호", "contraseña",
                    "mot de passe", "passwort", "kennwort", "senha", "пароль")  # fmt: skip

_SHAPES = re.compile(
    "|".join(
        (
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?s:.*?)"
            r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
            # A JWT. Only at the start of a run, or little behind it: else each place is a start.
            r"(?<![\w-])(?:[\w-]{0,40}?-)?eyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?",
            r"\b(?:sk|rk|whsec|gh[pousr]|github_pat|glpat|npm|hf|dop_v1|shpat|shpss|lin_api|ntn|pypi)"
            r"[-_](?=[\w-]{0,200}[0-9])[\w-]{16,}",
            r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
            r"\bxox[a-z]-[\w-]{10,}|\bxapp-[\w-]{10,}",
            r"\bAIza[\w-]{30,}|\bya29\.[\w.-]{16,}|\bSG\.[\w-]{16,}\.[\w-]{16,}",
            r"\b\d{8,10}:[\w-]{35}\b",  # a bot of Telegram
            r"(?<=hooks\.slack\.com/services/)[\w/-]{16,}",
        )
    )
)
_SCHEME = re.compile(
    r"\b(bearer|basic|digest|token)(\s+)(?=[\w.~+/-]{0,200}[0-9=])[\w.~+/=-]{8,}|\b(bearer)(\s+)"
    r"[\w.~+/=-]{20,}",
    re.IGNORECASE,
)
_IN_ADDRESS = re.compile(r"(?<=://)[^\s/@:]{0,200}:[^\s/@]{1,200}(?=@)")
_NAMED = re.compile(
    r"(?<![\w.-])(?P<name>(?:[A-Za-z]{2,12} )?(?:keys?|tokens?|secret|password)|[\w.-]{2,60}?)"
    r"(?:\\{0,2}[\"']?\s{0,3}(?:=>|[:=\uff1a\uff1d])\s{0,3}|(?P<said>\s{1,3}is\s{1,3}|は\s{0,3}))",
    re.IGNORECASE,
)
_FLAG = re.compile(r"(?<!\S)--?(?P<name>[A-Za-z][\w-]{1,60})\s{1,3}(?=[^\s-])")
_VALUE = re.compile(
    r"(?P<scheme>(?:bearer|basic|digest|token)\s{1,3})?(?:"
    r"(?P<open>\\{0,2}[\"'])(?:(?!(?P=open)).){0,4000}(?P=open)?|[^\s\"',;&<>{}\[\])]{1,4000})",
    re.IGNORECASE | re.DOTALL,
)
_HEADER = re.compile(r"(?i)cookies?|authorization")
_REST_OF_LINE = re.compile(r"(?P<open>)[^\r\n\"']{1,4000}")
_NOT_A_WORD = re.compile(r"[^\W\d_]*[\d\W_]")


def names_secret(name: str) -> bool:
    """Return whether a field of this name usually holds a secret.

    Examples
    --------
    >>> [names_secret(n) for n in ("api_key", "X-Api-Key", "dbPassword", "Authorization", "token")]
    [True, True, True, True, True]
    >>> [names_secret(n) for n in ("key", "tokens_in", "next_page_token", "author", "secretary")]
    [False, False, False, False, False]
    """
    small = name.casefold()
    if any(word in small for word in _OTHER_LANGUAGES):
        return True
    parts = [part.lower() for part in _PARTS.findall(name)]
    if not parts:
        return False
    *before, last = parts
    kind = before[-1] if before else ""
    if not _WORDS.isdisjoint(parts) or _JOINED.search("".join(parts)):
        return True
    if last in ("key", "keys"):
        return kind in _KINDS_OF_KEY
    if last == "token":
        return kind not in _PLACES
    return (last == "tokens" and kind in _KINDS_OF_TOKEN) or parts in (["auth"], ["pass"], ["jwt"])


def without_secrets(value: Any) -> Any:
    """Return a text, or a JSON value with all its texts, with `MASK` in the place of secrets.

    Examples
    --------
    >>> without_secrets({"user": "ann", "password": "hunter2", "tokens": 12})
    {'user': 'ann', 'password': '***', 'tokens': 12}
    >>> without_secrets("curl -H 'Authorization: Bearer abc123def' https://ann:pw@example.com")
    "curl -H 'Authorization: ***' https://***@example.com"
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return _object(value)
    if isinstance(value, list | tuple):
        masked = [without_secrets(each) for each in value]
        if len(value) == 2 and isinstance(value[0], str) and names_secret(value[0]):
            masked[1] = _masked(value[1])  # a header, as a pair
        return masked if isinstance(value, list) else tuple(masked)
    return value


def _object(value: Mapping[Any, Any]) -> dict[Any, Any]:
    names = {str(key).lower(): each for key, each in value.items()}
    called = next((names[key] for key in ("name", "key", "header") if key in names), None)
    is_entry = isinstance(called, str) and names_secret(called)  # {"name": ..., "value": ...}
    found = {}
    for key, each in value.items():
        secret = isinstance(key, str) and (
            names_secret(key) or (is_entry and key.lower() in ("value", "default", "content"))
        )
        found[_text(key) if isinstance(key, str) else key] = (
            _masked(each) if secret else without_secrets(each)
        )
    return found


def _masked(value: Any) -> Any:
    """Return the mask, but leave what says nothing: that there is none, or whether there is one."""
    return value if value is None or isinstance(value, bool) or value in ("", [], {}) else MASK


def _text(text: str) -> str:
    if text.lstrip()[:1] in ("{", "[", '"'):
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        if said is not None:
            found = without_secrets(said)
            return text if found == said else json.dumps(found, ensure_ascii=False)
    text = _SHAPES.sub(MASK, text)
    text = _IN_ADDRESS.sub(MASK, text)
    for named in (_NAMED, _FLAG):
        text = _without_named(text, named)
    return _SCHEME.sub(lambda found: f"{found[1] or found[3]}{found[2] or found[4]}{MASK}", text)


def _without_named(text: str, named: re.Pattern[str]) -> str:
    """Return a text without the values that stand behind the names of secrets."""
    parts, done, at = [], 0, 0
    while found := named.search(text, at):
        at = found.end()
        name = found["name"]
        value = _VALUE.match(text, at) if names_secret(name) else None
        if value is not None and not value["open"] and _HEADER.search(name):
            value = _REST_OF_LINE.match(text, at) or value  # it may have parts
        if value is None:
            continue
        # "The token is expired" gives nothing away.
        if found.groupdict().get("said") and not _NOT_A_WORD.match(value[0].rstrip(".!?")):
            continue
        quote = value["open"] or ""
        parts += [text[done:at], quote, MASK, quote]
        done = at = value.end()
    return "".join([*parts, text[done:]])
