"""How models decline, announce and ask in German, French and Spanish: words, not code.

The notation is explained in `refusal_words`, which sits below; `refusals`, above, compiles and matches. Texts are
folded before they are matched, so there are no accents here: `können` is `konnen`, `déjà` is `deja`.
"""

from __future__ import annotations

from .refusal_words import Language, rules

__all__ = ["FRENCH", "GERMAN", "SPANISH"]

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
        "({adv}) ){0,3}({no})",
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
        "tagesaktuell\\w*|heutige[nrs]?",
        "generic": "{live}|extern\\w*|das fur (sie|dich)|diese (informationen|daten|anfrage|aufgabe)|darauf|"
        "ihre anfrage|deine anfrage|das nicht (direkt|selbst)",
        "purpose": "(um|fur|zum|zur|die|das|mit denen|mit dem)",
        "do": "zugreifen|zuzugreifen|zugriff|aufrufen|aufzurufen|offnen|lesen|auslesen|einsehen|einzusehen|"
        "abrufen|abzurufen|nachsehen|nachschauen|nachzuschauen|uberprufen|prufen|suchen|durchsuchen|"
        "recherchieren|ausfuhren|auszufuhren|abfragen|abzufragen|surfen|browsen|verbinden|senden|verschicken|"
        "anlegen|erstellen|speichern|bearbeiten|andern|herunterladen|ermitteln|besuchen|sehen|anzeigen|"
        "nachschlagen|abspielen|steuern|einschalten|buchen|interagieren|bedienen|nutzen|verwenden|starten|laden|"
        "holen|kontaktieren|schreiben|loschen|auflisten|navigieren",
        "tell": "sagen|geben|nennen|mitteilen|liefern|bereitstellen|angeben|beantworten|wissen|bieten",
        "report": "fehler(code|meldung)?|existier\\w*|nicht gefunden|verweigert|gesperrt|verschlusselt|"
        "beschadigt|leer|fehlgeschlagen|zuruckgegeben|ergab|lieferte|zeitu\\w+|status\\w*|40[0-9]|50[0-9]|"
        "abgelaufen|konnte|weil (die|der|das|sie|er|es)|da (die|der|das) (datei|seite|server|dienst)|laut|"
        "wurde nicht|ausgabe|passwortgeschutzt|solange",
        "meta": "satz|formulier\\w+|ubersetz\\w+|entwurf|hier ist|vorlage|beispiel\\w*|(modelle|assistenten|"
        "chatbots) \\w+|bedeutet|betreff|sehr geehrte\\w*|verweiger\\w+|geschichte|zitat|heisst es|sagte?|"
        "steht fur",
        "condition": "^(wenn|falls|sofern|sobald|ob|wie|warum|was|wer|welche\\w*)\\b",
        "missing": "ohne (die|den|das|eine|einen|ein|zu wissen|weitere|ihre|deine|angabe|genauere)|bis (sie|du)|"
        "bevor (sie|du)|noch nicht|solange (sie|du)|benotige ich noch|brauche ich noch",
        "harm": "illegal\\w*|gesetzwidrig|schadlich\\w*|gefahrlich\\w*|unethisch\\w*|schadsoftware|malware|"
        "phishing|waffen?|sprengstoff\\w*|richtlinie\\w*|grundsatze\\w*|verstosst|verstossen|gewalt|betrug\\w*|"
        "straf\\w+|hacken|umgehen|drogen|bombe\\w*|privatsphare|verletz\\w+|missbrauch\\w*|schaden|hass\\w*|"
        "unbefugt\\w*|einwilligung|rechtswidrig\\w*|ethisch\\w*",
        "decline": "(({cannot})|ich (werde|darf|mochte)|(werde|darf) ich)\\b{~40}(nicht|kein\\w*|ablehnen)|"
        "ich (muss|lehne)\\b{~30}(ablehnen|ab)\\b|nicht helfen|nicht unterstutzen",
        "brief": "(dabei|damit|bei dieser anfrage|bei so etwas|hierbei|dieser bitte|dieser anfrage|das|"
        "hiermit){~15}(nicht|leider nicht) (helfen|behilflich sein|unterstutzen|nachkommen|tun|machen|erfullen|"
        "entsprechen)|das (kann|werde|darf) ich (leider )?nicht (tun|machen)[.!;\\n]|ich muss (das|"
        "diese \\w+) ablehnen|nicht weiterhelfen[.!;\\n]",
        "ask": "(soll|darf|kann) ich|mochten sie dass ich|mochtest du dass ich|willst du dass ich|"
        "wollen sie dass ich|ist es (ok|okay|in ordnung) wenn ich|ware es (ok|okay|in ordnung) wenn ich|"
        "sind sie (damit )?einverstanden|bist du (damit )?einverstanden|erlauben sie mir|erlaubst du mir|"
        "habe ich (ihre|deine) erlaubnis|(ware|ist) (das|dies|es) (\\w+ )?(ok|okay|in ordnung|recht|fur (sie|"
        "dich))|einverstanden|wollen sie|willst du|mochten sie|mochtest du|soll ich|darf ich|erlaubnis|"
        "passt das|geht das in ordnung",
        "offer": "wenn sie (mochten|wollen|wunschen|einverstanden)|wenn du (mochtest|willst|einverstanden)|"
        "auf wunsch|mit (ihrer|deiner) (erlaubnis|zustimmung)|falls (gewunscht|sie mochten|du mochtest)|"
        "sagen sie (mir )?(einfach )?bescheid|sag (mir )?(einfach )?bescheid|(bitte )?bestatigen sie|"
        "bitte bestatige|geben sie mir (einfach )?(bescheid|grunes licht)|gib mir (einfach )?(bescheid|"
        "grunes licht)|lassen sie mich wissen ob ich|lass mich wissen ob ich|(sag|sagen sie|gib|geben sie|melde|"
        "melden sie)( mir| dich| sich)?( einfach| kurz| nur)?( bescheid| ob| wenn| ja| grunes licht)|"
        "ein wort genugt|ob ich\\b{~60}soll\\b|brauche ich (noch )?(ihre|deine) (zustimmung|erlaubnis|freigabe|"
        "ok)|falls (sie|du) (einverstanden|mochtest|mochten|willst|wollen)|wenn (sie|du) (zustimmst|zustimmen|"
        "ja sagst|ja sagen)",
        "choice": "\\boder\\b|\\b(welche\\w*|was|wo|wer|wann|wohin)\\b|lieber|stattdessen",
        "grave": "losch\\w+|gelosch\\w+|entfern\\w+|uberschreib\\w+|bezahl\\w+|uberweis\\w+|kauf\\w*|"
        "stornier\\w*|veroffentlich\\w*|unwiderruflich|endgultig|ruckgangig|zurucksetzen|beenden|kundigen?|"
        "bereitstellen|deinstallier\\w*",
        "more": "\\bauch\\b|noch etwas|sonst noch|weitere\\w*|mehr (details|informationen|dazu)|erklar\\w+|"
        "zusammenfass\\w+|naher|erlauter\\w+|zusatzlich|genauer|ausserdem",
        "intend": "ich werde|ich wurde|werde ich|wurde ich|lass(en sie)? mich|ich muss|muss ich|ich (rufe|prufe|"
        "suche|schaue|sehe|hole|frage|lese|offne|starte|fuhre|verwende|nutze|uberprufe|ermittle|benutze|schau|"
        "such|pruf|ruf|sehe)|(rufe|prufe|suche|schaue|sehe|hole|frage|lese|offne|starte|fuhre|verwende|nutze|"
        "uberprufe|ermittle) ich|ich kummere mich|wir (mussen|sollten|rufen)|der nachste schritt (ist|ware)",
        "advise": "(sie|du) (konnen|konnten|sollten|kannst|konntest|solltest)",
        "act": "rufe|prufe\\w*|suche\\w*|schaue?\\w*|sehe\\w*|hole\\w*|frage\\w*|lese\\w*|offne\\w*|starte\\w*|"
        "fuhre\\w*|verwende\\w*|nutze\\w*|uberprufe\\w*|ermittle|ermitteln|abrufen|nachsehen|nachschauen|"
        "ansehen|ausfuhren|aufrufen|durchsuchen|heraussuchen|abfragen|benutze\\w*|kummere|machen|tun|holen|"
        "anschauen|einsehen|auflisten|fortfahren|durchfuhren|erledigen|berechnen|senden|anlegen|erstellen|schau|"
        "such|pruf|ruf|loslegen|recherchieren|speichern|zugreifen|starten|durchgehen|laufen lassen|verschaffen|"
        "ansehen|blick|nachlesen|nachzulesen|prufen|schauen|suchen|lesen|offnen|abzurufen|ermitteln|beginnen|"
        "befragen|sichten|einholen|heraussuchen|anstossen|aufrufe|abrufe|nachschaue|nachsehe|starte",
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
        "prufe|schaue)|plan",
        "hedge": "hangt|kommt (\\w+ )?(darauf|drauf|auf)|konnte\\w*|moglich\\w*|vielleicht|vermutlich|"
        "wahrscheinlich|eventuell|mehrere|verschiedene|musste|lasst sich|liesse sich|ware|durfte|nicht sicher|"
        "weiss (ich )?nicht|um (das|dies)|bevor|sicherlich|bestimmt",
        "impersonal": "(der|mein|die) (erste|nachste|letzte|zweite|erster|nachster)\\w* (schritt|schritte)|"
        "man (musste|muss|konnte|kann|sollte|ruft)|(dazu|dafur|hierfur|hierzu|zuerst|zunachst|dann|"
        "anschliessend|danach|schliesslich|am besten) (\\w+ )?(ruft|ruf|wird|werden|muss|musste|lese|offne|"
        "nutz\\w*|verwend\\w*|kommt|genugt|reicht|sollte|wurde)|(es )?(genugt|reicht)|ware (zu|es)|vorgehen|"
        "schritt\\w*|plan|musste[n]?|wurde[n]?|(aufzurufen|zu verwenden|zu nutzen|aufgerufen|verwendet|"
        "genutzt) (werden|ware)?|mit ⌘|per ⌘|uber ⌘|mittels ⌘",
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
            "nicht",
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
            "dateien|echtzeit|ihre|deine)|mein (wissen|wissensstand)|meine (trainingsdaten|kenntnisse)",
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
            "nothing",
            "(mit|an) (keinem|keinen|keinerlei|keiner) (\\w+ )?(externen |ausseren )?(dienst|system|werkzeug|"
            "schnittstelle|datenquelle|programm)\\w*{~20}(verbunden|angebunden|angeschlossen|verknupft)|(nichts|"
            "nicht|kein\\w*)( \\w+){0,4} (angeschlossen|verbunden|angebunden|hinterlegt|aktiviert|eingerichtet|"
            "freigeschaltet|verknupft)|({tools}) (sind|ist)\\b{~30}nicht (\\w+ )?(aktiviert|aktiv|eingerichtet|"
            "verbunden|angebunden|freigeschaltet|angeschlossen|hinterlegt|installiert)",
        ),
        (
            "text_only",
            "no_tools",
            "object",
            "(nur|lediglich|ausschliesslich|bloss|reine[rsn]?|nichts als|beschranke\\w*|"
            "beschrankt)( \\w+){0,4} (text\\w*|worte?)|({tools})?(reines|nur ein|lediglich ein|"
            "bloss ein) (\\w+ )?(sprachmodell|textmodell|chatbot)",
        ),
        (
            "cannot_use_them",
            "no_tools",
            "object",
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
    ),
)

FRENCH = Language(
    "fr",
    {
        "adv": "malheureusement|actuellement|pas|directement|moi meme|vraiment|pour le moment|ici|en ce moment|"
        "toujours|simplement|aussi|plus|d'",
        "have_no": "je n'ai (actuellement |malheureusement |pour le moment )?(pas|aucun|aucune|pas non plus)|"
        "je ne (dispose|possede|suis) (actuellement |malheureusement )?(pas|d'aucun|d'aucune|aucun|aucune|"
        "equipe d'aucun|connecte a aucun)|(il ne )?m'a (pas )?ete|aucun|aucune|on ne m'a (pas )?(fourni|"
        "donne)( aucun)?|(il n'y a|il n'existe) (ici |actuellement |pas de |pas d'|aucune? ){0,2}|"
        "rien (de tel )?n'est|je ne (vois|trouve) (pas|aucun)|je ne suis (relie|connecte) a|"
        "je ne suis pas (relie|connecte|raccorde|branche)",
        "cannot": "je ne (peux|puis|sais)|je ne suis (malheureusement |actuellement )?(pas )?(capable|en mesure|"
        "habilite|apte)|je n'ai (malheureusement |actuellement )?pas (la possibilite|la capacite|les moyens|"
        "le moyen|de moyen|la faculte|moyen)|il m'est (actuellement |malheureusement )?impossible|"
        "je suis (malheureusement |actuellement )?(incapable|dans l'incapacite|dans l'impossibilite)|"
        "je n'ai aucun (moyen|e possibilite)|je n'ai aucune (possibilite|capacite)|il ne m'est pas possible|"
        "je n'(arrive|ai (pas )?le droit|ai jamais (recu|eu) la (possibilite|capacite))|(ne fait|"
        "ne font) pas partie de mes \\w+|impossible pour moi|je ne (saurais|parviens|vois pas comment)|"
        "je n'ai (aucun|pas de|pas le moindre) (mecanisme|moyen|outil permettant)|je suis (limite|restreint)|"
        "il m'est\\b",
        "tools": "(outils?|fonctions?|plugins?|apis?|extensions?|appels? d'outils?|appels? de fonctions?|"
        "fonctionnalites?)|⌘|extensions?|modules?( complementaires?)?|services? externes?|fonctions? externes?",
        "mods": "d'|de|des|du|la|le|les|l'|un|une|acces|a|aux|au|quelconque|externes?|disponibles?|necessaires?|"
        "adequats?|approprie\\w*|direct|ces|cet|cette|ce|tels?|tel|specifiques?|dispose|possibilite|utiliser|"
        "appeler|propres?|aucun|ni|service|mon cote|cote|nomme\\w*|appele\\w*|fonction|outil",
        "live": "en temps reel|temps reel|actuel(le|les|s)?|a jour|en direct|recentes?|du moment|dernieres?|"
        "en ce moment|aujourd'hui",
        "generic": "{live}|externes?|exterieur\\w*|cette (information|demande|tache)|ces (informations|donnees)|"
        "cela (pour vous|directement|moi meme)|le faire|y acceder|votre demande",
        "purpose": "(pour|qui|permettant|afin|capable)",
        "do": "acceder|consulter|ouvrir|lire|voir|verifier|rechercher|chercher|recuperer|obtenir|interroger|"
        "executer|lancer|parcourir|naviguer|effectuer|envoyer|creer|modifier|telecharger|me connecter|visiter|"
        "afficher|visualiser|interagir|ecrire|supprimer|lister|reserver|controler|faire|utiliser|regarder|acces|"
        "consultation|examiner|allumer|ajouter|enregistrer|surfer|explorer|trouver",
        "tell": "vous (donner|dire|fournir|indiquer|communiquer)|te (donner|dire|fournir)|donner|fournir|"
        "connaitre|savoir|indiquer",
        "report": "erreur\\w*|n'existe (pas|plus)|introuvable|refuse\\w*|verrouille\\w*|chiffre e?|corrompu\\w*|"
        "\\bvide\\b|echoue\\w*|renvoy\\w+|retourne\\w*|expire\\w*|delai|40[0-9]|50[0-9]|car (le|la|il|elle|ce|"
        "cette|l')|parce qu\\w+ (il|elle|le|la)|puisque|selon|d'apres|resultat\\w* (de|indique)|j'ai (essaye|"
        "tente|verifie|cherche|lance)|n'a pas pu|n'ai pas (pu|reussi|trouve)|protege\\w*",
        "meta": "phrase|formul\\w+|traduction|tradui\\w+|brouillon|voici (un|une|votre|la traduction|le texte)|"
        "modele (de|d')|exemple|signifie|veut dire|objet|cher \\w+|chere|citation|refus\\b|(modeles|assistants|"
        "chatbots) (disent|repondent)|histoire|bonjour madame|bonjour monsieur",
        "condition": "^(si|quand|lorsque|des que|au cas|comment|pourquoi|que|qui|quel\\w*)\\b",
        "missing": "sans (connaitre|savoir|le|la|les|une?|votre|plus|que vous|precision)|tant que|avant que|"
        "jusqu'a ce que|a moins que|encore\\b",
        "harm": "illega\\w+|nuisible\\w*|dangereu\\w+|contraire\\w*|ethique\\w*|malveillant\\w*|hameconnage|"
        "phishing|armes?|explosif\\w*|directives|politique\\w*|principes|violence|violer|viole|fraud\\w+|"
        "pirat\\w+|drogues?|bombe\\w*|vie privee|consentement|nuire|prejudic\\w+|illicite\\w*|haine\\w*|"
        "criminel\\w*|malware|escroquerie|non autorise\\w*|contourner",
        "decline": "(({cannot})|je ne (vais|veux|souhaite|dois)|je (dois|refuse|prefere ne))\\b",
        "brief": "je ne (peux|puis|suis pas en mesure de|vais) (malheureusement )?pas (vous |t')?(aider|"
        "assister|repondre|acceder|donner suite|faire|satisfaire)( a)?( cela| avec cela| ca| sur ce point|"
        " cette demande| votre demande| ce type de demande| dans cette demarche| ce genre de demande| avec ca|"
        " a cela| pour cela)?[.!;\\n]|je dois (refuser|decliner)|je refuse",
        "ask": "(souhaitez|voulez|desirez) vous que je|(souhaites|veux) tu que je|dois je|puis je|"
        "est ce que je (peux|dois)|me permettez vous|m'autorisez vous|ai je votre (accord|permission)|"
        "etes vous d'accord (pour que je|si je)|tu veux que je|vous voulez que je|vous souhaitez que je|"
        "ca vous va si je|voudriez vous que je|aimeriez vous que je|cela vous (convient|conviendrait|irait)|"
        "est ce (que cela vous|d'accord|ok|bon|possible)|d'accord|je (l'|la |le |les |lance |vous )?\\w+ \\?|"
        "souhaitez vous|voulez vous|veux tu|souhaites tu|puis je|dois je|ca te va|ca vous va|permission|"
        "autorisation|on (y va|lance)",
        "offer": "si vous (le )?(souhaitez|voulez|desirez|etes d'accord|m'y autorisez)|si tu (le )?(souhaites|"
        "veux)|avec votre (accord|permission|autorisation)|(dites|faites) (le )?moi( savoir)? (si|et)|"
        "n'hesitez pas a me (dire|le dire)|(merci de|veuillez) (me )?confirmer|confirmez|dites moi simplement|"
        "donnez moi (votre|le feu)|(dites|dis|faites|fais|donnez|donne)( le)?( moi)?( simplement| juste|"
        " seulement)?( signe| savoir| oui| le feu vert| votre accord| un mot| si)|il (vous |"
        "te )?suffit de (me )?(dire|demander|confirmer)|sur simple demande|j'(aurais|"
        "ai) besoin de votre (accord|autorisation|permission|feu vert)|un mot de votre part|prevenez moi|"
        "demandez (le )?moi",
        "choice": "\\bou\\b|\\b(quel\\w*|qui|quand)\\b|plutot",
        "grave": "supprim\\w+|effac\\w+|ecras\\w+|pay\\w+|transfer\\w+|vire\\w+|achet\\w+|annul\\w+|publi\\w+|"
        "irreversible\\w*|definitiv\\w+|reinitialis\\w+|resili\\w+|deploy\\w+|desinstall\\w+",
        "more": "\\baussi\\b|egalement|autre chose|d'autres|davantage|plus (de details|d'informations)|"
        "expliqu\\w+|resum\\w+|precis\\w+|detaill\\w+|encore|supplementaire\\w*",
        "intend": "je vais|je voudrais|j'utiliserai|j'appellerai|j'utilise|j'appelle|laissez moi|laisse moi|"
        "permettez moi|je dois|je (vais|cherche|verifie|consulte|regarde|lance|recupere|lis|ouvre|m'en occupe|"
        "recherche|procede|fais)|il (faut|faudrait)|nous (allons|devons|pouvons)|j'(aurais|ai) besoin|"
        "je (devrais|pourrais|utiliserais|appellerais)|la prochaine etape",
        "advise": "vous (pouvez|pourriez|devriez)|tu (peux|pourrais)",
        "act": "verifi\\w+|cherch\\w+|recherch\\w+|consult\\w+|regard\\w+|lanc\\w+|recuper\\w+|lire|lis|"
        "ouvr\\w+|appel\\w+|utilis\\w+|execut\\w+|interrog\\w+|voir|obtenir|m'en occupe|proced\\w+|effectu\\w+|"
        "fai\\w+|calcul\\w+|list\\w+|trouver|acceder|examin\\w+|envoy\\w+|cre\\w+|jeter un|invoqu\\w+|"
        "demand\\w+|continuer|ajouter|parcour\\w+|interrog\\w+|lancer?|ouvr\\w+|fouill\\w+|retrouv\\w+|jet\\w+|"
        "lis\\b|commenc\\w+|charg\\w+|fass\\w+|consult\\w+|explor\\w+|occup\\w+|tourner|declench\\w+|"
        "determin\\w+",
        "progress": "^(recherche|verification|consultation|lecture|execution|recuperation|appel) (en cours|de|"
        "du|des)\\b",
        "waits": "des que vous|si vous|quand vous|lorsque vous|une fois que vous|apres que vous|expliqu\\w+|"
        "retenir|noter|conseill\\w+|recommand\\w+|dans votre (code|programme|script|terminal|projet)|"
        "par exemple|propos\\w+|vous aider|montr\\w+|suppos\\w+|donner (un|une|des)",
        "weak": "bien sur|certainement|d'accord|ok|oui|entendu|compris|parfait|tres bien|avec plaisir|je peux|"
        "je pourrais|pour |afin|un instant|un moment|patientez|veuillez (patienter|attendre)|une seconde|merci|"
        "bonjour|ensuite|puis|d'abord|j'ai (acces|un outil|besoin)|l'outil|avec (l'outil|cela)|maintenant|"
        "cela (va|peut|devrait)|ca (va|peut)|bonne question|je dispose|tout de suite|volontiers|absolument|"
        "tout depend|cela depend|ca depend|avant de|j'aurais|plan|mon plan|voici (mon|le) plan|il faudrait|"
        "avec ⌘",
        "hedge": "depend\\w*|peut etre|pourrait|pourraient|peut|peuvent|possible\\w*|probablement|sans doute|"
        "surement|plusieurs|il faudrait|devrait|avant de|pour (le|cela|cerner|en)|je ne sais pas|difficile|"
        "eventuellement|contient",
        "impersonal": "(la|ma) (premiere|prochaine|derniere) (etape|chose)|il (suffit|suffirait|faut|faudra|"
        "faudrait|convient|conviendrait)|on (peut|pourrait|doit|devrait|appelle|utilise)|(d'abord|ensuite|puis|"
        "enfin|pour cela|pour ce faire) (appel\\w+|utilis\\w+|ouvr\\w+|li\\w+|lanc\\w+|execut\\w+|on|il)|(doit|"
        "devrait|peut|pourrait) etre (appele|utilise|execute|lance)\\w*|etapes?|plan|demarche|(avec|via|"
        "au moyen de|en utilisant|en appelant|a l'aide de|grace a) (l'outil |la fonction )?⌘|j'(appellerais|"
        "utiliserais|invoquerais|executerais|appelle|utilise)",
    },
    "je suis|(vraiment |sincerement )?(desole|desolee|navre)|malheureusement|je (vous prie de m'excuser|"
    "m'excuse)|excusez moi|pardon|mais|toutefois|cependant|en tant qu(e|')|une?|ia|intelligence artificielle|"
    "modele|assistant|de langage|textuel|seulement|juste|simplement|et|bonjour|actuellement|pour le moment|"
    "dans (cette conversation|ce contexte|cet environnement)|virtuel|directement",
    (
        (
            "je n'ai|je ne (dispose|possede|peux|puis|suis|sais)",
            "pas|aucun|d'aucun|malheureusement|en mesure|actuellement|directement",
        ),
        (
            "il m'est|il ne m'est|je suis (incapable|dans l'i)|aucun outil|aucune (fonction|api)|"
            "il n'y a (pas d'outil|aucun outil)|les outils|mes connaissances|mes donnees|on ne m'a",
        ),
    ),
    rules(
        (
            "no_tools",
            "no_tools",
            "nothing",
            "({have_no})( |(?<='))(({mods}) ?){0,7}\\b({tools})\\b( \\w+)?(?P<purpose> {purpose}\\b)?",
        ),
        (
            "cannot_use_tools",
            "no_tools",
            "nothing",
            "({cannot})\\b{~25}(utiliser|appeler|invoquer|executer|acceder|recourir|faire appel|lancer|"
            "d'appeler|d'utiliser|effectuer){~25}\\b({tools})\\b",
        ),
        (
            "none_here",
            "no_tools",
            "nothing",
            "(il n'y a|je ne vois) (actuellement )?(pas d'|aucun |"
            "aucune )({tools})\\b(?P<purpose> {purpose}\\b)?|\\baucune? ({tools}) (\\w+ )?(n'est|ne m'est|"
            "n'a ete|ne m'a|disponible)|({tools}) ne (sont|me sont) (\\w+ )?pas (\\w+ )?(disponibles?|"
            "accessibles?)",
        ),
        (
            "no_access",
            "cannot_access",
            "object",
            "({have_no}) (\\w+ ){0,2}?(d'|de |un |l'|a )?(acces|connexion|visibilite|droit d'acces)\\b",
        ),
        (
            "no_live_data",
            "cannot_access",
            "object",
            "({have_no})\\b{~30}\\b({live})\\b",
        ),
        (
            "cannot_do",
            "cannot_access",
            "object",
            "({cannot})\\b{~40}\\b({do})\\b",
        ),
        (
            "cannot_tell",
            "cannot_access",
            "object",
            "({cannot})\\b{~30}\\b({tell})\\b{~60}\\b({live})\\b",
        ),
        (
            "cutoff",
            "cannot_access",
            "topic",
            "mes (connaissances|donnees|informations)( d'entrainement)? (s'arretent|sont limitees|datent|"
            "remontent|ne sont pas|vont jusqu)",
        ),
        (
            "no_such_tool",
            "no_tools",
            "nothing",
            "⌘{~15}\\b(n'existe|n'est|ne (me )?(dit|sont|fonctionne|figure|fait|correspond))\\b{~25}(pas|rien|"
            "aucun\\w*)?|(pas de|pas d'|aucune?|ni) (\\w+ ){0,2}⌘|⌘{~20}(que des mots|qu'un (nom|mot)|"
            "de simples mots|que du texte)|({cannot})\\b{~30}⌘",
        ),
        (
            "unconnected",
            "no_tools",
            "nothing",
            "rien (de tel |de cela |d'externe )?n'est (\\w+ )?(branche|connecte|relie|installe|raccorde|"
            "configure|active)|je ne suis (\\w+ )?(pas )?(relie|connecte|raccorde|branche)\\w*|"
            "({tools}) (ne sont|n'est|ne est) (\\w+ )?(pas |)(\\w+ )?(active|branche|connecte|configure|"
            "installe|disponible|accessible)\\w*|aucun(e)? ({tools}|connexion|integration|"
            "service) (\\w+ )?(n'est|ne|de mon cote|ici|sous)",
        ),
        (
            "text_only",
            "no_tools",
            "object",
            "(limite|restreint|borne|cantonne)\\w* (\\w+ ){0,4}(texte|texte\\w*|redaction)|(ne (fais|peux|sais|"
            "produis|genere)|seulement|uniquement|simplement) (\\w+ ){0,4}(que )?(\\w+ ){0,3}(texte|mots)|"
            "(simple|seulement un|qu'un|juste un|purement un) (\\w+ )?(modele de (langage|langue)|"
            "modele textuel|generateur de texte)",
        ),
        (
            "cannot_use_them",
            "no_tools",
            "object",
            "({cannot})\\b{~15}(les|l'|la|le|y)( |')?(utiliser|appeler|invoquer|executer|declencher|lancer)",
        ),
        (
            "not_mine",
            "cannot_access",
            "topic",
            "(ne fait|ne font) pas partie de mes|je n'ai (pas d'|pas de |ni |aucune? )(horloge|montre|"
            "calendrier|navigateur|ecran|camera|terminal|boite mail|messagerie)|(ne (fonctionne|"
            "marche)) pas (chez moi|de mon cote|ici)|je (ne sais|ignore)\\b{~40}({live}|quelle heure)",
        ),
    ),
)

SPANISH = Language(
    "es",
    {
        "adv": "actualmente|lamentablemente|desafortunadamente|directamente|por el momento|ahora mismo|"
        "en este momento|aqui|realmente|tampoco|por desgracia|todavia",
        "have_no": "no (tengo|dispongo de|poseo|cuento con|dispongo)|carezco de|no (se me|me) (ha|"
        "han) (proporcionado|dado|facilitado|asignado|otorgado|concedido)|no estoy conectado a|me faltan?|"
        "no (existe|existen|hay|tengo instalad\\w+|tengo conectad\\w+|veo)",
        "cannot": "no (puedo|podria|podemos|consigo)|no (soy capaz|estoy capacitado|estoy en condiciones|"
        "estoy disenado|me es posible|es posible para mi)( de| para)?|no (tengo|dispongo de|cuento con|"
        "poseo) (({adv}) )?(la |ninguna |una )?(capacidad|posibilidad|habilidad|forma|manera|medio|"
        "facultad)( de| para)?|me (es|resulta) imposible|soy incapaz de|carezco de la capacidad|no (logro|"
        "alcanzo a|me resulta posible|me esta permitido|se me permite|figura|forma parte de mis \\w+|"
        "esta entre mis \\w+|estan entre mis \\w+)|nunca (se me|me) (dio|ha dado|han dado) la (capacidad|"
        "posibilidad)|(es|resulta) imposible para mi|no hay (forma|manera|modo) de que (yo )?|no (tengo|"
        "cuento con|dispongo de) (ningun |un )?(mecanismo|medio|modo)",
        "tools": "(herramientas?|funciones|funcion|plugins?|complementos?|apis?|llamadas? a (herramientas|"
        "funciones))|⌘|extensiones|extension|servicios? externos?|funciones externas|modulos?",
        "mods": "acceso|a|al|las?|los?|el|un|una|ninguna?|ningun|de|del|externas?|disponibles?|necesarias?|"
        "adecuadas?|esas?|estas?|tales|directo|propias?|especificas?|con|que|usar|ese|este|alguna?|integradas?|"
        "ni|llamada|funcion|herramienta|servicio|mi entorno|instalad\\w+|conectad\\w+|por",
        "live": "en tiempo real|tiempo real|actual(es|izad\\w+|mente)?|al dia|en vivo|recientes?|en directo|"
        "ultim[oa]s?|de hoy|ahora mismo",
        "generic": "{live}|extern\\w+|esa (informacion|solicitud|tarea)|esta (informacion|solicitud|tarea)|"
        "esos datos|estos datos|hacerlo|eso (por ti|por usted|directamente)|tu solicitud|su solicitud|"
        "lo que (pides|solicitas)|esa consulta",
        "purpose": "(para|que|capaz|capaces|con)",
        "do": "acceder|consultar|abrir|leer|ver|verificar|comprobar|buscar|recuperar|obtener|ejecutar|navegar|"
        "realizar|enviar|crear|modificar|descargar|conectar\\w*|visitar|mostrar|visualizar|interactuar|escribir|"
        "eliminar|listar|reservar|controlar|usar|revisar|mirar|acceso|examinar|encender|agregar|anadir|guardar|"
        "explorar|consultarl[oa]|abrirl[oa]|leerl[oa]|hacerl[oa]|hacer|llamar|explorar|comprobarl[oa]|"
        "revisarl[oa]|buscarl[oa]|ejecutarl[oa]|verl[oa]|programar",
        "tell": "decir\\w*|dar\\w*|proporcionar\\w*|ofrecer\\w*|indicar\\w*|facilitar\\w*|informar\\w*|saber|"
        "conocer|brindar\\w*",
        "report": "error\\w*|no existe\\w*|no (se )?encontr\\w+|denegad\\w+|bloquead\\w+|cifrad\\w+|corrupt\\w+|"
        "danad\\w+|vaci[oa]|fall[oa]\\w*|devolvi\\w+|devuelve|caducad\\w+|expir\\w+|agotad\\w+|40[0-9]|50[0-9]|"
        "porque (el|la|los|las|ese|este|esta|no)|ya que (el|la)|segun|(he|hemos) (intentado|probado|revisado|"
        "buscado|consultado|comprobado)|no (pude|he podido|logre)|protegid\\w+|resultado\\w* (de|indica)|"
        "mientras",
        "meta": "frase|oracion|traduc\\w+|borrador|aqui (tienes|tiene|esta)|plantilla|ejemplo|significa|asunto|"
        "estimad\\w+|querid\\w+|cita\\b|(modelos|asistentes|chatbots) (dicen|responden|suelen)|historia|"
        "un cuento|el cuento|negativa|quiere decir",
        "condition": "^(si|cuando|en caso|aunque|como|por que|que|quien|cual\\w*)\\b",
        "missing": "sin (saber|conocer|el|la|los|las|un|una|mas|tu|su|que)|hasta que|antes de que|a menos que|"
        "todavia\\b|aun\\b|mientras no",
        "harm": "ilega\\w+|dan[io]\\w*|peligros\\w+|poco etic\\w+|etic\\w+|malicios\\w+|malware|phishing|armas?|"
        "explosiv\\w+|directrices|politicas?|normas|principios|viola\\w*|violencia|fraud\\w+|hackear|pirate\\w+|"
        "drogas?|bomba\\w*|privacidad|consentimiento|perjudic\\w+|ilicit\\w+|odio|delit\\w+|criminal\\w*|"
        "estafa\\w*|no autorizad\\w+|eludir|sin permiso",
        "decline": "(({cannot})|no (voy a|debo|quiero|estoy dispuesto)|debo (rechazar|negarme|declinar)|me niego)\\b",
        "brief": "no (puedo|voy a|podre) (ayudarte|ayudarle|ayudar|asistirte|asistirle|cumplir|hacer eso|"
        "hacerlo|colaborar|atender|apoyar|realizar esa|participar|continuar)( con| en| a)?( eso| esto|"
        " esa solicitud| esa peticion| esta solicitud| esa accion| tu solicitud| su solicitud| ese tipo de \\w+|"
        " con eso)?[.!;\\n]|debo (rechazar|declinar)|me niego",
        "ask": "(quieres|quiere|deseas|desea|te gustaria|le gustaria|prefieres|necesitas) que|(puedo|debo|"
        "deberia) \\w+|me (permites|permite|autorizas|autoriza)|te parece bien (si|que)|le parece bien (si|que)|"
        "tengo tu permiso|tengo su permiso|estas de acuerdo en que|procedo|(quieres|quiere|deseas|desea|"
        "te parece|le parece|prefieres|me dejas|me deja|puedo|debo|procedo|te importa|le importa|"
        "estas de acuerdo|esta de acuerdo|permiso|estaria bien|seria correcto|me das|me da|te gustaria|"
        "le gustaria|(lo|la|los|las) (busco|consulto|reviso|miro|ejecuto|abro|leo|compruebo|hago))",
        "offer": "si (lo )?(quieres|deseas|quiere|desea|te parece|prefieres|lo autorizas|lo autoriza|"
        "estas de acuerdo)|con (tu|su) (permiso|autorizacion)|(dime|digame|avisame|aviseme|hazme saber|"
        "hagame saber) (si|y)|(por favor )?(confirma|confirme|confirmame)|solo (dime|digame|avisame)|(dime|"
        "digame|avisame|aviseme|hazmelo saber|hagamelo saber|confirmame|confirmeme|solo tienes que|"
        "solo tiene que|basta con que|con que me digas|si me das|si me da|cuando (quieras|quiera|digas|diga)|"
        "necesito (tu|su) (permiso|autorizacion|confirmacion|visto bueno)|si te parece|si le parece|"
        "si lo (deseas|desea|prefieres|autorizas))",
        "choice": "\\b(o|u)\\b|\\b(cual\\w*|donde|quien|cuando|que (ciudad|archivo|fecha))\\b|mejor",
        "grave": "elimin\\w+|borr\\w+|sobrescrib\\w+|pag(ar|o|ue)\\w*|transf\\w+|compr(ar|e|o)\\b|cancel\\w+|"
        "public\\w+|irreversible\\w*|permanente\\w*|restablec\\w+|desinstal\\w+|despleg\\w+|definitiv\\w+",
        "more": "tambien|algo mas|otra cosa|mas (detalles|informacion|sobre)|expli\\w+|resum\\w+|detall\\w+|"
        "profundi\\w+|adicional\\w*|ademas|aclar\\w+|otr[oa]s?\\b",
        "intend": "voy a|vamos a|dejame|dejeme|permiteme|permitame|(lo )?(buscare|consultare|verificare|usare|"
        "utilizare|llamare|revisare|comprobare|ejecutare|abrire|leere|hare|obtendre|mirare|procedere|enviare|"
        "creare|usaria|utilizaria|llamaria|consultaria)|debo|deberia|necesito|tengo que|hay que|"
        "el siguiente paso|procedo a|ahora (busco|consulto|reviso|verifico|ejecuto|llamo)|(busco|consulto|"
        "reviso|verifico|compruebo|uso|ejecuto|leo|abro|miro)\\b",
        "advise": "(puedes|podrias|deberias|puede|podria) (usar|llamar|utilizar|ejecutar)",
        "act": "busc\\w+|consult\\w+|verific\\w+|us(ar|are|aria|o)\\b|utiliz\\w+|llam\\w+|revis\\w+|comprob\\w+|"
        "comprueb\\w+|ejecut\\w+|abr\\w+|le(er|ere|o)\\w*|mir\\w+|obten\\w+|hac\\w+|hare|haga|proced\\w+|"
        "recuper\\w+|ver\\b|calcul\\w+|list\\w+|invoc\\w+|acced\\w+|envi\\w+|cre(ar|are|e)\\b|continu\\w+|"
        "encontrar|echar un|realic\\w+|realiz\\w+|investig\\w+|lea|busqu\\w+|revis\\w+|ejecut\\w+|lea\\b|leer|"
        "abra|mire|haga|us[eo]\\b|lanz\\w+|explor\\w+|recorr\\w+|consult\\w+|echar|echo|compruebe|inici\\w+|"
        "empez\\w+|determin\\w+|averig\\w+|saqu\\w+|hacerl[oa]|buscarl[oa]|cargar|pas[eo]\\b",
        "progress": "^(buscando|consultando|verificando|revisando|ejecutando|leyendo|abriendo|obteniendo|"
        "comprobando|llamando|accediendo)\\b",
        "waits": "cuando (me|tu|usted)|si (me|tu|usted)|en cuanto (me|tu)|una vez que (me|tu)|expli\\w+|"
        "record\\w+|recomend\\w+|sug(iero|erir)|en tu (codigo|programa|script|terminal|proyecto)|por ejemplo|"
        "ayudar\\w*|mostrar\\w*|propon\\w+|suponer|dar\\w* (un|una|unos)",
        "weak": "claro|por supuesto|desde luego|ok|vale|si\\b|entendido|de acuerdo|perfecto|muy bien|con gusto|"
        "puedo|podria|para |un momento|un segundo|un instante|espera|espere|por favor (espera|espere)|gracias|"
        "hola|luego|despues|primero|tengo (acceso|una herramienta|la)|la herramienta|con (la herramienta|eso)|"
        "ahora|esto (puede|va)|buena pregunta|dispongo|enseguida|a continuacion|seguro|dame|deme|bien|"
        "cuento con|genial|listo|depende|todo depende|antes de|necesitaria|tendria|plan|mi plan|habria|con ⌘|"
        "eso se puede|se puede",
        "hedge": "depende\\w*|puede|pueden|podria\\w*|podrian|posible\\w*|probable\\w*|quiza\\w*|tal vez|"
        "seguramente|varias|varios|habria que|deberia\\w*|antes de|para (saber|acotar|ello|eso|averiguar)|"
        "no se (si|cual)|dificil|necesitaria|tendria que|se puede|contiene",
        "impersonal": "(el|mi) (primer|siguiente|proximo|ultimo) (paso|cosa)|(habria|hay|habra) que|(basta|"
        "bastaria) con|se (puede|podria|debe|deberia|usa|llama|necesita)|(primero|luego|despues|a continuacion|"
        "por ultimo|para ello|para eso) (se )?(llam\\w+|us\\w+|le\\w+|abr\\w+|ejecut\\w+|hay|habria)|pasos?|"
        "plan|(deberia|debe|puede|podria) (ser )?(llamad\\w+|usad\\w+|llamarse|usarse|ejecutarse)|(con|usando|"
        "mediante|llamando a|a traves de|por medio de) (la herramienta |la funcion )?⌘|(usaria|utilizaria|"
        "llamaria|invocaria|ejecutaria)",
    },
    "lo siento( mucho)?|lamento( mucho)?|lamentablemente|desafortunadamente|por desgracia|disculpa|disculpe|"
    "perdon|perdona|pero|sin embargo|como (ia|modelo|asistente|inteligencia artificial|un modelo|una ia)|"
    "de lenguaje|modelo|asistente|virtual|soy (solo )?(una ia|un modelo|un asistente)|y|que|hola|actualmente|"
    "por el momento|en este momento|ahora mismo|en esta (conversacion|sesion)|me temo|basado en texto|ia|yo",
    (
        (
            "no (puedo|podria|tengo|dispongo|poseo|cuento|soy capaz|me es|se me|me ha|me han|estoy|es posible|"
            "hay)|carezco|me (es|resulta) imposible|ninguna herramienta|las herramientas|mis conocimientos|"
            "mi conocimiento",
        ),
    ),
    rules(
        (
            "no_tools",
            "no_tools",
            "nothing",
            "({have_no}) (({mods}) ){0,7}({tools})\\b( (disponibles?|externas?))?(?P<purpose> {purpose}\\b)?",
        ),
        (
            "cannot_use_tools",
            "no_tools",
            "nothing",
            "({cannot})\\b{~25}(usar|utilizar|llamar|invocar|ejecutar|acceder|emplear|recurrir|"
            "hacer){~25}\\b({tools})\\b",
        ),
        (
            "none_here",
            "no_tools",
            "nothing",
            "\\bno hay (ninguna? )?(({mods}) ){0,3}({tools})\\b(?P<purpose> {purpose}\\b)?|"
            "\\bninguna ({tools}) (esta|disponible)|({tools}) no (estan|esta) (\\w+ )?disponibles?",
        ),
        (
            "no_access",
            "cannot_access",
            "object",
            "({have_no}) (({mods}|({adv})) ){0,3}(acceso|conexion|visibilidad|permiso)\\b",
        ),
        (
            "no_live_data",
            "cannot_access",
            "object",
            "({have_no})\\b{~30}\\b({live})\\b",
        ),
        (
            "cannot_do",
            "cannot_access",
            "object",
            "({cannot})\\b{~35}\\b({do})\\b",
        ),
        (
            "cannot_tell",
            "cannot_access",
            "object",
            "({cannot})\\b{~25}\\b({tell})\\b{~60}\\b({live})\\b",
        ),
        (
            "cutoff",
            "cannot_access",
            "topic",
            "mis? (conocimientos?|datos|informacion)( de entrenamiento)? (llegan?|esta|estan|se limitan?|solo|"
            "terminan?|termina|abarcan?)",
        ),
        (
            "no_such_tool",
            "no_tools",
            "nothing",
            "⌘{~15}\\bno (existe|esta|me|se|figura|funciona|aparece|es|forma|significa|la tengo|lo tengo|puedo|"
            "tengo)\\b|no (hay|tengo|existe|dispongo de|cuento con|veo) (\\w+ ){0,3}⌘|⌘{~25}(solo|simples|"
            "meras) (son )?(palabras|un nombre|nombres|texto)|({cannot})\\b{~30}⌘",
        ),
        (
            "unconnected",
            "no_tools",
            "nothing",
            "no (estoy|tengo|hay) (\\w+ )?(conectad\\w+|vinculad\\w+|enlazad\\w+)|"
            "(no hay )?nada (\\w+ ){0,2}(conectado|enchufado|vinculado|instalado|configurado)|"
            "({tools}) no (estan|esta) (\\w+ )?(activad|conectad|configurad|instalad|habilitad|disponible|"
            "accesible)\\w*",
        ),
        (
            "text_only",
            "no_tools",
            "object",
            "(solo|unicamente|lo unico que|limitad\\w+ a|me limito a|simplemente|"
            "nada mas que) (\\w+ ){0,5}(texto|palabras)|(soy|como) (solo |unicamente |simplemente |"
            "meramente )(un )?(\\w+ )?(modelo de lenguaje|modelo de texto|chatbot|generador)",
        ),
        (
            "cannot_use_them",
            "no_tools",
            "object",
            "({cannot})\\b{~15}(usar|llamar|invocar|ejecutar|utilizar|activar)(las|los|la|lo)",
        ),
        (
            "not_mine",
            "cannot_access",
            "topic",
            "no (forma|forman|esta|estan|figura|figuran) (\\w+ )?(parte de|entre) mis|no tengo (un |ningun |"
            "ni )?(reloj|calendario|navegador|pantalla|camara|terminal|buzon)|no (funciona|funcionan) (aqui|"
            "para mi|en mi)|no (se|conozco)\\b{~40}({live}|que hora)",
        ),
    ),
)
