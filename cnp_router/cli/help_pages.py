"""Commands whose help has examples, groups of options, and what registries have."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

__all__ = ["Command", "Group", "Registered"]


class Command(click.Command):
    """Shows examples, which are command lines, below the options.

    Where there are many options, `sections` heads them in groups: a title by the name of the
    parameter that is the first one of its group.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str],
        sections: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.examples = tuple(examples)
        self.sections = sections or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; where the shell has written out a pattern, say so."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as exc:
            # A request may be longer than any name of a file, at which a Path's own method raises.
            files = filter(os.path.isfile, given)
            if "unexpected extra argument" not in exc.message or len(list(files)) < 2:
                raise
            cure = "A pattern must be in quotation marks: the shell writes it out."
            raise click.UsageError(f"{exc.message} {cure}", exc.ctx) from exc

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, in their groups if there are some."""
        if not self.sections:
            super().format_options(ctx, formatter)
            return
        title, groups = "Options", dict[str, list[tuple[str, str]]]()
        for parameter in self.get_params(ctx):
            title = self.sections.get(parameter.name or "", title)
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                groups.setdefault(title, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what registries have, and the examples (as an epilog, their lines would break)."""
        for parameter in self.params:
            if isinstance(parameter.type, Registered):
                with formatter.section(parameter.type.title):
                    formatter.write_dl(list(parameter.type.entries().items()))
        with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
            for example in self.examples:
                formatter.write(f"{' ' * formatter.current_indent}{example}\n")


class Group(Command, click.Group):
    """A group of commands, with examples; `groups` are the names by what one wants to do."""

    command_class = Command

    def __init__(
        self, *args: Any, groups: Mapping[str, Sequence[str]] | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.groups = groups

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their groups, each with its whole summary."""
        names = self.list_commands(ctx)
        width = max(map(len, names))  # one column of summaries for all groups
        for title, group in (self.groups or {"Commands": names}).items():
            found = {name: self.get_command(ctx, name) for name in group}
            rows = [(name, _summary(each)) for name, each in found.items() if each is not None]
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", summary) for name, summary in rows])


def _summary(command: click.Command) -> str:
    """Return the first paragraph of a command's help, as one line."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


class Registered(click.types.StringParamType):
    """A name in a registry, a `mapping` of names to objects with a ``summary``.

    Its `module` is imported only when a name is completed or checked; `title` heads the names in
    the help.
    """

    name = "name"

    def __init__(self, title: str, module: str, mapping: str) -> None:
        self.title, self._module, self._mapping = title, module, mapping

    @property
    def _registry(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = getattr(importlib.import_module(self._module), self._mapping)
        return found

    def entries(self) -> dict[str, str]:
        """Return the names, and what is said of each."""
        return {name: each.summary for name, each in self._registry.items()}

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin so."""
        return [CompletionItem(name) for name in self._registry if name.startswith(incomplete)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, which must be in the registry."""
        if ctx is not None and ctx.resilient_parsing:  # the shell completes: it is not used
            return str(value)
        return str(click.Choice(list(self._registry)).convert(value, param, ctx))
