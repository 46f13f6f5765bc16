"""The `infercrane` command: one module per command group, imported when its command is called."""

import pkgutil
import sys
from importlib import import_module

import click

DISTRIBUTION = "pulumi-infercrane"


class LazyGroup(click.Group):
    """Finds commands as modules of this folder; each exposes `command`. `--version` imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{__name__}.{cmd_name}").command
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name=DISTRIBUTION, prog_name=DISTRIBUTION)
def cli() -> None:
    """Serve open-weight models behind one address, and change what is behind it only on evidence.

    \b
    Example:
      infercrane up -s prod
      infercrane collect -s prod
      infercrane release explain -s prod
    """


def main() -> None:
    """Entry point: errors of ours become one clear line and the exit code they stand for."""
    _refuse_engine_address()
    try:
        cli(prog_name="infercrane")
    except _errors_of_ours() as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(getattr(error, "exit_code", 1))


def _errors_of_ours() -> tuple[type[Exception], ...]:
    """The four error trees, imported only when something was raised."""
    from pulumi_infercrane.components.errors import ComponentError
    from pulumi_infercrane.guard import GuardError
    from pulumi_infercrane.router.errors import RouterError
    from pulumi_infercrane.stacks.errors import StackError

    return (StackError, GuardError, RouterError, ComponentError)


def _refuse_engine_address() -> None:
    """The engine starts a repository root that was added as a plugin with its address as the only argument."""
    if len(sys.argv) == 2 and sys.argv[1].rpartition(":")[2].isdigit() and ":" in sys.argv[1]:
        click.echo("this is the command line, not a Pulumi plugin: use pulumi-resource-infercrane", err=True)
        sys.exit(2)
