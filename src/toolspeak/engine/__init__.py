"""Pure decisions above dialects and protocols: turns, prompts, plans, constraints, rounds, refusals.

`read_toml` reads the tables and texts that are kept as TOML files beside the code.
"""

from typing import TypeVar

import msgspec

_T = TypeVar("_T")


def read_toml(path: str, kind: type[_T]) -> _T:
    """Read a file of this package as a value of the type `kind`."""
    # Imported here because this import takes longer than most modules that need a file.
    from importlib.resources import files

    return msgspec.toml.decode(files(__package__ or "").joinpath(path).read_bytes(), type=kind)
