"""Errors of the stacks room.

StackError
├── ConfigError            the configuration of a stack is wrong
├── EngineError            the pulumi engine could not be run, or failed
├── PlanRefused            the plan would touch what serves
├── OperationConflict      the same operation id with another intent
├── StackBusy              another operation holds the stack
├── StateUnusable          the state directory cannot be written
├── NothingToWatch         no candidate took over: there is nothing to watch
├── NotVerified            the engine is done, the router does not serve what it should
└── RouterProblem          the router could not be asked
"""

VERDICT_EXIT_CODES = {"promote": 0, "reject": 3, "insufficient_evidence": 4}
"""What a command that decided ends with; an empty verdict (nothing was to be decided) is 0."""


class StackError(Exception):
    """Root of every error raised by `pulumi_infercrane.stacks`; `code` is stable, `exit_code` the command's."""

    code = "stack_error"
    exit_code = 1


class ConfigError(StackError):
    """The configuration of a stack is wrong; the message names file, line and field."""

    code = "config_invalid"
    exit_code = 2


class EngineError(StackError):
    """The pulumi engine could not be run, or failed; the message ends with its last lines."""

    code = "engine_failed"


class PlanRefused(StackError):
    """The plan would replace or delete something that serves."""

    code = "active_resource_replaced"


class OperationConflict(StackError):
    """The same operation id was given with another intent."""

    code = "operation_conflict"
    exit_code = 2


class StackBusy(StackError):
    """Another operation holds the stack; the message names it."""

    code = "stack_busy"
    exit_code = 5


class StateUnusable(StackError):
    """The state directory cannot be written."""

    code = "state_unusable"
    exit_code = 2


class NothingToWatch(StackError):
    """The active revision came first, or back: no evidence let it take over."""

    code = "nothing_to_watch"
    exit_code = 2


class NotVerified(StackError):
    """The engine is done, but the router does not serve what it should."""

    code = "not_verified"


class RouterProblem(StackError):
    """The router could not be asked, or does not know the service."""

    code = "router_problem"
