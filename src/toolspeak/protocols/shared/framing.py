"""How messages are told apart on the wire: server-sent events and lines of JSON, on bytes.

Incremental, linear and bounded: a read may end at any byte, also inside a character, and never changes what comes
out. Lines end at LF, CR or CRLF and nowhere else, so U+2028 and its like stay inside the data. `Template` is a
shortcut for streams in which one frame differs from the next only by a text.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

#: Largest event or line that is kept: a picture inside an answer takes some megabytes, an endless line takes all
#: memory there is.
MAX_EVENT = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_CR, _LF, _COLON = 13, 10, 58
_END = b"\n\n"
#: What a frame is padded with, and what stands behind it.
_PADDING, _CLOSED = b'"obfuscation":"', b'"}'
_PLAIN = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_read_text = msgspec.json.Decoder(str).decode
_read_texts = msgspec.json.Decoder(list[str]).decode


class ServerEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that says more than its data."""

    data: bytes
    event: str = ""
    id: str = ""


class FrameError(msgspec.Struct, frozen=True, gc=False):
    """The stream cannot be read any further; nothing comes after this."""

    message: str


#: An event with nothing but data is that data.
Frame: TypeAlias = bytes | ServerEvent | FrameError


class _Lines:
    """Bytes into complete lines, with any of the three line ends; a byte order mark at the start is skipped."""

    __slots__ = ("_after_cr", "_begun", "_rest")

    def __init__(self) -> None:
        self._begun = False
        self._after_cr = False
        self._rest = bytearray()

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished line are kept."""
        return len(self._rest)

    @property
    def idle(self) -> bool:
        """Whether the next byte begins a line."""
        return self._begun and not self._after_cr and not self._rest

    def feed(self, data: bytes) -> list[bytes]:
        if not self._begun:
            data = self._begin(data)
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == _LF:
                data = data[1:]
        if _CR in data:
            self._after_cr = data[-1] == _CR
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if _LF not in data:
            self._rest += data
            return []
        if self._rest:
            data = bytes(self._rest) + data
        lines = data.split(b"\n")
        self._rest = bytearray(lines.pop())
        return lines

    def _begin(self, data: bytes) -> bytes:
        data = bytes(self._rest) + data
        self._rest.clear()
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._rest += data
            return b""
        self._begun = True
        return data.removeprefix(_BOM)

    def close(self) -> bytes:
        rest = bytes(self._rest)
        self._rest.clear()
        return rest


class SSEDecoder:
    """Server-sent events as WHATWG's HTML standard, 9.2.6, reads them, but for the end: a last event that lacks its
    blank line is given, for many servers forget it. Comments, `retry` and unknown fields are skipped.
    """

    __slots__ = ("_broken", "_data", "_event", "_id", "_limit", "_lines", "_size")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._lines = _Lines()
        self._broken = False
        self._reset()

    def _reset(self) -> None:
        self._data: list[bytes] = []
        self._size = 0
        self._event = self._id = ""

    @property
    def idle(self) -> bool:
        """Whether the next byte begins an event."""
        return self._lines.idle and not (self._data or self._event or self._id or self._broken)

    def feed(self, data: bytes) -> list[Frame]:
        """The events that these bytes complete."""
        if data[:6] == b"data: " and self._is_one_line(data) and self.idle:
            return [data[6:-2]]
        frames: list[Frame] = []
        if self._broken:
            return frames
        for line in self._lines.feed(data):
            if self._size + len(line) > self._limit:
                break
            if line:
                self._line(line)
            elif self._data:
                frames.append(self._dispatch())
            else:
                self._reset()
        else:
            if self._size + self._lines.pending <= self._limit:
                return frames
        self._broken = True
        frames.append(FrameError(f"an event is larger than {self._limit} bytes"))
        return frames

    def _is_one_line(self, data: bytes) -> bool:
        """What most servers send: one event, on one line, in one read."""
        end = len(data) - 2
        return end <= self._limit and data.find(b"\n") == end and data[-1] == _LF and _CR not in data

    def close(self) -> list[Frame]:
        """What was still open when the stream ended."""
        if self._broken:
            return []
        rest = self._lines.close()
        if rest:
            self._line(rest)
        self._broken = True
        return [self._dispatch()] if self._data else []

    def _line(self, line: bytes) -> None:
        if line[:6] == b"data: ":
            self._keep(line[6:])
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._keep(value)
            case b"event":
                self._event = value.decode("utf-8", "replace")
            case b"id":
                self._id = value.decode("utf-8", "replace")
            case _:  # comments have no name
                pass

    def _keep(self, value: bytes) -> None:
        self._data.append(value)
        self._size += len(value) + 1

    def _dispatch(self) -> Frame:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        frame = ServerEvent(data, self._event, self._id) if self._event or self._id else data
        self._reset()
        return frame


class NDJSONDecoder:
    """One JSON document on each line; blank lines are skipped."""

    __slots__ = ("_broken", "_limit", "_lines")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._lines = _Lines()
        self._broken = False

    def feed(self, data: bytes) -> list[bytes | FrameError]:
        """The lines that these bytes complete."""
        frames: list[bytes | FrameError] = []
        if self._broken:
            return frames
        for line in self._lines.feed(data):
            if len(line) > self._limit:
                break
            if line.strip():
                frames.append(line)
        else:
            if self._lines.pending <= self._limit:
                return frames
        self._broken = True
        frames.append(FrameError(f"a line is longer than {self._limit} bytes"))
        return frames

    def close(self) -> list[bytes | FrameError]:
        """The last line, if its end was forgotten."""
        if self._broken:
            return []
        self._broken = True
        rest = self._lines.close()
        return [rest] if rest.strip() else []


def encode_sse(data: bytes, event: str = "") -> bytes:
    """One server-sent event."""
    head = b"event: " + event.encode() + b"\n" if event else b""
    if _LF in data or _CR in data:
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        return head + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
    return head + b"data: " + data + b"\n\n"


def joined_texts(tokens: Sequence[bytes]) -> str | None:
    """The texts of JSON strings, each on a line, joined; None when one of them is none."""
    # No string of JSON holds a line end, so none reaches over those that are put in here.
    lines = b"[" + b",\n".join(tokens) + b"]"
    if lines.count(b"\n") >= max(len(tokens), 1) or _CR in lines:
        return None
    try:
        read = _read_texts(lines)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    # More strings than frames: a frame held two, which is no JSON.
    return "".join(read) if len(read) == len(tokens) else None


def _text_of(token: bytes) -> str | None:
    """The text of a JSON string; None when it is none, or stands on more than one line."""
    if _LF in token or _CR in token:
        return None
    try:
        return _read_text(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class Template:
    """What the frames of a stream have in common before and behind the one text in which they differ.

    A read that begins with `head`, ends with `tail` and holds only JSON strings between them is, byte for byte, a
    run of frames that mean the same but for their text. So they need no parsing, and no guess is involved.
    """

    __slots__ = ("_common", "_head", "_inside", "_joint", "_tail")
    #: Whether frames differ by more than their text.
    varied = False

    def __init__(self, head: bytes, tail: bytes) -> None:
        self._head = head
        self._tail = tail
        self._common = len(head) + len(tail)
        self._joint = tail + head
        #: Where the text stands in the one line of a frame.
        self._inside = slice(len(head), -tail.index(b"\n"))

    @property
    def spaced(self) -> bool:
        """Whether a space stands before the data of its frames, as `encode_sse` writes it."""
        return (b"\n" + self._head).find(b"\ndata: ") >= 0

    @property
    def crlf(self) -> bool:
        """Whether the lines of its frames end in two characters, which `encode_sse` does not write."""
        return _CR in self._tail

    def read(self, data: bytes) -> str | None:
        """The text of the frames, joined; None when these bytes are anything else."""
        text = data.removeprefix(self._head).removesuffix(self._tail)
        if len(data) - len(text) != self._common:
            return None
        found = _text_of(text)
        return found if found is not None else self._read_run(data)

    def run(self, data: bytes) -> tuple[str, bytes] | None:
        """The text of the frames that these bytes begin with, joined, and what follows them; None when there are none.

        No JSON string holds the line ends between two frames, so they are parted by these.
        """
        if not data.startswith(self._head):
            return None
        *texts, last = data[len(self._head) :].split(self._joint)
        text, ended, rest = last.partition(self._tail)
        if ended:
            texts.append(text)
        elif texts:
            rest = self._head + last
        else:
            return None
        joined = joined_texts(texts)
        return (joined, rest) if joined is not None else None

    def _read_run(self, data: bytes) -> str | None:
        """The texts of several frames; to put them together again and compare is quicker than to look at each."""
        texts = [line[self._inside] for line in data.split(b"\n")[:-1:2]]
        return joined_texts(texts) if self._head + self._joint.join(texts) + self._tail == data else None

    @classmethod
    def learn(cls, read: bytes, payload: bytes, key: bytes, text: str) -> Template | None:
        """The template of the frame with this payload, in which `text` is the value of `key`.

        `read` is the data it came in: it shows how this server writes its frames.
        """
        at = payload.find(key)
        token = b'"' + text.encode() + b'"'
        start = at + len(key) + (payload[at + len(key) : at + len(key) + 1] == b" ")
        end = start + len(token)
        if at < 0 or payload[start:end] != token or payload.find(key, end) >= 0:
            return None
        # An escape could hide a second key of this name; a line end means that the data stood on several lines.
        if b"\\" in payload or _LF in payload:
            return None
        opening = b"data: " if b"data: {" in read else b"data:"
        closing = b"\r\n\r\n" if _CR in read else _END
        return cls(opening + payload[:start], payload[end:] + closing)


class FramewiseTemplate(Template):
    """A template of frames that differ by more than their text: each is looked at by itself."""

    __slots__ = ()
    varied = True

    @abstractmethod
    def _text(self, frame: bytes) -> str | None:
        """The text of a frame without its end; None when it is another."""

    def run(self, data: bytes) -> tuple[str, bytes] | None:
        """The text of the frames that these bytes begin with, joined, and what follows; None when there are none."""
        frames = data.split(_END)
        texts: list[str] = []
        for frame in frames[:-1] if _CR not in data else ():
            text = self._text(frame)
            if text is None:
                break
            texts.append(text)
        return ("".join(texts), _END.join(frames[len(texts) :])) if texts else None

    def _read_run(self, data: bytes) -> str | None:
        found = self.run(data)
        return found[0] if found is not None and not found[1] else None


class PaddedTemplate(FramewiseTemplate):
    """A template of frames that end with padding, which hides from listeners how long their texts are."""

    __slots__ = ("_back",)

    def __init__(self, head: bytes, back: bytes) -> None:
        super().__init__(head, _END)
        self._back = back

    @classmethod
    def padded(cls, template: Template) -> Template:
        """The same template, or one that knows its padding."""
        back, key, padding = template._tail.partition(_PADDING)
        return cls(template._head, back + key) if _is_padding(padding, _CLOSED + _END) else template

    def read(self, data: bytes) -> str | None:
        """The text of the frames, joined; None when these bytes are anything else."""
        body = data.removeprefix(self._head)
        if len(body) == len(data):
            return None
        # No JSON string holds the quotes that the rest of a frame begins with.
        token, _, padding = body.partition(self._back)
        return _text_of(token) if _is_padding(padding, _CLOSED + _END) else self._read_run(data)

    def _text(self, frame: bytes) -> str | None:
        # A frame by itself: `read` never comes back here with it.
        body = frame.removeprefix(self._head)
        token, _, padding = body.partition(self._back)
        return _text_of(token) if len(body) < len(frame) and _is_padding(padding, _CLOSED) else None


def _is_padding(rest: bytes, end: bytes) -> bool:
    """Whether this is padding and the end of its frame, and nothing behind it: not even letters of the next frame."""
    padding = rest.removesuffix(end)
    return len(padding) < len(rest) and not padding.translate(None, _PLAIN)
