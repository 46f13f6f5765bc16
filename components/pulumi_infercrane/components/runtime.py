"""A revision running: its inference server, deployed by the revision's provider."""

import pulumi

from pulumi_infercrane.components import providers
from pulumi_infercrane.components.gpu_pool import GpuPool
from pulumi_infercrane.components.place import Place
from pulumi_infercrane.components.process import merged
from pulumi_infercrane.components.revision import RevisionSpec


class Runtime(pulumi.ComponentResource):
    """The inference server of one revision. It gets no user traffic until a Release moves the route to it."""

    url: pulumi.Output[str]
    """Base URL of the server, without `/v1`."""

    def __init__(
        self, spec: RevisionSpec, *, alias: str, place: Place, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Declare the server of `spec`; it answers to the model name `alias`."""
        name = f"{spec.name}-{spec.digest[7:15]}"
        super().__init__("infercrane:index:Runtime", name, {}, opts)
        self.spec = spec
        self.pool = GpuPool(f"{name}-pool", spec.pool, merged(None, parent=self))
        provider = providers.find(spec.pool.provider)
        self.url = provider.deploy(name, spec, alias, place, merged(None, parent=self, depends_on=[self.pool]))
        self.register_outputs({"url": self.url, "revision": spec.digest})
