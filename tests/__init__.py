"""The tests of toolspeak."""
