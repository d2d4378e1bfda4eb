"""The parts of `schema`: parameters put in order, arguments aligned by small rules, and why they do not fit.

Above: `schema`, `evidence`, the contract. Below: the values.
"""
