"""`infercrane schema`: the JSON Schemas of the guard's own formats."""

import click

from pulumi_infercrane.guard.schemas import names, schema_of
from pulumi_infercrane.stacks.cli._common import print_json
from pulumi_infercrane.stacks.cli._unusable import unusable_input


@click.command("schema")
@click.argument("name", required=False)
@unusable_input
def command(name: str | None) -> None:
    """Print the JSON Schema of one of our formats; without NAME, the names there are.

    \b
    Example:
      infercrane schema envelope
    """
    if name is None:
        click.echo("\n".join(names()))
        return
    print_json(schema_of(name))
