"""The parts of a turn, which `engine` drives: its phases, what is asked in each, what leaves, what stays.

Above: `engine`, and who carries out what it wants. Below: the reader, the contract, the history, the values.
"""
