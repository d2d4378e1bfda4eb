"""The two tools of the small programs: plain functions, as a user would write them."""

from pathlib import Path


def read_text(path: str) -> str:
    """Read a text file.

    Args:
        path: where it is
    """
    return Path(path).read_text(encoding="utf-8")


def write_text(path: str, text: str) -> str:
    """Write a text file.

    Args:
        path: where it goes
        text: what it holds
    """
    # Added, not replaced: whoever checks sees how often it ran.
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(text)
    return f"wrote {len(text)} characters"
