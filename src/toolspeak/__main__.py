"""Makes `python -m toolspeak` equivalent to the `toolspeak` command."""

from .cli import main

main(prog_name="toolspeak")
