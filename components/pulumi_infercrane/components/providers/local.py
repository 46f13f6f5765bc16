"""This machine: one supervised process per revision, on loopback. A real way to serve, not a stand-in for one."""

import pulumi

from pulumi_infercrane.components import runtimes
from pulumi_infercrane.components.place import Place
from pulumi_infercrane.components.process import Process
from pulumi_infercrane.components.revision import RevisionSpec
from pulumi_infercrane.components.runtimes import Launch


def deploy(name: str, spec: RevisionSpec, alias: str, place: Place, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Start the inference server of `spec` as a process called `name`; returns its base URL."""
    runtime = runtimes.find(spec.runtime.engine)
    settings = runtime.parse_settings(spec.runtime.settings)
    launch = Launch(executable=spec.runtime.executable, model_path=spec.model.path, served_name=alias)
    process = Process(
        name,
        place=str(place.root),
        process=name,
        argv=runtime.command(launch, settings, spec.runtime.args),
        files=[
            {"path": spec.model.path, "sha256": spec.model.sha256},
            {"path": spec.runtime.executable, "sha256": spec.runtime.sha256},
        ],
        port=spec.port,
        runtime=spec.runtime.engine,
        readiness={"kind": "http", "model": alias},
        stopGraceS=runtime.stop.grace_s,
        opts=opts,
    )
    return process.url
