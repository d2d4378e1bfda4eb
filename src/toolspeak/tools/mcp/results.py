"""What an MCP server offers and answers, in our own terms, with bounds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from ...core.types import Media
from ...errors import ToolError
from ..base import ToolOutput
from .approved_definitions import Definition

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock
    from mcp_types import Tool as OfferedTool

#: Characters of one result, media included: far more than any model reads.
MOST_RESULT = 16 * 1024 * 1024
#: Characters of text in one result.
MOST_TEXT = 1024 * 1024
_MIME = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,80}")


def definition_of(offered: OfferedTool) -> Definition:
    """A tool as its server describes it."""
    return Definition(offered.name, offered.description or "", offered.input_schema)


def output_of_result(result: CallToolResult, server: str) -> ToolOutput:
    """A result as the model reads it.

    Raises:
        ToolError: it is too large.
    """
    texts: list[str] = []
    media: list[Media] = []
    size = 0
    for block in result.content:
        found = _read(block)
        size += len(found.url if isinstance(found, Media) else found)
        if size > MOST_RESULT:
            raise ToolError(f"the result of the server `{server}` is larger than {MOST_RESULT} characters")
        if isinstance(found, Media):
            media.append(found)
        else:
            texts.append(found)
    if not texts and result.structured_content is not None:
        texts.append(msgspec.json.encode(result.structured_content).decode())
    text = "\n".join(texts)
    if len(text) > MOST_TEXT:
        raise ToolError(f"the result of the server `{server}` has {len(text)} characters, more than {MOST_TEXT}")
    return ToolOutput(text or ("" if media else "done"), error=result.is_error, parts=tuple(media))


def _read(block: ContentBlock) -> str | Media:
    match block.type:
        case "text":
            return block.text
        case "image":
            return Media("image", _data_url(block.mime_type, block.data))
        case "audio":
            return Media("audio", _data_url(block.mime_type, block.data))
        case "resource_link":
            return f"[resource {block.uri}]"
        case "resource":
            inner = block.resource
            text = getattr(inner, "text", None)
            if isinstance(text, str):
                return f"[resource {inner.uri}]\n{text}"
            return Media("file", _data_url(inner.mime_type or "", getattr(inner, "blob", "")))
        case _:
            return "[a part of an unknown kind]"


def _data_url(kind: str, data: str) -> str:
    """The kind comes from the server, and must not become another part of the URL."""
    return f"data:{kind if _MIME.fullmatch(kind.lower()) else 'application/octet-stream'};base64,{data}"
