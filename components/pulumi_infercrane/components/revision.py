"""A revision: the immutable description of what serves, identified by a digest of its own content.

The digest is `sha256(RFC 8785(subject))`, where the subject is the block an evidence envelope carries. A measurement
is therefore bound to the very thing that was declared: change one setting and the evidence no longer counts.

Not part of the identity: the short name, the path of the model file, the path of the executable and the port. They
say where something lies on one machine; the sha256 beside them says what it is.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from pulumi_infercrane.components import providers, runtimes
from pulumi_infercrane.guard.canonical import digest
from pulumi_infercrane.guard.evidence import revision_digest

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ModelSpec(_Frozen):
    """The weights. `path` is where the file lies, `sha256` what it must be; the tokenizer is inside a GGUF file."""

    path: Text
    sha256: Sha256
    source: Text | None = None
    """Where the weights come from, for people and for the envelope; default `file:<name of the file>`."""
    quantization: Text | None = None

    @property
    def origin(self) -> str:
        return self.source or "file:" + self.path.rsplit("/", 1)[-1]


class RuntimeSpec(_Frozen):
    """The inference server: which engine, which build of it, with which settings."""

    engine: Text
    """Name of a module in `components/runtimes/`, for example `llama.cpp`."""
    version: Text
    executable: Text
    """Path, or a name that is looked up on PATH when the revision is deployed."""
    sha256: Sha256
    settings: Mapping[str, Any] = Field(default_factory=dict)
    """Portable settings; the engine's module says which it has and checks their range."""
    args: tuple[str, ...] = ()
    """Engine arguments that have no portable name, kept in order."""

    @field_validator("args", mode="before")
    @classmethod
    def _list_of_arguments(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _engine_accepts_settings(self) -> "RuntimeSpec":
        runtime = runtimes.find(self.engine)
        runtime.check_arguments(runtime.parse_settings(self.settings), self.args)
        return self


class AcceleratorSpec(_Frozen):
    """What computes. The default is the machine's own processors."""

    vendor: Text = "cpu"
    sku: Text = "host"
    count: Annotated[int, Field(ge=1, le=4096)] = 1


class PoolSpec(_Frozen):
    """Where a revision runs. It belongs to the revision: another pool is another revision, never a moved one."""

    provider: Annotated[str, AfterValidator(providers.known)] = "local"
    """Name of a module in `components/providers/`."""
    region: Text = "local"
    accelerator: AcceleratorSpec = AcceleratorSpec()


class RevisionSpec(_Frozen):
    """Immutable description of what serves.

    Raises:
        pydantic.ValidationError: naming the field; nothing is filled in silently but the documented defaults.
    """

    name: Name
    model: ModelSpec
    runtime: RuntimeSpec
    pool: PoolSpec = PoolSpec()
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Loopback port of the server; 0 takes a free one at the first deployment and keeps it."""

    @property
    def subject(self) -> dict[str, Any]:
        """The `subject` block of an evidence envelope about this revision, its digest included."""
        subject = self._identity()
        return subject | {"revision_digest": revision_digest(subject)}

    @property
    def digest(self) -> str:
        """`sha256:<64 hex>` over the identity."""
        return revision_digest(self._identity())

    def _identity(self) -> dict[str, Any]:
        settings = runtimes.find(self.runtime.engine).parse_settings(self.runtime.settings)
        identity: dict[str, Any] = {
            "model": {"source": self.model.origin, "weights_digest": self.model.sha256},
            "tokenizer_digest": self.model.sha256,
            "chat_template_sha": self.model.sha256,
            "runtime": {"image": self.runtime.sha256},
            "engine": {
                "name": self.runtime.engine,
                "version": self.runtime.version,
                "args_digest": digest({"settings": settings.model_dump(), "args": list(self.runtime.args)}),
            },
            "accelerator": self.pool.accelerator.model_dump(),
            "parallelism": {"tp": 1, "pp": 1, "dp": 1, "ep": 1},
            "provider": self.pool.provider,
            "region": self.pool.region,
        }
        if self.model.quantization is not None:
            identity["quantization"] = self.model.quantization
        return identity
