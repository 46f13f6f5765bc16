"""Errors of the components room."""


class ComponentError(Exception):
    """Root of every error raised by `pulumi_infercrane.components`; `code` is stable and machine-readable."""

    code = "component_error"
