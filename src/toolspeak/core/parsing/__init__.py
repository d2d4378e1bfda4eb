"""From model text to events: scanner, call builder, acceptance rules."""
