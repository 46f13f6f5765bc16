"""Where a revision runs: the typed declaration of a pool of accelerators."""

import pulumi

from pulumi_infercrane.components.revision import PoolSpec


class GpuPool(pulumi.ComponentResource):
    """A pool for one revision.

    With provider `local` the pool is this machine: nothing is created, and the declaration is what the evidence is
    bound to. A pool belongs to its revision; change it and you have declared another revision.
    """

    provider_name: pulumi.Output[str]
    accelerator: pulumi.Output[str]
    """For example `cpu/host × 1`."""

    def __init__(self, name: str, spec: PoolSpec, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("infercrane:index:GpuPool", name, {}, opts)
        self.spec = spec
        described = f"{spec.accelerator.vendor}/{spec.accelerator.sku} × {spec.accelerator.count}"
        self.provider_name = pulumi.Output.from_input(spec.provider)
        self.accelerator = pulumi.Output.from_input(described)
        self.register_outputs({"provider": spec.provider, "region": spec.region, "accelerator": described})
