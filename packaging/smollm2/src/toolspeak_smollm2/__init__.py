"""The adapter of toolspeak's embedded model, as a file in this package."""

from pathlib import Path

ADAPTER = Path(__file__).with_name("smollm2-135m-tools.gguf")
