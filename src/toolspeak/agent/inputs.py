"""Input of an agent: converts a text, parts such as images, or messages to the messages that start a run.

Files are read only if the caller passes a `Path`.
"""

import mimetypes
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, cast

import msgspec

from ..core.text import system_reason
from ..core.types import MEDIA_KINDS, JSONObject, JSONValue, Media, MediaKind, Message, Part, TextPart
from ..errors import UsageError
from ..protocols import openai_chat

#: One part of a task. A path or bytes stand for the content of a file; an object is a content part in OpenAI's format.
TaskPart: TypeAlias = str | TextPart | Media | Path | bytes | Mapping[str, JSONValue]
#: What an agent can be asked: a text, parts, one message, or a conversation. A message may be an object in OpenAI's
#: format.
Task: TypeAlias = (
    str | Message | TextPart | Media | Path | Sequence[TaskPart] | Sequence[Message | Mapping[str, JSONValue]]
)

#: Maximum size of a file in a task. Providers accept at most about 20 MB per request.
MAX_FILE_BYTES = 20 * 1024 * 1024
#: First bytes of file formats, bytes 8 to 11 if they matter, and media types.
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", b"", "image/png"),
    (b"\xff\xd8\xff", b"", "image/jpeg"),
    (b"GIF8", b"", "image/gif"),
    (b"RIFF", b"WEBP", "image/webp"),
    (b"RIFF", b"WAVE", "audio/wav"),
    (b"%PDF-", b"", "application/pdf"),
)
_HINT = 'for example agent.run("..."), or agent.run(["What is this?", Path("photo.png")])'


def task_messages(task: Task) -> tuple[Message, ...]:
    """Convert a task to messages.

    Raises UsageError if the task is empty, or is neither a text nor parts nor messages.
    """
    if isinstance(task, str | TextPart | Media | Path):
        return (_user_message([task]),)
    if isinstance(task, Message):
        return _checked((task,))
    if isinstance(task, bytes | Mapping) or not isinstance(task, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"the task must be a text or a list, not a `{type(task).__name__}`", hint=_HINT)
    items = list(cast("Sequence[object]", task))
    if any(_is_message(item) for item in items):
        return _checked(tuple(map(_message, items)))
    return (_user_message(items),)


def _is_message(item: object) -> bool:
    return isinstance(item, Message) or (isinstance(item, Mapping) and "role" in item)


def _message(item: object) -> Message:
    if isinstance(item, Message):
        return item
    if not _is_message(item):
        hint = "pass either messages or parts of one message"
        raise UsageError(f"a list of messages contains a `{type(item).__name__}`", hint=hint)
    return _decoded(cast("Mapping[str, JSONValue]", item))


def _decoded(item: Mapping[str, JSONValue]) -> Message:
    """Decode a message in OpenAI's format. It names its protocol, so that its extra fields are kept."""
    message = openai_chat.decode_request({"model": "model", "messages": [dict(item)]}).messages[0]
    return msgspec.structs.replace(message, protocol=openai_chat.PROTOCOL)


def _checked(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    last = messages[-1]
    if last.role not in ("user", "tool"):
        hint = "add a message with the role `user`"
        raise UsageError(f"the last message must be from the user, not from the {last.role}", hint=hint)
    if not last.results and not _has_content(last.parts):
        raise UsageError("the last message is empty", hint=_HINT)
    return messages


def _has_content(parts: Sequence[Part]) -> bool:
    """Whether there is anything but white space."""
    return any(not isinstance(part, TextPart) or part.text.strip() for part in parts)


def _user_message(items: Sequence[object]) -> Message:
    parts = tuple(part for item in items for part in _parts(item))
    if not _has_content(parts):
        raise UsageError("the task must be a non-empty string, or a list of parts or messages", hint=_HINT)
    protocol = openai_chat.PROTOCOL if any(isinstance(item, Mapping) for item in items) else ""
    return Message("user", parts, protocol=protocol)


def _parts(item: object) -> Sequence[Part]:
    match item:
        case str():
            return (TextPart(item),)
        case TextPart() | Media():
            return (item,)
        case Path():
            return (_file_media(item),)
        case bytes():
            return (_media(item),)
        case Mapping():
            content: JSONObject = dict(cast("Mapping[str, JSONValue]", item))
            return _decoded({"role": "user", "content": [content]}).parts
        case _:
            hint = "use texts, `ts.Media`, paths, bytes, or parts in OpenAI's format"
            raise UsageError(f"a task cannot contain a `{type(item).__name__}`", hint=hint)


def _file_media(path: Path) -> Media:
    try:
        with path.expanduser().open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read `{path}`: {system_reason(error)}") from None
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(f"`{path}` is larger than {MAX_FILE_BYTES} bytes", hint="pass a link: ts.Media(kind, url)")
    if not data:
        raise UsageError(f"`{path}` is empty")
    return _media(data, path.name)


def _media(data: bytes, name: str = "") -> Media:
    """Make a part of data. Their first bytes say what they are, otherwise the file name does."""
    types = (kind for start, form, kind in _SIGNATURES if data.startswith(start) and data[8:12].startswith(form))
    media_type = next(types, "") or (mimetypes.guess_type(name)[0] or "").replace("audio/x-", "audio/")
    if not media_type:
        hint = "use PNG, JPEG, GIF, WebP, WAV or PDF, or pass a `data:` URL: ts.Media(kind, url)"
        raise UsageError("the format of the data is unknown", hint=hint)
    family = media_type.partition("/")[0]
    kind = cast("MediaKind", family if family in MEDIA_KINDS else "file")
    return Media(kind, f"data:{media_type};base64,{b64encode(data).decode()}")
