"""SmolLM2 in PyTorch, from its GGUF file: what training needs, and greedy decoding of many prompts at once.

Only the sizes of SmolLM2-135M are known here; the layout is that of GGUF, with rotary pairs side by side. Above:
`train`, `measure`. Below: torch, gguf.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from gguf import GGUFReader, dequantize
from torch import Tensor

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD = 30, 576, 9, 3, 64
EPSILON, THETA, LONGEST = 1e-5, 100_000.0, 8192
LINEAR = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
Weights = dict[str, Tensor]
#: Of queries, keys and values [batch, heads, tokens, size]; keys and values have as many heads as queries.
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def load(path: Path, device: str, kind: torch.dtype) -> Weights:
    """The weights, as the quantised file gives them: the adapter learns around the loss of quantisation."""
    found: Weights = {}
    for each in GGUFReader(str(path)).tensors:
        values = (
            dequantize(each.data, each.tensor_type).astype(np.float32).reshape([int(size) for size in each.shape][::-1])
        )
        tensor = torch.from_numpy(values.copy()).to(device)
        found[each.name] = tensor.to(kind) if tensor.ndim == 2 else tensor
    return found


def linear_names() -> list[str]:
    """The matrices that an adapter changes."""
    return [f"blk.{layer}.{name}.weight" for layer in range(LAYERS) for name in LINEAR]


def _norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x.float(), (WIDTH,), weight, EPSILON).to(x.dtype)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """[batch, tokens, heads, size] with its pairs turned."""
    pairs = x.float().unflatten(-1, (HEAD // 2, 2))
    a, b = pairs[..., 0], pairs[..., 1]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(x.dtype)


def _qkv(h: Tensor, cos: Tensor, sin: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    batch, tokens, _ = h.shape
    queries = _rotated(F.linear(h, q).view(batch, tokens, HEADS, HEAD), cos, sin).transpose(1, 2)
    keys = _rotated(F.linear(h, k).view(batch, tokens, KV_HEADS, HEAD), cos, sin).transpose(1, 2)
    return queries, keys, F.linear(h, v).view(batch, tokens, KV_HEADS, HEAD).transpose(1, 2)


def _many(x: Tensor) -> Tensor:
    return x.repeat_interleave(HEADS // KV_HEADS, 1)


def _feed(x: Tensor, norm: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    h = _norm(x, norm)
    return x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)


def before(
    x: Tensor, cos: Tensor, sin: Tensor, norm: Tensor, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The first half of a block, up to the attention."""
    queries, keys, values = _qkv(_norm(x, norm), cos, sin, q, k, v)
    return queries.contiguous(), _many(keys).contiguous(), _many(values).contiguous()


def after(x: Tensor, seen: Tensor, out: Tensor, norm: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """The second half of a block."""
    batch, tokens, _ = x.shape
    x = x + F.linear(seen.transpose(1, 2).reshape(batch, tokens, WIDTH), out)
    return _feed(x, norm, gate, up, down)


class Model:
    """The model; `changed` matrices stand in for those of the file."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.device = weights["token_embd.weight"].device
        turns = 1.0 / (THETA ** (torch.arange(0, HEAD, 2, device=self.device, dtype=torch.float32) / HEAD))
        angles = torch.outer(torch.arange(LONGEST, device=self.device, dtype=torch.float32), turns)
        self._cos, self._sin = angles.cos(), angles.sin()
        self.before, self.after = before, after
        #: Added to the logits when answers are decoded: what `logit_bias` does where the model is served.
        self.bias: dict[int, float] = {}
        #: Where it is added: behind this token only; None: everywhere, which is all that a server can do.
        self.bias_behind: int | None = None

    def hidden(self, ids: Tensor, positions: Tensor, attention: Attention, changed: Weights) -> Tensor:
        """What the last layer says to each token."""
        w, own = self.weights, changed
        cos, sin = self._cos[positions][:, :, None], self._sin[positions][:, :, None]
        x = F.embedding(ids, w["token_embd.weight"])
        for layer in range(LAYERS):
            at = f"blk.{layer}."
            q, k, v, out, gate, up, down = (own[f"{at}{name}.weight"] for name in LINEAR)
            queries, keys, values = self.before(x, cos, sin, w[f"{at}attn_norm.weight"], q, k, v)
            x = self.after(x, attention(queries, keys, values), out, w[f"{at}ffn_norm.weight"], gate, up, down)
        return _norm(x, w["output_norm.weight"])

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.weights["token_embd.weight"]).float()

    @torch.no_grad()
    def decode(
        self, prompts: list[list[int]], changed: Weights, end: int, most: int = 192, batch: int = 384
    ) -> list[list[int]]:
        """Greedy answers to many prompts."""
        order = sorted(range(len(prompts)), key=lambda at: len(prompts[at]))
        found: list[list[int]] = [[] for _ in prompts]
        for begin in range(0, len(order), batch):
            chosen = order[begin : begin + batch]
            for at, answer in zip(
                chosen, self._decode([prompts[at] for at in chosen], changed, end, most), strict=True
            ):
                found[at] = answer
        return found

    def _decode(self, prompts: list[list[int]], changed: Weights, end: int, most: int) -> list[list[int]]:
        w = {**self.weights, **changed}
        count, device = len(prompts), self.device
        lengths = torch.tensor([len(each) for each in prompts], device=device)
        width = int(lengths.max())
        ids = torch.zeros(count, width, dtype=torch.long)
        for row, each in enumerate(prompts):
            ids[row, : len(each)] = torch.tensor(each)
        kept: list[tuple[Tensor, Tensor]] = []
        x = F.embedding(ids.to(device), w["token_embd.weight"])
        cos, sin = self._cos[None, :width, None], self._sin[None, :width, None]
        room = torch.zeros(count, KV_HEADS, most, HEAD, device=device, dtype=x.dtype)
        for layer in range(LAYERS):
            at = f"blk.{layer}."
            q, k, v, out, gate, up, down = (w[f"{at}{name}.weight"] for name in LINEAR)
            queries, keys, values = _qkv(_norm(x, w[f"{at}attn_norm.weight"]), cos, sin, q, k, v)
            seen = F.scaled_dot_product_attention(queries, _many(keys), _many(values), is_causal=True)
            x = after(x, seen, out, w[f"{at}ffn_norm.weight"], gate, up, down)
            kept.append((torch.cat((keys, room), 2), torch.cat((values, room), 2)))
        rows, places = torch.arange(count, device=device), torch.arange(width + most, device=device)
        x = _norm(x[rows, lengths - 1], w["output_norm.weight"])
        position, done, said = lengths.clone(), torch.zeros(count, dtype=torch.bool, device=device), list[Tensor]()
        token = torch.full((count,), -1, dtype=torch.long, device=device)
        for step in range(most):
            token = self._likeliest(x, token)
            token = torch.where(done, torch.full_like(token, end), token)
            said.append(token)
            done |= token == end
            if step == most - 1 or (step % 8 == 7 and bool(done.all())):
                break
            x = self._step(token, position, kept, w, rows, places)
            position = position + 1
        answers = torch.stack(said, 1).tolist()
        return [each[: each.index(end)] if end in each else each for each in answers]

    def _likeliest(self, x: Tensor, before: Tensor) -> Tensor:
        logits = self.logits(x)
        for token, more in self.bias.items():
            logits[:, token] += more if self.bias_behind is None else more * (before == self.bias_behind)
        return logits.argmax(-1)

    def _step(
        self,
        token: Tensor,
        position: Tensor,
        kept: list[tuple[Tensor, Tensor]],
        w: Weights,
        rows: Tensor,
        places: Tensor,
    ) -> Tensor:
        """One more token for every prompt."""
        x = F.embedding(token, w["token_embd.weight"])[:, None]
        cos, sin = self._cos[position][:, None, None], self._sin[position][:, None, None]
        hides = (places[None] > position[:, None])[:, None, None]
        for layer, (keys, values) in enumerate(kept):
            at = f"blk.{layer}."
            q, k, v, out, gate, up, down = (w[f"{at}{name}.weight"] for name in LINEAR)
            query, key, value = _qkv(_norm(x, w[f"{at}attn_norm.weight"]), cos, sin, q, k, v)
            keys[rows, :, position], values[rows, :, position] = key[:, :, 0], value[:, :, 0]
            grouped = query.view(len(rows), KV_HEADS, HEADS // KV_HEADS, HEAD)
            scores = (grouped @ keys.transpose(2, 3)).float() / HEAD**0.5
            seen = torch.softmax(scores.masked_fill(hides, float("-inf")), -1).to(x.dtype) @ values
            x = after(x, seen.reshape(len(rows), HEADS, 1, HEAD), out, w[f"{at}ffn_norm.weight"], gate, up, down)
        return _norm(x[:, 0], w["output_norm.weight"])
