"""Run the `toolspeak` command with `python -m toolspeak`."""

from .cli import main

main(prog_name="toolspeak")
