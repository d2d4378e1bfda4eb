"""FunctionGemma: `call:name{key:<escape>text<escape>}` between tags."""

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect
from ..rendering import each_between, quoted_arguments

DIALECT = Dialect(
    "functiongemma",
    style=each_between(
        "<start_function_call>",
        lambda call: f"call:{call.name}{quoted_arguments(call, '<escape>')}",
        "<end_function_call>",
        separator="",
    ),
    families="FunctionGemma",
    rank=27,
    tags={"start_function_call": Opening("functiongemma", stops=("<end_function_call>",))},
)
