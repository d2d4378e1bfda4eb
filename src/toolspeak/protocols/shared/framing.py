"""Framing of byte streams: server-sent events (SSE) and newline-delimited JSON (NDJSON).

Decoding is incremental, in linear time and bounded memory. A read may end at any byte, even inside a character. Only
LF, CR and CRLF end a line; characters such as U+2028 are part of the data. `FrameTemplate` is a fast path for streams
whose frames differ only in one text.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self, TypeAlias

import msgspec

#: Maximum size of an event or line. Inline images need several megabytes; an endless line must not exhaust memory.
MAX_EVENT = 16 * 1024 * 1024

BOM = b"\xef\xbb\xbf"
_CR, _LF = 13, 10
_END = b"\n\n"
#: The bytes before and after the padding in a frame.
_PADDING, _CLOSED = b'"obfuscation":"', b'"}'
_PLAIN = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_parse_string = msgspec.json.Decoder(str).decode
_parse_strings = msgspec.json.Decoder(list[str]).decode


class ServerEvent(msgspec.Struct, frozen=True, gc=False):
    """A server-sent event with a name or an id."""

    data: bytes
    event: str = ""
    id: str = ""


class FrameError(msgspec.Struct, frozen=True, gc=False):
    """An error that ends decoding. It is always the last frame."""

    message: str


#: An event that has neither a name nor an id is represented by its data.
Frame: TypeAlias = bytes | ServerEvent | FrameError


class _LineSplitter:
    """Splits bytes into lines that end in LF, CR or CRLF. Skips a byte order mark at the start."""

    def __init__(self) -> None:
        self._started = False
        self._after_cr = False
        self._rest = bytearray()

    @property
    def pending(self) -> int:
        return len(self._rest)

    @property
    def idle(self) -> bool:
        """Whether the next byte starts a new line."""
        return self._started and not self._after_cr and not self._rest

    def feed(self, data: bytes) -> list[bytes]:
        if not self._started:
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
        if len(data) < len(BOM) and BOM.startswith(data):
            self._rest += data
            return b""
        self._started = True
        return data.removeprefix(BOM)

    def close(self) -> bytes:
        rest = bytes(self._rest)
        self._rest.clear()
        return rest


class SSEDecoder:
    """Decoder for server-sent events (WHATWG HTML standard, 9.2.6). Skips comments, `retry` and unknown fields.

    Unlike the standard, it also returns a last event without a blank line, because many servers omit that line.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._lines = _LineSplitter()
        self._broken = False
        self._reset()

    def _reset(self) -> None:
        self._data: list[bytes] = []
        self._size = 0
        self._event = self._id = ""

    @property
    def idle(self) -> bool:
        """Whether the next byte starts a new event."""
        return self._lines.idle and not (self._data or self._event or self._id or self._broken)

    def feed(self, data: bytes) -> list[Frame]:
        """Return the events that these bytes complete."""
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
        """Whether a read consists of a single event on one line, the most common case."""
        end = len(data) - 2
        return end <= self._limit and data.find(b"\n") == end and data[-1] == _LF and _CR not in data

    def close(self) -> list[Frame]:
        """Return the unfinished event at the end of the stream, if any."""
        if self._broken:
            return []
        rest = self._lines.close()
        if rest:
            self._line(rest)
        self._broken = True
        return [self._dispatch()] if self._data else []

    def _line(self, line: bytes) -> None:
        if line[:6] == b"data: ":
            self._append_data(line[6:])
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._append_data(value)
            case b"event":
                self._event = value.decode("utf-8", "replace")
            case b"id":
                self._id = value.decode("utf-8", "replace")
            case _:  # a comment (its name is empty) or an unknown field
                pass

    def _append_data(self, value: bytes) -> None:
        self._data.append(value)
        self._size += len(value) + 1

    def _dispatch(self) -> Frame:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        frame = ServerEvent(data, self._event, self._id) if self._event or self._id else data
        self._reset()
        return frame


class NDJSONDecoder:
    """Decoder for newline-delimited JSON. Skips blank lines."""

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._lines = _LineSplitter()
        self._broken = False

    def feed(self, data: bytes) -> list[bytes | FrameError]:
        """Return the lines that these bytes complete."""
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
        """Return the last line if it lacks a line end."""
        if self._broken:
            return []
        self._broken = True
        rest = self._lines.close()
        return [rest] if rest.strip() else []


def encode_sse(data: bytes, event: str = "") -> bytes:
    head = b"event: " + event.encode() + b"\n" if event else b""
    if _LF in data or _CR in data:
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        return head + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
    return head + b"data: " + data + b"\n\n"


def join_strings(tokens: Sequence[bytes]) -> str | None:
    """Decode JSON strings and join them. Return None if one is invalid or spans several lines."""
    # A JSON string cannot contain a raw line end, so no string can extend across the line ends inserted here.
    lines = b"[" + b",\n".join(tokens) + b"]"
    if lines.count(b"\n") >= max(len(tokens), 1) or _CR in lines:
        return None
    try:
        strings = _parse_strings(lines)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    # If there are more strings than tokens, one token contained several strings and is invalid.
    return "".join(strings) if len(strings) == len(tokens) else None


def _decode_string(token: bytes) -> str | None:
    """Decode a JSON string. Return None if it is invalid or spans several lines."""
    if _LF in token or _CR in token:
        return None
    try:
        return _parse_string(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class FrameTemplate:
    """The common bytes of frames that differ only in one text, so that matching frames need not be parsed.

    If a read consists of `head`, a JSON string and `tail`, possibly repeated, its frames differ from the original frame
    only in their text. The match is exact.
    """

    __slots__ = ("_common", "_head", "_inside", "_joint", "_tail")
    #: Whether matching frames can differ in more than their text.
    varied = False

    def __init__(self, head: bytes, tail: bytes) -> None:
        self._head = head
        self._tail = tail
        self._common = len(head) + len(tail)
        self._joint = tail + head
        #: Position of the text within the single line of a frame.
        self._inside = slice(len(head), -tail.index(b"\n"))

    @property
    def spaced(self) -> bool:
        """Whether a space follows `data:`, as in the output of `encode_sse`."""
        return (b"\n" + self._head).find(b"\ndata: ") >= 0

    @property
    def crlf(self) -> bool:
        """Whether lines end in CRLF, which `encode_sse` never writes."""
        return _CR in self._tail

    def read(self, data: bytes) -> str | None:
        """Return the joined text of all frames. Return None if the bytes do not match the template."""
        token = data.removeprefix(self._head).removesuffix(self._tail)
        if len(data) - len(token) != self._common:
            return None
        text = _decode_string(token)
        return text if text is not None else self._read_run(data)

    def run(self, data: bytes) -> tuple[str, bytes] | None:
        """Return the joined text of the leading frames that match, and the remaining bytes; None if none match.

        JSON strings contain no raw line ends, so splitting at the line ends between frames is safe.
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
        joined = join_strings(texts)
        return (joined, rest) if joined is not None else None

    def _read_run(self, data: bytes) -> str | None:
        """Return the joined text of several frames. Rebuilding the read is faster than matching each frame."""
        texts = [line[self._inside] for line in data.split(b"\n")[:-1:2]]
        return join_strings(texts) if self._head + self._joint.join(texts) + self._tail == data else None

    @classmethod
    def learn(cls, read: bytes, payload: bytes, key: bytes, text: str) -> Self | None:
        """Derive a template from the payload of a frame in which `text` is the value of `key`.

        `read` is the data that contained the frame. It shows how the server formats its frames.
        """
        at = payload.find(key)
        token = b'"' + text.encode() + b'"'
        start = at + len(key) + (payload[at + len(key) : at + len(key) + 1] == b" ")
        end = start + len(token)
        if at < 0 or payload[start:end] != token or payload.find(key, end) >= 0:
            return None
        # An escape could hide a second occurrence of the key. A line end means that the data spans several lines.
        if b"\\" in payload or _LF in payload:
            return None
        opening = b"data: " if b"data: {" in read else b"data:"
        closing = b"\r\n\r\n" if _CR in read else _END
        return cls(opening + payload[:start], payload[end:] + closing)


class FramewiseTemplate(FrameTemplate):
    """A template for frames that differ in more than their text, so each frame is matched separately."""

    __slots__ = ()
    varied = True

    @abstractmethod
    def _text(self, frame: bytes) -> str | None:
        """Return the text of a frame, given without its blank line. Return None if the frame does not match."""

    def run(self, data: bytes) -> tuple[str, bytes] | None:
        """Return the joined text of the leading frames that match, and the remaining bytes; None if none match."""
        frames = data.split(_END)
        texts: list[str] = []
        for frame in frames[:-1] if _CR not in data else ():
            text = self._text(frame)
            if text is None:
                break
            texts.append(text)
        return ("".join(texts), _END.join(frames[len(texts) :])) if texts else None

    def _read_run(self, data: bytes) -> str | None:
        run = self.run(data)
        return run[0] if run is not None and not run[1] else None


class PaddedTemplate(FramewiseTemplate):
    """A template for frames with random padding, which some servers add to hide the length of the text."""

    __slots__ = ("_back",)

    def __init__(self, head: bytes, back: bytes) -> None:
        super().__init__(head, _END)
        self._back = back

    @classmethod
    def padded(cls, template: FrameTemplate) -> FrameTemplate:
        """Return a padded version of the template if its frames end in padding, otherwise the template itself."""
        back, key, padding = template._tail.partition(_PADDING)
        return cls(template._head, back + key) if _is_padding(padding, _CLOSED + _END) else template

    def read(self, data: bytes) -> str | None:
        body = data.removeprefix(self._head)
        if len(body) == len(data):
            return None
        # A JSON string cannot contain the unescaped quotes at the start of `_back`.
        token, _, padding = body.partition(self._back)
        return _decode_string(token) if _is_padding(padding, _CLOSED + _END) else self._read_run(data)

    def _text(self, frame: bytes) -> str | None:
        body = frame.removeprefix(self._head)
        token, _, padding = body.partition(self._back)
        return _decode_string(token) if len(body) < len(frame) and _is_padding(padding, _CLOSED) else None


def _is_padding(rest: bytes, end: bytes) -> bool:
    """Whether `rest` consists of padding followed by `end`."""
    padding = rest.removesuffix(end)
    return len(padding) < len(rest) and not padding.translate(None, _PLAIN)
