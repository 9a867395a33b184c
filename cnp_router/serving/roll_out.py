"""`is_acted_on`: whether a search is among the share whose decision is acted on."""

from __future__ import annotations

import secrets

from cnp_router.records import check_number

__all__ = ["is_acted_on", "new_search_id"]

_DIGITS = 13  # hexadecimal: as many as a float holds exactly


def new_search_id() -> str:
    """Return an id that nobody guesses, drawn evenly: 32 hexadecimal digits."""
    return secrets.token_hex(16)


def is_acted_on(search_id: str, share: float) -> bool:
    """Return whether the decision of a search is acted on, by its id alone.

    Ids are drawn evenly, so that a share of 0.05 is 5 % of the searches; whoever looks at the log
    later finds the same, and a search that is acted on stays so when the share grows.

    Parameters
    ----------
    search_id : str
        Of `new_search_id`.
    share : float in [0, 1]
        0: none; 1: all.

    Raises
    ------
    InputError
        If `share` is not such a number.

    Examples
    --------
    >>> is_acted_on("0c" + 30 * "0", 0.05), is_acted_on("0d" + 30 * "0", 0.05)
    (True, False)
    >>> is_acted_on(32 * "f", 1.0), is_acted_on(32 * "0", 0.0)
    (True, False)
    """
    share = check_number("share", share, 0, 1)
    return bool(int(search_id[:_DIGITS], 16) / 16**_DIGITS < share)
