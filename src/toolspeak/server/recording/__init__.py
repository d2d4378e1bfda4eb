"""Recording of requests in memory and in the store, and the inspector's views of them."""
