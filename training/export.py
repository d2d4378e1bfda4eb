"""Writes an adapter as a GGUF file that llama.cpp loads.

    python -m training.export run/adapter.npz adapter.gguf

The scale stands in B already, so `alpha` is the rank. Blocks of 32 values are kept in 8 bits; rows that are no multiple
of 32 are kept in half precision. Above: nothing. Below: gguf.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gguf
import numpy as np

_BLOCK = 32
NAME = "toolspeak adapter for SmolLM2-135M-Instruct"


def export(kept: Path, target: Path) -> None:
    """Write the adapter."""
    if kept.suffix != ".npz":
        raise SystemExit(f"{kept} is not what training keeps, which ends in .npz")
    with np.load(kept) as found:
        matrices = {name: found[name].astype(np.float32) for name in found.files}
    names = sorted({name[:-2] for name in matrices}, key=lambda name: (int(name.split(".")[1]), name))
    rank = matrices[f"{names[0]}.A"].shape[0]
    writer = gguf.GGUFWriter(str(target), "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(rank))
    writer.add_name(NAME)
    writer.add_license("apache-2.0")
    for name in names:
        for half, suffix in (("A", "lora_a"), ("B", "lora_b")):
            _add(writer, f"{name}.{suffix}", np.ascontiguousarray(matrices[f"{name}.{half}"]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add(writer: gguf.GGUFWriter, name: str, matrix: np.ndarray) -> None:
    if matrix.shape[-1] % _BLOCK:
        writer.add_tensor(name, matrix.astype(np.float16))
        return
    small = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor(name, gguf.quants.quantize(matrix, small), raw_dtype=small)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write an adapter as a GGUF file.")
    parser.add_argument("kept", type=Path, help="what training or training.mean kept (.npz)")
    parser.add_argument("target", type=Path, help="the GGUF file to write")
    asked = parser.parse_args()
    export(asked.kept, asked.target)
