"""Weights of 4 bits written with 8: what they are afterwards, and which files are not touched."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import size
from toolspeak.upstreams.embedded.requantize import NotConvertible, convert

F32, Q4_1, Q8_0 = 0, 3, 8
#: Kinds of values beside the weights: a number of 4 bytes, a text, a list.
NUMBER, TEXT, LIST = 4, 8, 9
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


def file_of(tensors: list[Tensor], values: tuple[bytes, ...] = VALUES) -> bytes:
    head, data = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(values)) + b"".join(values), b""
    for name, kind, count, content in tensors:
        head += text(name) + struct.pack("<IQQIQ", 2, count, 1, kind, len(data))
        data += aligned(content)
    return aligned(head) + data


def written(blocks: list[Block]) -> bytes:
    packed = (bytes(low | high << 4 for low, high in zip(each[:16], each[16:], strict=True)) for _, _, each in blocks)
    return b"".join(struct.pack("<ee", *block[:2]) + weights for block, weights in zip(blocks, packed, strict=True))


def converted(content: bytes, folder: Path) -> bytes:
    (folder / "from").write_bytes(content)
    convert(folder / "from", folder / "to", lambda done: None)
    return (folder / "to").read_bytes()


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
    made = converted(file_of([tensor]), tmp_path_factory.getbasetemp())
    data = made[len(file_of([("blk.0", Q8_0, 0, b"")])) :]
    for (step, lowest, weights), (scale, *numbers) in zip(
        blocks, struct.iter_unpack("<e32b", data[: 34 * len(blocks)]), strict=True
    ):
        reach = max(abs(lowest), abs(lowest + 15 * step))
        assert scale == half(reach / 127)
        for weight, number in zip(weights, numbers, strict=True):
            # Half of a step, and what the scale, of 16 bits, is beside the one that was meant.
            assert abs(lowest + weight * step - number * scale) <= 0.5001 * scale + abs(reach - 127 * scale)


def test_only_weights_of_four_bits_change(tmp_path: Path):
    four = written([(0.5, -1.0, list(range(16)) * 2)])
    norm, eight = struct.pack("<3f", 1, 2, 3), bytes(range(34))
    made = converted(file_of([("norm", F32, 3, norm), ("a", Q4_1, 32, four), ("b", Q8_0, 32, eight)]), tmp_path)
    scale = half(6.5 / 127)
    numbers = [round((each / 2 - 1) / scale) for each in range(16)] * 2
    values = (VALUES[0].replace(struct.pack("<I", 3), struct.pack("<I", 7)), *VALUES[1:])
    block = struct.pack("<e32b", scale, *numbers)
    assert made == file_of([("norm", F32, 3, norm), ("a", Q8_0, 32, block), ("b", Q8_0, 32, eight)], values)


def test_weights_that_are_all_zero_stay_so(tmp_path: Path):
    made = converted(file_of([("a", Q4_1, 32, written([(0.0, 0.0, [7] * 32)]))]), tmp_path)
    assert made.endswith(bytes(64))


def test_how_far_it_is_is_told_to_the_last_byte(tmp_path: Path):
    (tmp_path / "from").write_bytes(file_of([("a", Q4_1, 64, written([(1.0, 0.0, [1] * 32)] * 2))]))
    heard: list[int] = []
    convert(tmp_path / "from", tmp_path / "to", heard.append)
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
def test_a_file_of_another_form_is_told(content: bytes, tmp_path: Path):
    with pytest.raises(NotConvertible, match="from is not a supported model file"):
        converted(content, tmp_path)
