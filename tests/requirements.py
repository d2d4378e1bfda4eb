"""The behaviours that toolspeak promises and that are built, one sentence each.

A test that proves one of them carries its id: `@pytest.mark.requirement("B4")`. `test_requirements.py` checks
both directions: no behaviour without a test, no mark without a behaviour. Plain ids are what toolspeak does
for its user; ids that begin with `R-` are about reliability and safety.
"""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "A1": "A mode is off, fallback, force or auto, for a client, an upstream, a model or one request.",
    "A2": "With mode off, tools go upstream as they are and nothing is emulated.",
    "A3": (
        "With mode fallback the native answer counts if it holds a call; otherwise emulation follows, and no "
        "native text has left before."
    ),
    "A4": "With mode force the upstream never sees tools or a tool choice.",
    "A5": "With mode auto the capability of the model picks the plan, and what is unknown is emulated.",
    "A6": "A chat-only switch removes tools altogether and tells the tool history as text.",
    "A7": (
        "Emulation is one-pass (inline), two-phase (decision) or constrained (envelope), with documents of fixed "
        "shapes."
    ),
    "A8": (
        "The decision request is a clone with one system prompt, without tools, and lists what has been called and "
        "answered already."
    ),
    "A9": "Requests are counted and reported for each reply, and their usage is summed.",
    "A10": "Every plan enforces the tool choice after parsing; what cannot be met is a typed error.",
    "A11": "Emulated calls get ids `emulated_<unix_ns>_<index>`.",
    "A12": "A reply that emulation shaped says so in its warnings, and in two phases calls come without text.",
    "A13": (
        "Only functions enter a prompt: namespaces are flattened, custom tools take one text, the rest is dropped "
        "with a warning."
    ),
    "A14": "An answer without a valid call means that no tool is wanted, unless the tool choice forbids that.",
    "A15": "The library calls no tool itself.",
    "B1": (
        "The default contract is a fenced block with the info string `json action` that holds "
        '{"tool": NAME, "parameters": {...}}; several blocks are several calls; a nonce follows the info string.'
    ),
    "B2": (
        "Also understood: a bare line with tool and args, `<tool_call>` JSON, `<invoke>` with parameters, "
        "Thought/Action/Action Input, and the decision document."
    ),
    "B3": "The formats that model families were trained on are recognised whatever format was asked for.",
    "B4": "Broken JSON is read as it was meant, and every repair is recorded as a named note.",
    "B5": "Arguments are aligned to the tool's schema and validated; what still does not fit is not a call.",
    "B6": "A call that was cut off is never returned as complete.",
    "B7": (
        "Ordinary JSON, examples in prose or fences and text inside reasoning are not calls; each candidate "
        "carries its evidence, a policy decides, and the decision can be explained."
    ),
    "B8": (
        "Streaming is live: text, names and argument fragments flow as soon as they are certain, and a chunk "
        "boundary never changes the result."
    ),
    "B9": "A tool result that the model invents after its own call is cut off.",
    "B10": "Reasoning is separated from the text.",
    "B11": (
        "What has been streamed is never taken back: a name goes out when the evidence stands, a value only when "
        "it can no longer change, and a call that turns out wrong is closed as valid JSON and noted."
    ),
    "B12": (
        "A value ends at its own closing tag, and every byte of a string argument arrives, or there is no call; a "
        "value that ended otherwise was changed by a repair."
    ),
    "B13": "A name that matches one tool without its case, hyphens and underscores is that tool, with a note.",
    "B14": "A signature, a description of tools, a sentence between a tool's tags and a call in prose are not calls.",
    "B15": "A schema that is not strict JSON Schema is honoured as far as it is understood, with a note.",
    "C1": "Tools become a compact prompt with a stable prefix, a few-shot of their own and a bounded, reported cost.",
    "C2": "Earlier calls and results are told in the dialect asked for, with ids paired and repaired.",
    "C3": "Tool history is always told; tools that a later turn no longer lists are recalled or made up, with a note.",
    "C4": "Media pass or become a placeholder, as the model's profile says.",
    "C5": "A request without tools and tool history passes untouched.",
    "C6": "A response format together with tools is kept by every plan; the caller's stop sequences come first.",
    "C8": (
        "A response format without tools is taught, extracted, repaired, checked and asked for again on upstreams that "
        "are not known to enforce it; several answers to one request are as many turns."
    ),
    "C9": (
        "The budget of the tool prompt shortens tool by tool, the least relevant first; tools that the history used or "
        "the tool choice names stay whole, and the model can ask for those that are left out."
    ),
    "D1": "A model's capability is none, openai or advanced.",
    "D2": "A table of providers, models and families says what is known; it is data.",
    "D3": (
        "The strategy for a model says what will be done and which rule decided; a foreign base URL makes a "
        "provider's capability unknown."
    ),
    "D4": "Overrides by API, environment and configuration have a documented precedence that a command shows.",
    "D5": (
        "A probe asks a model what it can do, judges the answers together and keeps the verdict for a while; `auto` uses it, "
        "and an upstream that contradicts it is believed."
    ),
    "D6": "Unknown or misconfigured providers degrade to emulation.",
    "D7": "A call that a native answer holds as text is still a call.",
    "D8": (
        "`auto` learns from use how a model's calls come and what its upstream rejects, per tenant; what was learned "
        "expires, is shared and shown, and lowers no check of trust."
    ),
    "E1": (
        "Refusals, described calls, bad arguments and wrong names are told from answers; a safety refusal is never "
        "retried, nor under `auto` a report about calls that were made."
    ),
    "E2": "A retry carries an explicit instruction, stronger each time, bounded and counted.",
    "E3": (
        "After the last retry the model's own text is returned with a warning, or a typed error where a call was "
        "demanded."
    ),
    "E4": "Retries climb: the dialect that the model wrote by itself, then a decision or an envelope.",
    "E5": "A refusal in a language without rules is found by one decision request, and the answer stands if no call is needed.",
    "E6": "The embedded model reads calls from answers that describe them; each value must stand in the answer.",
    "G1": "Requests of every protocol that clients speak are understood, streamed or not.",
    "G3": "Finish reasons, ids, usage and errors have the shape of the protocol spoken.",
    "G4": "What unmodified SDKs and coding agents send is understood as it is.",
    "G5": "What a protocol keeps on the server or in a cache is carried, or refused with a typed error.",
    "G6": "An upstream that fails before its first event gives way to the next one of its list.",
    "K1": "Keyword arguments are typed and checked, and tools of any form and library are taken.",
    "K2": "Agent libraries use any model through toolspeak, whether it has tool calling or not.",
    "K4": "Samples, links and tables of the documentation are correct, and its reference is complete.",
    "K5": "What is released is small, complete and installable as documented.",
    "H1": "Without a key or an account, a small model that runs here answers and calls.",
    "H3": (
        "For every request an inspector shows what was sent, what came back with its candidates marked in place, and "
        "why; it can be replayed with other settings, and no tool is executed."
    ),
    "H5": "What is wrong with an upstream, and what to set in a client, is told by a command.",
    "H4": (
        "Metrics tell native from emulated requests, retries, refusals, repairs and the latency added, for each model."
    ),
    "H6": "Why there was no call is said in one line.",
    "G2": "Services of all five protocols, a Python function and a script answer behind one seam.",
    "R-E2": "With a nonce, only marks that carry it open a call.",
    "R-E3": "Marks carry a nonce unless the profile or the user says that they are fixed.",
    "R-E4": "A candidate whose name and arguments also stand in an untrusted text is text, not a call.",
    "R-E5": "A mark opens a call only at the start of a line, outside fences, inline code and reasoning.",
    "R-E6": (
        "With tools given, only their exact names are called; duplicate keys, NaN, infinities, lone surrogates, "
        "too deep and too large arguments are refused."
    ),
    "R-E8": "What tools and documents say can open no role and no mark.",
    "R-E9": "One message is one role: reading what was rendered gives what was meant.",
    "R-F6": "A stream that breaks after bytes have left ends with an error in the shape of its protocol.",
    "R-F7": "The end of a stream without a finish reason is an error; half a call is dropped.",
    "R-F10": "Every line ending is understood, also when it is cut in the middle.",
    "R-F11": "Multi-line data, comments and unknown fields of an event stream are understood.",
    "R-F12": "A byte order mark at the start is skipped.",
    "R-F13": "A last event without a blank line counts if it is whole.",
    "R-F14": "Unusual line separators inside data are kept.",
    "R-F15": "Characters cut between chunks are put together; invalid bytes are replaced and noted.",
    "R-F16": "One unreadable event among good ones is skipped and noted, unless a call is open.",
    "R-F17": "Very long lines are accepted up to a limit, then refused with a typed error.",
    "R-F19": "A success that holds no answer (a page, nothing, an error object) is an error.",
    "R-F21": "Empty choices, null contents and usage alone are tolerated.",
    "R-F22": "Odd ids, numbers, names and arguments of native calls are put right.",
    "R-F23": "A finish reason that contradicts the content follows the content.",
    "R-F24": "Arguments that are no JSON or were cut off are repaired within bounds or refused.",
    "R-F25": "Missing or odd ids, dates and usage are filled in.",
    "R-F26": "A client that reads slowly makes the upstream wait, within a bounded buffer.",
    "R-F27": "A client that leaves takes its upstream along within a second, in every phase.",
    "R-F28": "Requests that come together, come slowly or break off in the middle harm nobody.",
    "R-F29": "A server that is told to end lets nobody new in and gives answers under way their time.",
    "R-F30": "A server that is told twice ends at once.",
    "R-F31": "A worker that dies takes nobody along and is replaced.",
    "R-F36": "Calls without results and results without calls are repaired wherever a history is told.",
    "R-F46": "An upstream that streams when it was not asked to, or does not when it was, is understood.",
    "R-F47": "An upstream that refuses tools, a system message or a field of ours is asked without it, in the same turn.",
    "R-LEAKS": "Faulty exchanges leave no connection, task or memory behind.",
    "R-F1": "A busy upstream that says when to come back is asked again then, within the deadline, twice at most.",
    "R-F2": "A busy upstream that does not say when is asked again after a growing pause with jitter.",
    "R-F3": "Errors of the server are retried, errors of the request never.",
    "R-F4": "A connection that cannot be made is tried again, then a typed error.",
    "R-F5": "An error that comes as the first event of a stream is an error before the first byte.",
    "R-F8": "A stream that stalls ends with a timeout.",
    "R-F9": "The first byte has a time limit of its own.",
    "R-F18": "A body that is shorter than announced is a failure.",
    "R-F20": "Compressed replies are decoded up to a limit.",
    "R-F44": "Clients are refused before files run out, and served again when there is room.",
    "R-F45": "A pooled connection that has gone stale costs one transparent retry, if no byte was received.",
    "R-BACKPRESSURE": "A slow reader makes the service wait, within a bounded buffer, and misses nothing.",
    "R-CANCEL": "Who leaves takes the connection along within a second, at any point.",
    "R-T3": "Addresses that a request names never lead into an inner network; redirects are not followed.",
    "R-T6": "No request of a client can name a command, an address or a key that the server then uses; no request a command.",
    "R-T7": "A server on loopback takes only its own names as Host and no request from another site.",
    "R-T8": "What belongs to one key is not visible to another.",
    "R-T9": "Every route that is not open is refused without the right key, whatever the header or path.",
    "R-T11": "Bodies, tools and nesting have limits, and so has what one key may do at a time.",
    "R-T19": "Keys are stored as hashes in files that only their owner can read.",
    "R-T20": "What comes from outside cannot forge a line of the log.",
    "R-T21": "A request that names a key twice is refused, for two readers could read two requests.",
    "R-T1": "A vendor's key goes to that vendor's own host only.",
    "R-T16": "What a model, a tool or a client wrote is text in the page; nothing is loaded from elsewhere.",
    "R-T2": "No key is shown or logged.",
    "R-T5": "A file of the working directory moves nothing that matters until it is trusted by its hash.",
    "R-T12": "Parsing takes time linear in the length of the text, however hostile it is.",
    "F2": "A finished answer holds its final text and its rounds, each the text before its calls, the calls and their results.",
    "F7": "A session that was cancelled or killed at any moment goes on where it stopped, and no call runs twice by itself.",
    "R-F35": "A crash at any point leaves a session that opens, with an explicit result for every call.",
    "R-F38": "A full or failing disk is a typed error; nothing is half visible, reading goes on, and so does writing later.",
    "R-F39": "Several writers of one SQLite file wait for each other, within bounds.",
    "R-F40": "A PostgreSQL server that restarts or is full is waited for, within bounds, and no commit is lost or done twice.",
    "R-F41": "An older store is migrated in one transaction, once; a newer one is refused.",
    "R-F42": "A damaged session is a typed error and concerns no other; a damaged file is one too.",
    "R-F43": "A clock that jumps makes nobody lose what is written and lets no two writers commit.",
    "R-T10": "No text becomes SQL, in any field, on either database.",
    "R-T17": "One writer holds a session at a time; who has lost it cannot commit.",
    "R-T13": "Text that the model has only read never becomes a call when marks carry a nonce.",
    "F5": (
        "Functions, a shell, files and MCP servers are tools; long output keeps its head and tail, and the rest can be asked for."
    ),
    "F6": "The shell runs in a sandbox, after approval, with a timeout and a bounded output.",
    "R-E11": (
        "The definitions of an MCP server are pinned when they are approved, prefixed by its name, and refused when they change or clash."
    ),
    "R-F32": "A tool that hangs, forks, floods or will not end is ended with all it started.",
    "R-F33": (
        "An MCP server that dies, talks nonsense or says too much is an error of that call, and is started again after a pause."
    ),
    "R-T4": (
        "A command of the model reaches no network, no home, no secret, no other process and no file outside its work directory."
    ),
    "R-T14": "An MCP server can change, add or shadow no tool unnoticed, and ask nothing of the model or the person.",
    "R-E10": "A call with side effects that was made over untrusted content is put to a person each time.",
    "F1": (
        "An agent works in rounds until a model calls nothing more, says that it is done, is cancelled or fails, or a "
        "limit is reached: then it summarises. What was finished is kept."
    ),
    "F3": "A record expands into the messages of every protocol, as its SDK takes them.",
    "F4": (
        "Read-only calls of one round run in parallel, or one at a time if asked; results keep their order, and one "
        "failure loses no other."
    ),
    "F8": "Rounds, calls, results and the end can be read in the log and on the screen.",
    "F9": "The same calls with the same results again and again are noticed, told to the model, and ended.",
    "F10": (
        "Calls with side effects run in the model's order, read-only ones in parallel. No edit of a file is lost; every "
        "edit has a diff and can be undone, unless someone else has changed the file since."
    ),
    "F11": (
        "Conversations are kept within the model's context window: old results are shortened first, then old rounds are "
        "summarised; the task and the last rounds stay whole. A request that is too long is compacted and repeated."
    ),
    "F13": (
        "An agent takes texts, images and messages, MCP servers, a context for its tools and an approval mode, and "
        "returns typed output and the messages of any protocol; unclosed, it leaves no traceback."
    ),
    "H2": "A person sees text as it streams, and rounds as they happen and in one line each afterwards.",
    "R-F34": "Of calls at the same time one may fail: every id is answered, in order.",
    "R-F37": (
        "A call that is made again carries the key of the first, also to MCP servers; no other call has it. A request"
        " that comes again with its Idempotency-Key is answered from memory."
    ),
    "R-T15": "A model that calls for ever is stopped: by rounds, tokens, time, and by repeating itself.",
    "R-E1": "Only what the model says in this turn is read for calls, never what it has read.",
}
