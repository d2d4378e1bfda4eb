"""Tool parameter schemas: validate, coerce, explain."""
