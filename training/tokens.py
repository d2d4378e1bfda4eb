"""The tokeniser of the embedded model, built from the vocabulary in its GGUF file. Needs `tokenizers` and `gguf`."""

from __future__ import annotations

from pathlib import Path

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

#: Kinds of tokens in a GGUF file that stand for themselves and are never put together from others.
_CONTROL, _USER_DEFINED = 3, 4
END = "<|im_end|>"


def tokenizer(weights: Path) -> Tokenizer:
    """The tokeniser of the model in this file."""
    reader = GGUFReader(str(weights))
    tokens = _texts(reader, "tokenizer.ggml.tokens")
    merges = [tuple(each.split(" ", 1)) for each in _texts(reader, "tokenizer.ggml.merges")]
    field = reader.fields["tokenizer.ggml.token_type"]
    kinds = [int(field.parts[at][0]) for at in field.data]
    found = Tokenizer(models.BPE({token: at for at, token in enumerate(tokens)}, merges))  # type: ignore[arg-type]
    found.pre_tokenizer = pre_tokenizers.Sequence(  # type: ignore[assignment]
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    found.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind in (_CONTROL, _USER_DEFINED)]
    found.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    return found


def _texts(reader: GGUFReader, key: str) -> list[str]:
    field = reader.fields[key]
    return [bytes(field.parts[at]).decode("utf-8") for at in field.data]
