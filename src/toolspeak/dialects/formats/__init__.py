"""The dialects, one module each, which defines `DIALECT`. `registry` finds the modules by itself."""
