"""Trust in project files: a file in the working directory counts only after the user has approved its content.

The state stores the hash of the approved content, so any later change must be approved again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..key_value import State


def trusted(state: State, path: Path, data: bytes) -> bool:
    """Whether the user trusts this file with this content."""
    return state.get(_key(path)) == _digest(data)


def record_trust(state: State, path: Path, data: bytes) -> str:
    """Trust a file with this content; return the hash of the content."""
    digest = _digest(data)
    state.put(_key(path), digest)
    return digest


def untrust(state: State, path: Path) -> None:
    """Stop trusting a file."""
    state.delete(_key(path))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _key(path: Path) -> str:
    return f"trust:{path.resolve()}"
