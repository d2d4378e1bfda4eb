"""HTTP upstreams: connections, transports, retries, event streams."""
