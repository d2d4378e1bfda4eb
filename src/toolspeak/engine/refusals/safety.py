"""How models decline what would do harm, in more words than the tables of the languages hold.

What is declined for reasons of safety is never asked again, so here a miss is the dear mistake: it makes a model that
said no hear twice that it must. A sentence counts that declines and stands beside a reason; both lists are long, since
neither alone decides anything. `brief` needs no reason: it names the rules that forbid it. Words, not code; the
notation is that of `refusals.words`, and each list is added to the slot of its name.
"""

from __future__ import annotations

SAFETY: dict[str, dict[str, str]] = {
    "en": {
        "harm": "(acceptable |fair )?use polic(y|ies)|polic(y|ies) (forbid|prohibit|rule|do not|don't|does not|"
        "doesn't)\\w*|against (\\w+ ){0,3}(polic(y|ies)|rules)|terms of (service|use)|crimes?|(break|against)\\w* "
        "the law|outlawed|threat(s|en\\w*)|blackmail\\w*|extort\\w*|harass\\w*|bully\\w*|dox\\w*|underage|"
        "child(ren)? (abuse|porn\\w*)|(hurt|injure|kill|humiliate)s? (a|an|some|any|people|your|him|her|them|"
        "others)\\w*|sexual\\w*|racis[mt]|sexis[mt]|terroris\\w*|poison\\w*|counterfeit\\w*|fake (reviews?|ids?|"
        "passports?|documents?|money|news|invoices?)|pirac\\w*|pirated|sabotag\\w*|defam\\w*|slander\\w*|home "
        "address\\w*|(invad|invasion|intrud)\\w* (\\w+ )?(of |on |into )?(\\w+ )?privacy|disinformation|cheat(ing|"
        "s)?|deceiv\\w*|swindl\\w*|crosses a line",
        "decline": "i('d| would) (much )?rather not|i (have to|must|will|'ll have to) turn (\\w+ )?down|hard no|"
        "answer is no|off the table|out of the question|^(i'm |i am )?(so |very |really )?sorry (but )?no|count me "
        "out|(i am|i'm) (declining|not (doing|writing|sending|helping|touching))|i (must |will |have to )?(decline|"
        "pass on)|i (do not|don't) (do|write|send|help with|take part|support|assist with|engage|produce|create)|i "
        "(would|will|'ll) never|(do not|don't) ask me|something else|i('ll| will) leave (it|this) (alone|be)|no "
        "part in|say no",
        "brief": "(violat\\w*|against|breach\\w*|contraven\\w*|break\\w*|contrary to|conflict\\w* with) (my|our|"
        "(the )?(usage|content|safety|community|acceptable use)|(the )?(platform|provider)('s)?) (\\w+ "
        "){0,2}(polic(y|ies)|guidelines|rules|terms|standards)|my (\\w+ )?(guidelines|polic(y|ies)|rules|"
        "principles|values) (do not|don't|does not|doesn't|will not|won't|forbids?|prohibits?|prevents?|keeps?)",
    },
    "de": {
        "harm": "droh\\w*|bedroh\\w*|erpress\\w*|ausspah\\w*|aus(zu)?spionier\\w*|mobb\\w*|belastig\\w*|"
        "beleidig\\w*|minderjahrig\\w*|jugendschutz\\w*|nutzungs(bedingung|regel|richtlinie)\\w*|verleumd\\w*|"
        "terror\\w*|rassis\\w*|sexis\\w*|sexuali\\w*|suizid\\w*|vergift\\w*|stalk\\w*|heimlich|"
        "personlichkeitsrecht\\w*|(ihre|seine|deren|dessen|fremde) rechte|verbrechen|falschgeld|falschung\\w*|"
        "hetz\\w*|volksverhetz\\w*|schutzalter\\w*|raubkopie\\w*|sabot\\w*|menschenverachtend\\w*|"
        "sicherheitsgrund\\w*|schadcode",
        "decline": "^(es )?tut mir (sehr )?leid (aber )?nein|(verschicke|sende|schreibe|verfasse|unterstutze|"
        "liefere|erstelle|starte|beschaffe|verrate|formuliere|entwerfe|baue|plane|leiste|generiere|erzeuge|"
        "veroffentliche|tue|programmiere|ubernehme|beantworte|fuhre|suche) ich( \\w+){0,5} (nicht|nie|niemals|"
        "keine\\w*)|dass ich\\b{~60}(nicht|kein\\w*|weder)|kommt (\\w+ )?nicht (\\w+ )?(in ?frage|infrage)|nicht "
        "mit mir|davon (lasse|nehme) ich|nehme ich abstand|helfe ich (\\w+ )?niemand\\w*|bin ich raus|ohne mich",
        "brief": "(widersprich\\w*|verstosst gegen|verstossen gegen|verstiesse gegen|unvereinbar mit|vereinbar mit|"
        "gegen) (meine[nr]?|unsere[nr]?|die) (nutzungs\\w+|inhalts\\w+|sicherheits\\w+|richtlinien|grundsatze\\w*)|"
        "(meine|unsere) (\\w+ )?(\\w*richtlinien|grundsatze|regeln|vorgaben) (\\w+ )?(untersag\\w*|verbiet\\w*|"
        "erlaub\\w*|lassen)",
    },
    "fr": {
        "harm": "harcel\\w*|delits?|crimes?|penal\\w*|punie?s?|mineure?s?|menac\\w*|chantage|espionn\\w*|"
        "conditions d'utilisation|regles d'(utilisation|usage)|atteinte a|falsifi\\w*|contrefa\\w*|faux "
        "(documents?|billets?|papiers?|avis|profils?)|racis\\w*|sexis\\w*|terroris\\w*|diffam\\w*|deni de service|"
        "empoisonn\\w*|deontolog\\w*|sexuel\\w*|code penal|injuri\\w*|desinformation|haineu\\w*|intimid\\w*",
        "decline": "c'est non|(pas|hors de) question|je (\\w+ )?decline|je n'(y |en )?\\w*rai|je ne (vous |te |le |"
        "la |les |lui |leur )\\w+rai|je prefere( \\w+){0,2} (m'abstenir|ne pas)|sans moi|je ne (participe|redige|"
        "fais|cautionne|genere|fournis|donne) pas|desole (mais )?non|jamais je ne|je (me )?(dois|vois)( \\w+){0,2} "
        "(refuser|decliner)",
        "brief": "(contraires?|contrev\\w*|enfrei\\w*|viol(e|ent|erait)) (a |aux? )?(mes|nos|les) (regles|"
        "principes|directives|conditions d'utilisation|politiques?|consignes|valeurs)|(ma|mes|nos) (charte|regles|"
        "directives|principes|consignes) (\\w+ )?(m'\\w+|me)",
    },
    "es": {
        "harm": "intimidad|(a|de|con|para) menores|menores de edad|codigo penal|espia\\w*|espiar|vulner\\w*|"
        "acos\\w*|amenaz\\w*|chantaj\\w*|extors\\w*|racis\\w*|terroris\\w*|difam\\w*|condiciones de uso|terminos "
        "de (uso|servicio)|sexual\\w*|envenen\\w*|penad[oa]s?|calumni\\w*|discrimina\\w*|(billetes?|documentos?|"
        "resenas?|pasaportes?|noticias?) fals\\w+|machis\\w*|injuri\\w*|desinformacion|robad[oa]s?|violent[oa]s?",
        "decline": "^lo siento (mucho )?(pero )?no[.!:;]|no (lo|la|los|las|te|le|les|me) (lo |la )?\\w+re|rechazo|"
        "declino|no cuente?s? conmigo|de ningun(a)? (modo|manera)|ni hablar|me abstendre|(lamento|siento) no poder|"
        "no (escribo|redacto|envio|genero|hago|participo|ayudo|facilito|doy)",
        "brief": "(contra|viola\\w*|incumpl\\w*|contrari[oa]s? a|infring\\w*) (mis|nuestr[oa]s) (normas|politicas|"
        "directrices|condiciones|terminos|principios|reglas)|(viola\\w*|incumpl\\w*|infring\\w*) las (normas|"
        "politicas|condiciones) de uso|(mis|nuestr[oa]s) (directrices|normas|politicas|principios|reglas) (no )?me",
    },
    "zh": {
        "harm": "犯法|勒索|敲诈|谣言|人肉|色情|低俗|淫秽|骚扰|威胁|恐吓|赌博|种族主义|恐怖(主义|袭击|分子)|诽谤|"
        "侮辱|侵害|侵权|他人(的)?权益|使用(条款|规范|规定|协议)|社区规范|(内容|平台)(规范|规定|规则)|保护法|假(币|"
        "钞|证|发票)|性(暗示|侵|剥削)|虚假(信息|新闻)|霸凌",
        "decline": "不(写|做|参与|帮|生成|协助|发送|教|答应|碰|接受|支持)|帮不了|帮不上|谢绝|婉拒|爱莫能助",
        "brief": "(违反|违背|不符合|有违)了?.{0,6}(使用|平台|内容|社区|安全|我的|我们的)的?(使用)?(规范|条款|规定|"
        "政策|准则|原则|规则|协议)",
    },
    "ja": {
        "harm": "脅迫|脅し|脅す|恐喝|未成年|児童|法律で|法に触れ|偽札|偽装|偽の|詐欺|テロ|誹謗|中傷|嫌がらせ|"
        "ストーカー|わいせつ|性的|名誉毀損|盗撮|いじめ|人権|殺害|毒物",
        "decline": "お力に(は)?なれ|ご遠慮|お受けでき|お引き受け|差し控え|加担",
        "brief": "(規約|ポリシー|ガイドライン|利用方針)(に|の)(反|違反|抵触)",
    },
}
