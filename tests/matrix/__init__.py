"""Every plan with every tool choice and every way a model may answer, streamed and not."""
