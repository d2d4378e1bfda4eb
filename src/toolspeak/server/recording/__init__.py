"""What is kept of requests, in memory and beyond, and how people see it: the inspector's side of the server."""
