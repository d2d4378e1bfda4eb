"""Checkpoints: a run that is cut goes on as if it had not been, and a checkpoint fits into its files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each

np = pytest.importorskip("numpy", reason="training needs numpy")
pytest.importorskip("gguf", reason="training needs gguf")
pytest.importorskip("tokenizers", reason="training needs tokenizers")
torch = pytest.importorskip("torch", reason="training needs torch")

WIDTH, INNER, WORDS = 32, 48, 64
SHAPES = {
    "attn_q": (32, 32), "attn_k": (16, 32), "attn_v": (16, 32), "attn_output": (32, 32),
    "ffn_gate": (INNER, 32), "ffn_up": (INNER, 32), "ffn_down": (32, INNER),
}  # fmt: skip


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The weights of a model with two small layers."""
    import training.model

    monkeypatch.setattr("signal.signal", lambda *_: None)
    for name, value in {"LAYERS": 2, "WIDTH": WIDTH, "HEADS": 2, "KV_HEADS": 1, "HEAD": 16, "LONGEST": 128}.items():
        monkeypatch.setattr(training.model, name, value)
    torch.manual_seed(1)
    weights = {"token_embd.weight": torch.randn(WORDS, WIDTH) * 0.1, "output_norm.weight": torch.ones(WIDTH)}
    for layer in range(2):
        weights |= {f"blk.{layer}.{name}.weight": torch.randn(shape) * 0.1 for name, shape in SHAPES.items()}
        weights |= {f"blk.{layer}.{name}.weight": torch.ones(WIDTH) for name in ("attn_norm", "ffn_norm")}
    return weights


def asked_for(out: Path, **changed: object) -> argparse.Namespace:
    from training.train import arguments

    asked = arguments().parse_args(["--weights", "none", "--out", str(out), "--rank", "4", "--device", "cpu"])
    for name, value in {"seconds": 1e9, "steps": 8, "checkpoint": 1e-9, "room": 0.0, **changed}.items():
        setattr(asked, name, value)
    return asked


class Cut(Exception):
    pass


def rows(leg: int, most: int = 99) -> Iterator[list[Any]]:
    """Rows of a leg, until the run is cut."""
    from training.dataset import Row

    rng = np.random.default_rng(leg)
    for _ in range(most):
        ids = rng.integers(0, WORDS, 24).astype(np.uint16)
        zeros = np.zeros(24, np.int16)
        yield [Row(ids, np.full(24, 4, np.uint8), np.arange(24, dtype=np.int16), zeros, zeros)]
    raise Cut


def learned(weights: dict[str, Any], asked: argparse.Namespace, cut_at: int = 99) -> dict[str, Any]:
    """What a run has learned, which is cut when it comes to this leg."""
    from training.checkpoint import newest
    from training.model import Model
    from training.train import Adapter, Progress, Whole, learn

    torch.manual_seed(asked.seed)
    adapter = Whole(weights) if asked.whole else Adapter(weights, asked.rank, asked.scale)
    begun = newest(Path(asked.out), asked.name) if asked.resume else None
    try:
        learn(asked, Model(weights), adapter, lambda leg: rows(leg, 0 if leg == cut_at else 99), Progress("cpu"), begun)
    except Cut:
        assert cut_at < asked.steps
    return {name: each.detach().clone() for name, each in adapter.named().items()}


@check_each("whole", [False, True])
def test_a_run_that_is_cut_and_resumed_learns_exactly_what_one_that_is_not_cut_learns(
    tiny: dict[str, Any], tmp_path: Path, whole: bool
):
    folders = [tmp_path / f"{name}{whole}" for name in ("once", "cut")]
    for folder in folders:
        folder.mkdir()
    once = learned(tiny, asked_for(folders[0], whole=whole))
    learned(tiny, asked_for(folders[1], whole=whole), cut_at=3)
    second = learned(tiny, asked_for(folders[1], whole=whole, resume=True), cut_at=6)
    third = learned(tiny, asked_for(folders[1], whole=whole, resume=True))
    # Of matrices the change is kept, and adding it rounds once more.
    allowed = 1e-6 if whole else 0.0
    assert all(torch.allclose(once[name], third[name], rtol=0, atol=allowed) for name in once)
    assert not all(torch.allclose(second[name], third[name], rtol=0, atol=1e-5) for name in once)


def test_a_resumed_run_does_not_overwrite_the_adapters_that_were_kept_before(tiny: dict[str, Any], tmp_path: Path):
    from training.model import Model
    from training.train import Adapter, Progress, learn

    asked = asked_for(tmp_path, keep=100.0, steps=2, checkpoint=0.0)
    adapter = Adapter(tiny, asked.rank, asked.scale)
    learn(asked, Model(tiny), adapter, rows, Progress("cpu", spent=250.0))
    assert not [*tmp_path.iterdir()]


def state_of(scale: int, rank: int) -> Any:
    from training.checkpoint import State

    torch.manual_seed(3)
    made = {f"{at}": torch.randn(rank, scale) for at in range(3)}
    return State(
        made, {key: each * 1e-3 for key, each in made.items()}, {key: each.square() for key, each in made.items()}
    )


def test_every_form_can_be_read_again_and_loses_little_and_no_second_moment_becomes_too_small():
    from training.checkpoint import _WAYS  # pyright: ignore[reportPrivateUsage]

    state = state_of(256, 64)
    for way, allowed in (("f32", 0.0), ("bf16", 0.005), ("q8", 0.012), ("factors128", 0.02)):
        x = state.weights["0"]
        back = _WAYS[way].get(_WAYS[way].put(x), tuple(x.shape))
        assert float((back - x).norm() / x.norm()) <= allowed, way
    second = state.second["0"]
    back = _WAYS["root8"].get(_WAYS["root8"].put(second), tuple(second.shape))
    assert bool((back >= second * 0.9999).all())
    assert float((back - second).norm() / second.norm()) < 0.02
    means = _WAYS["means"].get(_WAYS["means"].put(second), tuple(second.shape))
    assert torch.allclose(means.mean(0), second.mean(0), rtol=1e-3)


def test_the_most_exact_form_that_fits_is_taken():
    from training.checkpoint import FORMS, form_for, size_of

    state = state_of(512, 512)
    sizes = [size_of(state, form) for form in FORMS]
    assert sizes == sorted(sizes, reverse=True)
    assert [form_for(state, size) for size in sizes] == list(FORMS)
    assert form_for(state, 1) == FORMS[-1]


def test_a_checkpoint_is_cut_into_files_and_one_that_is_not_whole_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from training import checkpoint

    monkeypatch.setattr(checkpoint, "LARGEST", 200_000)
    state = state_of(1024, 32)
    told = checkpoint.write(tmp_path, "run", checkpoint.Checkpoint(state, {"step": 5}), 2**30)
    files = sorted(tmp_path.iterdir())
    assert told["files"] == len(files) > 4
    assert all(path.stat().st_size <= 200_000 for path in files)
    before = checkpoint.newest(tmp_path, "run")
    assert before is not None
    assert before.told == {"step": 5}
    assert torch.equal(before.state.weights["0"], state.weights["0"])
    checkpoint.write(tmp_path, "run", checkpoint.Checkpoint(state, {"step": 9}), 2**30)
    assert len(list(tmp_path.iterdir())) == len(files)
    next(iter(tmp_path.iterdir())).unlink()
    assert checkpoint.newest(tmp_path, "run") is None
    with pytest.raises(ValueError, match="does not fit into 8 files"):
        checkpoint.write(tmp_path, "run", checkpoint.Checkpoint(state_of(8192, 64), {"step": 9}), 2**30)


def test_an_adapter_of_rank_32_for_the_whole_model_fits_into_60_mib_with_its_weights_as_they_are():
    from training.checkpoint import LARGEST, MOST_FILES, State, form_for, size_of

    shapes = ((576, 576), (192, 576), (192, 576), (576, 576), (1536, 576), (1536, 576), (576, 1536))
    halves = [half for out, inner in shapes for half in ((32, inner), (out, 32))] * 30
    part = {str(at): torch.empty(shape, device="meta") for at, shape in enumerate(halves)}
    state = State(part, part, part)
    form = form_for(state, 60 * 2**20)
    assert form == ("f32", "q8", "root8")
    assert size_of(state, form) < LARGEST * MOST_FILES
