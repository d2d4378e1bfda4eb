"""Quick check whether any installed package may have plugins, so that programs without plugins load nothing else."""

import os
from collections.abc import Iterable
from contextlib import suppress

_METADATA_SUFFIXES = (".dist-info", ".egg-info")  # suffixes of the folders that contain a distribution's metadata
_ENTRY_POINTS_FILE = "entry_points.txt"  # file in such a folder that declares entry points
_GROUP_PREFIX = b"[toolspeak."  # how every group of plugins begins in it


def any_installed(path: Iterable[str]) -> bool:
    """Whether anything on the path may have plugins. Reading all metadata takes a hundred times as long as this."""
    return any(map(_may_have_plugins, path))


def _may_have_plugins(place: str) -> bool:
    """Whether a distribution in this folder may declare plugins. Always true for archives, which are not searched."""
    try:
        with os.scandir(place or ".") as entries:
            names = [each.name for each in entries if each.name.endswith(_METADATA_SUFFIXES)]
    except FileNotFoundError:
        return False
    except OSError:  # an archive
        return True
    return any(_declares_plugins(os.path.join(place, name, _ENTRY_POINTS_FILE)) for name in names)


def _declares_plugins(path: str) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError):
        try:
            with open(path, "rb") as file:
                data = file.read()
        except PermissionError:  # the error is reported when the metadata is read
            return True
        return _GROUP_PREFIX in data
    return False
