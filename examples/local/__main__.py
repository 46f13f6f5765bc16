"""Two revisions of one service on this machine, from a program of your own.

Configure it with the model and the server you have:

    pulumi config set model /models/chat.gguf && pulumi config set modelSha256 sha256:...
    pulumi config set server llama-server     && pulumi config set serverSha256 sha256:...
"""

import pulumi

from pulumi_infercrane.components import (
    InferenceService,
    InferenceServiceArgs,
    ModelSpec,
    RevisionSpec,
    RouteArgs,
    RouterArgs,
    RuntimeSpec,
    ServiceLimits,
)

config = pulumi.Config()
model = ModelSpec(path=config.require("model"), sha256=config.require("modelSha256"))


def revision(name: str, slots: int) -> RevisionSpec:
    """The same weights, served with another number of slots."""
    settings = {"max_context_len": 1024, "max_concurrency": slots, "threads": 1}
    runtime = RuntimeSpec(
        engine="llama.cpp",
        version=config.get("serverVersion") or "local",
        executable=config.require("server"),
        sha256=config.require("serverSha256"),
        settings=settings,
    )
    return RevisionSpec(name=name, model=model, runtime=runtime)


chat = InferenceService(
    "chat",
    InferenceServiceArgs(
        revisions=[revision("r1", slots=1), revision("r2", slots=4)],
        initial_active="r1",
        candidate="r2",
        policy="policy.yaml",
        router=RouterArgs(listen=config.get("listen") or "127.0.0.1:8000", drain_s=10),
        route=RouteArgs(limits=ServiceLimits(max_inflight=8, max_queue=32), pins=["r2"]),
    ),
)

pulumi.export("url", chat.url)
pulumi.export("activeRevision", chat.active_revision)
pulumi.export("verdict", chat.verdict)
