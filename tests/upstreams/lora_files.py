"""Small LoRA adapter files (GGUF) for the embedded model, written from the description of the format."""

from __future__ import annotations

import random
import struct
from array import array
from pathlib import Path

#: The model has 30 blocks; its queries are 576 wide.
WIDTH, RANK = 576, 4
_TEXT, _FLOAT32 = 8, 6
_ALIGNMENT = 32


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _pair(key: str, kind: int, value: bytes) -> bytes:
    return _text(key) + struct.pack("<I", kind) + value


def adapter(path: Path, strength: float) -> Path:
    """An adapter that changes the queries of every block at random, by this much; with 0 it changes nothing."""
    draw = random.Random(1)
    pairs = [
        _pair("general.architecture", _TEXT, _text("llama")),
        _pair("general.type", _TEXT, _text("adapter")),
        _pair("adapter.type", _TEXT, _text("lora")),
        _pair("adapter.lora.alpha", _FLOAT32, struct.pack("<f", RANK)),
    ]
    tensors: list[bytes] = []
    data = b""
    for block in range(30):
        for name, shape, scale in (("lora_a", (WIDTH, RANK), 1.0), ("lora_b", (RANK, WIDTH), strength)):
            values = array("f", (scale * draw.gauss(0, 1) for _ in range(WIDTH * RANK)))
            head = _text(f"blk.{block}.attn_q.weight.{name}") + struct.pack("<IQQ", 2, *shape)
            tensors.append(head + struct.pack("<IQ", 0, len(data)))
            data += values.tobytes()  # a multiple of the alignment
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs) + b"".join(tensors)
    path.write_bytes(head + bytes(-len(head) % _ALIGNMENT) + data)
    return path
