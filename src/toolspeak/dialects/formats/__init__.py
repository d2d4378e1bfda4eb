"""Further dialects, one module each, which defines `DIALECT`: those with code that no table can name."""
