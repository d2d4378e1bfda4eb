"""The adapter as a file: what is written can be read again."""

from __future__ import annotations

from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="training needs numpy")
gguf = pytest.importorskip("gguf", reason="training needs gguf")


def test_an_adapter_that_is_written_is_read_again(tmp_path: Path):
    from training.export import export

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(32, 64)).astype(np.float16), rng.normal(size=(96, 32)).astype(np.float16)
    name = "blk.0.attn_q.weight"
    np.savez(tmp_path / "kept.npz", **{f"{name}.A": a, f"{name}.B": b})
    export(tmp_path / "kept.npz", tmp_path / "adapter.gguf")
    reader = gguf.GGUFReader(str(tmp_path / "adapter.gguf"))
    found = {each.name: gguf.dequantize(each.data, each.tensor_type) for each in reader.tensors}
    assert set(found) == {f"{name}.lora_a", f"{name}.lora_b"}
    assert np.abs(found[f"{name}.lora_a"] - a).max() < 0.03
    assert np.abs(found[f"{name}.lora_b"] - b).max() < 0.03
    assert reader.fields["adapter.lora.alpha"].parts[-1][0] == 32
