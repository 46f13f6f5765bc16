"""A supervised local process as a Pulumi resource; it outlives the command that started it."""

from collections.abc import Sequence
from typing import Any

import pulumi

_OUTPUTS = ("pid", "startTime", "url", "logPath", "specDigest", "state")


class Process(pulumi.CustomResource):
    """One process by name in a place. Created twice it is still one process."""

    def __init__(
        self,
        name: str,
        *,
        place: str,
        process: str,
        argv: Sequence[pulumi.Input[str]],
        opts: pulumi.ResourceOptions | None = None,
        **settings: Any,
    ) -> None:
        """`settings` are further inputs of `infercrane:index:Process` by their wire names, as its schema has them."""
        props: dict[str, Any] = {"place": place, "name": process, "argv": list(argv), **settings}
        props |= {output: None for output in (*_OUTPUTS, "port") if output not in props}
        super().__init__("infercrane:index:Process", name, props, opts)

    @property
    def url(self) -> pulumi.Output[str]:
        """Where it answers, for example `http://127.0.0.1:8101`."""
        return self._output("url")

    @property
    def log_path(self) -> pulumi.Output[str]:
        return self._output("logPath")

    def _output(self, name: str) -> pulumi.Output[Any]:
        output: pulumi.Output[Any] = self.__dict__[name]
        return output


def merged(opts: pulumi.ResourceOptions | None, **more: Any) -> pulumi.ResourceOptions:
    """The caller's options with ours on top."""
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(**more))
