"""Sans-IO core that all other packages build on: types, events, schemas, JSON repair, parsing."""
