"""How models decline, announce and ask in German: words, not code.

The notation is explained in `refusals.words`, which sits below; `refusals`, above, compiles and matches. Texts are
folded before they are matched, so there are no accents here: `können` is `konnen`.
"""

from __future__ import annotations

from .tables import Language, rules

GERMAN = Language(
    "de",
    {
        "adv": "leider|derzeit|aktuell|momentan|im moment|zurzeit|gerade|selbst|direkt|auch|ja|hier|jedoch|"
        "als ki|als sprachmodell|grundsatzlich|in diesem chat|allerdings|eigenstandig|nun mal|einfach|"
        "tatsachlich|als ki modell|als textbasierte ki|als textbasiertes modell|an dieser stelle|"
        "in dieser umgebung|personlich",
        "no": "kein(e|en|er|em|erlei)?|weder|nicht (uber )?(die|den|das|einen|eine|ein)?",
        "have_no": "(ich (habe|besitze)|habe ich|verfuge ich|ich verfuge|besitze ich)( (({adv})|"
        "uber)){0,4} ({no})|mir (stehen|steht|wurden|wurde|fehlen|fehlt)( ({adv})){0,2} ?({no})?|(stehen|steht|"
        "wurden|fehlen|fehlt) mir( ({adv})){0,2} ?({no})?|(ist|sind|wurde|wurden) mir( ({adv})){0,2} ({no})|"
        "(gibt es|habe) (hier |bei mir |({adv}) ){0,3}({no})|es gibt (hier |bei mir |auf meiner seite |"
        "({adv}) ){0,3}({no})|habe ich (({adv}) ){0,2}(keinen|keine|kein)|ich (finde|sehe|"
        "kenne) (({adv}) ){0,2}(kein\\w*)|(in meiner|meine) (umgebung|sitzung|oberflache){~20}(kein\\w*)",
        "cannot": "(ich kann|kann ich|und kann|aber kann|daher kann|deshalb kann|ich vermag|ich darf|darf ich|"
        "konnen wir|wir konnen)|ich bin( ({adv})){0,2} nicht (in der lage|fahig|imstande|dazu in der lage)|"
        "bin ich( ({adv})){0,2} nicht (in der lage|fahig|imstande)|es ist mir( ({adv})){0,2} nicht moglich|"
        "ist es mir( ({adv})){0,2} nicht moglich|ich habe( ({adv})){0,2} keine moglichkeit|"
        "habe ich( ({adv})){0,2} keine moglichkeit|mir fehlt die (moglichkeit|fahigkeit)|"
        "ist mir( ({adv})){0,2} nicht moglich|(gehort|gehoren) nicht zu meinen \\w+|(geht|gehen|klappt|"
        "funktioniert|funktionieren) bei mir (\\w+ )?nicht|mir fehlt( \\w+)? die (moglichkeit|fahigkeit)|"
        "ist mir( \\w+){0,2} nicht moglich|(mir|ich habe) (\\w+ )?(keinen|kein) (weg|mechanismus|mittel)|"
        "bin (\\w+ ){0,2}nicht (in der lage|imstande|fahig|dazu in der lage)|sehe ich mich (\\w+ )?nicht|"
        "ausserstande|unmoglich",
        "tools": "(tools?|werkzeuge?n?|funktion(en|saufrufe?n?)?|plugins?|schnittstellen?|apis?|toolaufrufe?|"
        "tool ?calls?|hilfsmittel)|⌘|erweiterungen?|externe[nr]? (dienste?n?|systeme?n?|funktionen|"
        "schnittstellen)|tool ?nutzung",
        "mods": "zugriff|zugang|auf|zu|externe[nrsm]?|die|den|der|das|verfugbare[nr]?|passende[nrs]?|"
        "geeignete[nrs]?|entsprechende[nrs]?|solche[nrs]?|diese[nrs]?|direkte[nr]?|eigene[nr]?|integrierte[nr]?|"
        "notige[nr]?|notwendige[nr]?|irgendwelche[nr]?|uber|moglichkeit|weitere[nr]?|echte[nr]?|"
        "erforderliche[nr]?",
        "live": "echtzeit\\w*|aktuelle[nrsm]?|live\\w*|momentane[nrsm]?|derzeitige[nrsm]?|neueste[nr]?|"
        "tagesaktuell\\w*|heutige[nrs]?|gerade|momentan|heute|jetzt|zurzeit|derzeit|aktuell|im moment|wie spat|"
        "uhrzeit",
        "generic": "{live}|extern\\w*|das fur (sie|dich)|diese (informationen|daten|anfrage|aufgabe)|darauf|"
        "ihre anfrage|deine anfrage|das nicht (direkt|selbst)",
        "purpose": "(um|fur|zum|zur|die|das|mit denen|mit dem)",
        "do": "zugreifen|zuzugreifen|zugriff|aufrufen|aufzurufen|offnen|lesen|auslesen|einsehen|einzusehen|"
        "abrufen|abzurufen|nachsehen|nachschauen|nachzuschauen|uberprufen|prufen|suchen|durchsuchen|"
        "recherchieren|ausfuhren|auszufuhren|abfragen|abzufragen|surfen|browsen|verbinden|senden|verschicken|"
        "anlegen|erstellen|speichern|bearbeiten|andern|herunterladen|ermitteln|besuchen|sehen|anzeigen|"
        "nachschlagen|abspielen|steuern|einschalten|buchen|interagieren|bedienen|nutzen|verwenden|starten|laden|"
        "holen|kontaktieren|schreiben|loschen|auflisten|navigieren|schauen|hineinschauen|reinschauen|"
        "hineinsehen|ansehen|anschauen|reinsehen|durchsehen|zugriffe|verschicken|absenden|anlegen|abzuspielen",
        "tell": "sagen|geben|nennen|mitteilen|liefern|bereitstellen|angeben|beantworten|wissen|bieten",
        "self": "ich|mir|mich|mein\\w*|(diese[rsm]?|der|das) (chat|modell|assistent|unterhaltung)|ki|"
        "sprachmodell\\w*|chatbot",
        "report": "fehler(code|meldung)?|existier\\w*|nicht gefunden|verweigert|gesperrt|verschlusselt|"
        "beschadigt|leer|fehlgeschlagen|zuruckgegeben|ergab|lieferte|zeitu\\w+|status\\w*|(http|status|code|"
        "error|fehler|erreur|错误|エラー) ?[45][0-9][0-9]|[45][0-9][0-9] (not|forbidden|error|unauthorized|"
        "internal)|abgelaufen|konnte|weil (die|der|das|sie|er|es)|da (die|der|das) (datei|seite|server|dienst)|"
        "laut|wurde nicht|ausgabe|passwortgeschutzt|solange|in (der|dieser|ihrer|deiner|dem|diesem) (datei|"
        "klasse|bibliothek|code|skript|modul|projekt)|die datei (enthalt|hat)",
        "meta": "satz|formulier\\w+|ubersetz\\w+|entwurf|hier ist|vorlage|beispiel\\w*|(modelle|assistenten|"
        "chatbots) \\w+|bedeutet|betreff|sehr geehrte\\w*|verweiger\\w+|geschichte|zitat|heisst es|sagte?|"
        "steht fur",
        "condition": "^(wenn|falls|sofern|sobald|selbst wenn)\\b",
        "missing": "ohne (die|den|das|eine|einen|ein|zu wissen|weitere|ihre|deine|angabe|genauere)|bis (sie|du)|"
        "bevor (sie|du)|solange (sie|du)|benotige ich noch|brauche ich noch",
        "harm": "illegal\\w*|gesetzwidrig|schadlich\\w*|gefahrlich\\w*|unethisch\\w*|schadsoftware|malware|"
        "phishing|waffen?|sprengstoff\\w*|richtlinie\\w*|grundsatze\\w*|verstosst|verstossen|gewalt|betrug\\w*|"
        "straf\\w+|hacken|umgehen|drogen|bombe\\w*|privatsphare|verletz\\w+|missbrauch\\w*|schaden|hass\\w*|"
        "unbefugt\\w*|einwilligung|rechtswidrig\\w*|ethisch\\w*|verboten\\w*|strafbar\\w*|gesetz\\w*|stgb|"
        "gefalscht\\w*|todlich\\w*|diebstahl|selbst(mord|verletzung)\\w*|uberdosis|ohne (ihr|sein|deren|"
        "dessen)\\w* (wissen|zustimmung)",
        "decline": "(({cannot})|ich (werde|darf|mochte)|(werde|darf) ich)\\b{~40}(nicht|kein\\w*|ablehnen)|"
        "ich (muss|lehne)\\b{~30}(ablehnen|ab)\\b|nicht helfen|nicht unterstutzen|ich \\w+e\\b{~50}(nicht|"
        "keine\\w*|weder)|(werde|mache|helfe|gebe) ich\\b{~30}(nicht|keine\\w*)|nicht bereit|lehne\\b{~30}ab",
        "brief": "(dabei|damit|bei dieser anfrage|bei so etwas|hierbei|dieser bitte|dieser anfrage|das|"
        "hiermit){~15}(nicht|leider nicht) (helfen|behilflich sein|unterstutzen|nachkommen|tun|machen|erfullen|"
        "entsprechen)|das (kann|werde|darf) ich (leider )?nicht (tun|machen)[.!;\\n]|ich muss (das|"
        "diese \\w+) ablehnen|nicht weiterhelfen[.!;\\n]",
        "ask": "(etwas )?dagegen (wenn|dass) ich|(stort|stort es|store) \\w+ wenn ich|recht wenn ich|"
        "(soll|darf|kann) ich|mochten sie dass ich|mochtest du dass ich|willst du dass ich|"
        "wollen sie dass ich|ist es (ok|okay|in ordnung) wenn ich|ware es (ok|okay|in ordnung) wenn ich|"
        "sind sie (damit )?einverstanden|bist du (damit )?einverstanden|erlauben sie mir|erlaubst du mir|"
        "habe ich (ihre|deine) erlaubnis|(ware|ist) (das|dies|es) (\\w+ )?(ok|okay|in ordnung|recht|fur (sie|"
        "dich))|einverstanden|wollen sie|willst du|mochten sie|mochtest du|soll ich|darf ich|erlaubnis|"
        "passt das|geht das in ordnung|(wurde|ware) (das|ihnen das|dir das) (helfen|hilfreich|weiterhelfen)|"
        "klingt das|passt das|interessiert|ja oder nein|in ordnung|recht so|loslegen",
        "offer": "wenn sie (mochten|wollen|wunschen|einverstanden)|wenn du (mochtest|willst|einverstanden)|"
        "auf wunsch|mit (ihrer|deiner) (erlaubnis|zustimmung)|falls (gewunscht|sie mochten|du mochtest)|"
        "sagen sie (mir )?(einfach )?bescheid|sag (mir )?(einfach )?bescheid|(bitte )?bestatigen sie|"
        "bitte bestatige|geben sie mir (einfach )?(bescheid|grunes licht)|gib mir (einfach )?(bescheid|"
        "grunes licht)|lassen sie mich wissen ob ich|lass mich wissen ob ich|(sag|sagen sie|gib|geben sie|melde|"
        "melden sie)( mir| dich| sich)?( einfach| kurz| nur)?( bescheid| ob| wenn| ja| grunes licht)|"
        "ein wort genugt|ob ich\\b{~60}soll\\b|brauche ich (noch )?(ihre|deine) (zustimmung|erlaubnis|freigabe|"
        "ok)|falls (sie|du) (einverstanden|mochtest|mochten|willst|wollen)|wenn (sie|du) (zustimmst|zustimmen|"
        "ja sagst|ja sagen)|(wenn|falls) (du|sie) (magst|mogen|mochtest|mochten|willst|wollen|es wunschst|"
        "wunschen)|gern auch|(antworten sie|antworte|schreiben sie|schreib|tippe\\w*|sag\\w*)( \\w+){0,2} (_|ja|"
        "ok|los)|ich (bin bereit|warte (auf|noch))|bevor ich (das|die|den|loslege|starte|beginne|damit)|"
        "sobald (sie|du) (zustimm\\w*|einverstanden|ok sag\\w*|bestatig\\w*|grunes)",
        "choice": "\\boder\\b(?! (_|no|nein|non|not)\\b| _)|^.{0,14}\\b(welche\\w*|was|wo|we[rnm]|wann|wohin|"
        "wie (viele|viel|lange|oft))\\b|lieber|stattdessen",
        "grave": "losch\\w+|gelosch\\w+|entfern\\w+|uberschreib\\w+|bezahl\\w+|uberweis\\w+|kauf\\w*|"
        "stornier\\w*|veroffentlich\\w*|unwiderruflich|endgultig|ruckgangig|zurucksetzen|beenden|kundigen?|"
        "bereitstellen|deinstallier\\w*|formatier\\w*|zerstor\\w*|angreif\\w*",
        "more": "\\bauch\\b|noch etwas|sonst noch|weitere\\w*|mehr (details|informationen|dazu)|erklar\\w+|"
        "zusammenfass\\w+|naher|erlauter\\w+|zusatzlich|genauer|ausserdem",
        "intend": "(ich )?mache mich( \\w+){0,2} (auf|an|ans)|(wir|ich) (offnen?|lesen?|prufen?|starten?|"
        "beginnen?)( \\w+){0,2} (zuerst|zunachst|erst|nun|jetzt|dann)|wir (offnen|beginnen|starten)|"
        "ich werde|ich wurde|werde ich|wurde ich|lass(en sie)? mich|ich muss|muss ich|ich (rufe|prufe|"
        "suche|schaue|sehe|hole|frage|lese|offne|starte|fuhre|verwende|nutze|uberprufe|ermittle|benutze|schau|"
        "such|pruf|ruf|sehe)|(rufe|prufe|suche|schaue|sehe|hole|frage|lese|offne|starte|fuhre|verwende|nutze|"
        "uberprufe|ermittle) ich|ich kummere mich|wir (mussen|sollten|rufen)|der nachste schritt (ist|ware)|"
        "ich (lege|erstelle|sende|schicke|buche|fuge|setze|melde|mache|gehe|sehe|klicke|beginne|fange|"
        "kontaktiere|aktualisiere|schreibe|lade|berechne|rechne|notiere)|(lege|erstelle|sende|buche|mache|"
        "beginne) ich|verwenden sie|nutzen sie|rufen sie|verwende|nutze|rufe|ich \\w{2,}e\\b|\\w{2,}e ich",
        "advise": "(sie|du) (konnen|konnten|sollten|kannst|konntest|solltest)",
        "act": "notier\\w*|eintrag\\w*|festhalt\\w*|suche nach|"
        "rufe|prufe\\w*|suche\\w*|schaue?\\w*|sehe\\w*|hole\\w*|frage\\w*|lese\\w*|offne\\w*|starte\\w*|"
        "fuhre\\w*|verwende\\w*|nutze\\w*|uberprufe\\w*|ermittle|ermitteln|abrufen|nachsehen|nachschauen|"
        "ansehen|ausfuhren|aufrufen|durchsuchen|heraussuchen|abfragen|benutze\\w*|kummere|machen|tun|holen|"
        "anschauen|einsehen|auflisten|fortfahren|durchfuhren|erledigen|berechnen|senden|anlegen|erstellen|schau|"
        "such|pruf|ruf|loslegen|recherchieren|speichern|zugreifen|starten|durchgehen|laufen lassen|verschaffen|"
        "ansehen|blick|nachlesen|nachzulesen|prufen|schauen|suchen|lesen|offnen|abzurufen|ermitteln|beginnen|"
        "befragen|sichten|einholen|heraussuchen|anstossen|aufrufe|abrufe|nachschaue|nachsehe|starte|lege|"
        "erstelle|sende|schicke|buche|mache|beginne|lade|berechne|rechne|anlegen|melde|suchen|nachzusehen|"
        "nachschlagen|frage",
        "progress": "^(suche|prufe|rufe|lese|offne|uberprufe|ermittle|starte|frage|hole)\\b",
        "waits": "sobald (sie|du)|wenn (sie|du)|falls (sie|du)|nachdem (sie|du)|erklar\\w*|erlauter\\w*|merke|"
        "gerne? zur|empfehl\\w*|in (ihrem|deinem) (code|programm|skript|terminal|projekt)|zum beispiel|"
        "vorschlag\\w*|lassen sie mich wissen|lass mich wissen|zeige|helfe|davon aus",
        "weak": "gerne?|naturlich|klar|selbstverstandlich|ok|okay|ja|verstanden|alles klar|sicher|ich kann|"
        "ich konnte|um |dafur|dazu|einen (moment|augenblick)|moment|bitte warten|bitte haben|einen kurzen|"
        "das (wird|kann|dauert)|danke|vielen dank|guten tag|hallo|dann|danach|zuerst|zunachst|als (nachstes|"
        "erstes)|anschliessend|ich habe (zugriff|ein tool|ein werkzeug|das|die)|das (tool|werkzeug)|mit dem|"
        "jetzt|nun|kein problem|gute frage|perfekt|in ordnung|kurz|das (hangt|kommt)|es (hangt|kommt)|"
        "kommt (ganz )?(darauf|drauf)|mein (vorgehen|plan)|los geht|bevor|um das|vielleicht|ich (suche|rufe|"
        "prufe|schaue)|plan|({wait})|ich \\w{2,}e\\b|\\w{2,}e ich|sofort|gleich|(bin )?schon|wird gemacht|"
        "mache ich|alles",
        "hedge": "hangt|kommt (\\w+ )?(darauf|drauf|auf)|konnte\\w*|moglich\\w*|vielleicht|vermutlich|"
        "wahrscheinlich|eventuell|mehrere|verschiedene|musste|lasst sich|liesse sich|ware|durfte|nicht sicher|"
        "weiss (ich )?nicht|um (das|dies)|bevor|sicherlich|bestimmt",
        "impersonal": "(der|mein|die) (erste|nachste|letzte|zweite|erster|nachster)\\w* (schritt|schritte)|"
        "man (musste|muss|konnte|kann|sollte|ruft)|(dazu|dafur|hierfur|hierzu|zuerst|zunachst|dann|"
        "anschliessend|danach|schliesslich|am besten) (\\w+ )?(ruft|ruf|wird|werden|muss|musste|lese|offne|"
        "nutz\\w*|verwend\\w*|kommt|genugt|reicht|sollte|wurde)|(es )?(genugt|reicht)|ware (zu|es)|vorgehen|"
        "schritt\\w*|plan|musste[n]?|wurde[n]?|(aufzurufen|zu verwenden|zu nutzen|aufgerufen|verwendet|"
        "genutzt) (werden|ware)?|mit ⌘|per ⌘|uber ⌘|mittels ⌘",
        "contrast": "aber|jedoch|allerdings|doch|obwohl|sondern",
        "past": "^erledigt|(ist|sind) (nun |jetzt )?(raus|weg|gesendet|verschickt|erledigt|angelegt|gespeichert|"
        "gebucht|fertig)|"
        "(habe ich|ich habe)( \\w+){0,6} (ge\\w+t|ge\\w+en|\\w+iert|nachgesehen|nachgeschaut|abgefragt|"
        "aufgerufen|gelesen|gefunden)|(?<!ich )(?<!man )wurden?(?! (ich|man|wir|du|sie)\\b)|ergab|das ergebnis (ist|"
        "lautet|war|zeigt)|"
        "die ergebnisse (sind|zeigen)|laut|geliefert|gefunden|zeigt|hat( \\w+){0,3} (geliefert|ergeben|"
        "gemeldet)|abgeschlossen|erfolgreich",
        "doc": "nimmt|erwartet|liefert|zuruck|ist (ein|eine|das|die)|sind (\\w+ )?(werkzeuge|tools|funktionen)|"
        "dient|dienen|ermoglicht|ich kann|verfugbar|definiert|dokumentation|unterschied\\w*|statt|bedeutet|"
        "umbenannt|veraltet|unterstutzt|wahrend",
        "wait": "(einen|kleinen|kurzen)? ?(moment|augenblick)( bitte)?|bitte warten|sekunde|bin (schon )?dabei|"
        "bin dran|wird (sofort )?erledigt|kommt sofort|gleich (da|zuruck)|gedulden",
        "ability": "ich (kann|konnte|ware in der lage)|(kann|konnte) ich|liesse sich|lasst sich|es gibt (ein|"
        "eine) (tool|werkzeug|moglichkeit)|ware moglich",
        "common": "der|die|das|und|ist|sind|zu|von|in|dass|es|fur|sie|ihre|ihren|ich|mit|dies|diese|sein|haben|"
        "habe|nicht|kann|wurde|mir|mich|mein|auf|an|oder|wenn|war|was|bitte|aber|so|als|den|dem|ein|eine|einen|"
        "im|auch|du|dir|dich|kein|keine|soll|jetzt|bei|nach|hier|wie|noch|zur|zum",
        "needs": "musste ich|ich musste|muss ich|ich muss|um (das|dies|sicher|es|die)\\b|am besten|"
        "wurde (helfen|zeigen)|ware ein|notig|zuerst|dazu|dafur|(schnellste|einfachste|sicherste|beste) (weg|"
        "methode)|testlauf|ein blick|lohnt|nachsehen|klarheit",
    },
    "es tut mir (sehr )?leid|tut mir (sehr )?leid|leider|entschuldigung|entschuldigen sie|ich bedaure|"
    "bedauerlicherweise|aber|jedoch|als (ki|sprachmodell|kunstliche intelligenz|textbasiert(e|es|er|en)?|"
    "grosses sprachmodell|assistent)|modell|sprachmodell|assistent|ich bin (nur )?(ein|eine) (ki|sprachmodell|"
    "textbasiert(e|es|er|en)?)|und|dass|hallo|derzeit|momentan|aktuell|im moment|in diesem chat|"
    "in dieser (umgebung|unterhaltung)|zugriff auf|direkten|direkt|auch|hier|selbst|ja|mir|externen|aktuellen",
    (
        (
            "ich (habe|besitze|verfuge uber)|habe ich|verfuge ich uber|besitze ich|mir (stehen|steht|wurden|"
            "fehlen|fehlt)|stehen mir|steht mir|fehlt mir",
            "kein|weder|die (moglichkeit|fahigkeit)|nicht",
        ),
        (
            "ich kann|kann ich",
            "nicht|kein|weder|auf|das internet|im internet|ihre|deine|diese|das|dir|ihnen|keine",
        ),
        (
            "ich bin|bin ich",
            "nicht|(nur |lediglich |bloss )?(ein|eine) (reine|ki|sprach|text)|darauf beschrankt|ausserstande",
        ),
        (
            "es ist mir|ist es mir|ist mir",
            "nicht",
        ),
        (
            "es (sind|stehen|gibt|wurden)|es wurden mir",
            "keine",
        ),
        (
            "keine (tools|werkzeuge|funktionen)|(die|diese) (tools|werkzeuge|funktionen)|auf (das internet|"
            "dateien|echtzeit|ihre|deine)|mein (wissen|wissensstand)|meine (trainingsdaten|kenntnisse|"
            "informationen)|(links|webseiten|dateien|befehle|aktuelle) (offnen|kann|konnen|auf|zu)",
        ),
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
            "({cannot})\\b{~30}(({no})|nicht) ?(({mods}) ){0,5}({tools})\\b{~20}(nutzen|verwenden|aufrufen|"
            "ausfuhren|benutzen|zugreifen|einsetzen)|({cannot})\\b{~20}\\b({tools})\\b{~20}nicht{~20}(nutzen|"
            "verwenden|aufrufen|ausfuhren|benutzen)|({cannot})\\b{~40}\\b({tools}) (zu )?(nutzen|verwenden|"
            "aufzurufen|auszufuhren|benutzen|zuzugreifen)",
        ),
        (
            "none_here",
            "no_tools",
            "nothing",
            "\\bkeine (({mods}) ){0,4}({tools}) ((\\w+ ){0,2}(verfugbar|vorhanden|zur verfugung|bereitgestellt|"
            "eingebunden|aktiviert|gegeben)|zugewiesen)|({tools}) (sind|ist|stehen|"
            "steht) (\\w+ ){0,3}nicht (verfugbar|zur verfugung|vorhanden)",
        ),
        (
            "no_access",
            "cannot_access",
            "object",
            "({have_no}) (({mods}) ){0,4}\\w*(zugriff|zugang|verbindung|einsicht|einblick)\\w*\\b",
        ),
        (
            "no_live_data",
            "cannot_access",
            "object",
            "({have_no}) (({mods}) ){0,3}(({live})|internet\\w*|web\\w*|browser\\w*|such\\w*)",
        ),
        (
            "cannot_do",
            "cannot_access",
            "object",
            "({cannot})\\b{~60}\\b(nicht|kein\\w*|weder)\\b{~70}\\b({do})\\b|(nicht (in der lage|fahig|imstande|"
            "moglich)|keine moglichkeit|fehlt die){~90}\\b({do})\\b|({no}) moglichkeit{~70}\\b(zu )?({do})\\b",
        ),
        (
            "cannot_tell",
            "cannot_access",
            "object",
            "({cannot})\\b{~30}\\b(nicht|kein\\w*)\\b{~50}\\b({live})\\b{~40}\\b({tell})\\b|"
            "({cannot})\\b{~30}\\b({live})\\b{~40}(nicht|kein\\w*)\\b{~30}({tell})",
        ),
        (
            "cutoff",
            "cannot_access",
            "topic",
            "mein(e)? (wissen|wissensstand|trainingsdaten|kenntnisse|informationen) \\w+",
        ),
        (
            "no_such_tool",
            "no_tools",
            "nothing",
            "⌘{~30}\\b(existiert|gibt es|ist|steht|sind|stehen|kenne ich|habe ich|kann ich)\\b{~25}\\b(nicht|"
            "nirgends|unbekannt)|\\b(kein|keine|keinen) (\\w+ )?⌘|nicht uber (\\w+ ){0,2}⌘|"
            "⌘{~25}\\bnur (ein )?(worte?|namen?|text)|({cannot}){~25}⌘{~20}nicht|"
            "({cannot}) (\\w+ ){0,3}nicht{~20}⌘{~20}(aufrufen|ausfuhren|nutzen|verwenden)",
        ),
        (
            "unconnected",
            "no_tools",
            "unless_other",
            "(mit|an) (keinem|keinen|keinerlei|keiner) (\\w+ )?(externen |ausseren )?(dienst|system|werkzeug|"
            "schnittstelle|datenquelle|programm)\\w*{~20}(verbunden|angebunden|angeschlossen|verknupft)|(nichts|"
            "nicht|kein\\w*)( \\w+){0,4} (angeschlossen|verbunden|angebunden|hinterlegt|aktiviert|eingerichtet|"
            "freigeschaltet|verknupft)|({tools}) (sind|ist)\\b{~30}nicht (\\w+ )?(aktiviert|aktiv|eingerichtet|"
            "verbunden|angebunden|freigeschaltet|angeschlossen|hinterlegt|installiert)",
        ),
        (
            "text_only",
            "no_tools",
            "self",
            "(nur|lediglich|ausschliesslich|bloss|reine[rsn]?|nichts als|beschranke\\w*|"
            "beschrankt)( \\w+){0,4} (text\\w*|worte?)|({tools})?(reines|nur ein|lediglich ein|"
            "bloss ein) (\\w+ )?(sprachmodell|textmodell|chatbot)",
        ),
        (
            "cannot_use_them",
            "no_tools",
            "unless_other",
            "({cannot})\\b{~20}(sie|diese|die|davon|das|es)\\b{~20}(nicht|keine\\w*)\\b{~15}(aufrufen|ausfuhren|"
            "nutzen|verwenden|benutzen|anstossen|auslosen)",
        ),
        (
            "not_mine",
            "cannot_access",
            "topic",
            "(gehort|gehoren) (\\w+ )?nicht zu meinen|(geht|gehen|klappt|klappen|funktioniert|"
            "funktionieren) (bei mir|hier|fur mich) (\\w+ )?nicht|(habe ich|ich habe) (\\w+ )?(keine uhr|"
            "keinen kalender|keinen browser|keinen bildschirm|kein postfach|keine kamera|kein terminal)|(weiss|"
            "sehe|kenne) ich (\\w+ )?nicht|ich (weiss|sehe) (\\w+ )?nicht{~40}({live})|({do}) (ist|sind|geht|"
            "gehen|kann ich) (\\w+ ){0,3}(nicht|leider nicht)( moglich)?",
        ),
        (
            "out_of_reach",
            "cannot_access",
            "topic",
            "(ist|sind|bleibt|bleiben) (mir|fur mich) (\\w+ )?(nicht (zuganglich|sichtbar|moglich|einsehbar|"
            "verfugbar)|unzuganglich|verschlossen|verborgen|unmoglich)|(auf|in|zu|an)( \\w+){1,4} (habe|"
            "hatte) ich (({adv}) ){0,2}(keinen|keine|kein) (zugriff|zugang|einblick|einsicht)|"
            "ich komme (\\w+ ){0,4}nicht (heran|dran|ran|rein)",
        ),
        (
            "no_access_to_tools",
            "no_tools",
            "nothing",
            "(auf|zu|uber) (\\w+ ){0,3}({tools}) (habe|verfuge|hatte) ich (({adv}) ){0,2}(keinen|keine|nicht)|"
            "({tools})( \\w+){0,4} kann ich( \\w+){0,3} nicht( \\w+){0,2} (nutzen|verwenden|aufrufen|ausfuhren|"
            "benutzen|einsetzen)|⌘ kann ich( \\w+){0,3} nicht",
        ),
        (
            "if_only",
            "no_tools",
            "object",
            "(wenn|falls) ich( \\w+){0,5} (hatte|konnte)|hatte ich( \\w+){0,4} (zugriff|ein|eine|die)|"
            "ich wunschte|konnte ich nur|wurde ich (gern|gerne)( \\w+){0,6} (aber|doch)",
        ),
        (
            "lacking",
            "no_tools",
            "object",
            "({tools}|zugriff|fahigkeit\\w*|moglichkeit\\w*)( \\w+){0,3} (die|das|den|der) (ich|"
            "mir) (\\w+ ){0,3}(nicht|fehlt|fehlen)",
        ),
        (
            "only_shared",
            "cannot_access",
            "topic",
            "(nur|lediglich|ausschliesslich) (\\w+ ){0,4}(sehen|kenne|kennen|arbeiten|lesen|weiss|"
            "sehe)?( \\w+){0,3} ?was (sie|du|hier|mir)|(sehe|kenne|weiss) (ich )?(nur|lediglich)",
        ),
        (
            "paste_it",
            "cannot_access",
            "topic",
            "(kopier\\w*|fug\\w*|teil\\w*|schick\\w*|send\\w*|poste\\w*|lad\\w*)( \\w+){0,3} (den|die|das|ihren|"
            "deinen|deine|ihre)( \\w+){0,2} (inhalt\\w*|text\\w*|ausgabe|datei|code|zeilen|artikel|mail|"
            "nachricht|ergebnis\\w*)",
        ),
        (
            "from_training",
            "cannot_access",
            "topic",
            "(aus|auf) (meinen|den|meinem) (trainingsdaten|training)|mein\\w* (wissen|wissensstand|"
            "informationen|daten)( \\w+){0,3} (stammt|stammen|endet|enden|reicht|reichen|veraltet|statisch)",
        ),
        (
            "yourself",
            "cannot_access",
            "topic",
            "(mussen sie|musst du|mussten sie|musstest du)( \\w+){1,6} (selbst|selber|manuell|eigenhandig)|"
            "(bitte|am besten) (\\w+ ){0,6}(selbst|selber|manuell)",
        ),
        (
            "cannot_act",
            "no_tools",
            "nothing",
            "({cannot})\\b{~20}keine( \\w+){0,3} (aktionen|handlungen|aktivitaten)",
        ),
        (
            "no_idea",
            "cannot_access",
            "topic",
            "(ich habe|habe ich)( \\w+){0,2} (keine ahnung|keine kenntnis|keine informationen|keine angaben|"
            "keine daten|keinen uberblick|keinerlei)|(weiss ich|ich weiss|kenne ich|ich kenne|sehe ich|"
            "ich sehe)( \\w+){0,3} nicht",
        ),
        (
            "as_of",
            "cannot_access",
            "topic",
            "(stand|seit|nach|bis zu) mein\\w* (letzten? )?(training\\w*|wissensstand\\w*|aktualisierung|"
            "kenntnisstand\\w*|update)",
        ),
        (
            "without",
            "no_tools",
            "nothing",
            "(ich|mir|hier|mich|diese\\w*)\\b{~40}ohne (\\w+ ){0,2}({tools})\\b|(reine[rsn]?|"
            "einfache[rsn]?) (text)?chat\\w*|keine ({tools}) ?(unterstutzung|anbindung)",
        ),
        (
            "someone_else",
            "no_tools",
            "topic",
            "(sie|du|ihre? \\w+|jemand|der (entwickler|nutzer)) (mussten?|mussen|musst|musstest|"
            "muss)( \\w+){0,6} (aufrufen|ausfuhren|starten|absenden|prufen|offnen|nachsehen)",
        ),
        (
            "elsewhere",
            "cannot_access",
            "topic",
            "^((fur|um)( \\w+){1,8} )?(bitte|ich (empfehle|rate|wurde)|am besten|sie konnen|du kannst|"
            "schauen sie|schau|werfen sie|besuchen sie|nutzen sie)( \\w+){0,10} (webseite\\w*|website\\w*|"
            "seite\\w*|apps?|dienste?s?|portal\\w*|[\\w-]+\\.(de|com|org|net)|online|suchmaschine|google|"
            "wetterdienst\\w*)",
        ),
        (
            "inactive",
            "no_tools",
            "nothing",
            "({tools})( \\w+){0,6} (nicht|nie|kein\\w*)( \\w+){0,3} (geladen|angebunden|aktiviert|aktiv|"
            "eingerichtet|vorhanden|verfugbar|installiert|angeschlossen|eingeschaltet|freigegeben|hinterlegt|"
            "unterstutzt|bereitgestellt)\\b(?! (in|for) (the|your|this) (file|code|project))",
        ),
        (
            "strange_tool",
            "no_tools",
            "nothing",
            "⌘{~20}(unbekannt|nichts)|kenne (ich )?(\\w+ )?(kein\\w*|nicht)( \\w+)? (⌘|({tools}))|"
            "nichts(,)? (das|was|womit) ich( \\w+){0,3} (aufrufen|nutzen|ausfuhren|starten)",
        ),
        (
            "unseen",
            "cannot_access",
            "topic",
            "(ist|sind|bleibt) mir( \\w+){0,2} (unbekannt|verborgen|nicht bekannt)|ich sehe (hier |"
            "({adv}) ){0,2}(keine|keinen|kein) (datei|anhang|dokument|bild|link|mail)\\w*|(keine|kein) (datei|"
            "anhang|dokument) (\\w+ ){0,2}(angehangt|hochgeladen|beigefugt)",
        ),
        (
            "not_working",
            "no_tools",
            "nothing",
            "({tools})( \\w+){0,4} (geht|gehen|klappt|klappen|funktioniert|funktionieren|laufen|lauft|"
            "greifen)( \\w+){0,3} nicht|(geht|gehen|klappt|klappen|funktioniert|"
            "funktionieren)( \\w+){0,3} nicht( \\w+){0,3} ({tools})",
        ),
        (
            "nothing_lets",
            "no_tools",
            "object",
            "(nichts|keine\\w*)( \\w+){0,5} (erlaubt|ermoglicht|gestattet)( es)? mir|mir (fehlt|fehlen)( \\w+){0,4} "
            "(jede|jegliche|jedwede)\\w* \\w+",
        ),
        (
            "beyond_me",
            "cannot_access",
            "topic",
            "komme ich( \\w+){0,4} nicht (heran|dran|ran|rein|hinein)|(ausserhalb|jenseits) mein\\w*|"
            "ubersteig\\w+ mein\\w*|(bin ich|ich bin)( \\w+){0,4} (abgeschnitten|getrennt|offline)",
        ),
    ),
)
