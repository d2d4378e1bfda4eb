"""How models decline, announce and ask instead of calling a tool, in English: words, not code.

Each language is a table of slots (lists of phrases) and of rules that put slots together. The notation is that of
regular expressions, with three conveniences: `{slot}` stands for one of its phrases, `{~20}` for up to twenty
characters, and a plain group does not capture. Texts are folded first (`refusals.fold`): lower case, no accents, no
commas, no hyphens, straight apostrophes. Above: `refusals`, which compiles and matches. Below: nothing.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "ENGLISH",
    "REMOTE_TOPICS",
    "TOPICS",
    "TRADITIONAL",
    "UNIVERSAL_TOPIC",
    "WEB_TOPIC",
    "Broad",
    "Language",
    "Need",
    "Rule",
    "Topic",
    "rules",
]

#: What must be known of a matching sentence before its rule counts. `nothing`: only that it does not speak of
#: something no tool could do. `object`: it names what a tool on offer is for, or something as broad as live data.
#: `topic`: it names what a tool on offer is for.
Need = Literal["nothing", "object", "topic"]


class Rule(msgspec.Struct, frozen=True):
    """One way to say it."""

    name: str
    category: Literal["no_tools", "cannot_access"]
    need: Need
    pattern: str


class Topic(msgspec.Struct, frozen=True):
    """Something that a tool may be for: words in the names of tools, and words in sentences, all languages together."""

    name: str
    names: str
    words: str


class Broad(msgspec.Struct, frozen=True):
    """A topic whose tools serve other topics as well."""

    name: str
    names: frozenset[str]
    covers: frozenset[str]


class Language(msgspec.Struct, frozen=True):
    """The phrases of one language.

    Slots that every language has:
        live, generic: objects so broad that any tool that looks something up would serve.
        report: a failure is being reported, or its cause given, which is an answer.
        meta: the sentence speaks about texts or refusals.
        condition, missing: it holds only in some case, or until the user has said more.
        harm, decline, brief: safety: reasons, phrases with a reason, phrases that need none.
        ask, offer: asking for permission; `choice`: but a choice is a real question; `grave`: and so is a grave step.
        intend, act, progress: announcing; `waits`: but for the user to do something first, or to explain.
        advise: telling the user to do it.
        weak: how a sentence begins that holds no answer.
    """

    name: str
    slots: dict[str, str]
    #: What may stand anywhere in the opening of a refusal without deciding anything.
    filler: str
    #: How a refusal opens: sequences of phrases. Only groups, `|` and `?` here: the phrases are spelled out.
    openers: tuple[tuple[str, ...], ...]
    rules: tuple[Rule, ...]


def rules(*rows: tuple[str, Literal["no_tools", "cannot_access"], Need, str]) -> tuple[Rule, ...]:
    """Rules from the rows of a table."""
    return tuple(Rule(*row) for row in rows)


ENGLISH = Language(
    "en",
    {
        "adv": "currently|actually|directly|presently|physically|really|simply|independently|personally|also|"
        "just|yet|still|unfortunately|at the moment|right now|natively|reliably|automatically",
        "am": "i am|i'm",
        "not": "do not|don't",
        "have_no": "i {not} (({adv}|seem to|appear to) )?(have|possess)|i (({adv}) )?(have|have got|'ve got|"
        "possess) no|i've (got )?no|i (({adv}) )?lack|(i have not|i haven't|i was not|i wasn't) been (given|"
        "provided|granted)( with)?|(i was not|i wasn't) (given|provided|granted)( with)?|"
        "({am}) not (({adv}) )?(connected to|linked to|equipped with|hooked up to|provided with)",
        "cannot": "(i|we) (({adv}) )?(cannot|can not|can't|cant)|({am}) (({adv}) )?(unable to|not able to|"
        "incapable of|not capable of|not equipped to|not designed to|not set up to|not configured to|"
        "not built to|not in a position to)|i {not} (({adv}) )?have (the|any|a) (({adv}|built in|direct|"
        "technical) )?(ability|abilities|capability|capabilities|capacity|means|way|functionality|feature) (to|"
        "of|for)|i (have no|lack the|lack any) (ability|capability|capacity|means|way|functionality) (to|of)|"
        "(it is|it's) not possible for me to|(there is|there's) no way for me to|my (capabilities|abilities|"
        "functions) (do not|don't) (include|extend to|allow me to)|i'm just not able to|i (have no|lack any|"
        "lack the|was never given (the|any)|have not been given (the|any)|haven't been given (the|"
        "any)) (mechanism|facility|interface|runtime|environment|capability|ability|means|function) (to|for|of|"
        "with which)|(i am|i'm) not (allowed|permitted|authorized) to|i (have|had) never been able to|(are|"
        "is) not (something|among the things) (that )?i can",
        "mods": "any|the|a|an|some|such|access to|external|built in|specific|direct|available|necessary|"
        "required|relevant|actual|real|live|real time|web|search|browsing|online|suitable|appropriate|right|"
        "these|those|that|this|my own|of|kind|type|sort|use of|callable|executable|connected|usable|dedicated|"
        "special|own|other|additional|enabled|function|called|named|single|actual|working|functioning|extra|"
        "installed|one|whatsoever",
        "tools": "(tools?|functions?|function calls?|function calling|tool calls?|tool calling|tool use|"
        "tool access|tooling|plugins?|plug ins?|apis?|api calls?|toolset|toolbox|integrations?)( capabilities|"
        " capability| abilities| access)?|⌘|extensions?|commands? to call|external (services?|systems?|"
        "functions?|resources?)",
        "use": "us(e|ing)|call(ing)?|invok(e|ing)|execut(e|ing)|run(ning)?|access(ing)?|mak(e|ing)|"
        "perform(ing)?|trigger(ing)?|utiliz(e|ing)|operat(e|ing)|interact(ing)? with",
        "do": "access(ing)?|brows(e|ing)|open(ing)?|read(ing)?|view(ing)?|check(ing)?|look(ing)? (up|at|into|"
        "that up|it up|this up|inside)|search(ing)?|retriev(e|ing)|fetch(ing)?|pull(ing)?( up)?|query(ing)?|"
        "connect(ing)? to|interact(ing)?( directly)? with|execut(e|ing)|run(ning)?|perform(ing)?|send(ing)?|"
        "creat(e|ing)|modify(ing)?|edit(ing)?|delet(e|ing)|download(ing)?|visit(ing)?|list(ing)?|book(ing)?|"
        "schedul(e|ing)|inspect(ing)?|scan(ning)?|reach(ing)?|obtain(ing)?|control(ling)?|monitor(ing)?|"
        "track(ing)?|save|saving|go online|going online|examin(e|ing)|navigat(e|ing)|gather(ing)?|consult(ing)?|"
        "set(ting)?|turn(ing)?|place|placing|us(e|ing)|call(ing)?|see your|see what is|see what's|look through|"
        "get to|verify(ing)?|surf(ing)?|do",
        "tell": "provid(e|ing)|giv(e|ing)|tell(ing)?|find(ing)?|see(ing)?|show(ing)?|know(ing)?|determin(e|ing)|"
        "get(ting)?|report(ing)?|offer(ing)?|say|confirm(ing)?|answer(ing)?|share",
        "live": "real time|live|current|up to date|up to the minute|latest|right now|today's|recent",
        "generic": "{live}|external|outside (world|systems|sources)|on your (behalf|computer|machine|device|"
        "system|behalf)|(that|this|it|these|those|the (information|data|answer)) (for you|directly|myself|"
        "right now)|(do|perform|complete|fulfill|carry out|help (you )?with|assist (you )?with|answer|"
        "handle) (that|this|it|so|your (request|question))|this (information|request|task|data)|"
        "that (information|data)|the (requested|required|necessary) (information|data)",
        "purpose": "(to|for|that|which|capable of|able to|with which)",
        "cutoff": "my (knowledge|training|training data|information|data|dataset)( base)? (cut ?off|only goes|"
        "goes up|is limited|was last updated|has a cut ?off|ends|stops|is based on|is current up)|"
        "knowledge cut ?off",
        "report": "corrupt\\w*|(does not|doesn't|do not|don't) (\\w+ )?exist|not found|no such|denied|locked|"
        "encrypted|password protected|is empty|was empty|an? (\\w+ )?error|errors? (code|message)|failed|"
        "returned|timed out|time ?out|status code|40[0-9]|50[0-9]|offline|expired|rate limit\\w*|quota|"
        "too large|is private|came back|refused|i (tried|attempted|checked|looked|searched|ran)|according to|"
        "output (shows|says)|gave me|reports? that|until (the|it|they)|(just|already) (ran|called|used)|"
        "while (the|it)|because (the|it|this|that|there) |since the (file|page|site|server|service|database)|"
        "as the (file|page|site|server|service|database)",
        "meta": "refus(al|als|e to|ing)|phras(e|es|ing)|the (sentence|message|text|error|quote|line) |"
        "translat\\w+|draft|here is (a|an|the|your)|here's (a|an|the|your)|template|paraphras\\w+|rewrit\\w+|"
        "example of|dear \\w+|(models|assistants|chatbots|llms|bots|it|he|she|they) (often |sometimes |usually |"
        "typically |may |might |will )?(say|says|said|claims?|claimed|repl(y|ies|ied)|respond\\w*|answers?)|"
        "in the (story|novel|film|joke|poem|scene)|means that|stands for|subject|readme|docstring|"
        "the user (says|said|sees)|the novel",
        "condition": "^(if|when|whenever|in case|even if|suppose|unless|where|how|why|what|who|which)\\b",
        "missing": "without (knowing|a|an|the|more|your|you|further|some|additional|at least|that|this)|"
        "until you|unless you|before you|\\byet$|till you|so long as|need (to know|the exact|an? |the name|"
        "the id|your )|once you|if you (tell|give|share|provide|send|let)",
        "harm": "illegal\\w*|unlawful|harm(ful|ing|s)?|danger(ous|s)?|unethical|malware|malicious|phishing|"
        "weapons?|explosives?|ransomware|hack(ing)?|self harm|suicid\\w+|hate(ful)?|abus(e|ive)|exploit\\w*|"
        "safety (guidelines|policy|policies|reasons)|(my|our|content|usage|ethical|the) (guidelines|policy|"
        "policies|principles)|violat\\w+|violence|criminal|fraud\\w*|bypass\\w*|stalk\\w*|surveil\\w*|"
        "privacy of|credentials|drugs?|bombs?|theft|steal\\w*|without (their|his|her|the owner's) (consent|"
        "permission|knowledge)|unauthori[sz]ed|deceptive|discriminat\\w+",
        "decline": "(({cannot})|i (will not|won't)|({am}) not (going to|willing to|comfortable)|i (must|have to|"
        "need to) (decline|refuse)|i (decline|refuse) to) (({adv}) )?(help|assist|provid|creat|writ|giv|do|"
        "support|generat|participat|engag|shar|facilitat|comply|fulfill|produc|explain|instruct|with|offer|"
        "be (part|involved)|this|that|your|execut|run|delet|send|access)?\\w*",
        "brief": "(({cannot})|i (will not|won't)|({am}) not (going to|willing to)) (({adv}) )?(help|assist|"
        "comply|fulfill|support|participate|engage|continue|do)( you)?( with| in)?( that| this| it|"
        " your request| the request)?( request| task| sort of thing| kind of (thing|request|activity))?[.!;\\n]|"
        "i (must|have to) (respectfully )?decline|({am}) not comfortable|against my (guidelines|principles|"
        "policy|programming|values)",
        "ask": "would you like me to|shall i|should i|do you want me to|may i|can i (go ahead|proceed|use|run|"
        "call|check|search|look)|could i (use|run|call|check)|is it (ok|okay|alright|all right|fine) (if i|"
        "for me to|with you if i)|would it be (ok|okay|alright) (if i|for me to)|"
        "do i have (your )?permission to|would you mind if i|are you (ok|okay|fine) with me|(can|"
        "could) you confirm (that )?(i|you)|want me to|do you (approve|allow|permit|agree)|(would|will|"
        "is) that (be )?(ok|okay|alright|fine|all right|acceptable)|(ok|okay|alright) (if|to) |permission to|"
        "may i|do i have the go ahead|are you (happy|good) for me to|can i|mind if i",
        "offer": "(if you (would|'d) like|if you want|if you wish|if that (is|'s) (ok|okay)|"
        "with your permission|if you (approve|agree|allow|permit|confirm)|upon your (approval|"
        "confirmation))( me to)?|let me know if (you (would|'d) like|you want) me to|just say (the word|yes|so)|"
        "(just )?let me know (and|if) i|please (confirm|approve|let me know) (that |if |whether )?(you want|"
        "you would like|you'd like|i (should|may|can)|to proceed|and i)|(just )?give me (the go ahead|"
        "the green light|permission|your ok)|say the word|if you'd like( me to)?|(just )?(say|tell me|ask|"
        "let me know|give me a (sign|nod|shout))( the word| yes| ok| when| if| so| and| whether)|"
        "whenever you('re| are) ready|on your (go|ok|signal|say so)|i('d| would) (like|want|"
        "need) (to have )?your (permission|ok|approval|go ahead|consent)( first)?|awaiting your|waiting for your",
        "choice": "\\bor\\b|\\b(which|what|where|who|when)\\b|instead|rather",
        "grave": "delet\\w+|remov\\w+|overwrit\\w+|pay\\w*|transfer\\w*|purchas\\w+|buy|drop|cancel\\w*|"
        "publish\\w*|irrevers\\w+|undone|undo|permanent\\w*|charge\\w*|wipe|format|merge|deploy\\w*|force|reset|"
        "terminat\\w*|kill|shut|reboot|unsubscribe|refund\\w*|uninstall|revert",
        "more": "\\balso\\b|anything else|something else|further|more (detail|information|about|examples)|"
        "another|as well|explain|elaborate|rephrase|summari[sz]e|clarify|walk you|help with|go over|expand|"
        "additional|next|tomorrow's",
        "intend": "i will|i'll|i would|i'd|let me|let us|let's|i am going to|i'm going to|i need to|i should|"
        "i must|i shall|we need to|we should|we will|we'll|i am about to|i'm about to|i plan to|allow me to|"
        "i have to|i'd need to|i am now going to|i want to|i can start by|the (next|first) step (is|would be|"
        "will be) to|gonna|i'm now",
        "advise": "you (can|could|should|would need to|need to|may|might want to)",
        "act": "check(ing)?|look (up|at|into|that up|it up|this up|for|through|in)|search(ing)?|fetch(ing)?|get|"
        "retriev(e|ing)|find|read|open|run|execute|query|list|call|use|using|pull( up)?|invoke|access|send|"
        "creat(e|ing)|take a look|have a look|see (what|if|whether)|grab|do (that|this|it|so)|calculate|compute|"
        "examine|inspect|browse|gather|request|start by|go ahead|proceed|begin|perform|make (a|the) (call|"
        "request|search|query)|set|add|book|schedule|look|review|scan|load|update|write|save|turn|post|verify|"
        "confirm|start|pull|take|look|search|go through|dig|crawl|scan|trigger|kick off|try|determine|learn|"
        "make|consult|figure",
        "progress": "^((now|currently|ok|okay|sure|first) )?(checking|looking up|searching|fetching|retrieving|"
        "running|calling|querying|reading|opening|accessing|using|invoking|executing|getting|loading|listing|"
        "pulling up)\\b",
        "waits": "once you|if you|as soon as you|when you|after you|let me know|get this straight|look forward|"
        "keep (that|this|it) in mind|remember|explain|be (happy|glad)|until you|suggest|recommend|assume|say|"
        "in your (code|program|script|terminal|project|app|browser)|start with (the|a)|in general|typically|"
        "first things|for example|show you|walk you|give you (a|an|the|some)|do my best|help you",
        "weak": "sure|of course|certainly|absolutely|ok|okay|yes|no problem|got it|understood|right|great|"
        "alright|all right|happy to|i can|i could|i have (access|a tool|the|tools)|i('m| am) able|to (do|answer|"
        "check|find|get|help|see|look|determine|complete|fulfill|provide|give|read|retrieve|know|figure|solve|"
        "calculate)|one moment|just a|please (wait|hold|stand)|hold on|hang on|give me|stand by|this (will|may|"
        "should|would|might)|it (will|may|should) (take|return)|that (will|should|would) (give|tell|return|show|"
        "let)|i (do )?need|in order|for (this|that)|thanks|thank you|hi|hello|good (question|idea)|then|"
        "after that|next|first|before i|with (that|this)|the (tool|function|call)|based on (that|the result)|"
        "now|let's see|we can|there is a tool|there's a tool|i have|i see|back in|it (all )?depends|"
        "that depends|before i|to (narrow|be|find out|confirm|make sure|verify)|plan$|my plan",
        "hedge": "depends?|may|might|could|maybe|perhaps|probably|likely|possibl[ey]|several|various|there (are|"
        "is) (several|many|a few|a number)|would (need|have|be)|should be (able|possible|in)|can be (found|"
        "determined|checked|looked up|answered|derived|read|worked out)|i('d| would) (need|have) to|without|"
        "before i|not sure|don't know|hard to (say|tell)",
        "impersonal": "(the|my) (first|next|second|last|final) (step|thing|move)|one (would|could|can|should|"
        "has to|needs to)|it (is|would be) (enough|sufficient|necessary)|(all )?(you|one) (have|has|need|"
        "needs) to do|(simply|just|first|then|next|finally|afterwards) (call|use|run|invoke|open|read|list|"
        "explore|check)|this (requires|calls for|would require)|needs? to be (called|invoked|run|used)|"
        "should be (called|invoked|run|used)|plan|steps?|approach|strategy|would be (called|used)|the (call|"
        "invocation) would|by (calling|using|invoking|running)|(calling|using|invoking|running) ⌘",
    },
    "(i am|i'm) (really |so |very |terribly )?sorry|sorry|(my )?apologies|i apologize|for (the|"
    "any) (inconvenience|confusion)|unfortunately|regrettably|thank you for (your|the) (question|request)|but|"
    "however|as (an|a)|large|ai|artificial intelligence|language|model|llm|text based|chatbot|virtual|"
    "conversational|assistant|system|program|interface|i'm|i am|just|only|merely|simply|an|a|and|so|that|"
    "in this (conversation|environment|chat|session|context)|at (this|the) (time|moment)|right now|to be (clear|"
    "honest|transparent)|afraid|hi|hello|hey|there|currently|please note|note|actually|directly|physically|"
    "really|also|still|any|the|access to|external|built in|specific|direct|available|necessary|required|"
    "relevant|real|live|presently|yet",
    (
        (
            "i (do not|don't)( seem to| appear to)? (have|possess)|i have no|i've no|i've got no|i lack|"
            "i (have not|haven't|was not|wasn't) (been )?(given|provided|granted)|i'm not (connected|linked|"
            "equipped)|i am not (connected|linked|equipped)",
            "tool|function|plugin|api|access|internet|web|brows|network|online|search|file|code|terminal|shell|"
            "connect|visib|permission|real time|current|up to|latest|recent|ability|abilit|capab|capacit|means|"
            "way|feature|integration|callable|suitable|appropriate|such|these|those|this|my own|information|"
            "data|with",
        ),
        (
            "i (cannot|can not|can't|cant)|(i am|i'm) (unable to|not able to|incapable of|not capable of|"
            "not equipped to|not designed to|not set up to|not configured to)|(it is|"
            "it's) not possible for me to|(there is|there's) no way for me to",
            "access|brows|open|read|view|check|look|search|retriev|fetch|pull|query|connect|interact|execut|run|"
            "perform|send|creat|modify|edit|delet|download|visit|list|book|schedul|inspect|scan|reach|obtain|"
            "control|monitor|track|sav|go|examin|navigat|gather|set|turn|plac|us(e|ing)|call|see|get|verif|"
            "provid|giv|tell|find|show|know|determin|do|invok|mak(e|ing)|trigger|answer|offer|us",
        ),
        (
            "there are no|there're no|no|i see no|these|this|the",
            "tool|function|api|plugin",
        ),
        ("my (knowledge|training|capabilities|abilities)|i (do not|don't) support|knowledge cut",),
    ),
    rules(
        (
            "no_tools",
            "no_tools",
            "nothing",
            "({have_no}) (({mods}) ){0,6}({tools})\\b(?P<purpose> {purpose}\\b)?",
        ),
        (
            "cannot_use_tools",
            "no_tools",
            "nothing",
            "({cannot}) (({adv}) ){0,2}({use}) (({mods}) ){0,5}({tools})\\b(?P<purpose> {purpose}\\b)?",
        ),
        (
            "none_here",
            "no_tools",
            "nothing",
            "(there are|there're|there is|there's|i see|i (have been|was) given|i have been provided) (no|"
            "not any) (({mods}) ){0,5}({tools})\\b(?P<purpose> {purpose}\\b)?|"
            "\\bno (({mods}) ){0,4}({tools}) (are|is|have been|has been|were|was) (\\w+ )?(available|provided|"
            "accessible|given|enabled|configured|connected|supplied|listed|defined)|^no ({tools}) (available|"
            "provided)",
        ),
        (
            "unavailable",
            "no_tools",
            "nothing",
            "\\b({tools}) (are|is|aren't|isn't) (not )?(\\w+ )?(available|accessible|enabled|supported|"
            "connected) ((to|for) me|here|in (this|our|my)|at the moment|right now)|({tools}) (you|that you|"
            "you've) (\\w+ )?(mentioned|described|listed|refer\\w*) .{0,20}(not|n't) |"
            "i {not} (\\w+ )?support (({mods}) ){0,3}({tools})",
        ),
        (
            "no_access",
            "cannot_access",
            "object",
            "({have_no}) (({mods}) ){0,5}(internet |web |network |file |database |system |email |tool )?(access|"
            "connection|connectivity|visibility|permission)\\b",
        ),
        (
            "no_live_data",
            "cannot_access",
            "object",
            "({have_no}) (({mods}) ){0,4}(({live})|browsing|internet|web|network|online|search|file|"
            "(code )?execution|terminal|shell|browser|file system)( \\w+){0,2} ?(data|information|access|"
            "capabilit\\w+|abilit\\w+|feeds?|updates?|functionality|knowledge|prices?|weather|connection|"
            "environment|results?|\\w+)?",
        ),
        (
            "cannot_do",
            "cannot_access",
            "object",
            "({cannot}) (({adv}) ){0,2}(({do}) (or|and|nor) )?({do})\\b",
        ),
        (
            "cannot_tell",
            "cannot_access",
            "object",
            "({cannot}) (({adv}) ){0,2}({tell})\\b{~60}\\b({live})\\b",
        ),
        (
            "cutoff",
            "cannot_access",
            "topic",
            "({cutoff})",
        ),
        (
            "beyond",
            "cannot_access",
            "topic",
            "(beyond|outside|not within|exceeds) (of )?my (current )?(capabilities|abilities|reach|scope)|"
            "not something (that )?i can (do|access|check|look up)",
        ),
        (
            "no_such_tool",
            "no_tools",
            "nothing",
            "⌘{~12}\\b(does not|doesn't|do not|don't) (\\w+ )?(exist|appear|seem to exist|mean)|"
            "⌘{~40}\\b(is not|isn't|are not|aren't|not) (\\w+ ){0,2}(available|connected|there|active|enabled|"
            "accessible|set up|something|real|defined|wired|hooked|installed|implemented|present|callable|"
            "part of|functional)|⌘{~30}\\b(only|just|merely|nothing but) (words|names?|text|a name|labels?)|"
            "\\bno (\\w+ )?⌘|({have_no}) (\\w+ ){0,4}⌘|({cannot}) (({adv}) ){0,2}({use}) (\\w+ ){0,4}⌘",
        ),
        (
            "unconnected",
            "no_tools",
            "nothing",
            "nothing (is|'s|has been) (\\w+ )?(hooked up|connected|wired( up)?|plugged in|attached|set up)|"
            "({am}) not (\\w+ )?(connected|linked|wired|hooked up|plugged in)|no (\\w+ )?(runtime|back ?end|"
            "connection|integration|mechanism|execution environment|interface) (\\w+ ){0,4}(that|to|for|behind|"
            "here|in this|which|through|with)",
        ),
        (
            "text_only",
            "no_tools",
            "object",
            "(only|just|all i (can )?do is|nothing but|solely|purely|limited to|restricted to|confined to|"
            "everything i (produce|write|output|send)|can only) (\\w+ ){0,3}?(generat\\w+|produc\\w+|writ\\w+|"
            "output\\w*|text|plain text|words)|({am}) (just|only|merely|purely|simply|nothing more than|"
            "a pure) (an? )?(\\w+ ){0,3}(language model|text model|chatbot|chat model|text generator)",
        ),
        (
            "cannot_use_them",
            "no_tools",
            "object",
            "({cannot}) (({adv}) ){0,2}({use}) (them|those|these|it|any of (them|those|these))\\b|"
            "let me (trigger|call|invoke|run|use) (them|it|those)",
        ),
        (
            "not_mine",
            "cannot_access",
            "topic",
            "(not|n't) (\\w+ ){0,3}(among|part of|within|one of) my (\\w+ )?(abilities|capabilities|skills|"
            "functions|features|powers)|(does not|doesn't|do not|don't|won't) work (for me|here|on my (end|"
            "side))|i have no (clock|calendar|browser|screen|eyes|sensors?|camera|terminal|shell|inbox|phone|"
            "watch)|i (do not|don't) have (a|any) (clock|calendar|browser|camera|watch|terminal|shell|inbox|"
            "file system)",
        ),
    ),
)

#: What tools are for. Names of tools are English almost everywhere; sentences are not.
TOPICS: tuple[Topic, ...] = (
    Topic(
        "files",
        "file files dir directory folder folders path read write edit ls glob cat grep document "
        "documents doc docs workspace filesystem fs pdf csv notes note",
        "files?|filesystem|folders?|director(y|ies)|documents?|disk|dateien?|dateisystem\\w*|ordner\\w*|"
        "verzeichnis\\w*|dokumente?n?|festplatte|fichiers?|dossiers?|repertoires?|disque|archivos?|ficheros?|"
        "carpetas?|directorios?|documentos?|disco|文件|目录|磁盘|文档|本地|档案|ファイル|フォルダ\\w*|"
        "ディレクトリ|ドキュメント|文書",
    ),
    Topic(
        "web",
        "web search browse browser fetch http url page google bing internet crawl scrape news wiki "
        "wikipedia download link site online",
        "internet|web|websites?|web ?pages?|online|browse\\w*|browsing|urls?|links?|google|search engines?|"
        "search results|sites?|im netz|webseiten?|suchmaschine\\w*|surfen|en ligne|navigateur|pages? web|liens?|"
        "moteur|la red|en linea|navegar|navegador|paginas?|enlaces?|sitios?|互联网|网络|网页|网站|联网|上网|"
        "链接|浏览器|搜索引擎|网上|インターネット|ウェブ\\w*|ネット|サイト|ページ|オンライン|ブラウザ|ブラウズ|"
        "リンク|url|web",
    ),
    Topic(
        "code",
        "run shell exec execute bash command terminal python code script sandbox interpreter process cmd repl",
        "commands?|code|scripts?|terminal|shell|programs?|sandbox|python|bash|befehle?n?|programme?n?|skripte?|"
        "konsole|commandes?|codes?|programmes?|comandos?|codigo|programas?|consola|命令|代码|脚本|程序|终端|"
        "コマンド|コード|スクリプト|プログラム|ターミナル|シェル",
    ),
    Topic(
        "weather",
        "weather forecast temperature climate meteo rain",
        "weather|forecasts?|temperatures?|wetter\\w*|vorhersage\\w*|temperatur\\w*|meteo\\w*|previsions?|"
        "clima\\w*|pronosticos?|temperaturas?|el tiempo en|天气|气温|天气预报|预报|气象|天気\\w*|気温|予報|気象",
    ),
    Topic(
        "time",
        "time date clock now datetime timezone day",
        "time|date|clock|what day|uhrzeit|datum|zeit|heure|date|hora|fecha|时间|日期|几点|時刻|時間|日付|日時",
    ),
    Topic(
        "mail",
        "mail email mails emails gmail inbox outlook smtp send reply draft newsletter",
        "e ?mails?|inbox|mailbox|postfach|posteingang|mails?|courriels?|boite|messagerie|correos?|bandeja|邮件|"
        "邮箱|电子邮件|メール|受信(箱|トレイ)",
    ),
    Topic(
        "message",
        "message messages slack sms chat notify notification telegram whatsapp discord teams post tweet send channel",
        "messages?|slack|sms|texts?|notifications?|tweets?|channels?|nachrichten?|benachrichtigung\\w*|kanale?|"
        "mensajes?|notificaci\\w+|canal\\w*|消息|短信|通知|频道|メッセージ|通知|チャンネル|slack",
    ),
    Topic(
        "calendar",
        "calendar event events meeting meetings schedule appointment appointments agenda reminder "
        "reminders remind alarm timer todo task tasks",
        "calendars?|schedules?|meetings?|appointments?|events?|reminders?|alarms?|timers?|kalender\\w*|"
        "termine?n?|besprechung\\w*|erinnerung\\w*|wecker|agenda|calendriers?|rendez vous|reunions?|rappels?|"
        "evenements?|calendarios?|citas?|reuniones|reunion|eventos?|recordatorios?|alarmas?|日历|日程|会议|提醒|"
        "闹钟|安排|カレンダー|予定|会議|リマインダー|アラーム|スケジュール|タイマー",
    ),
    Topic(
        "database",
        "database db sql query table tables record records postgres mysql sqlite select warehouse rows",
        "databases?|sql|tables?|records?|quer(y|ies)|datenbank\\w*|tabellen?|abfragen?|bases? de donnees|"
        "requetes?|bases? de datos|consultas? sql|tablas?|registros?|数据库|数据表|データベース|テーブル|"
        "レコード|sql",
    ),
    Topic(
        "finance",
        "stock stocks price prices quote finance exchange currency rate rates crypto bitcoin ticker market convert",
        "stocks?|stock prices?|prices?|exchange rates?|currency|currencies|market|bitcoin|crypto\\w*|shares?|"
        "aktien\\w*|kurse?n?|preise?n?|wechselkurs\\w*|actions?|cours|prix|taux|bourse|acciones|accion|precios?|"
        "cotizacion\\w*|tipos? de cambio|bolsa|股票|股价|价格|汇率|行情|比特币|株価|価格|為替|レート|株式|相場",
    ),
    Topic(
        "bank",
        "invoice invoices payment payments bank balance transaction transactions billing",
        "bank\\w*|account balance|balances?|transactions?|invoices?|kontostand|konto|rechnung\\w*|bankkonto|solde|"
        "compte bancaire|factures?|bancaire|saldo|cuenta bancaria|facturas?|余额|银行|发票|残高|口座|請求書|銀行",
    ),
    Topic(
        "travel",
        "flight flights hotel hotels book booking travel trip train trains map maps route directions "
        "location geocode place places restaurant restaurants traffic distance ticket transit nearby",
        "flights?|hotels?|trains?|trips?|routes?|maps?|traffic|restaurants?|bookings?|reservations?|location|"
        "directions|flug\\w*|fluge|zuge?|hotels?|karte|verkehr\\w*|standort|buchung\\w*|reservierung\\w*|vols?|"
        "trajets?|itineraires?|carte|trafic|trains?|reservations?|vuelos?|hoteles|trenes|rutas?|mapas?|trafico|"
        "ubicacion|reservas?|restaurantes?|航班|酒店|火车|路线|地图|交通|餐厅|预订|位置|机票|フライト|航空券|"
        "ホテル|電車|ルート|地図|交通|レストラン|予約|位置情報",
    ),
    Topic(
        "home",
        "light lights lamp device devices thermostat home heating door lock camera music play song songs "
        "playlist spotify volume tv switch speaker",
        "lights?|lamps?|devices?|thermostat|music|songs?|playlists?|heating|smart home|licht\\w*|lampen?|"
        "gerate?n?|thermostat|musik|heizung|lieder?|lumieres?|lampes?|appareils?|musique|chansons?|chauffage|"
        "luces|luz|lamparas?|dispositivos?|musica|canciones|cancion|calefaccion|termostato|灯|设备|音乐|歌曲|"
        "空调|暖气|照明|電気|ライト|デバイス|音楽|曲|エアコン|暖房",
    ),
    Topic(
        "records",
        "order orders customer customers user users account crm ticket tickets issue issues contact "
        "contacts inventory product products catalog shipment tracking package employee hr delivery "
        "profile booking",
        "orders?|customers?|accounts?|tickets?|contacts?|inventory|products?|shipments?|packages?|deliver(y|"
        "ies)|employees?|profiles?|user data|bestell\\w+|kunden\\w*|konto|kontakte?n?|lager\\w*|produkte?n?|"
        "sendung\\w*|pakete?s?|lieferung\\w*|commandes?|clients?|comptes?|stocks?|produits?|colis|livraison\\w*|"
        "pedidos?|clientes?|cuentas?|contactos?|inventario|productos?|envios?|paquetes?|entregas?|订单|客户|"
        "账户|工单|联系人|库存|产品|包裹|快递|物流|用户数据|注文|顧客|アカウント|チケット|連絡先|在庫|商品|荷物|"
        "配送",
    ),
    Topic(
        "repository",
        "git github gitlab repo repository commit branch pull merge issue issues pr code ci build deploy test tests",
        "repositor(y|ies)|repos?|github|gitlab|git|commits?|branch(es)?|pull requests?|issues?|builds?|codebase|"
        "tests?|code ?basis|depots?|repositorios?|ramas?|仓库|代码库|提交|分支|リポジトリ|コミット|ブランチ|"
        "テスト",
    ),
    Topic(
        "image",
        "image images picture photo draw generate screenshot camera ocr video vision",
        "images?|pictures?|photos?|screenshots?|videos?|screen|bilder|bild|fotos?|bildschirm\\w*|ecran|photos?|"
        "imagenes|imagen|pantalla|图片|图像|照片|截图|屏幕|视频|画像|写真|スクリーンショット|画面|動画",
    ),
    Topic(
        "language",
        "translate translation dictionary define spell",
        "translations?|dictionar(y|ies)|ubersetzung\\w*|worterbuch|traductions?|dictionnaires?|traduccion\\w*|"
        "diccionarios?|词典|字典|辞書|翻訳",
    ),
    Topic(
        "math",
        "calc calculator calculate math compute add sum evaluate convert",
        "calculat\\w+|comput\\w+|rechner|berechn\\w+|calculs?|calculatrice|calculos?|calculadora|计算|計算",
    ),
    Topic(
        "news",
        "news headlines search web article articles",
        "news|headlines?|nachrichten|schlagzeilen|actualites?|noticias?|新闻|头条|ニュース|最新情報",
    ),
    Topic(
        "health",
        "health patient patients medical doctor prescription fitness",
        "medical|health records?|patients?|prescriptions?|medizinisch\\w*|patienten\\w*|medica\\w+|patients?|"
        "historial medico|pacientes?|病历|医疗|患者|医療|カルテ",
    ),
)

#: What most of the world's tools get their answers from, and what a tool that searches it can find.
WEB_TOPIC = Broad(
    "web",
    frozenset("web search browse browser fetch http url google bing internet".split()),
    frozenset({"weather", "finance", "travel", "news", "time", "web"}),
)
#: A sentence that says that the web cannot be reached is about every tool of these topics.
REMOTE_TOPICS = frozenset({"weather", "finance", "travel", "news", "mail", "message", "records", "repository"})
#: Tools that run commands can do almost anything on the machine and beyond.
UNIVERSAL_TOPIC = Broad(
    "code",
    frozenset("shell exec execute bash command terminal python run cmd".split()),
    frozenset({"files", "web", "code", "time", "repository", "math", "database"}),
)
#: Characters of traditional Chinese that the tables hold in their simplified form.
TRADITIONAL = dict(
    zip(
        "沒無訪問實時資訊網檔執調個據庫為對請會嗎檢讀寫當間氣這開獲權應機語體檢詢現該夠連線號術獻幫運許說讓還來們過將啟錄郵電類數樣裡總結內處後務條種發點經",
        "没无访问实时资讯网档执调个据库为对请会吗检读写当间气这开获权应机语体检询现该够连线号术献帮运许说让还来们过将启录邮电类数样里总结内处后务条种发点经",
        strict=True,
    )
)
