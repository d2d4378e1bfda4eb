"""The pure core: values, events, tolerant JSON, schemas, the scanner. No IO, no clock, no randomness."""
