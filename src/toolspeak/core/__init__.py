"""Pure foundations below everything else: types, events, schemas, JSON repair, parsing."""
