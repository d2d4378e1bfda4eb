"""What ordinary answers say that sounds like a refusal or like the announcement of a call.

Each slot is a shape that excuses a sentence. `needless`: that no tool is needed, which is not to have none. `instead`:
what was done in place of something that could not be done. `reader`: how the reader makes a call, by hand or in a
program. `advice`: what the speaker would do as a person, such as deciding, or speaking to somebody. `again`: whether
to repeat something, which only the user can say. `scope`: that the tools that there are do not serve this, which is an
honest answer unless one of them is for what is spoken of. Words, not code; the notation is that of `refusals.words`.
"""

from __future__ import annotations

ORDINARY: dict[str, dict[str, str]] = {
    "en": {
        "scope": "(with|using|by|through|via) (the|my|these|those|any of (the|my)) (\\w+ ){0,2}({tools})( \\w+)? "
        "(available|at hand|at my disposal|i have|i've|i was given|given|provided|on offer|here)|(with|using) my (\\w+ "
        ")?({tools})|(with|using) the (available|given|provided|current|present) ({tools})|none of (the|my|these|"
        "those) (\\w+ ){0,2}({tools})(?!.* (is|are|was|were|seems?) (\\w+ )?(available|accessible|connected|enabled|"
        "working|loaded|there))",
        "needless": "no (\\w+ ){0,3}({tools})( \\w+){0,2} (is|are|was|were) (\\w+ )?(needed|necessary|required|"
        "called for)|(do not|don't|does not|doesn't|did not|didn't|no|without) (\\w+ )?need(ing)?( \\w+){0,3} "
        "({tools})|({tools}) (is not|isn't|are not|aren't) (\\w+ )?(needed|necessary|required)",
        "instead": "(so|therefore|hence|thus|and) (i|i've|i have) (\\w+ )?(used|took|read|saved|wrote|opened|went|"
        "switched|worked|looked|picked|chose|copied|sent|stored|put|kept|did|found)(?!( \\w+){0,3} (knowledge|"
        "training|memory|assumptions?|typical|estimates?))|i( \\w+){0,3} (used|took|read)( \\w+){0,6} instead|"
        "instead i (\\w+ed|took|read|wrote|sent|went)",
        "reader": "(to|want to|like to) (call|try|use|run|test|invoke) (the )?({tools} )?⌘( \\w+){0,2} (yourself|"
        "on your own|from|by hand|in your)|(script|program) of your own|(pass|hand|feed)(es|ing)? (\\w+ )?(its|the|"
        "their|that) (\\w+ )?(results?|outputs?|values?|content)( \\w+){0,3} to ⌘",
        "advice": "i('d| would)( \\w+){0,12} then (\\w+ )?(decide|choose|see|go|leave|plan|pack|set off|judge|make "
        "up)|i('d| would) (\\w+ )?(call|phone|ring|ask|tell|talk to|speak (to|with)|consult|warn|thank|inform|"
        "text) (your (?!{tools}|files?|data)\\w+|an? (doctor|lawyer|plumber|friend|colleague|professional|"
        "specialist)|someone|somebody|him|her|them)|in your (place|shoes|position)|if i were you|before you (\\w+ "
        ")?(write|send|go|leave|decide|reply)",
        "again": "again|retry|once more|another (try|attempt|go)|resend",
    },
    "de": {
        "scope": "mit (den|meinen|diesen) (\\w+ ){0,2}({tools})|kein\\w* (der|meiner|dieser|von den|von meinen) (\\w+ "
        "){0,2}({tools})(?!.* (verfugbar|vorhanden|erreichbar|aktiv|verbunden))",
        "needless": "(kein\\w*|nicht)( \\w+){0,2} (notig|notwendig|erforderlich|vonnoten)|(brauch|benotig)\\w*( "
        "\\w+){0,3} kein\\w* (\\w+ )?({tools})|kein\\w* (\\w+ )?({tools})( \\w+){0,2} (brauch\\w*|benotig\\w*)",
        "instead": "(deshalb|daher|darum|also|deswegen|stattdessen) habe ich( \\w+){0,8} (ge\\w+|ver\\w+|be\\w+|"
        "aus\\w+|\\w+iert)|habe( ich)?( \\w+){0,4} stattdessen|(deshalb|daher|darum|also|stattdessen) (nahm|las|"
        "nutzte|verwendete|schrieb) ich",
        "reader": "^(um|wer|wenn (du|sie)) (\\w+ )?⌘ (\\w+ ){0,3}(auszuprobieren|aufzurufen|zu (nutzen|verwenden|"
        "testen|probieren|starten))|in (deiner|ihrer|der eigenen) (konsole|shell)|aus (einem|deinem|ihrem) (\\w+ "
        ")?(skript|programm)|(ergebnis|ruckgabewert|ausgabe|inhalt)( \\w+){0,3} (an|in) ⌘( \\w+){0,2} (weiter\\w*|"
        "ubergeben|geben|reichen)",
        "advice": "ich wurde( \\w+){0,8} dann( \\w+){0,2} (entscheid\\w*|los\\w*|uberleg\\w*|packen|abwart\\w*)|an "
        "(ihrer|deiner) stelle|wurde( \\w+){0,4} (mit|bei) (deine[rm]|ihre[rm]|eine[rm]) \\w+ (sprech\\w*|red\\w*|"
        "nachfrag\\w*|klar\\w*)|wurde( \\w+){0,3} (deine[nm]?|ihre[nm]?|einen) \\w+ (anruf\\w*|frag\\w*|"
        "informier\\w*)|bevor (du|sie)( \\w+){1,4} (verschick\\w*|send\\w*|schick\\w*|schreib\\w*|geh\\w*|"
        "antwort\\w*)",
        "again": "noch ?mal\\w*|noch einmal|erneut|wiederhol\\w*|ein weiteres mal",
    },
    "fr": {
        "scope": "avec (les|mes|ces) (\\w+ )?({tools})|aucune? (des|de mes|de ces) (\\w+ )?({tools})(?!.* (n'est|"
        "ne sont) (\\w+ )?(disponible|accessible|connecte|active)\\w*)",
        "needless": "aucune? (\\w+ )?({tools}) (\\w+ )?n'est (\\w+ )?(necessaire|requise?|utile|indispensable)|"
        "(pas|nul) besoin (d'\\w+|de)|({tools}) n'est pas (\\w+ )?(necessaire|requise?|utile|indispensable)|se "
        "passer d'(un |une )?({tools})",
        "instead": "(j'ai|je l'ai|je me suis) (donc|alors|plutot) \\w+|(donc|alors|du coup) j'ai \\w+|j'ai( "
        "\\w+){0,6} a la place|a la place j'ai",
        "reader": "^(pour|si vous voulez) (appeler|essayer|utiliser|lancer|tester|executer)( \\w+){0,2} ⌘( "
        "\\w+){0,2} (vous meme|toi meme|depuis|dans)|(passez|transmettez|donnez)( \\w+){0,3} (resultat|sortie|"
        "valeur|contenu)( \\w+){0,3} a ⌘",
        "advice": "a (votre|ta) place|si j'etais (vous|toi)|je \\w+rais( \\w+){0,8} (puis|et) (je )?(deciderais|"
        "verrais|choisirais|partirais|aviserais)|(appellerais|demanderais a|parlerais a|contacterais|"
        "consulterais)( d'abord| plutot)? (votre|ton|ta|vos|un|une) (?!{tools}|fichier)\\w+",
        "again": "reessa\\w*|nouvel essai|a nouveau|de nouveau|nouvelle (fois|tentative)|retent\\w*|renvoi\\w*|"
        "renvoy\\w*",
    },
    "es": {
        "scope": "con (las|los|mis|estas|estos) (\\w+ )?({tools})|ningun\\w* de (las|los|mis|estas|estos) (\\w+ "
        ")?({tools})(?!.* esta\\w* (\\w+ )?(disponible|accesible|conectad|activ)\\w*)",
        "needless": "no (hace|hacen) falta|no se (necesita|requiere|precisa)n?|no (necesito|preciso) (\\w+ "
        ")?({tools})|no hay necesidad|({tools}) no (es|son) (necesari\\w+|precis\\w+)|no (es|son) necesari\\w+",
        "instead": "(asi que|por eso|por lo que|de modo que) (he \\w+|(lo |la )?(lei|use|tome|utilice|guarde|"
        "consulte|abri|copie|envie|escribi|recurri))|en su lugar (he|lei|use|tome|utilice|consulte|abri)|(he|lei|"
        "use|tome|utilice)( \\w+){0,6} en su lugar",
        "reader": "^(para|si quieres) (\\w+ )?(llamar|probar|usar|ejecutar|lanzar)( \\w+){0,3} (tu|usted) mism[oa]|"
        "^(para|si quieres) (\\w+ )?(llamar|probar|usar|ejecutar|lanzar)( \\w+){0,3} ⌘( \\w+){0,2} (tu mism[oa]|"
        "desde|en tu)|(pasa|pase|entrega|entregue)( \\w+){0,3} (resultado|salida|valor|contenido)( \\w+){0,3} a ⌘",
        "advice": "en tu lugar|yo que tu|si fuera tu|yo \\w+ria( \\w+){0,8} (luego|despues) (decidiria|veria|"
        "elegiria|saldria)|(hablaria con|llamaria a|preguntaria a|consultaria (a|con)) (tu|tus|su|un|una) "
        "(?!{tools}|archivo)\\w+",
        "again": "otra vez|de nuevo|reintent\\w*|nuevamente|reenvi\\w*|volver a|vuelv[ao] a",
    },
    "zh": {
        "scope": "(用|以|凭|通过)(现有|可用|手头|目前|我|这些|提供)的?{~4}({tools})|(现有|可用|这些|我)的({tools})"
        "(都|均|里|中){~4}(无法|不能|做不|没有)",
        "needless": "(不需要|无需|不必|不用|用不着){~8}({tools})|({tools}){~4}(不需要|不必要|没必要|用不上)",
        "instead": "(所以|因此|于是|转而|只好)我?(就|便|已|已经)?(改|转|用了|读了|查了|采用|使用了|参考了|"
        "换)(?!.{0,4}(知识|训练|记忆|估计))|改(读|用|查|看)了",
        "reader": "自己(调用|试|运行|使用|执行)|在(代码|脚本|程序|终端|python)(里|中|内)|(把|将).{0,10}(结果|输出|"
        "返回值|内容)(传|交|喂)给⌘",
        "advice": "换作是?我|如果我是(你|您)|要是我|再(决定|考虑|看情况)|(给|问|找|联系)(你|您)的.{1,6}(打|商量|问|"
        "谈|确认|聊)",
        "again": "重试|重新|再(试|发|次)|重发",
    },
    "ja": {
        "scope": "(利用可能な|使える|手元の|私の|これらの|現在の|今の)({tools})で(は|も)|どの({tools})(も|でも)",
        "needless": "({tools}){~12}(不要|必要(は|が|も)?(ありません|ない|ございません)|(要|い)りません|"
        "までもありません|までもない)",
        "instead": "代わりに.{0,20}ました|(ため|ので).{0,24}(使い|読み|参照し|用い|保存し|使用し|利用し|確認し)ました",
        "reader": "ご自身で|自分で(呼|試|実行|使)|(結果|戻り値|出力|内容)を⌘に(渡|送)",
        "advice": "(私|僕|わたし)(なら|だったら)",
        "again": "もう一度|再度|再試行|再送|改めて|やり直",
    },
}
