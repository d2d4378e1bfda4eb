"""Planning: model capabilities, the choice of a plan for each request, and probes that measure a model."""
