"""Tests for merging an adapter into 4-bit weights that are then stored in 8 bits."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import size
from toolspeak.upstreams.embedded.merging import NotMergeable, merge

F32, F16, Q4_1, Q8_0 = 0, 1, 3, 8
#: Kinds of values beside the weights: a number of 4 bytes, a float, a text, a list.
NUMBER, FLOAT, TEXT, LIST = 4, 6, 8, 9
#: A step, a lowest value, and which of 16 values each of 32 weights is.
Block = tuple[float, float, list[int]]
Tensor = tuple[str, int, int, bytes]


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words)) + words.encode()


def aligned(content: bytes) -> bytes:
    return content + bytes(-len(content) % 32)


VALUES = (
    text("general.file_type") + struct.pack("<II", NUMBER, 3),
    text("general.name") + struct.pack("<I", TEXT) + text("small"),
    text("some.tokens") + struct.pack("<IIQ", LIST, TEXT, 2) + text("a") + text("bc"),
    text("some.numbers") + struct.pack("<IIQ", LIST, NUMBER, 2) + bytes(8),
)


#: Metadata of an adapter of rank 2 whose matrices count twice.
ADAPTER_VALUES = (text("adapter.lora.alpha") + struct.pack("<If", FLOAT, 4),)


def file_of(tensors: list[Tensor], values: tuple[bytes, ...] = VALUES, rows: int = 1) -> bytes:
    head, data = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(values)) + b"".join(values), b""
    for name, kind, count, content in tensors:
        head += text(name) + struct.pack("<IQQIQ", 2, count // rows, rows, kind, len(data))
        data += aligned(content)
    return aligned(head) + data


def written(blocks: list[Block]) -> bytes:
    packed = (bytes(low | high << 4 for low, high in zip(each[:16], each[16:], strict=True)) for _, _, each in blocks)
    return b"".join(struct.pack("<ee", *block[:2]) + weights for block, weights in zip(blocks, packed, strict=True))


def merged(content: bytes, folder: Path, adapter: bytes | None = None) -> bytes:
    (folder / "model").write_bytes(content)
    (folder / "adapter").write_bytes(file_of([], ADAPTER_VALUES) if adapter is None else adapter)
    merge(folder / "model", folder / "adapter", folder / "to", lambda done: None)
    return (folder / "to").read_bytes()


def adapter_of(columns: int, rows: int, values: tuple[bytes, ...] = ADAPTER_VALUES) -> bytes:
    """Return an adapter that adds 4 to each weight of `a`: two times the product of two matrices of ones."""
    first, second = struct.pack(f"<{2 * columns}e", *[1] * 2 * columns), struct.pack(f"<{2 * rows}f", *[1] * 2 * rows)
    head = struct.pack("<4sIQQ", b"GGUF", 3, 2, len(values)) + b"".join(values)
    head += text("a.lora_a") + struct.pack("<IQQIQ", 2, columns, 2, F16, 0)
    head += text("a.lora_b") + struct.pack("<IQQIQ", 2, 2, rows, F32, len(aligned(first)))
    return aligned(head) + aligned(first) + aligned(second)


def half(number: float) -> float:
    return struct.unpack("<e", struct.pack("<e", number))[0]


BLOCKS = st.lists(
    st.tuples(
        st.floats(0, 1000, width=16),
        st.floats(-1000, 1000, width=16),
        st.lists(st.integers(0, 15), min_size=32, max_size=32),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=size(6, 20))  # each is a file of many blocks
@given(BLOCKS)
def test_each_weight_becomes_the_nearest_that_eight_bits_can_say(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[Block]
):
    tensor = ("blk.0", Q4_1, 32 * len(blocks), written(blocks))
    made = merged(file_of([tensor]), tmp_path_factory.getbasetemp())
    data = made[len(file_of([("blk.0", Q8_0, 0, b"")])) :]
    for (step, lowest, weights), (scale, *numbers) in zip(
        blocks, struct.iter_unpack("<e32b", data[: 34 * len(blocks)]), strict=True
    ):
        reach = max(abs(lowest + weight * step) for weight in weights)
        assert scale == pytest.approx(half(reach / 127), rel=0.001, abs=1e-7)
        for weight, number in zip(weights, numbers, strict=True):
            # Half of a step, and what the scale, of 16 bits, is beside the one that was meant.
            assert abs(lowest + weight * step - number * scale) <= 0.5001 * scale + abs(reach - 127 * scale)


def test_only_weights_of_four_bits_change(tmp_path: Path):
    four = written([(0.5, -1.0, list(range(16)) * 2)])
    norm, eight = struct.pack("<3f", 1, 2, 3), bytes(range(34))
    made = merged(file_of([("norm", F32, 3, norm), ("a", Q4_1, 32, four), ("b", Q8_0, 32, eight)]), tmp_path)
    scale = half(6.5 / 127)
    numbers = [round((each / 2 - 1) / scale) for each in range(16)] * 2
    values = (VALUES[0].replace(struct.pack("<I", 3), struct.pack("<I", 7)), *VALUES[1:])
    block = struct.pack("<e32b", scale, *numbers)
    assert made == file_of([("norm", F32, 3, norm), ("a", Q8_0, 32, block), ("b", Q8_0, 32, eight)], values)


def test_weights_that_are_all_zero_stay_so(tmp_path: Path):
    made = merged(file_of([("a", Q4_1, 32, written([(0.0, 0.0, [7] * 32)]))]), tmp_path)
    assert made.endswith(bytes(64))


def test_how_far_it_is_is_told_to_the_last_byte(tmp_path: Path):
    (tmp_path / "model").write_bytes(file_of([("a", Q4_1, 64, written([(1.0, 0.0, [1] * 32)] * 2))]))
    (tmp_path / "adapter").write_bytes(file_of([], ADAPTER_VALUES))
    heard: list[int] = []
    merge(tmp_path / "model", tmp_path / "adapter", tmp_path / "to", heard.append)
    assert heard == [(tmp_path / "to").stat().st_size - (-68 % 32)]


WHOLE = file_of([("a", Q4_1, 32, bytes(20))])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        WHOLE[:-32],
        WHOLE[:40],
        WHOLE.replace(b"GGUF\x03", b"GGUF\x02"),
        file_of([("a", 99, 32, bytes(20))]),
        file_of([("a", Q4_1, 32, bytes(20))], (text("general.alignment") + struct.pack("<II", NUMBER, 64),)),
        file_of([("a", Q4_1, 32, bytes(20))], (text("odd") + struct.pack("<I", 77),)),
        file_of([("a", Q4_1, 32, struct.pack("<ee", float("inf"), 0) + bytes(16))]),
    ],
    ids=["empty", "no model", "cut", "head cut", "version", "kind", "alignment", "value", "infinite"],
)
def test_an_unsupported_model_file_is_an_error(content: bytes, tmp_path: Path):
    with pytest.raises(NotMergeable, match="model and adapter cannot be merged"):
        merged(content, tmp_path)


@settings(max_examples=size(6, 20))
@given(st.integers(1, 70), BLOCKS)
def test_the_product_of_the_matrices_is_added_to_each_weight(
    tmp_path_factory: pytest.TempPathFactory, rows: int, blocks: list[Block]
):
    blocks = [(1.0, -8.0, weights) for _, _, weights in (blocks * rows)[:rows]]
    model = file_of([("a", Q4_1, 32 * rows, written(blocks))], rows=rows)
    made = merged(model, tmp_path_factory.getbasetemp(), adapter_of(32, rows))
    data = made[len(file_of([("a", Q8_0, 0, b"")])) :]
    found = [number * scale for scale, *numbers in struct.iter_unpack("<e32b", data[: 34 * rows]) for number in numbers]
    meant = [index - 8 + 4 for *_, weights in blocks for index in weights]
    np.testing.assert_allclose(found, meant, atol=0.05)


def test_the_matrices_of_an_adapter_may_be_stored_in_8_bits(tmp_path: Path):
    ones = struct.pack("<e32b", 1.0, *[1] * 32)
    small = struct.pack("<2e", 1, 1)
    head = struct.pack("<4sIQQ", b"GGUF", 3, 2, 1) + ADAPTER_VALUES[0]
    head += text("a.lora_a") + struct.pack("<IQQIQ", 2, 32, 2, Q8_0, 0)
    head += text("a.lora_b") + struct.pack("<IQQIQ", 2, 2, 1, F16, 96)
    adapter = aligned(head) + aligned(ones * 2) + aligned(small)
    model = file_of([("a", Q4_1, 32, written([(1.0, -8.0, list(range(16)) * 2)]))])
    assert merged(model, tmp_path, adapter) == merged(model, tmp_path, adapter_of(32, 1))


@pytest.mark.parametrize(
    ("adapter", "why"),
    [
        (adapter_of(64, 1), "the adapter has other shapes"),
        (adapter_of(32, 1, ()), "adapter.lora.alpha"),
        (adapter_of(32, 1).replace(b"a.lora", b"b.lora"), "no weights b"),
        (adapter_of(32, 1)[:-32], "the file is truncated"),
        (b"GGUF", "unknown signature"),
    ],
    ids=["shapes", "no scale", "other names", "cut", "no adapter"],
)
def test_an_adapter_that_does_not_fit_is_an_error(adapter: bytes, why: str, tmp_path: Path):
    with pytest.raises(NotMergeable, match=why):
        merged(file_of([("a", Q4_1, 32, written([(1.0, 0.0, [1] * 32)]))]), tmp_path, adapter)


def test_weights_in_full_precision_cannot_change(tmp_path: Path):
    model = file_of([("a", F32, 32, struct.pack("<32f", *range(32)))])
    with pytest.raises(NotMergeable, match="unsupported format of weights"):
        merged(model, tmp_path, adapter_of(32, 1))
