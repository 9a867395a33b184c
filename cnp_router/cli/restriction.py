"""``--among``, ``--exclude`` and ``--where``: the APIs that a request may be announced to."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from cnp_router.cli import options
from cnp_router.cli.completing import listed_api_ids
from cnp_router.cli.help_pages import Registered
from cnp_router.closest import closest
from cnp_router.exceptions import InputError, shown

if TYPE_CHECKING:
    from cnp_router.catalog import Catalog

__all__ = ["WHERE", "Restriction", "Where", "restriction"]


@dataclass(frozen=True, slots=True)
class Where:
    """A kind of ``--where``: `find` returns the ids of the APIs that a value stands for."""

    summary: str
    find: Callable[[Catalog, str], Iterable[str]]


def _in_category(catalog: Catalog, value: str) -> Iterable[str]:
    by_name = {name.casefold(): name for name in catalog.categories}
    if value.casefold() not in by_name:
        close = closest(value.casefold(), by_name)
        cure = f"did you mean {by_name[close[0]]!r}?" if close else "use one of the catalog"
        cure = cure if by_name else "the catalog has none; --where name=... goes by names"
        raise InputError(f"unknown category {shown(value)} ({cure})")
    return catalog.ids_in([by_name[value.casefold()]])


def _named(catalog: Catalog, value: str) -> Iterable[str]:
    pattern = value.casefold()
    found = [
        api.id
        for api in catalog
        if any(fnmatch.fnmatchcase(name.casefold(), pattern) for name in (api.id, api.name))
    ]
    if not found:
        raise InputError(f"no API has a name like {shown(value)} (* stands for any characters)")
    return found


WHERE = {
    "category": Where("The APIs of a category.", _in_category),
    "name": Where("The APIs whose id or name is this; * stands for any characters.", _named),
}


class _Kind(Registered):
    """A kind of ``--where`` and its value, as in ``category=Maps``."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the kinds that begin so, with the sign that follows."""
        return [CompletionItem(f"{kind}=") for kind in WHERE if kind.startswith(incomplete)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        kind, _, rest = str(value).partition("=")
        if not rest.strip():
            self.fail(f"{value!r} is not of the form KIND=VALUE.", param, ctx)
        return super().convert(kind.strip(), param, ctx), rest.strip()


@dataclass(frozen=True, slots=True)
class Restriction:
    """What the options say; an InputError names an id, category or name that does not exist."""

    among: tuple[str, ...]
    exclude: tuple[str, ...]
    where: tuple[tuple[str, str], ...]

    def arguments(self, catalog: Catalog) -> dict[str, Any]:
        """Return the arguments of `Router.route` that the options stand for."""
        given = [names for names in self._within(catalog).values() if names is not None]
        among = None
        if given:
            allowed = set.intersection(*given)
            among = [api for api in catalog.ids if api in allowed]
            if not among:
                raise InputError("no API is left by --among and --where together (allow more)")
        return {
            "among": among,
            "exclude": _ids("--exclude", self.exclude, catalog),
        }

    def keeping_out(self, catalog: Catalog, api: str) -> str | None:
        """Return the option that keeps an API out; None if none does."""
        if api in _ids("--exclude", self.exclude, catalog):
            return "--exclude"
        within = self._within(catalog).items()
        return next(
            (name for name, names in within if names is not None and api not in names), None
        )

    def _within(self, catalog: Catalog) -> dict[str, set[str] | None]:
        """Return the APIs that each option allows; None where it was not given.

        Values of the same kind add up, and an API must be in every kind.
        """
        found: dict[str, set[str] | None] = {}
        found["--among"] = _ids("--among", self.among, catalog) if self.among else None
        for kind, value in self.where:
            name = f"--where {kind}"
            found[name] = (found.get(name) or set()) | set(WHERE[kind].find(catalog, value))
        return found


def _ids(option: str, given: Iterable[str], catalog: Catalog) -> set[str]:
    """Return the ids that are given one by one, or several with commas between them."""
    pieces = [p.strip() for text in given for p in ([text] if text in catalog else text.split(","))]
    if not all(pieces):
        raise click.UsageError(f"{option} has an empty API id.")
    return {catalog.ids[catalog.position(piece)] for piece in pieces}


restriction = options.gathered(
    "within",
    Restriction,
    options.several(
        "--among",
        metavar="ID,ID,...",
        shell_complete=listed_api_ids,
        help="Recommend and ask no other APIs than these.",
    ),
    options.several(
        "--exclude",
        metavar="ID,ID,...",
        shell_complete=listed_api_ids,
        help="Neither recommend nor ask these APIs.",
    ),
    options.several(
        "--where",
        type=_Kind("Kinds of --where", "cnp_router.cli.restriction", "WHERE"),
        metavar="KIND=VALUE",
        help="Recommend and ask only these APIs. Values of one kind add up; of several kinds, "
        "an API must fit each.",
    ),
)
