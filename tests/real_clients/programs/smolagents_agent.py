"""A smolagents agent that calls tools, once whole and once streamed. Argument: the errand."""

import os
import sys

from smolagents import OpenAIModel, ToolCallingAgent, tool
from tools import read_text, write_text

model = OpenAIModel("m", api_base=f"{os.environ['SERVER_URL']}/v1", api_key="any")
for stream in (False, True):
    agent = ToolCallingAgent([tool(read_text), tool(write_text)], model, stream_outputs=stream, max_steps=5)
    print("streamed:" if stream else "whole:", agent.run(sys.argv[1]))
