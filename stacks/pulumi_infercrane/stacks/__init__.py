"""One environment at a time: configuration, the Pulumi program, durable operations, the command line.

A project's `__main__.py` is `from pulumi_infercrane.stacks.program import main` and `main()`.
"""

from pulumi_infercrane.stacks.errors import StackError

__all__ = ["StackError"]
