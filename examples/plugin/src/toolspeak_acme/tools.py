"""A tool for agents: an ordinary function."""

import toolspeak as ts

METRES = {"metre": 1.0, "kilometre": 1000.0, "mile": 1609.344, "foot": 0.3048}


@ts.tool(read_only=True)
def convert_length(value: float, unit: str, into: str) -> float:
    """Convert a length.

    Args:
        value: the length in `unit`.
        unit: metre, kilometre, mile or foot.
        into: the unit to convert to.
    """
    return round(value * METRES[unit] / METRES[into], 6)


TOOLS = [convert_length]
