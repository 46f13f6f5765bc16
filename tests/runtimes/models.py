"""Small real models made on the spot: random GGUFs that load in a blink, and worse variants of a good model."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SPACE, NEWLINE = "\u0120", "\u010a"  # how the gpt2 byte alphabet writes them
WORDS = """
the a of to and in is that for it as was with on by at from this be are or an not but which you have they one all model
server request token cache route active candidate revision promote reject evidence traffic stable ready latency error
replay quality cost gate rollback release guard deploy scale queue batch stream answer question
"""
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
EMBEDDING, HEADS, KV_HEADS, LAYERS, CONTEXT = 64, 4, 2, 2, 2048
FEED_FORWARD, HEAD_SIZE = 2 * EMBEDDING, EMBEDDING // HEADS
CORRUPT_BYTES = 100_000


@dataclass(frozen=True)
class Vocabulary:
    tokens: list[str]
    merges: list[str]

    @property
    def types(self) -> list[int]:
        return [int(gguf.TokenType.CONTROL if token in CONTROL else gguf.TokenType.NORMAL) for token in self.tokens]


def write_tiny(path: Path, start: int) -> None:
    """A random 2-layer model; another start value gives other, equally deterministic, greedy text."""
    _write_random(path, start, _word_vocabulary())


def write_tiny_with_broken_text(path: Path) -> None:
    """A model that loads and looks healthy but answers 500: its tokens are bytes that are no valid UTF-8."""
    tokens = [*CONTROL, *_byte_alphabet(), "th"]
    _write_random(path, 0, Vocabulary(tokens, merges=["t h"]))  # the server refuses a model without any merge


def write_corrupt(path: Path, source: Path) -> None:
    """The beginning of a good model file, as an interrupted copy leaves it."""
    with source.open("rb") as file:
        path.write_bytes(file.read(CORRUPT_BYTES))


def write_variant(path: Path, source: Path, *, quantization: str, keep_layers: int | None = None) -> None:
    """Re-quantise every matrix of `source`, optionally keeping only its first layers."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    file_type = int(gguf.LlamaFileType[f"MOSTLY_{quantization}"])
    _copy_fields(reader, writer, {"general.file_type": file_type, **_shortened(keep_layers)})
    qtype = gguf.GGMLQuantizationType[quantization]
    for tensor in reader.tensors:
        if keep_layers is None or _layer(tensor.name) < keep_layers:
            _add_quantised(writer, tensor, qtype)
    _finish(writer)


def _write_random(path: Path, start: int, vocabulary: Vocabulary) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    _add_shape(writer)
    _add_tokenizer(writer, vocabulary)
    _add_random_tensors(writer, np.random.default_rng(start), len(vocabulary.tokens))
    _finish(writer)


def _word_vocabulary() -> Vocabulary:
    """Printable ASCII and whole words, each word reachable through a chain of merges."""
    tokens = CONTROL + [chr(code) for code in range(33, 127)] + [SPACE, NEWLINE]
    merges: list[str] = []
    for word in WORDS.split():
        piece = SPACE
        for letter in word:
            merges.append(f"{piece} {letter}")
            piece += letter
            tokens.append(piece)
    return Vocabulary(tokens=list(dict.fromkeys(tokens)), merges=list(dict.fromkeys(merges)))


def _byte_alphabet() -> list[str]:
    """The gpt2 spelling of all 256 byte values."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(code) for code in printable] + [chr(256 + index) for index in range(256 - len(printable))]


def _add_shape(writer: gguf.GGUFWriter) -> None:
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(EMBEDDING)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HEAD_SIZE)
    writer.add_rope_freq_base(10_000.0)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)


def _add_tokenizer(writer: gguf.GGUFWriter, vocabulary: Vocabulary) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_vocab_size(len(vocabulary.tokens))
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _add_random_tensors(writer: gguf.GGUFWriter, random: np.random.Generator, vocabulary_size: int) -> None:
    ones = np.ones(EMBEDDING, dtype=np.float32)
    kv = KV_HEADS * HEAD_SIZE
    matrices = {
        "attn_q": (EMBEDDING, EMBEDDING),
        "attn_k": (kv, EMBEDDING),
        "attn_v": (kv, EMBEDDING),
        "attn_output": (EMBEDDING, EMBEDDING),
        "ffn_gate": (FEED_FORWARD, EMBEDDING),
        "ffn_up": (FEED_FORWARD, EMBEDDING),
        "ffn_down": (EMBEDDING, FEED_FORWARD),
    }
    writer.add_tensor("token_embd.weight", _gaussian(random, vocabulary_size, EMBEDDING))
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", _gaussian(random, vocabulary_size, EMBEDDING))
    for layer in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", ones)
        for name, shape in matrices.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", _gaussian(random, *shape))


def _gaussian(random: np.random.Generator, *shape: int) -> NDArray[np.float16]:
    return (random.standard_normal(shape) * 0.2).astype(np.float16)


def _copy_fields(reader: gguf.GGUFReader, writer: gguf.GGUFWriter, changed: dict[str, Any]) -> None:
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value, kind = changed.get(name, field.contents()), field.types[0]
        element = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, value, kind, element)


def _shortened(keep_layers: int | None) -> dict[str, Any]:
    return {} if keep_layers is None else {"llama.block_count": keep_layers}


def _layer(tensor_name: str) -> int:
    """The layer a tensor belongs to, or -1 for those outside all layers."""
    found = re.match(r"blk\.(\d+)\.", tensor_name)
    return int(found[1]) if found else -1


def _add_quantised(writer: gguf.GGUFWriter, tensor: gguf.ReaderTensor, qtype: gguf.GGMLQuantizationType) -> None:
    values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    if values.ndim == 1:  # norms stay exact
        writer.add_tensor(tensor.name, values)
    else:
        writer.add_tensor(tensor.name, gguf.quants.quantize(values, qtype), raw_dtype=qtype)


def _finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
