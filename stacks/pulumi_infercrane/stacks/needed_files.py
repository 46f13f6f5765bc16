"""The files that the revisions of a stack need on this machine, looked for before the engine is started.

The provider process looks again, and at their digests; there the finding has no line of the settings any more.
"""

import shutil
from collections.abc import Iterator

from pulumi_infercrane.components import runtimes
from pulumi_infercrane.components.revision import RevisionSpec
from pulumi_infercrane.components.supervision import pinned
from pulumi_infercrane.stacks.config import StackConfig, Where
from pulumi_infercrane.stacks.engine import search_path
from pulumi_infercrane.stacks.errors import ConfigError


def require_files(config: StackConfig) -> None:
    """Look for the model file and the server of every revision that runs on this machine.

    Raises:
        ConfigError: naming file and line of each that is missing, and the way out.
    """
    local = [spec for spec in config.revisions if spec.pool.provider == "local"]
    findings = [finding for spec in local for finding in _missing(spec, config.where[spec.name])]
    if findings:
        raise ConfigError("\n".join(findings))


def _missing(spec: RevisionSpec, where: Where) -> Iterator[str]:
    model, runtime = spec.model, spec.runtime
    if problem := pinned.missing({"path": model.path}):
        yield f"{where.model}: model.path of revision {spec.name}: {problem}"
    if shutil.which(runtime.executable, path=search_path()) is None:
        problem = "not there, or not executable" if "/" in runtime.executable else "not found on PATH"
        yield (
            f"{where.executable}: runtime.executable of revision {spec.name}: {runtime.executable}: {problem}; "
            f"{runtimes.find(runtime.engine).how_to_install}"
        )
