"""Models made on the spot are reproducible and differ by their start value."""

from pathlib import Path

from gguf import GGUFReader

from tests.runtimes import models


def test_one_start_value_gives_one_file(tmp_path: Path) -> None:
    for name, start in (("a", 1), ("again", 1), ("b", 2)):
        models.write_tiny(tmp_path / name, start)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "again").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "b").read_bytes()


def test_shortened_variant_keeps_only_the_first_layers(tmp_path: Path) -> None:
    models.write_tiny(tmp_path / "whole", 1)
    models.write_variant(tmp_path / "short", tmp_path / "whole", quantization="Q8_0", keep_layers=1)
    reader = GGUFReader(tmp_path / "short")
    assert reader.fields["llama.block_count"].contents() == 1
    assert {models._layer(tensor.name) for tensor in reader.tensors} == {-1, 0}
    assert {tensor.tensor_type.name for tensor in reader.tensors} == {"F32", "Q8_0"}


def test_corrupt_model_is_the_beginning_of_a_good_one(tmp_path: Path) -> None:
    models.write_tiny(tmp_path / "good", 1)
    models.write_corrupt(tmp_path / "bad", tmp_path / "good")
    assert (tmp_path / "bad").read_bytes() == (tmp_path / "good").read_bytes()[:100_000]
