"""HTTP upstreams: connections, transports, retries and event streams."""
