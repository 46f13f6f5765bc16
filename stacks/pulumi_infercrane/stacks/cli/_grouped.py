"""Help texts whose options stand in groups."""

from typing import Any

import click


class GroupedOption(click.Option):
    """An option that is listed under a heading of its own group."""

    def __init__(self, *arguments: Any, group: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.group = group


class GroupedCommand(click.Command):
    """Lists grouped options under their headings, in the order they were declared; the others come last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One section for each group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in sorted(self.get_params(ctx), key=lambda one: not isinstance(one, GroupedOption)):
            shown = parameter.get_help_record(ctx)
            if shown is not None:
                sections.setdefault(getattr(parameter, "group", "Options"), []).append(shown)
        for heading, shown_options in sections.items():
            with formatter.section(heading):
                formatter.write_dl(shown_options)
