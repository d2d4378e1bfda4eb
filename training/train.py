"""Trains the adapter: a LoRA on all matrices of all layers, on scenes that are drawn as it goes; or the matrices themselves.

    python -m training.train --weights model.gguf --seal seal-tools --out run --seconds 900

It runs for a time rather than for a number of steps, since the time on a GPU is what is given; the learning rate follows
the clock. A checkpoint is written every so often, and `--resume` goes on from the last: with the same weights, moments and learning rate, and
with rows of the next seed, as the run would have had them, had it not been cut. Above: nothing. Below: `checkpoint`, `dataset`, `model`.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from gguf import GGUFReader, dequantize
from torch import Tensor

from .checkpoint import Checkpoint, State, newest, remove, write
from .dataset import Row, Sources, stream
from .model import Model, Weights, linear_names, load


class Adapter:
    """Two thin matrices for each matrix of the model."""

    def __init__(self, weights: Weights, rank: int, scale: float, start: Path | None = None) -> None:
        self.scale = scale
        self._weights = weights
        device = weights["token_embd.weight"].device
        self.a: Weights = {}
        self.b: Weights = {}
        for name in linear_names():
            out, inner = weights[name].shape
            self.a[name] = torch.randn(rank, inner, device=device) / math.sqrt(inner)
            self.b[name] = torch.zeros(out, rank, device=device)
        if start is not None:
            self._restore(start)
        for each in self.parameters():
            each.requires_grad_(True)

    def parameters(self) -> list[Tensor]:
        return list(self.named().values())

    def named(self) -> dict[str, Tensor]:
        """The parameters by their names."""
        return {f"{name}.{half}": each for half, part in (("A", self.a), ("B", self.b)) for name, each in part.items()}

    def learned(self) -> dict[str, Tensor]:
        """What a checkpoint keeps of each parameter."""
        return self.named()

    def go_on(self, learned: dict[str, Tensor]) -> None:
        """Take what a checkpoint has kept."""
        with torch.no_grad():
            for name, each in self.named().items():
                each.copy_(learned[name])

    def merged(self) -> Weights:
        """The matrices of the model as the adapter changes them."""
        kind = self._weights["token_embd.weight"].dtype
        return {
            name: (self._weights[name].float() + self.scale * (self.b[name] @ a)).to(kind) for name, a in self.a.items()
        }

    def save(self, path: Path) -> None:
        """Keep it, with the scale in B and both of about the same size, so that half precision loses little."""
        kept: dict[str, np.ndarray] = {}
        with torch.no_grad():
            for name, a in self.a.items():
                b = self.scale * self.b[name]
                factor = (b.norm() / a.norm().clamp_min(1e-9)).clamp_min(1e-6).sqrt()
                kept[f"{name}.A"] = (a * factor).half().cpu().numpy()
                kept[f"{name}.B"] = (b / factor).half().cpu().numpy()
        np.savez(path, **kept)

    def _restore(self, path: Path) -> None:
        kept = kept_matrices(path)
        for name in self.a:
            self.a[name] = torch.from_numpy(kept[f"{name}.A"]).float().to(self.a[name].device)
            self.b[name] = torch.from_numpy(kept[f"{name}.B"]).float().to(self.a[name].device) / self.scale


class Whole:
    """The matrices themselves, without a rank: what the data can teach the base at most.

    It is kept like an adapter whose one half is the whole change and whose other half changes nothing, so that all else
    takes it for one; `training.mean --rank` cuts it to the size of one.
    """

    def __init__(self, weights: Weights, start: Path | None = None) -> None:
        self._base = {name: weights[name].float() for name in linear_names()}
        self._kind = weights["token_embd.weight"].dtype
        begin = self._base if start is None else restored(weights, start, exact=True)
        self._own = {name: begin[name].clone().requires_grad_(True) for name in begin}

    def parameters(self) -> list[Tensor]:
        return list(self._own.values())

    def named(self) -> dict[str, Tensor]:
        """The parameters by their names."""
        return self._own

    def learned(self) -> dict[str, Tensor]:
        """What a checkpoint keeps of each parameter: its change, of which little is lost where not all can be kept."""
        return {name: each.detach() - self._base[name] for name, each in self._own.items()}

    def go_on(self, learned: dict[str, Tensor]) -> None:
        """Take what a checkpoint has kept."""
        with torch.no_grad():
            for name, each in self._own.items():
                each.copy_(self._base[name] + learned[name].to(each.device))

    def merged(self) -> Weights:
        """The matrices as they are now."""
        return {name: each.to(self._kind) for name, each in self._own.items()}

    def save(self, path: Path) -> None:
        """Keep what has changed."""
        kept: dict[str, np.ndarray] = {}
        with torch.no_grad():
            for name, each in self._own.items():
                change = each - self._base[name]
                kept[f"{name}.A"] = np.eye(change.shape[1], dtype=np.float16)
                kept[f"{name}.B"] = change.half().cpu().numpy()
        np.savez(path, **kept)


def kept_matrices(path: Path) -> dict[str, np.ndarray]:
    """The thin matrices of an adapter, from what training kept or from a GGUF file."""
    if path.suffix != ".gguf":
        with np.load(path) as kept:
            return {name: kept[name] for name in kept.files}
    found: dict[str, np.ndarray] = {}
    for each in GGUFReader(str(path)).tensors:
        name, _, half = each.name.rpartition(".lora_")
        shape = [int(size) for size in each.shape][::-1]
        found[f"{name}.{half.upper()}"] = dequantize(each.data, each.tensor_type).astype(np.float32).reshape(shape)
    return found


def restored(weights: Weights, path: Path, exact: bool = False) -> Weights:
    """The matrices of the model with a kept adapter in them, as exact as the model's own or more."""
    device = weights["token_embd.weight"].device
    kind = torch.float32 if exact else weights["token_embd.weight"].dtype
    kept = kept_matrices(path)
    return {
        name: (
            weights[name].float()
            + torch.from_numpy(kept[f"{name}.B"]).float().to(device)
            @ torch.from_numpy(kept[f"{name}.A"]).float().to(device)
        ).to(kind)
        for name in linear_names()
    }


class Batch:
    """Rows on the device."""

    def __init__(self, rows: list[Row], device: str) -> None:
        def put(values: list[np.ndarray], kind: torch.dtype) -> Tensor:
            return torch.from_numpy(np.stack(values).astype(np.int32)).to(device, non_blocking=True).to(kind)

        self.ids = put([row.ids for row in rows], torch.long)
        self.loss = put([row.loss for row in rows], torch.float32)
        self.position = put([row.position for row in rows], torch.long)
        self.group = put([row.group for row in rows], torch.int32)
        self.branch = put([row.branch for row in rows], torch.int32)

    def dense(self) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """Attention with a mask that is written out."""
        tokens = self.ids.shape[1]
        same = self.group[:, :, None] == self.group[:, None, :]
        seen = (self.branch[:, None, :] == 0) | (self.branch[:, :, None] == self.branch[:, None, :])
        causal = torch.ones(tokens, tokens, dtype=torch.bool, device=self.ids.device).tril()
        mask = (same & seen & causal)[:, None]
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def sparse(self) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """Attention that leaves out what nobody sees; needs a GPU."""
        from torch.nn.attention.flex_attention import create_block_mask

        group, branch = self.group, self.branch

        def sees(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
            return (q >= kv) & (group[b, q] == group[b, kv]) & ((branch[b, kv] == 0) | (branch[b, q] == branch[b, kv]))

        rows, tokens = self.ids.shape
        mask = create_block_mask(sees, rows, None, tokens, tokens, device=str(self.ids.device), _compile=True)
        return lambda q, k, v: _flex()(q, k, v, block_mask=mask)  # type: ignore[return-value]


_compiled: list[Callable[..., Tensor]] = []


def _flex() -> Callable[..., Tensor]:
    if not _compiled:
        from torch.nn.attention.flex_attention import flex_attention

        _compiled.append(torch.compile(flex_attention, dynamic=False))  # type: ignore[arg-type]
    return _compiled[0]


def loss_of(model: Model, adapter: Adapter | Whole, batch: Batch, sparse: bool) -> Tensor:
    """The mean loss of the tokens that count, each as much as it counts."""
    attention = batch.sparse() if sparse else batch.dense()
    hidden = model.hidden(batch.ids, batch.position, attention, adapter.merged())
    weight = batch.loss[:, 1:]
    counts = weight > 0
    each = F.cross_entropy(model.logits(hidden[:, :-1][counts]), batch.ids[:, 1:][counts], reduction="none")
    return (each * weight[counts]).sum() / weight.sum()


def rate(progress: float, step: int, top: float, warm: int = 40) -> float:
    """The learning rate: up at first, then down along a cosine."""
    return top * min(1.0, (step + 1) / warm) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


class Progress:
    """What was learned from, and how fast: a line for every fifty steps."""

    def __init__(self, device: str, spent: float = 0.0, tokens: int = 0) -> None:
        self.began, self.tokens, self.waited = time.monotonic(), tokens, 0.0
        self._before = spent
        self._device = device
        self._summed, self._since = torch.zeros((), device=device), 0

    def spent(self) -> float:
        """Seconds of training, without those for the first rows, and those before the run was cut among them."""
        return self._before + time.monotonic() - self.began

    def rows(self, batches: Iterator[list[Row]]) -> list[Row]:
        """The next rows, and note how long they kept the training waiting."""
        at = time.monotonic()
        rows = next(batches)
        self.waited += time.monotonic() - at
        return rows

    def add(self, step: int, loss: Tensor, tokens: int) -> None:
        """Count a step."""
        self.tokens += tokens
        self._summed += loss.detach()
        self._since += 1
        if step not in (1, 4, 9) and step % 50 != 49:
            return
        spent = self.spent()
        told = {
            "step": step + 1,
            "loss": round(float(self._summed) / self._since, 4),
            "tokens": self.tokens,
            "per_s": round(self.tokens / max(spent, 1e-9)),
            "s": round(spent, 1),
            "waited": round(self.waited, 1),
        }
        print(json.dumps(told), flush=True)
        self._summed, self._since = torch.zeros((), device=self._device), 0


def sources_of(asked: argparse.Namespace) -> Sources:
    """Where the data comes from."""
    folders = {name: Path(path) for name in ("seal", "chat", "intents", "recorded") if (path := getattr(asked, name))}
    return Sources(Path(asked.weights), everything=asked.everything, **folders)


def train(asked: argparse.Namespace) -> None:
    """Train for the time that is given, and keep the adapter now and then, and whatever ends the training."""
    torch.manual_seed(asked.seed)
    torch.set_float32_matmul_precision("high")
    out = Path(asked.out)
    out.mkdir(parents=True, exist_ok=True)
    weights = load(Path(asked.weights), asked.device, torch.bfloat16 if asked.device == "cuda" else torch.float32)
    model = Model(weights)
    if asked.compile:
        model.before = torch.compile(model.before, dynamic=False)
        model.after = torch.compile(model.after, dynamic=False)
    start = Path(asked.start) if asked.start else None
    adapter = Whole(weights, start) if asked.whole else Adapter(weights, asked.rank, asked.scale, start)
    begun = newest(out, asked.name) if asked.resume else None
    told = begun.told if begun else {}
    if told and told["asked"] != _kept_settings(asked):
        raise SystemExit(f"the checkpoint of {asked.name} was made with {told['asked']}")
    progress = Progress(asked.device, float(str(told.get("spent", 0))), int(str(told.get("tokens", 0))))
    kept = out / f"{asked.name}.npz"
    is_cut = False
    try:
        is_cut = learn(asked, model, adapter, _rows(asked), progress, begun)
    finally:
        if progress.tokens and not is_cut:
            adapter.save(kept)
            told = {"kept": str(kept), "tokens": progress.tokens, "s": round(progress.spent(), 1)}
            print(json.dumps(told), flush=True)
    if not is_cut:
        remove(out, asked.name)


def _kept_settings(asked: argparse.Namespace) -> dict[str, object]:
    """What must not change when a run goes on."""
    names = "seed rank scale rate decay length rows seconds steps whole everything start".split()
    return {name: getattr(asked, name) for name in names}


def _rows(asked: argparse.Namespace) -> Callable[[int], Iterator[list[Row]]]:
    """The rows of each leg of a run, which have seeds of their own.

    Processes that make rows go on through all legs of a process of training: the order of their rows is a matter of chance anyway.
    """
    running: list[Iterator[list[Row]]] = []

    def rows(leg: int) -> Iterator[list[Row]]:
        if not (running and asked.workers):
            seed = asked.seed + leg * _LEG_SEEDS
            running[:] = [stream(sources_of(asked), seed, asked.length, asked.rows, asked.workers)]
        return running[0]

    return rows


#: The seeds of two legs of a run are so far apart.
_LEG_SEEDS = 1_000_003


class _Keeper:
    """Writes checkpoints: every so many seconds since the process has begun, and when it must stop."""

    def __init__(self, asked: argparse.Namespace, adapter: Adapter | Whole, optimizer: torch.optim.Optimizer) -> None:
        self._asked, self._adapter, self._optimizer = asked, adapter, optimizer
        self._written = 0

    def is_due(self) -> bool:
        """Whether it is time for the next."""
        every = self._asked.checkpoint
        return every > 0 and time.monotonic() - _BEGAN > every * (self._written + 1)

    def write(self, step: int, leg: int, progress: Progress) -> None:
        """Write one after so many steps, for a run that goes on with this leg."""
        self._written = max(self._written + 1, int((time.monotonic() - _BEGAN) // max(self._asked.checkpoint, 1e-9)))
        moments = {name: self._optimizer.state[each] for name, each in self._adapter.named().items()}
        first, second = ({name: each[key] for name, each in moments.items()} for key in ("exp_avg", "exp_avg_sq"))
        told: dict[str, object] = {
            "step": step,
            "leg": leg,
            "spent": progress.spent(),
            "tokens": progress.tokens,
            "asked": _kept_settings(self._asked),
        }
        state = State(self._adapter.learned(), first, second)
        room = int(self._asked.room * 2**20)
        written = write(Path(self._asked.out), self._asked.name, Checkpoint(state, told), room)
        print(json.dumps({"checkpoint": step, **written}), flush=True)


#: When the process began: whoever cuts it counts from there.
_BEGAN = time.monotonic()


def _take_up(begun: Checkpoint, adapter: Adapter | Whole, optimizer: torch.optim.Optimizer) -> tuple[int, int]:
    """Go on from a checkpoint; gives the step and the leg that come next."""
    adapter.go_on(begun.state.weights)
    step = int(str(begun.told["step"]))
    state = {
        at: {
            "step": torch.tensor(float(step)),
            "exp_avg": begun.state.first[name].to(each.device),
            "exp_avg_sq": begun.state.second[name].to(each.device),
        }
        for at, (name, each) in enumerate(adapter.named().items())
    }
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return step, int(str(begun.told["leg"]))


def learn(
    asked: argparse.Namespace,
    model: Model,
    adapter: Adapter | Whole,
    rows: Callable[[int], Iterator[list[Row]]],
    progress: Progress,
    begun: Checkpoint | None = None,
) -> bool:
    """Learn from the rows of one leg after the other, from a checkpoint or from the beginning.

    Gives whether it was stopped before the end and has left a checkpoint to go on from.
    """
    optimizer = torch.optim.AdamW(
        adapter.parameters(), lr=asked.rate, betas=(0.9, 0.98), weight_decay=asked.decay, fused=asked.device == "cuda"
    )
    keeper = _Keeper(asked, adapter, optimizer)
    begin, leg = _take_up(begun, adapter, optimizer) if begun else (0, 0)
    batches = rows(leg)
    stopped: list[int] = []
    for each in (signal.SIGTERM, signal.SIGINT):  # what is learned so far is kept when the time on a GPU ends early
        signal.signal(each, lambda number, _: stopped.append(number))
    kept, done, last = int(progress.spent() // asked.keep) if asked.keep else 0, begin, begin
    for step in range(begin, asked.steps):
        batch = Batch(progress.rows(batches), asked.device)
        if step == begin:
            progress.began = time.monotonic()  # the first rows take a while
        share = max(progress.spent() / asked.seconds, step / asked.steps)
        if share >= 1 or stopped:
            break
        for group in optimizer.param_groups:
            group["lr"] = rate(share, step, asked.rate)
        loss = loss_of(model, adapter, batch, asked.attention == "sparse")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(adapter.parameters(), 1.0)
        optimizer.step()
        progress.add(step, loss, batch.ids.numel())
        done = step + 1
        if asked.keep and progress.spent() / asked.keep > kept + 1:
            kept += 1
            adapter.save(Path(asked.out) / f"{asked.name}-{kept}.npz")
        if keeper.is_due():
            leg, last = leg + 1, done
            keeper.write(done, leg, progress)
            batches = rows(leg)
    if stopped and asked.checkpoint and done > last:
        keeper.write(done, leg + 1, progress)
        last = done
    return bool(stopped) and last > 0


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Train the adapter of the embedded model.")
    add = parser.add_argument
    add("--weights", required=True, help="the GGUF file of the base model")
    add("--seal", default="", help="the folder of Seal-Tools")
    add("--chat", default="", help="questions and the base model's own answers, see training.chat")
    add("--intents", default="", help="the folder with clinc150.json, hwu64.json and snips.json")
    add("--recorded", default="", help="a folder of recorded requests, see training.recorded")
    add("--out", default="run", help="where adapters are kept")
    add("--name", default="adapter")
    add("--start", default="", help="go on from this adapter")
    add("--rank", type=int, default=32)
    add("--scale", type=float, default=2.0)
    add("--rate", type=float, default=1e-3)
    add("--decay", type=float, default=0.0)
    add("--length", type=int, default=2048, help="tokens in a row")
    add("--rows", type=int, default=16, help="rows in a step")
    add("--seconds", type=float, default=900)
    add("--steps", type=int, default=1_000_000)
    add("--keep", type=float, default=0, help="keep an adapter every so many seconds")
    add("--resume", action="store_true", help="go on from the last checkpoint of this name, if there is one")
    add(
        "--checkpoint", type=float, default=540, help="write a checkpoint every so many seconds of the process; 0: none"
    )
    add(
        "--room",
        type=float,
        default=60,
        help="MiB that a checkpoint may take, in 8 files at most; 0: all is kept as it is",
    )
    add("--seed", type=int, default=1)
    add("--workers", type=int, default=14)
    add("--device", default="cuda")
    add("--attention", choices=["dense", "sparse"], default="dense")
    add("--compile", action="store_true")
    add("--whole", action="store_true", help="train the matrices themselves: how far the data leads without a rank")
    add("--everything", action="store_true", help="train on the families that are held out, too")
    return parser


if __name__ == "__main__":
    train(arguments().parse_args())
