"""The mean of adapters: what several goes of training agree on.

    python -m training.mean old.gguf new.gguf mean.npz
    python -m training.mean whole.npz adapter.npz --rank 32      # of one alone: the adapter nearest to it

The change that an adapter makes to a matrix is B times A. The mean of these changes has the ranks of all adapters
together; its greatest singular values are kept, as many as an adapter has. Where one adapter went on from the other
little is lost by that, and the share is told. Above: nothing. Below: `train`, numpy.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from .train import kept_matrices


def mean(adapters: list[dict[str, np.ndarray]], rank: int) -> tuple[dict[str, np.ndarray], float]:
    """The mean, and the greatest share of a matrix's change that was cut off."""
    found: dict[str, np.ndarray] = {}
    lost = 0.0
    for name in sorted({each[:-2] for each in adapters[0]}):
        b = np.hstack([each[f"{name}.B"] for each in adapters]).astype(np.float64) / len(adapters)
        a = np.vstack([each[f"{name}.A"] for each in adapters]).astype(np.float64)
        left, values, right = _singular(b, a)
        half = np.sqrt(values[:rank])  # both halves of about the same size, so that half precision loses little
        found[f"{name}.B"] = (left[:, :rank] * half).astype(np.float16)
        found[f"{name}.A"] = (half[:, None] * right[:rank]).astype(np.float16)
        lost = max(lost, float((values[rank:] ** 2).sum() / (values**2).sum()))
    return found, lost


def _singular(b: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The singular values of `b @ a`, without writing that matrix out."""
    left, inner_left = np.linalg.qr(b)
    right, inner_right = np.linalg.qr(a.T)
    u, values, v = np.linalg.svd(inner_left @ inner_right.T, full_matrices=False)
    return left @ u, values, v @ right.T


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adapters", nargs="+", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--rank", type=int, default=32)
    asked = parser.parse_args()
    matrices, share = mean([kept_matrices(each) for each in asked.adapters], asked.rank)
    np.savez(asked.target, **matrices)
    print(f"{share:.2%} of a matrix's change were cut off at most")
