"""`DataClasses`: whom what an API gives may reach."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import get_args

from cnp_router.catalog import DataClass
from cnp_router.exceptions import InputError
from cnp_router.records import check_id, shown
from cnp_router.sources.source import EACH, SEPARATOR

__all__ = ["DataClasses", "check_class", "contractor_of", "strictest"]

_ORDER: tuple[DataClass, ...] = get_args(DataClass)


class DataClasses:
    """The class of what each API gives.

    ``"public"`` may be offered to anyone. ``"private"`` reaches what depends on it, and who gave
    it. ``"confidential"`` never leaves the contractor that gave it: the source of the API.

    Parameters
    ----------
    classes : mapping or callable, optional
        By API id; ``"source__*"`` stands for all of a source that are not named. A callable is
        given the id, and returns a class or None.
    default : {"private", "public", "confidential"}
        Of an API that has none.

    Raises
    ------
    InputError
        If a class is none of the three.

    Examples
    --------
    >>> classes = DataClasses({"hr__*": "confidential", "weather__today": "public"})
    >>> classes.of("hr__salary"), classes.of("weather__today"), classes.of("maps__show")
    ('confidential', 'public', 'private')
    >>> print(classes.refusal("hr__salary", "sms__send"))
    what 'hr__salary' gives is confidential and never leaves 'hr': 'sms__send' may not have it
    >>> classes.refusal("hr__salary", "hr__tax") is None
    True
    """

    def __init__(
        self,
        classes: Mapping[str, str] | Callable[[str], str | None] | None = None,
        *,
        default: str = "private",
    ) -> None:
        self.default = check_class("default", default)
        self._ask = classes if callable(classes) else None
        self._named: dict[str, DataClass] = {}
        if classes is not None and not callable(classes):
            if not isinstance(classes, Mapping):
                raise InputError(
                    f"classes must be a mapping of API ids or a callable, got {shown(classes)}"
                )
            self._named = {
                check_id("API", api): check_class(f"the class of {api!r}", each)
                for api, each in classes.items()
            }

    def of(self, api: str) -> DataClass:
        """Return the class of what an API gives."""
        if self._ask is not None:
            said = self._ask(api)
            return self.default if said is None else check_class(f"the class of {api!r}", said)
        each = contractor_of(api) + SEPARATOR + EACH
        return self._named.get(api) or self._named.get(each) or self.default

    def refusal(self, producer: str, consumer: str) -> str | None:
        """Return why what one API gives must not reach another; None if it may."""
        if self.of(producer) != "confidential":
            return None
        return unlike_contractors(producer, consumer)

    def check(self, apis: Collection[str]) -> None:
        """Raise InputError where a class is given for a tool that its source does not have.

        A slip of the pen would else let out what is meant to be confidential. Sources of which
        there is nothing are passed over: they may not have started.
        """
        tools: dict[str, list[str]] = {}
        for api in apis:
            tools.setdefault(contractor_of(api), []).append(api)
        for api in self._named:
            there = tools.get(contractor_of(api), [api])
            if api not in there and not api.endswith(SEPARATOR + EACH):
                raise InputError(
                    f"a class of data is given for {api!r}, which does not exist "
                    f"(there are {', '.join(there[:6])})"
                )

    def __repr__(self) -> str:
        said = "a callable" if self._ask is not None else f"{len(self._named)} named"
        return f"DataClasses({said}, default {self.default!r})"


def unlike_contractors(producer: str, consumer: str) -> str | None:
    """Return why something confidential must not reach an API; None for the same contractor."""
    own = contractor_of(producer)
    if own == contractor_of(consumer):
        return None
    return (
        f"what {producer!r} gives is confidential and never leaves {own!r}: {consumer!r} may not "
        "have it"
    )


def contractor_of(api: str) -> str:
    """Return who gave what an API gives: its source, or itself where the id names none.

    Examples
    --------
    >>> contractor_of("hr__salary"), contractor_of("maps")
    ('hr', 'maps')
    """
    return api.partition(SEPARATOR)[0]


def strictest(classes: Iterable[DataClass]) -> DataClass:
    """Return the class that lets least through.

    Examples
    --------
    >>> strictest(["public", "confidential", "private"])
    'confidential'
    """
    return max(classes, key=_ORDER.index, default="public")


def check_class(name: str, value: object) -> DataClass:
    """Return a class of data."""
    for each in _ORDER:
        if value == each:
            return each
    raise InputError(f"{name} must be 'public', 'private' or 'confidential', got {shown(value)}")
