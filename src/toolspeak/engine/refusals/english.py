"""How models decline, announce and ask in English: words, not code.

The notation is explained in `refusals.words`, which sits below; `refusals`, above, compiles and matches.
"""

from __future__ import annotations

from .tables import Language, rules

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
        "({am}) not (({adv}) )?(connected to|linked to|equipped with|hooked up to|provided with)|(there is|"
        "there's|there are|there're|i see|i can see|i've been given|i have been given|i was given) no|"
        "i {not} (see|find|come with|recognize|know of|own)|my (environment|setup|session|interface|context|"
        "system|side) (does not|doesn't|did not|didn't|has not|hasn't|lacks?) ?(include|have|offer|provide|"
        "contain|support|expose|come with|been given)?|none of",
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
        "installed|one|whatsoever|weather|email|mail|calendar|file|database|math|working|listed|mentioned|"
        "described|you|have|to|at|kind|ticket|order|stock|or|and|calculator|plugins?",
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
        "track(ing)?|save|saving|go online|going online|examin(e|ing)|peer(ing)? into|look(ing)? (inside|"
        "through|into)|listen(ing)?|watch(ing)?|navigat(e|ing)|gather(ing)?|consult(ing)?|set(ting)?|turn(ing)?|"
        "place|placing|us(e|ing)|call(ing)?|see your|see what is|see what's|look through|get to|verify(ing)?|"
        "surf(ing)?|do",
        "tell": "provid(e|ing)|giv(e|ing)|tell(ing)?|find(ing)?|see(ing)?|show(ing)?|know(ing)?|determin(e|ing)|"
        "get(ting)?|report(ing)?|offer(ing)?|say|confirm(ing)?|answer(ing)?|share",
        "live": "real time|live|current|up to date|up to the minute|latest|right now|today's|recent|"
        "at the moment|today|tonight|now|currently|this (morning|week|evening|minute)|as of now|what time|"
        "how late",
        "generic": "{live}|external|outside (world|systems|sources)|on your (behalf|computer|machine|device|"
        "system|behalf)|(that|this|it|these|those|the (information|data|answer)) (for you|directly|myself|"
        "right now)|(do|perform|complete|fulfill|carry out|help (you )?with|assist (you )?with|answer|"
        "handle) (that|this|it|so|your (request|question))|this (information|request|task|data)|"
        "that (information|data)|the (requested|required|necessary) (information|data)",
        "purpose": "(to|for|that|which|capable of|able to|with which)",
        "cutoff": "my (knowledge|training|training data|information|data|dataset)( base)? (cut ?off|only goes|"
        "goes up|is limited|was last updated|has a cut ?off|ends|stops|is based on|is current up)|"
        "knowledge cut ?off",
        "self": "i|i'm|i'll|i've|me|my|myself|(this|the) (chat|conversation|assistant|model|interface)|"
        "as an? ai|language model|chatbot",
        "report": "corrupt\\w*|(does not|doesn't|do not|don't) (\\w+ )?exist|not found|no such (?!tools?|functions?|"
        "plugins?)|denied|locked|"
        "encrypted|password protected|is empty|was empty|an? (\\w+ )?error (occurred|code|message|while|from|"
        "saying)|(got|hit|received|returned) an? (\\w+ )?error|errors? (code|message)|(?<!i )failed|"
        "(?<!i )returned|timed out|time ?out|status code|(http|status|code|error|fehler|erreur|错误|"
        "エラー) ?[45][0-9][0-9]|[45][0-9][0-9] (not|forbidden|error|unauthorized|internal)|expired|"
        "rate limit\\w*|too large|came back|refused|(?<!if )i (tried|attempted|checked|looked|searched|ran)|"
        "output (shows|says)|gave me|reports? that|(just|already) (ran|called|used)|because (the|it|this|that|"
        "there)( \\w+){1,3} (is|was|does|has|did|are)|since the (file|page|site|server|service|database)|"
        "as the (file|page|site|server|service|database)|(in|inside|of) (this|the|that|your) (file|code|module|"
        "class|script|project|repository|codebase|snippet)",
        "meta": "refus(al|als|e to|ing)|phras(e|es|ing)|the (sentence|message|text|error|quote|line) |"
        "translat\\w+|draft|here is (a|an|the|your)|here's (a|an|the|your)|template|paraphras\\w+|rewrit\\w+|"
        "example of|dear \\w+|(models|assistants|chatbots|llms|bots|he|she|they) (often |sometimes |usually |"
        "typically |may |might |will )?(say|says|said|claims?|claimed|repl(y|ies|ied)|respond\\w*|answers?)|"
        "in the (story|novel|film|joke|poem|scene)|means that|stands for|subject line|the user (says|said|sees)|"
        "the novel",
        "condition": "^(if|when|whenever|in case|even if|suppose|unless)\\b",
        "missing": "without (knowing|a|an|the|more|your|you|further|some|additional|at least|that|this)|"
        "until you|unless you|before you|till you|so long as|need (to know|the exact|an? |the name|the id|"
        "your )|once you|if you (tell|give|share|provide|send|let)",
        "harm": "illegal\\w*|unlawful|harm(ful|ing|s)?|danger(ous|s)?|unethical|malware|malicious|phishing|"
        "weapons?|explosives?|ransomware|hack(ing)?|self harm|suicid\\w+|hate(ful)?|abus(e|ive)|exploit\\w*|"
        "safety (guidelines|policy|policies|reasons)|(my|our|content|usage|ethical|the) (guidelines|policy|"
        "policies|principles)|violat\\w+|violence|criminal|fraud\\w*|bypass\\w*|stalk\\w*|surveil\\w*|"
        "privacy of|credentials|drugs?|bombs?|theft|steal\\w*|without (their|his|her|the owner's) (consent|"
        "permission|knowledge)|unauthori[sz]ed|deceptive|discriminat\\w+|theft|forg\\w+|impersonat\\w+|spy\\w*|"
        "minors?|lethal|overdos\\w+|launder\\w+|against the law|by law|intrusion|doxx\\w*|scam\\w*|"
        "without (permission|consent|her|his|their)",
        "decline": "(({cannot})|i (will not|won't)|({am}) not (going to|willing to|comfortable)|i (must|have to|"
        "need to) (decline|refuse)|i (decline|refuse) to) (({adv}) )?(help|assist|provid|creat|writ|giv|do|"
        "support|generat|participat|engag|shar|facilitat|comply|fulfill|produc|explain|instruct|with|offer|"
        "be (part|involved)|this|that|your|execut|run|delet|send|access)?\\w*|i (have|must|need) to (stop|pass|"
        "say no|draw)|(not something|nothing) i('ll| will| can)|i (will not|won't)|i refuse",
        "brief": "(({cannot})|i (will not|won't)|({am}) not (going to|willing to)) (({adv}) )?(help|assist|"
        "comply|fulfill|support|participate|engage|continue|do)( you)?( with| in)?( that| this| it|"
        " your request| the request)?( request| task| sort of thing| kind of (thing|request|activity))?[.!;\\n]|"
        "i (must|have to) (respectfully )?decline|({am}) not comfortable|against my (guidelines|principles|"
        "policy|programming|values)",
        "ask": "(object|objection)s? (if|to me)|bother you if i|a problem if i|"
        "would you like me to|shall i|should i|do you want me to|may i|can i (go ahead|proceed|use|run|"
        "call|check|search|look)|could i (use|run|call|check)|is it (ok|okay|alright|all right|fine) (if i|"
        "for me to|with you if i)|would it be (ok|okay|alright) (if i|for me to)|"
        "do i have (your )?permission to|would you mind if i|are you (ok|okay|fine) with me|(can|"
        "could) you confirm (that )?(i|you)|want me to|do you (approve|allow|permit|agree)|(would|will|"
        "is) that (be )?(ok|okay|alright|fine|all right|acceptable)|(ok|okay|alright) (if|to) |permission to|"
        "may i|do i have the go ahead|are you (happy|good) for me to|can i|mind if i|would (that|this|it) (help|"
        "be (helpful|useful|good|of interest))|sound(s)? good|interested|want me to|agree|deal|yes or no|"
        "go for it|how about",
        "offer": "once (i have|you give me|you say) (your|the)? ?(ok|okay|go ahead|yes|consent|permission)|"
        "(if you (would|'d) like|if you want|if you wish|if that (is|'s) (ok|okay)|"
        "with your permission|if you (approve|agree|allow|permit|confirm)|upon your (approval|"
        "confirmation))( me to)?|let me know if (you (would|'d) like|you want) me to|just say (the word|yes|so)|"
        "(just )?let me know (and|if) i|please (confirm|approve|let me know) (that |if |whether )?(you want|"
        "you would like|you'd like|i (should|may|can)|to proceed|and i)|(just )?give me (the go ahead|the nod|a nod|"
        "a thumbs up|"
        "the green light|permission|your ok)|say the word|if you'd like( me to)?|(just )?(say|tell me|ask|"
        "let me know|give me a (sign|nod|shout))( the word| yes| ok| when| if| so| and| whether)|"
        "whenever you('re| are) ready|on your (go|ok|signal|say so)|i('d| would) (like|want|"
        "need) (to have )?your (permission|ok|approval|go ahead|consent)( first)?|awaiting your|"
        "waiting for your|just (confirm|say|ask|tell|let)|(please )?confirm (and|that|if|so|whether)|(reply|"
        "type|answer|respond|write|send|say)( me)?( with)?( just| a)? (_|yes|ok|okay|go)|({am}) ready to|"
        "ready when you are|standing by|awaiting (your )?|i('ll| will) (wait|hold off)|before i (do|run|go|"
        "start|proceed|touch|read|open|look|call|query|search)",
        "choice": "\\bor\\b(?! (_|no|nein|non|not)\\b| _)|^.{0,14}\\b(which|what|where|who|when|how (many|much|"
        "long|often|far))\\b|instead|rather",
        "grave": "delet\\w+|remov\\w+|overwrit\\w+|pay\\w*|transfer\\w*|purchas\\w+|buy|drop|cancel\\w*|"
        "publish\\w*|irrevers\\w+|undone|undo|permanent\\w*|charge\\w*|wipe|format|merge|deploy\\w*|force|reset|"
        "terminat\\w*|kill|shut|reboot|unsubscribe|refund\\w*|uninstall|revert|erase|destroy|attack",
        "more": "\\balso\\b|anything else|something else|further|more (detail|information|about|examples)|"
        "another|as well|explain|elaborate|rephrase|summari[sz]e|clarify|walk you|help with|go over|expand|"
        "additional|next|tomorrow's",
        "intend": "we (begin|start) (by|with)|time to|on my way to|off to|"
        "i will|i'll|i would|i'd|let me|let us|let's|i am going to|i'm going to|i need to|i should|"
        "i must|i shall|we need to|we should|we will|we'll|i am about to|i'm about to|i plan to|allow me to|"
        "i have to|i'd need to|i am now going to|i want to|i can start by|the (next|first) step (is|would be|"
        "will be) to|gonna|(i am|i'm) (just |now |currently |already )?(checking|looking|searching|fetching|"
        "getting|retrieving|running|calling|querying|reading|opening|pulling|creating|sending|loading|listing|"
        "setting|adding|going|starting|booking|updating|writing|using|invoking|executing)",
        "advise": "you (can|could|should|would need to|need to|may|might want to)",
        "act": "note|jot|record|log|put|google|"
        "check(ing)?|look (up|at|into|that up|it up|this up|for|through|in)|search(ing)?|fetch(ing)?|get|"
        "retriev(e|ing)|find|read|open|run|execute|query|list|call|use|using|pull( up)?|invoke|access|send|"
        "creat(e|ing)|take a look|have a look|see (what|if|whether)|grab|do (that|this|it|so)|calculate|compute|"
        "examine|inspect|browse|gather|request|start by|go ahead|proceed|begin|perform|make (a|the) (call|"
        "request|search|query)|set|add|book|schedule|look|review|scan|load|update|write|save|turn|post|verify|"
        "confirm|start|pull|take|look|search|go through|dig|crawl|scan|trigger|kick off|try|determine|learn|"
        "make|consult|figure|checking|looking|getting|running|calling|querying|reading|opening|pulling|sending|"
        "loading|listing|setting|adding|starting|booking|invoking|executing|updating|writing",
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
        "that depends|before i|to (narrow|be|find out|confirm|make sure|verify)|plan$|my plan|confirm|"
        "just confirm|okay then|no worries|my approach|here's (my|the) plan|({wait})|on it|will do|roger|let's|"
        "allow me|right away|great question|good question|perfect|noted|sounds good|i'll|i will|here goes",
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
        "contrast": "but|however|though|although|yet|whereas",
        "past": "(is|are|has been|have been|was) (now )?(sent|out|done|saved|created|booked|added|set|scheduled|ready)|"
        "^done|all set|"
        "i (used|called|ran|checked|queried|searched|opened|read it|looked)|i have (just |already |"
        "now )?(used|called|run|checked|read|searched|queried)|i've (just |already |now )?\\w+|was called|"
        "(the )?results? (is|are|was|were|shows?|say)|found|based on (the|that|what)|gave|shows?|says|told|"
        "turned up|completed|succeeded|finished",
        "doc": "takes|accepts|expects|is (a|an|the) (\\w+ )?(tool|function|command)|are (\\w+ )?(tools|"
        "functions)|used for|lets (you|me)|allows (you|me)|my tools|tools i have|i (have|can)|i'm able|"
        "stands for|is defined|documentation|differs?|difference|instead of|rather than|whereas|compared|means|"
        "rename\\w*|deprecated|exists|supports|version",
        "wait": "one (moment|second|sec|minute)|just a (moment|second|sec|minute)|hold on|hang (on|tight)|"
        "stand by|please wait|give me a (moment|second|sec|minute)|bear with me|on it|right away|"
        "coming (right )?up|working on it|be right back",
        "ability": "i (can|could|would be able to|might|may)|i'd be able to|i (have|do have) (a|the) (tool|"
        "function|way)|there is a (tool|way)|there's a (tool|way)|it('s| is) possible",
        "common": "the|and|is|are|to|of|in|that|it|for|you|your|i|i'm|i'll|i'd|i've|with|this|be|have|not|can|"
        "would|me|my|on|at|or|if|was|let|what|please|but|so|as|do|don't|no|an?|here|there|from|now",
        "needs": "i('d| would) (have|need) to|i need to|(would|will|have to|need to|must) be (run|checked|read|"
        "queried|opened)|to (be sure|know|find out|narrow|verify|check|confirm|tell|rule|answer|diagnose|"
        "determine|see|pin)\\b|best to|would (help|tell|show)|first step|(quickest|easiest|best|surest|"
        "only) way|running|have a look|take a look|worth|would settle",
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
            "unless_other",
            "nothing (is|'s|has been) (\\w+ )?(hooked up|connected|wired( up)?|plugged in|attached|set up)|"
            "({am}) not (\\w+ )?(connected|linked|wired|hooked up|plugged in)|no (\\w+ )?(runtime|back ?end|"
            "connection|integration|mechanism|execution environment|interface) (\\w+ ){0,4}(that|to|for|behind|"
            "here|in this|which|through|with)",
        ),
        (
            "text_only",
            "no_tools",
            "self",
            "(only|just|all i (can )?do is|nothing but|solely|purely|limited to|restricted to|confined to|"
            "everything i (produce|write|output|send)|can only) (\\w+ ){0,3}?(generat\\w+|produc\\w+|writ\\w+|"
            "output\\w*|text|plain text|words)|({am}) (just|only|merely|purely|simply|nothing more than|"
            "a pure) (an? )?(\\w+ ){0,3}(language model|text model|chatbot|chat model|text generator)",
        ),
        (
            "cannot_use_them",
            "no_tools",
            "unless_other",
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
        (
            "out_of_reach",
            "cannot_access",
            "topic",
            "(is not|isn't|are not|aren't|not) (\\w+ )?(possible|available|visible|accessible|reachable|open|"
            "readable|feasible) (for|to) me|(is|are) (off limits|out of reach|invisible|inaccessible|closed|"
            "hidden) (for|to|from) me|(is not|isn't|are not|aren't) something (that )?i('m| am)? (can|able to|"
            "capable of)|out of my (reach|hands)",
        ),
        (
            "made_none",
            "no_tools",
            "nothing",
            "no (\\w+ ){0,3}({tools}) (\\w+ ){0,2}(made available|available|been given|given|provided|"
            "accessible|offered|exposed)|none of (the |these |those |my )?({tools}) (\\w+ ){0,4}(available|"
            "accessible|work\\w*|usable|real|connected|exist)",
        ),
        (
            "if_only",
            "no_tools",
            "object",
            "(if (only )?i (had|could|were able)|i wish i (could|had)|i would if i could|were i able to|"
            "i'd (love|like) to( \\w+){0,4} but)",
        ),
        (
            "lacking",
            "no_tools",
            "object",
            "({tools}|access|capabilit\\w+|abilit\\w+|permissions?|connection)( \\w+){0,2} (that |"
            "which )?i (do not|don't|lack|currently lack|simply don't|am missing|haven't)",
        ),
        (
            "only_shared",
            "cannot_access",
            "topic",
            "(only|just) (\\w+ )?(see|know|work with|read|go by|have access to|rely on|use|answer from|see what|"
            "deal with) (what|the (text|information|messages?)|whatever)( \\w+){0,3} (you|this (chat|"
            "conversation)|here)|(what|whatever) you (paste|share|type|send|tell)( \\w+){0,4} is (all|the only)",
        ),
        (
            "paste_it",
            "cannot_access",
            "topic",
            "(paste|copy|share|send|upload|provide|post|type|forward)( \\w+){0,2} (the|its|your|that|"
            "their)( \\w+){0,2} (contents?|text|output|file|code|body|snippet|email|article|lines?|results?)\\b",
        ),
        (
            "from_training",
            "cannot_access",
            "topic",
            "(come|comes|based|rely|relies|drawn|answer)( \\w+){0,3} (from|on|solely on|only on) (my |"
            "the )?training|my (knowledge|training|information|data)( \\w+){0,3} (static|frozen|fixed|outdated|"
            "not live|stops|ends)",
        ),
        (
            "yourself",
            "cannot_access",
            "topic",
            "(you'll|you will|you would|you'd) (have|need) to (\\w+ ){1,5}(yourself|manually|on your own)|"
            "(please|kindly) (run|check|open|look up|search|execute|visit|query|send|create|"
            "do)( \\w+){1,6} (yourself|manually|on your own)",
        ),
        (
            "cannot_act",
            "no_tools",
            "nothing",
            "({cannot}) (({adv}) ){0,2}(perform|take|carry out|execute|trigger|"
            "initiate)( \\w+){0,3} actions?\\b|({cannot}) (({adv}) ){0,2}(interact|"
            "communicate) with( \\w+){0,2} (external|outside|other)( \\w+)?",
        ),
        (
            "no_idea",
            "cannot_access",
            "topic",
            "i('ve| have) no (idea|clue|knowledge|insight|information|record|data|details|view|window|"
            "means of knowing|way of knowing)|i (do not|don't|cannot|can't) (\\w+ )?(know|tell|say|see) (what|"
            "which|how|whether|if|who|when)( \\w+){1,6}",
        ),
        (
            "as_of",
            "cannot_access",
            "topic",
            "as of my (last|latest|most recent)|my (last|latest|most recent) (update|training)|(since|"
            "after) my (training|last update|cut ?off)",
        ),
        (
            "without",
            "no_tools",
            "nothing",
            "(i|i'm|me|my|this|here)\\b{~40}without (any |access to )?(\\w+ ){0,2}({tools})\\b|(no|without|"
            "lacks?) ({tools}) support|({tools}) support (is not|isn't)|(plain|pure|bare) (chat|"
            "text)( \\w+)? (session|mode|interface|window|only)",
        ),
        (
            "someone_else",
            "no_tools",
            "topic",
            "(you|your \\w+|someone|somebody|the (developer|user|system|client|application)) (will |would |'ll |"
            "'d )?(have|has|need|needs) to (\\w+ )?(call|run|execute|invoke|trigger|send|look|check|open)|"
            "(executed|run|called|triggered) by (you|your|someone)",
        ),
        (
            "elsewhere",
            "cannot_access",
            "topic",
            "^((for|to get|to see|to find|to check)( \\w+){1,8} )?(please|i('d| would)? (recommend|suggest|"
            "advise)|you('ll| will| can| could| should| may| might)|try|best)( \\w+){0,4} (check|checking|visit|"
            "visiting|consult|consulting|look(ing)? (at|on|up)|refer(ring)? to|us(e|ing)|go(ing)? to|"
            "head(ing)? (over )?to|turn to)( \\w+){0,6} (websites?|sites?|apps?|services?|providers?|online|"
            "[\\w-]+\\.(com|org|net|gov)|portal|page|search engine|google)",
        ),
        (
            "inactive",
            "no_tools",
            "nothing",
            "({tools})( \\w+){0,6} (not|n't|isn't|aren't|wasn't|weren't|never|haven't been|"
            "hasn't been)( \\w+){0,3} (loaded|attached|enabled|set up|configured|wired|active|activated|present|"
            "included|installed|working|there|exposed|hooked up|turned on|switched on|supported)\\b(?! (in|"
            "for) (the|your|this) (file|code|project))",
        ),
        (
            "strange_tool",
            "no_tools",
            "nothing",
            "({am}) not (familiar|aware|acquainted)( \\w+)? (with|of)( \\w+){0,2} (⌘|({tools}))|nothing (i|"
            "that i|to|with which|for me to)( \\w+){0,3} (call|use|run|invoke|query)|(does|do) nothing (here|"
            "on my|for me)|(unknown|no)( \\w+){0,2} ({tools}) (by|called|named|of) (that|this|the) ?",
        ),
        (
            "unseen",
            "cannot_access",
            "topic",
            "(is|are|remains?) (\\w+ )?(unknown|a mystery|hidden|invisible|opaque) to me|i (do not|don't|can't|"
            "cannot) see (any|a|the|your) (\\w+ ){0,2}(file|attachment|document|image|link|email|message|"
            "calendar|screen)s?|no (file|document|attachment|link|image)s? (\\w+ ){0,2}(attached|uploaded|"
            "shared|provided|included)|(has not|hasn't|have not|haven't|not) been (shared|uploaded|attached|"
            "forwarded) (with|to) me",
        ),
        (
            "not_working",
            "no_tools",
            "nothing",
            "({tools})( \\w+){0,4} (do not|don't|does not|doesn't|won't|will not) (\\w+ )?(work|function|run|"
            "do anything|respond|execute)",
        ),
        (
            "nothing_lets",
            "no_tools",
            "object",
            "(nothing|no (way|means|mechanism))( \\w+){0,5} (lets?|allows?|enables?|permits?|would let|for) me\\b",
        ),
        (
            "beyond_me",
            "cannot_access",
            "topic",
            "(is|are|lies?|falls?) (\\w+ )?(beyond|outside|out of|past) (of )?(me|my (\\w+ )?(reach|power|"
            "abilit|capabilit|scope|remit|range)\\w*)\\b|({am}) (\\w+ )?(cut off|disconnected|isolated|"
            "walled off) from|({am}) (\\w+ )?offline",
        ),
    ),
)
