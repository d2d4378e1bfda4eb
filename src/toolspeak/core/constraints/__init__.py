"""Forms that an upstream can enforce: what a schema becomes in each flavour, and what it loses there.

Above: `constraint`, which chooses; the embedded model. Below: the schemas and the values.
"""
