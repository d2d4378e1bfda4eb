"""Refusals that nobody has written down, put together from what every refusal is made of.

A table of phrases knows the wordings that somebody thought of. Here a wording is whatever brings these together in one
sentence: the speaker, a negation near a word of power (can, see, access, data), and something that a tool on offer is
for; or a negation near a word for tools, and that it is so here. What is negated must not be one of the many things
that a good answer denies as well: a mistake, a name, a preference. Words, not code; the notation is that of
`refusals.words`.
"""

from __future__ import annotations

import msgspec

from .ordinary import ORDINARY
from .safety import SAFETY
from .tables import Language, rules

#: What is said of power, and what of tools; once where words are told apart by spaces, once where they are not.
_SPACED = (
    "({own})|({me})( [\\w']+){0,6} ({lack})|({lack})( [\\w']+){0,6} ({me})|"
    "({me})( [\\w']+){0,5} ({neg})( [\\w']+){0,4} ({power})|({neg})( [\\w']+){0,4} ({power})( [\\w']+){0,5} ({me})|"
    "({neg})( [\\w']+){0,2} ({me})( [\\w']+){0,4} ({power})",
    "({neg}|{lack})( [\\w']+){0,7} ({tools})|({tools})( [\\w']+){0,7} ({neg}|{lack})",
)
_SPACELESS = (
    "({own})|({me}){~16}({lack})|({lack}){~10}({me})|({me}){~12}({neg}){~12}({power})|({power}){~12}({lack})",
    "({neg}|{lack}){~24}({tools})|({tools}){~24}({neg}|{lack})",
)

#: The parts of each language. `me`: the speaker; `neg`: negations; `power`: what is denied; `lack`: both in one;
#: `modal`: what makes the name of a tool a plan; `would`: what somebody would do, perhaps somebody else's way;
#: `own`: all three in one; `wants`: the user is asked for something, not for leave;
#: `unrelated`: what an answer denies; `here`: where, or to whom, something is missing.
PARTS: dict[str, dict[str, str]] = {
    "en": {
        "modal": "should|would|must|needs? to|has to|have to|could|will|suffices? to|enough to|going to|required|"
        "required is|right thing",
        "would": "i would|i'd|we would|we'd",
        "me": "i|i'm|i've|i'd|me|my|myself",
        "own": "(escapes?|eludes?|beyond) me|not in my (power|hands)",
        "neg": "cannot|can't|cant|don't|doesn't|isn't|aren't|ain't|haven't|hasn't|not|no|none|nothing|never|nor|"
        "neither|"
        "lacks?|lacking",
        "lack": "unable|incapable|impossible|unavailable|inaccessible|invisible|disconnected|cut off|off limits|"
        "out of (my )?(reach|hands)|unequipped|powerless|beyond|outside|exceeds?|escapes?|eludes?|closed to",
        "power": "able|abilit\\w+|capab\\w+|capacity|access\\w*|reach\\w*|visible|visibility|sight|eyes|connect\\w*|"
        "link(ed)?|hooked|wired|plugged|tied|equipped|outfitted|built|made|designed|meant|in the cards|means|way|"
        "possess|given|granted|supplied|available|real time|live|information|data|insight|feed|look\\w* (up|into|"
        "inside)|check\\w*|fetch\\w*|retriev\\w*|open(ing)?|read(ing)?|run(ning)?|execut\\w*|send(ing)?|brows\\w*|"
        "pull\\w*|quer(y|ying)|touch|get at|get to|perform|installed|enabled|something i|"
        "makes? it|arrive\\w*|come through|follow(ed)?|open to|clock|watch",
        "unrelated": "errors?|mistakes?|problems?|issues?|bugs?|typos?|reasons?|recommend\\w*|suggest\\w*|advis\\w+|"
        "think|believe|opinions?|worr\\w+|favou?rites?|prefer\\w*|doubts?|questions?|remember|promise|guarantee|find|"
        "found|agree|matter|mind|which|who|whose|address|password|names?|number|title|path|enough|sure|certain|"
        "don't need|not need|no need|not necessary|why|predict\\w*|already|wrong|should|difference|wait|help but|"
        "i see no|i (don't|do not) see|i'd not|i wouldn't",
        "here": "here|in (this|our) (chat|conversation|session|environment|context|interface|setup|thread)|"
        "on my (end|side)|at my disposal|installed|enabled|at hand|(to|for|with) me|given|available|i support|"
        "my (environment|setup|toolbox)|i (cannot|can't|cant)|i can",
    },
    "de": {
        "modal": "wurde|musste|muss|sollte|konnte|ware|gilt es|reicht es|ist zu|werde|notig|bedarf",
        "would": "ich wurde|wurde ich|wir wurden",
        "me": "ich|mir|mich|mein\\w*",
        "own": "(entgeht|entgehen|entzieht sich) mir|(erreich\\w*|gelang\\w*|komm\\w*) (mich|zu mir)( \\w+){0,2} nicht|"
        "nicht in meiner (macht|hand)",
        "neg": "nicht|kein\\w*|nichts|nie|niemals|weder|fehlt|fehlen|mangelt",
        "lack": "unmoglich|ausserstande|unzuganglich|unsichtbar|unerreichbar|verwehrt|verschlossen|verborgen|"
        "abgeschnitten|ubersteig\\w*|entzieh\\w*|entgeht|entgehen|jenseits|ausserhalb",
        "power": "moglich\\w*|fahig\\w*|lage|imstande|zugriff\\w*|zugang|zugreifen|verbunden|verbindung|angebunden|"
        "anbindung|angeschlossen|verfug\\w*|vor|einsehen|einblick|kenntnis|daten|informationen|auskunft|abruf\\w*|"
        "offnen|lesen|ausfuhr\\w*|auszufuhr\\w*|senden|schicken|verschicken|suchen|nachsehen|nachschau\\w*|heran\\w*|"
        "dran|drauf|rein|ran|hin|erreich\\w*|angekommen|gesicht|ausgestattet|gegeben|installiert|eingebaut|gestattet|"
        "befugt|zuganglich|sichtbar|vorgesehen|vorhanden|einsehbar|gemacht|gebaut|gedacht|ausgelegt|verfolgen|offen|"
        "steuern|bedienen|anlegen|erstellen|abspielen|buchen|eintragen",
        "unrelated": "fehler\\w*|problem\\w*|grund\\w*|empfehl\\w*|raten|vorschlag\\w*|glaub\\w*|denk\\w*|meinung\\w*|"
        "sorge\\w*|liebling\\w*|zweifel\\w*|frage\\w*|erinner\\w*|versprech\\w*|garantier\\w*|finden|gefunden|fand|"
        "welche\\w*|wer|adresse\\w*|passwort\\w*|namen?s?|nummer\\w*|titel|pfad|genug|sicher|notig|"
        "nicht (brauch\\w*|benotig\\w*)|brauch\\w* (\\w+ )?kein\\w*|unterschied\\w*|bereits|warum|musst|sollte\\w*|"
        "darfst|durfen|sehe ich kein\\w*|ich sehe kein\\w*|index",
        "here": "hier|in (diesem|dieser|diese) (chat|gesprach|unterhaltung|sitzung|umgebung|konversation)|"
        "auf meiner seite|bei mir|mir|zur hand|zur verfugung|installiert|eingerichtet|kann ich|ich kann",
    },
    "fr": {
        "modal": "faudrait|faut|devrait|doit|pourrait|suffit|suffirait|convient|serait|consisterait",
        "would": "je \\w+rais",
        "me": "je|j'\\w+|me|m'\\w+|moi|mon|ma|mes",
        "own": "m'echappe\\w*|m'est ferme\\w*|hors de ma portee|pas (dans mes cordes|de mon ressort|a ma portee)",
        "neg": "ne|pas|aucune?s?|ni|jamais|rien|depourvue?|manque|manquent|point",
        "lack": "impossible|inaccessibles?|indisponibles?|invisibles?|hors de (ma )?portee|hors d'atteinte|incapable|"
        "coupee? d[eu']|ignore|depasse\\w*|m'echappe\\w*|m'est ferme\\w*|au dela",
        "power": "pouvoir|capable|capacites?|possibilites?|moyens?|faculte|acces\\w*|acceder|relie\\w*|connecte\\w*|"
        "connexion|branche\\w*|disposer|disposition|equipe\\w*|dote\\w*|consulter|informations?|donnees|ouvrir|lire|"
        "executer|envoyer|chercher|rechercher|naviguer|obtenir|recuperer|fournir|verifier|recu|fourni\\w*|installe\\w*|"
        "permet\\w*|autorise\\w*|visibles?|disponibles?|possible|integre\\w*|mesure|portee|ouverte?s?|partie de ce|"
        "parvien\\w*|concue?|fait pour|temps reel|horloge|montre|suivre|ajouter|creer",
        "unrelated": "erreurs?|fautes?|problemes?|raisons?|recommand\\w*|conseil\\w*|sugger\\w*|pense|crois|avis|"
        "souci\\w*|prefer\\w*|doute\\w*|questions?|souviens|promet\\w*|garanti\\w*|trouve\\w*|quels?|quelles?|lequel|"
        "laquelle|qui (gagnera|va)|adresse|mot de passe|nom|numero|titre|chemin|assez|certain\\w*|pas besoin|deja|"
        "pourquoi|difference|ne vois (pas|aucune?)",
        "here": "ici|dans (cette|ce|la) (conversation|session|discussion|chat|environnement|echange)|de mon cote|"
        "a ma disposition|sous la main|installe\\w*|me sont?|moi|m'a|m'ont|je ne (peux|sais)|mes cordes|mon ressort",
    },
    "es": {
        "modal": "habria|deberia|debe|hay que|basta|bastaria|podria|seria|conviene|toca|hace falta",
        "would": "yo \\w+ria|(haria|empezaria|leeria|buscaria)",
        "own": "se me escapa\\w*|lejos de mi alcance|no (esta|estan) (en mi mano|a mi alcance)",
        "me": "yo|me|mi|mis|puedo|tengo|dispongo|cuento|poseo|estoy|soy|se (hacer|usar|como)|llego|alcanzo|accedo|"
        "conozco",
        "neg": "no|ningun\\w*|ni|nunca|nada|carezco|falta|faltan|tampoco",
        "lack": "imposible|inaccesibles?|indisponibles?|invisibles?|fuera de (mi )?alcance|incapaz|desconozco|ignoro|"
        "supera\\w*|excede\\w*|se me escapa\\w*|vedad\\w*|mas alla|lejos de mi",
        "power": "capaz|capacidad\\w*|posibilidad\\w*|medios?|manera|acceso\\w*|acceder|conectad\\w*|conexion|"
        "enlazad\\w*|vinculad\\w*|disposicion|disponible\\w*|equipad\\w*|dotad\\w*|ver|visibles?|consultar|"
        "informacion|datos|abrir|leer|ejecutar|enviar|buscar|navegar|obtener|recuperar|proporcionar|verificar|"
        "comprobar|mirar|alcance|recibid\\w*|instalad\\w*|integrad\\w*|permit\\w*|autorizad\\w*|posible|accesibles?|"
        "llega\\w*|lleg\\w*|abiert\\w*|entre las cosas|disenad\\w*|hech\\w* para|tiempo real|reloj|seguir|anadir|crear",
        "unrelated": "errores|error|problemas?|razon\\w*|recomiend\\w*|recomendar|aconsej\\w*|suger\\w*|creo|pienso|"
        "opinion\\w*|preocup\\w*|favorit\\w*|prefer\\w*|dud\\w*|preguntas?|recuerdo|promet\\w*|garantiz\\w*|"
        "encontr\\w*|"
        "cual\\w*|quien|direccion|contrasena|nombre|numero|titulo|ruta|suficiente\\w*|segur\\w*|hace falta|"
        "no necesit\\w*|por que|diferencia\\w*|no veo",
        "here": "aqui|en (esta|este) (conversacion|sesion|chat|entorno|charla)|de mi (lado|parte)|a mi (disposicion|"
        "alcance)|a mano|instalad\\w*|me|mi",
    },
    "zh": {
        "modal": "应该|应当|需要|得|须|必须|不妨|该|会|将|要",
        "would": "我会先|我会从",
        "me": "我|本(助手|模型)|这(里|边)",
        "own": "不是我能|超过了?我|我无能为力",
        "wants": "(发|告诉|提供|贴|传|给)(给)?我",
        "neg": "没有?|无|未|缺乏|缺少|并非|不具|不带",
        "lack": "无法|不能|没法|没办法|看不到|看不见|不可用|访问不到|够不着|碰不到|不支持|不具备|不清楚|不知道|不掌握|"
        "连不上|进不去|打不开|用不了|查不了|做不了|接触不到|无从|触及不到|传不到|到不了|超出|什么都没有",
        "power": "能力|功能|权限|途径|渠道|办法|手段|方式|连接|接入|联网|访问|读取|运行|执行|发送|查询|搜索|获取|获得|"
        "实时|"
        "数据|信息|资料|配备|安装|内置|连到|接触|时钟|钟表|手表",
        "unrelated": "错误|问题|原因|推荐|认为|觉得|最喜欢|疑问|记得|保证|找到|找不到|哪|谁|地址|密码|名称|名字|编号|"
        "标题|"
        "路径|足够|确定|不需要|无需|不必|为什么|区别|已经|不会|不用|不要|不应|没(有)?看到|没(有)?发现|索引|查过",
        "here": "这里|这边|(当前|目前|这个|本次|此)(对话|会话|环境)|手头|我|安装|配备|可用",
    },
    "ja": {
        "modal": "べき|必要|ことになります|でしょう|ばよい|ばいい|すれば|ましょう|のが早い|ことです",
        "would": "とよいでしょう",
        "own": "私の手に余|私の手には負え",
        "wants": "(教え|送っ|見せ|貼り付け)て(いただけ|もらえ|くださ|くれ)",
        "me": "私|わたし|当方|こちら|ここ|(言語)?モデル|ai",
        "neg": "ません|ない(?!か)|なく|おらず",
        "lack": "できません|できない|できかね|不可能|見えません|見えない|見られません|届き?(きません|ません|"
        "いて(いません|"
        "おりません|いない))|使えません|使えない|(わか|分か)(りかね|らない|りません)|持って(いません|おりません|いない|"
        "おらず)|持ち合わせて|備わって(いません|おりません|いない)|(つな|繋)がって(いません|おりません|いない)|"
        "接続されて(いません|おりません|いない)|存じません|触れられません|入って(きません|こない)|超えて|手に余",
        "power": "機能|能力|権限|手段|方法|仕組み|アクセス|接続|情報|データ|閲覧|参照|実行|検索|取得|送信|知るすべ|術|"
        "時計",
        "unrelated": "エラー|間違い|問題|理由|おすすめ|お勧め|思い|思う|好き|疑問|覚え|保証|見つか|どの|どちら|誰|住所|"
        "アドレス|パスワード|名前|番号|必要(は|が)?(ありません|ない)|違い|すでに|既に|勝つ|索引|項目",
        "here": "ここ|こちら|この(チャット|会話|環境|セッション)|私|当方|手元|使える|利用できる",
    },
}


def composed(language: Language, spaceless: bool) -> Language:
    """The language with two rules more, made of its parts, and more words for what is declined for safety."""
    reach, tools = _SPACELESS if spaceless else _SPACED
    made = rules(
        ("composed_reach", "cannot_access", "part", reach),
        ("composed_tools", "no_tools", "part_here", tools),
    )
    safety = {name: f"{language.slots[name]}|{more}" for name, more in SAFETY[language.name].items()}
    slots = {**language.slots, **PARTS[language.name], **ORDINARY[language.name], **safety}
    return msgspec.structs.replace(language, slots=slots, rules=(*language.rules, *made))
