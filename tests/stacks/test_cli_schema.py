"""`infercrane schema`: the JSON Schemas of our own formats."""

import json

from click.testing import CliRunner, Result

from pulumi_infercrane.guard.schemas import names, schema_of
from pulumi_infercrane.stacks.cli import schema


def run(*arguments: str) -> Result:
    return CliRunner().invoke(schema.command, arguments)


def test_every_schema_is_printed():
    assert run().output.split() == list(names())
    for name in names():
        assert json.loads(run(name).output) == schema_of(name)


def test_an_unknown_schema_names_those_there_are():
    result = run("tarot")
    assert result.exit_code == 2
    assert "no schema 'tarot'; there are benchmark, cost, decision" in result.output
