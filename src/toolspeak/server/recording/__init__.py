"""Recording of requests, in memory and in the store, and the views of the inspector."""
