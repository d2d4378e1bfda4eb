"""HTTP connections of clients, and the requests on them."""
