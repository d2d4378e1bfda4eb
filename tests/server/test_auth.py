from toolspeak.core.constraint import response_constraint, wire_options
s={"type":"object","properties":{"code":{"enum":["QX7"]}},"required":["code"],"additionalProperties":False}
for f in ("json_schema","openai_strict","gbnf"):
    c=response_constraint(s,f); print(c); print(wire_options(c,"openai_chat"))
from toolspeak.core.contract import inline_contract
from toolspeak.core.model import *
t=Tool("lookup_code","Look up the code of one item.",{"type":"object","properties":{"item":{"type":"string"}},"required":["item"]})
for d in ("action","hermes","invoke","react","pythonic","tool_line"):
    c=inline_contract((t,),ToolChoice(),d,nonce="k7q2xm",budget=2000); print(d,c.tokens); 
    print(c.tail)
print(c.stable)
