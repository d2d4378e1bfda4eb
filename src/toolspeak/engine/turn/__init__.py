"""One turn: from a request to the answer, with retries and repairs."""
