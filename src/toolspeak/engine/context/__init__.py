"""The model's context window: how much of it a request takes, and how a conversation is made to fit."""
