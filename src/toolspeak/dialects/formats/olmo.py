"""OLMo 3: Python calls on separate lines inside `<function_calls>`."""

from ..dialect import Dialect
from ..rendering import each_call, python_call

DIALECT = Dialect(
    "olmo",
    accepts=frozenset({"tool_calls"}),
    style=each_call(lambda call, nonce: python_call(call)),
    before="<function_calls>",
    after="</function_calls>",
    families="OLMo 3",
    rank=16,
)
