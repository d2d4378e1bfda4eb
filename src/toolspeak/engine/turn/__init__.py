"""One turn: sends a request upstream, repairs or retries the model's answer, and returns the result."""
