"""What is never trained on: one in so many, by a sum of its name, so that no list has to be kept.

Above: `dataset`, `recorded`, `tasks`. Below: nothing.
"""

from __future__ import annotations

import zlib


def is_held_out(name: str, one_in: int) -> bool:
    """Whether what is called so is among those that are not trained on."""
    return zlib.crc32(name.encode()) % one_in == 0
