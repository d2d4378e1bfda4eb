"""Lets `python -m toolspeak` stand for the `toolspeak` command."""

from .cli import main

main(prog_name="toolspeak")
