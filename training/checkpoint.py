"""Checkpoints of a training run: the weights, both moments of the optimiser, and how far the run is, in a few files of limited size.

A checkpoint takes the most exact form that fits into its room. What a form loses is measured when it is written. Files of another
checkpoint of the same run are removed only after all files of the new one are there, so a run can be cut at any moment.
"""

from __future__ import annotations

import io
import json
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

__all__ = ["FORMS", "LARGEST", "MOST_FILES", "Checkpoint", "State", "form_for", "newest", "remove", "size_of", "write"]

#: What one file may hold, and how many there may be.
LARGEST, MOST_FILES = 15 * 2**20, 8
#: Values that share a scale where they are kept in 8 bits.
_BLOCK = 64
#: The ranks of a change and of a moment where they are kept as factors.
_CHANGE_RANK, _MOMENT_RANK = 128, 32
_PARTS = ("weights", "first", "second")
#: How the weights and the first and second moments are kept, the most exact form first.
FORMS: tuple[tuple[str, str, str], ...] = (
    ("f32", "f32", "f32"),
    ("f32", "bf16", "bf16"),
    ("f32", "q8", "root8"),
    ("bf16", "q8", "root8"),
    ("bf16", "q8", "means"),
    ("q8", "factors32", "means"),
    ("factors128", "factors32", "means"),
)


class State(NamedTuple):
    """What is learned, by the names of parameters."""

    weights: dict[str, Tensor]
    first: dict[str, Tensor]
    second: dict[str, Tensor]


class Checkpoint(NamedTuple):
    """A state and how far the run was."""

    state: State
    told: dict[str, object]


# ---- how tensors are kept


class _Kept(NamedTuple):
    """How one tensor is kept: the bytes for its shape, and the way there and back."""

    size: Callable[[tuple[int, ...]], int]
    put: Callable[[Tensor], dict[str, np.ndarray]]
    get: Callable[[dict[str, np.ndarray], tuple[int, ...]], Tensor]


def _blocks(x: Tensor) -> Tensor:
    flat = x.flatten().float()
    return torch.nn.functional.pad(flat, (0, -len(flat) % _BLOCK)).view(-1, _BLOCK)


def _put_8(x: Tensor) -> dict[str, np.ndarray]:
    blocks = _blocks(x)
    scale = blocks.abs().amax(1, keepdim=True).clamp_min(1e-30)
    return {"q": (blocks / scale * 127).round().to(torch.int8).numpy(), "s": scale.numpy()}


def _get_8(kept: dict[str, np.ndarray], shape: tuple[int, ...]) -> Tensor:
    values = torch.from_numpy(kept["q"]).float() / 127 * torch.from_numpy(kept["s"])
    return values.flatten()[: math.prod(shape)].view(shape)


def _put_root(x: Tensor) -> dict[str, np.ndarray]:
    """The square root in 8 bits, rounded up: where a second moment became too small, the next step would be too long."""
    blocks = _blocks(x).sqrt()
    scale = blocks.amax(1, keepdim=True).clamp_min(1e-30)
    return {"q": (blocks / scale * 255).ceil().clamp(0, 255).to(torch.uint8).numpy(), "s": scale.numpy()}


def _get_root(kept: dict[str, np.ndarray], shape: tuple[int, ...]) -> Tensor:
    roots = torch.from_numpy(kept["q"]).float() / 255 * torch.from_numpy(kept["s"])
    return roots.flatten()[: math.prod(shape)].view(shape).square()


def _put_bf16(x: Tensor) -> dict[str, np.ndarray]:
    return {"h": x.to(torch.bfloat16).view(torch.int16).numpy()}


def _get_bf16(kept: dict[str, np.ndarray], shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(kept["h"]).view(torch.bfloat16).float().view(shape)


def _put_means(x: Tensor) -> dict[str, np.ndarray]:
    return {"r": x.mean(1).numpy(), "c": x.mean(0).numpy()}


def _get_means(kept: dict[str, np.ndarray], shape: tuple[int, ...]) -> Tensor:
    rows, columns = torch.from_numpy(kept["r"]), torch.from_numpy(kept["c"])
    return torch.outer(rows, columns) / rows.mean().clamp_min(1e-30)


def _factors(rank: int) -> _Kept:
    def put(x: Tensor) -> dict[str, np.ndarray]:
        left, values, right = torch.svd_lowrank(x, min(rank, *x.shape), niter=4)
        half = values.sqrt()
        halves = (("l", left * half), ("m", right * half))
        return {f"{key}{name}": array for name, each in halves for key, array in _put_8(each).items()}

    def get(kept: dict[str, np.ndarray], shape: tuple[int, ...]) -> Tensor:
        inner = min(rank, *shape)
        left, right = (
            _get_8({"q": kept[f"q{name}"], "s": kept[f"s{name}"]}, (size, inner))
            for name, size in zip("lm", shape, strict=True)
        )
        return left @ right.T

    return _Kept(lambda shape: sum(_in_8((size, min(rank, *shape))) for size in shape), put, get)


def _in_8(shape: tuple[int, ...]) -> int:
    return math.ceil(math.prod(shape) / _BLOCK) * (_BLOCK + 4)


_WAYS: dict[str, _Kept] = {
    "f32": _Kept(
        lambda shape: 4 * math.prod(shape),
        lambda x: {"f": x.float().numpy()},
        lambda kept, shape: torch.from_numpy(kept["f"]).view(shape),
    ),
    "bf16": _Kept(lambda shape: 2 * math.prod(shape), _put_bf16, _get_bf16),
    "q8": _Kept(_in_8, _put_8, _get_8),
    "root8": _Kept(_in_8, _put_root, _get_root),
    "means": _Kept(lambda shape: 4 * sum(shape), _put_means, _get_means),
    "factors32": _factors(_MOMENT_RANK),
    "factors128": _factors(_CHANGE_RANK),
}
#: What the name of an array and its header take in the file, at most.
_OVERHEAD = 512


def size_of(state: State, form: tuple[str, str, str]) -> int:
    """About how many bytes a state takes in this form, and not less."""
    sizes = (
        _WAYS[way].size(tuple(each.shape)) + 4 * _OVERHEAD
        for way, part in zip(form, state, strict=True)
        for each in part.values()
    )
    return sum(sizes) + 4096


def form_for(state: State, room: int) -> tuple[str, str, str]:
    """The most exact form that fits into so many bytes; the smallest, where none does."""
    return next((form for form in FORMS if size_of(state, form) <= room), FORMS[-1])


# ---- files


def write(folder: Path, name: str, checkpoint: Checkpoint, room: int) -> dict[str, object]:
    """Keep a checkpoint in place of those before it, and tell its form and how much of each part is lost.

    Raises:
        ValueError: it does not fit into as many files as there may be.
    """
    state = State(*({key: each.detach().cpu() for key, each in part.items()} for part in checkpoint.state))
    form = form_for(state, room) if room else FORMS[0]
    arrays: dict[str, np.ndarray] = {}
    lost: dict[str, float] = {}
    for part, way, tensors in zip(_PARTS, form, state, strict=True):
        wrong = whole = 0.0
        for key, tensor in tensors.items():
            kept = _WAYS[way].put(tensor)
            arrays |= {f"{part}/{key}/{field}": array for field, array in kept.items()}
            if way != "f32":
                wrong += float((_WAYS[way].get(kept, tuple(tensor.shape)) - tensor).square().sum())
                whole += float(tensor.square().sum())
        lost[part] = round(math.sqrt(wrong / whole), 5) if whole else 0.0
    shapes = {
        part: {key: list(each.shape) for key, each in tensors.items()} for part, tensors in state._asdict().items()
    }
    told = {**checkpoint.told, "form": form, "shapes": shapes}
    arrays["told"] = np.frombuffer(json.dumps(told).encode(), np.uint8)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    parts = _write_parts(folder, name, content.getvalue(), room)
    return {"form": " ".join(form), "lost": lost, "files": parts}


def _write_parts(folder: Path, name: str, content: bytes, room: int) -> int:
    count = math.ceil(len(content) / LARGEST)
    if room and count > MOST_FILES:
        raise ValueError(f"a checkpoint of {len(content) / 2**20:.0f} MiB does not fit into {MOST_FILES} files")
    mark = f"{zlib.crc32(content):08x}"
    old = list(folder.glob(f"{name}.*of*.ckpt"))
    for at in range(count):
        path = folder / f"{name}.{mark}.{at + 1}of{count}.ckpt"
        path.with_suffix(".part").write_bytes(content[at * LARGEST : (at + 1) * LARGEST])
        path.with_suffix(".part").replace(path)
    for path in old:
        if f".{mark}." not in path.name:
            path.unlink()
    return count


def newest(folder: Path, name: str) -> Checkpoint | None:
    """The last checkpoint of this name of which all files are there and as they were written; None, where there is none."""
    by_mark: dict[str, list[Path]] = {}
    for path in folder.glob(f"{name}.*of*.ckpt"):
        by_mark.setdefault(path.name.split(".")[-3], []).append(path)
    found = [each for mark, paths in by_mark.items() if (each := _read(mark, paths)) is not None]
    return max(found, key=lambda each: int(str(each.told["step"])), default=None)


def remove(folder: Path, name: str) -> None:
    """Remove the checkpoints of a run that is done."""
    for path in folder.glob(f"{name}.*of*.ckpt"):
        path.unlink()


def _read(mark: str, paths: list[Path]) -> Checkpoint | None:
    paths = sorted(paths, key=lambda path: int(path.name.split(".")[-2].partition("of")[0]))
    content = b"".join(path.read_bytes() for path in paths)
    if f"{zlib.crc32(content):08x}" != mark:
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        told = json.loads(bytes(arrays["told"]))
        fields: dict[str, dict[str, np.ndarray]] = {}
        for path in arrays.files:
            if path != "told":
                owner, _, field = path.rpartition("/")
                fields.setdefault(owner, {})[field] = arrays[path]
    form, shapes = told.pop("form"), told.pop("shapes")
    parts = [
        {key: _WAYS[way].get(fields[f"{part}/{key}"], tuple(shape)).clone() for key, shape in shapes[part].items()}
        for part, way in zip(_PARTS, form, strict=True)
    ]
    return Checkpoint(State(*parts), told)
