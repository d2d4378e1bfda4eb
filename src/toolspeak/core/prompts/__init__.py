"""What models are told, piece by piece: tools as signatures, examples, earlier rounds, and marks that nobody can guess.

Above: `contract` and `history`, which put it together. Below: the dialects and the values. The adapter of the embedded
model was trained on these words: another wording asks for another training.
"""
