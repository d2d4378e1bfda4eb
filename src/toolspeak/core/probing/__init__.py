"""What a model can do, found out by asking it: small questions, what their answers show, and the verdict on both.

Above: `probe`, which asks. Below: the turns, the dialects, the values. What is kept of it is `verdicts`.
"""
