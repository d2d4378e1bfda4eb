"""How models decline, announce and ask in French: words, not code.

The notation is explained in `refusals.words`, which sits below; `refusals`, above, compiles and matches. Texts are
folded before they are matched, so there are no accents here: `déjà` is `deja`.
"""

from __future__ import annotations

from .tables import Language, rules

FRENCH = Language(
    "fr",
    {
        "adv": "malheureusement|actuellement|pas|directement|moi meme|vraiment|pour le moment|ici|en ce moment|"
        "toujours|simplement|aussi|plus|d'",
        "have_no": "je n'ai (actuellement |malheureusement |pour le moment )?(pas|aucun|aucune|pas non plus)|"
        "je ne (dispose|possede|suis) (actuellement |malheureusement )?(pas|d'aucun|d'aucune|aucun|aucune|"
        "equipe d'aucun|connecte a aucun)|(il ne )?m'a (pas )?ete|je n'ai acces a (aucun|aucune)|je n'ai ni|"
        "aucune? (outil|fonction|plugin|api) (ne|n')|on ne m'a (pas )?(fourni|donne)( aucun)?|(il n'y a|"
        "il n'existe) (ici |actuellement |pas de |pas d'|aucune? ){0,2}|rien (de tel )?n'est|je ne (vois|"
        "trouve) (pas|aucun)|je ne suis (relie|connecte) a|je ne suis pas (relie|connecte|raccorde|branche)",
        "cannot": "je ne (peux|puis|sais)|je ne suis (malheureusement |actuellement )?(pas )?(capable|en mesure|"
        "habilite|apte)|je n'ai (malheureusement |actuellement )?pas (la possibilite|la capacite|les moyens|"
        "le moyen|de moyen|la faculte|moyen)|il m'est (actuellement |malheureusement )?impossible|"
        "je suis (malheureusement |actuellement )?(incapable|dans l'incapacite|dans l'impossibilite)|"
        "je n'ai aucun (moyen|e possibilite)|je n'ai aucune (possibilite|capacite)|il ne m'est pas possible|"
        "je n'(arrive|ai (pas )?le droit|ai jamais (recu|eu) la (possibilite|capacite))|(ne fait|"
        "ne font) pas partie de mes \\w+|impossible pour moi|je ne (saurais|parviens|vois pas comment)|"
        "je n'ai (aucun|pas de|pas le moindre) (mecanisme|moyen|outil permettant)|je suis (limite|restreint)|"
        "il m'est\\b|je suis (\\w+ )?(incapable|dans l'incapacite|dans l'impossibilite)( de| d')?",
        "tools": "(outils?|fonctions?|plugins?|apis?|extensions?|appels? d'outils?|appels? de fonctions?|"
        "fonctionnalites?)|⌘|extensions?|modules?( complementaires?)?|services? externes?|fonctions? externes?",
        "mods": "d'|de|des|du|la|le|les|l'|un|une|acces|a|aux|au|quelconque|externes?|disponibles?|necessaires?|"
        "adequats?|approprie\\w*|direct|ces|cet|cette|ce|tels?|tel|specifiques?|dispose|possibilite|utiliser|"
        "appeler|propres?|aucun|ni|service|mon cote|cote|nomme\\w*|appele\\w*|fonction|outil|ma|disposition|"
        "plugin|api|outil|ni|mentionne\\w*",
        "live": "en temps reel|temps reel|actuel(le|les|s)?|a jour|en direct|recentes?|du moment|dernieres?|"
        "en ce moment|aujourd'hui|maintenant|a l'heure|a cet instant|quelle heure|du jour|actuellement|"
        "pour l'instant",
        "generic": "{live}|externes?|exterieur\\w*|cette (information|demande|tache)|ces (informations|donnees)|"
        "cela (pour vous|directement|moi meme)|le faire|y acceder|votre demande",
        "purpose": "(pour|qui|permettant|afin|capable)",
        "do": "acceder|consulter|ouvrir|lire|voir|verifier|rechercher|chercher|recuperer|obtenir|interroger|"
        "executer|lancer|parcourir|naviguer|effectuer|envoyer|creer|modifier|telecharger|me connecter|visiter|"
        "afficher|visualiser|interagir|ecrire|supprimer|lister|reserver|controler|faire|utiliser|regarder|acces|"
        "consultation|examiner|allumer|ajouter|enregistrer|surfer|explorer|trouver",
        "tell": "vous (donner|dire|fournir|indiquer|communiquer)|te (donner|dire|fournir)|donner|fournir|"
        "connaitre|savoir|indiquer",
        "self": "je|j'\\w+|me|m'\\w+|moi|mon|ma|mes|(ce|cette|cet) (chat|modele|assistant|conversation)|ia|"
        "modele de \\w+",
        "report": "une erreur|l'erreur|erreur (de|lors)|n'existe (pas|plus)|introuvable|refuse\\w*|"
        "verrouille\\w*|chiffre e?|corrompu\\w*|\\bvide\\b|echoue\\w*|renvoy\\w+|retourne\\w*|expire\\w*|delai|"
        "(http|status|code|error|fehler|erreur|错误|エラー) ?[45][0-9][0-9]|[45][0-9][0-9] (not|forbidden|error|"
        "unauthorized|internal)|car (le|la|il|elle|ce|cette|l')|parce qu\\w+ (il|elle|le|la)|puisque|selon|"
        "d'apres|resultat\\w* (de|indique)|j'ai (essaye|tente|verifie|cherche|lance)|n'a pas pu|n'ai pas (pu|"
        "reussi|trouve)|protege\\w*|(dans|de) (ce|le|cette|votre|ton) (fichier|code|module|classe|script|projet|"
        "depot)|le fichier (ne )?contient",
        "meta": "phrase|formul\\w+|traduction|tradui\\w+|brouillon|voici (un|une|votre|la traduction|le texte)|"
        "modele de (lettre|mail|message|courriel|reponse)|exemple|signifie|veut dire|objet|cher \\w+|chere|"
        "citation|refus\\b|(modeles|assistants|chatbots) (disent|repondent)|histoire|bonjour madame|"
        "bonjour monsieur",
        "condition": "^(si|quand|lorsque|des que|au cas|meme si)\\b",
        "missing": "sans (connaitre|savoir|le|la|les|une?|votre|plus|que vous|precision)|(?<!en )tant que|"
        "avant que|jusqu'a ce que|a moins que",
        "harm": "illega\\w+|nuisible\\w*|dangereu\\w+|contraire\\w*|ethique\\w*|malveillant\\w*|hameconnage|"
        "phishing|armes?|explosif\\w*|directives|politique\\w*|principes|violence|violer|viole|fraud\\w+|"
        "pirat\\w+|drogues?|bombe\\w*|vie privee|consentement|nuire|prejudic\\w+|illicite\\w*|haine\\w*|"
        "criminel\\w*|malware|escroquerie|non autorise\\w*|contourner|mortel\\w*|interdit\\w*|la loi|vol\\b|"
        "suicid\\w*|usurp\\w*|a son insu|a leur insu|sans (son|leur|votre) (accord|consentement|autorisation)|"
        "doses? (mortel|letal)\\w*",
        "decline": "(({cannot})|je ne (vais|veux|souhaite|dois)|je (dois|refuse|prefere ne))\\b|je ne (\\w+rai|"
        "vais|compte)( pas)?|je m'y refuse|je prefere (m'abstenir|ne pas)|je m'abstien\\w*",
        "brief": "je ne (peux|puis|suis pas en mesure de|vais) (malheureusement )?pas (vous |t')?(aider|"
        "assister|repondre|acceder|donner suite|faire|satisfaire)( a)?( cela| avec cela| ca| sur ce point|"
        " cette demande| votre demande| ce type de demande| dans cette demarche| ce genre de demande| avec ca|"
        " a cela| pour cela)?[.!;\\n]|je dois (refuser|decliner)|je refuse",
        "ask": "derange\\w* si je|gene\\w* si je|inconvenient a ce que je|un probleme si je|"
        "(souhaitez|voulez|desirez) vous que je|(souhaites|veux) tu que je|dois je|puis je|"
        "est ce que je (peux|dois)|me permettez vous|m'autorisez vous|ai je votre (accord|permission)|"
        "etes vous d'accord (pour que je|si je)|tu veux que je|vous voulez que je|vous souhaitez que je|"
        "ca vous va si je|voudriez vous que je|aimeriez vous que je|cela vous (convient|conviendrait|irait)|"
        "est ce (que cela vous|d'accord|ok|bon|possible)|d'accord|je (l'|la |le |les |lance |vous )?\\w+ \\?|"
        "souhaitez vous|voulez vous|veux tu|souhaites tu|puis je|dois je|ca te va|ca vous va|permission|"
        "autorisation|on (y va|lance)|(cela|ca) (vous|t'|te) (aiderait|interesse|convient|va|dit)|qu'en (dites|"
        "penses)|on y va|oui ou non|partant",
        "offer": "si vous (le )?(souhaitez|voulez|desirez|etes d'accord|m'y autorisez)|si tu (le )?(souhaites|"
        "veux)|avec votre (accord|permission|autorisation)|(dites|faites) (le )?moi( savoir)? (si|et)|"
        "n'hesitez pas a me (dire|le dire)|(merci de|veuillez) (me )?confirmer|confirmez|dites moi simplement|"
        "donnez moi (votre|le feu)|(dites|dis|faites|fais|donnez|donne)( le)?( moi)?( simplement| juste|"
        " seulement)?( signe| savoir| oui| le feu vert| votre accord| un mot| si)|il (vous |"
        "te )?suffit de (me )?(dire|demander|confirmer)|sur simple demande|j'(aurais|"
        "ai) besoin de votre (accord|autorisation|permission|feu vert)|un mot de votre part|prevenez moi|"
        "demandez (le )?moi|(repondez|reponds|tapez|tape|ecrivez|dites|dis)( \\w+){0,2} (_|oui|ok)|"
        "je suis pret\\w*|j'attends (votre|ton|vos)|avant de (lancer|faire|proceder|commencer|consulter|ouvrir)|"
        "avant que je|des que vous (validez|confirmez|donnez|serez d'accord)",
        "choice": "(?<!')\\bou\\b(?! (_|no|nein|non|not)\\b| _)|^.{0,14}\\b((la|le|les)?quel\\w*|qui|quand|"
        "combien)\\b|plutot",
        "grave": "supprim\\w+|effac\\w+|ecras\\w+|pay\\w+|transfer\\w+|vire\\w+|achet\\w+|annul\\w+|publi\\w+|"
        "irreversible\\w*|definitiv\\w+|reinitialis\\w+|resili\\w+|deploy\\w+|desinstall\\w+|formate\\w*|"
        "detrui\\w*|attaqu\\w*",
        "more": "\\baussi\\b|egalement|autre chose|d'autres|davantage|plus (de details|d'informations)|"
        "expliqu\\w+|resum\\w+|precis\\w+|detaill\\w+|encore|supplementaire\\w*",
        "intend": "commencons|j'ecris|je (ferais|chercherais|lirais|lancerais|regarderais|consulterais)|je m'y mets|"
        "je me mets|"
        "je vais|je voudrais|j'utiliserai|j'appellerai|j'utilise|j'appelle|laissez moi|laisse moi|"
        "permettez moi|je dois|je (vais|cherche|verifie|consulte|regarde|lance|recupere|lis|ouvre|m'en occupe|"
        "recherche|procede|fais)|il (faut|faudrait)|nous (allons|devons|pouvons)|j'(aurais|ai) besoin|"
        "je (devrais|pourrais|utiliserais|appellerais)|la prochaine etape|je (cree|ouvre|envoie|lance|fais|"
        "reserve|ajoute|commence|m'en charge|calcule|recherche|charge|mets|ecris|enregistre|m'y mets)|utilisez|"
        "appelez|lancez|j'(ouvre|envoie|ajoute|ecris|enregistre|execute|interroge|effectue)|"
        "je (\\w+ )?\\w+rai\\b|j'\\w+rai\\b|je (vous |te |le |la |les |l')?\\w+e\\b",
        "advise": "vous (pouvez|pourriez|devriez)|tu (peux|pourrais)",
        "act": "note|noter|ajout\\w+|inscri\\w+|"
        "verifi\\w+|cherch\\w+|recherch\\w+|consult\\w+|regard\\w+|lanc\\w+|recuper\\w+|lire|lis|"
        "ouvr\\w+|appel\\w+|utilis\\w+|execut\\w+|interrog\\w+|voir|obtenir|m'en occupe|proced\\w+|effectu\\w+|"
        "fai\\w+|calcul\\w+|list\\w+|trouver|acceder|examin\\w+|envoy\\w+|cre\\w+|jeter un|invoqu\\w+|"
        "demand\\w+|continuer|ajouter|parcour\\w+|interrog\\w+|lancer?|ouvr\\w+|fouill\\w+|retrouv\\w+|jet\\w+|"
        "lis\\b|commenc\\w+|charg\\w+|fass\\w+|consult\\w+|explor\\w+|occup\\w+|tourner|declench\\w+|"
        "determin\\w+|cre\\w+|ouvr\\w+|envo\\w+|reserv\\w+|ajout\\w+|calcul\\w+|charg\\w+|regard\\w+|"
        "enregistr\\w+|mets",
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
        "avec ⌘|({wait})|je (vous |te |le |la |les |l')?\\w+(e|rai|s)\\b|j'\\w+|c'est (parti|note)|on y va",
        "hedge": "depend\\w*|peut etre|pourrait|pourraient|peut|peuvent|possible\\w*|probablement|sans doute|"
        "surement|plusieurs|il faudrait|devrait|avant de|pour (le|cela|cerner|en)|je ne sais pas|difficile|"
        "eventuellement|contient",
        "impersonal": "(la|ma) (premiere|prochaine|derniere) (etape|chose)|il (suffit|suffirait|faut|faudra|"
        "faudrait|convient|conviendrait)|on (peut|pourrait|doit|devrait|appelle|utilise)|(d'abord|ensuite|puis|"
        "enfin|pour cela|pour ce faire) (appel\\w+|utilis\\w+|ouvr\\w+|li\\w+|lanc\\w+|execut\\w+|on|il)|(doit|"
        "devrait|peut|pourrait) etre (appele|utilise|execute|lance)\\w*|etapes?|plan|demarche|(avec|via|"
        "au moyen de|en utilisant|en appelant|a l'aide de|grace a) (l'outil |la fonction )?⌘|j'(appellerais|"
        "utiliserais|invoquerais|executerais|appelle|utilise)",
        "contrast": "mais|toutefois|cependant|pourtant|bien que",
        "past": "^c'est fait|(est|sont) (bien )?(envoyee?s?|partie?s?|creee?s?|enregistree?s?|faite?s?|prete?s?)|"
        "j'ai (\\w+ )?\\w+(e|i|u)\\b|a (renvoye|retourne|donne|echoue|trouve|fonctionne)|(le|"
        "les) resultats? (est|sont|montre|montrent|indique)|selon|d'apres|montre|indique|termine\\w*|reussi\\w*|"
        "trouve\\b",
        "doc": "prend|accepte|attend|renvoie|retourne|est (un|une|l'|la|le)|sont (des|les)|sert|servent|permet|"
        "permettent|je peux|documentation|difference|au lieu|signifie|definie?|obsolete|alors que|tandis",
        "wait": "(un|petit) (instant|moment)|une (seconde|minute)|patiente\\w*|ne quittez pas|je m'en (occupe|"
        "charge)|tout de suite|j'arrive|ca arrive|je reviens",
        "ability": "je (peux|pourrais|suis en mesure)|j'ai un (outil|moyen)|il (est|serait) possible|on (peut|"
        "pourrait)|(peut|pourrait) se",
        "common": "le|la|les|et|est|sont|de|des|du|que|qui|il|elle|pour|vous|votre|vos|je|j'ai|n'ai|avec|ce|"
        "cette|etre|ne|pas|peux|vais|me|moi|mon|sur|au|aux|ou|si|un|une|en|dans|mais|plus|sans|ici|tu|par|cela|"
        "se|d'un|l'outil|c'est|qu'il|n'est|avez|puis",
        "needs": "il faudrait|je devrais|il me faudrait|j'aurais besoin|pour (le|en|cela|trancher|verifier|"
        "savoir|cerner|confirmer)\\b|le mieux|devrais|faut|(le|la) (plus rapide|plus simple|plus sur)|"
        "un coup d'oeil|lancer|verifier|trancher|clair",
    },
    "je suis|(vraiment |sincerement )?(desole|desolee|navre)|malheureusement|je (vous prie de m'excuser|"
    "m'excuse)|excusez moi|pardon|mais|toutefois|cependant|en tant qu(e|')|une?|ia|intelligence artificielle|"
    "modele|assistant|de langage|textuel|seulement|juste|simplement|et|bonjour|actuellement|pour le moment|"
    "dans (cette conversation|ce contexte|cet environnement)|virtuel|directement",
    (
        (
            "je n'ai|je ne (dispose|possede|peux|puis|sais)",
            "pas|aucun|d'aucun|malheureusement|acces|ni",
        ),
        (
            "je ne suis (malheureusement |actuellement )?",
            "pas (en mesure|capable|connect|reli|equip|habilit|branch)|(connect|reli)",
        ),
        (
            "il m'est|il ne m'est|je suis (incapable|dans l'i|limite)|je n'arrive pas|"
            "l'outil|la fonction|aucun outil|aucune (fonction|api)|"
            "il n'y a (pas d'outil|aucun outil|pas de fonction|aucune fonction)|"
            "les outils|mes connaissances|mes donnees|on ne m'a",
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
            "unless_other",
            "rien (de tel |de cela |d'externe )?n'est (\\w+ )?(branche|connecte|relie|installe|raccorde|"
            "configure|active)|je ne suis (\\w+ )?(pas )?(relie|connecte|raccorde|branche)\\w*|"
            "({tools}) (ne sont|n'est|ne est) (\\w+ )?(pas |)(\\w+ )?(active|branche|connecte|configure|"
            "installe|disponible|accessible)\\w*|aucun(e)? ({tools}|connexion|integration|"
            "service) (\\w+ )?(n'est|ne|de mon cote|ici|sous)",
        ),
        (
            "text_only",
            "no_tools",
            "self",
            "(limite|restreint|borne|cantonne)\\w* (\\w+ ){0,4}(texte|texte\\w*|redaction)|(ne (fais|peux|sais|"
            "produis|genere)|seulement|uniquement|simplement) (\\w+ ){0,4}(que )?(\\w+ ){0,3}(texte|mots)|"
            "(simple|seulement un|qu'un|juste un|purement un) (\\w+ )?(modele de (langage|langue)|"
            "modele textuel|generateur de texte)",
        ),
        (
            "cannot_use_them",
            "no_tools",
            "unless_other",
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
        (
            "out_of_reach",
            "cannot_access",
            "topic",
            "(ne m'est|ne me sont|m'est|me sont|reste\\w*|n'est|ne sont) (\\w+ )?(pas )?(\\w+ )?(accessible|"
            "visible|possible|disponible|consultable|inaccessible|invisible|impossible)s?( pour moi|"
            " de mon cote)?",
        ),
        (
            "no_tool_lets_me",
            "no_tools",
            "nothing",
            "aucune? ({tools})( \\w+){0,2} (ne )?(me |m'|n'|ne )(permet|est|a ete|sont)|je n'ai ni ({tools})|"
            "({cannot})( \\w+){0,3} (d'|de |d)?(utiliser|appeler|invoquer|executer|employer)( \\w+){0,2} (d'|"
            "des |les |de )?({tools})",
        ),
        (
            "if_only",
            "no_tools",
            "object",
            "si (seulement )?j'avais|si je (pouvais|disposais)|j'aimerais (bien |beaucoup )?(pouvoir|le faire|"
            "vous aider)|je voudrais (bien )?pouvoir",
        ),
        (
            "lacking",
            "no_tools",
            "object",
            "({tools}|acces|capacite\\w*|possibilite\\w*)( \\w+){0,2} (que|dont|qui) (je n'ai|je ne|ne m'|me manque)",
        ),
        (
            "only_shared",
            "cannot_access",
            "topic",
            "(je ne (vois|connais|sais|travaille|lis|dispose)|seulement|uniquement)( \\w+){0,4} (que |"
            "de )?ce (que|qui) (vous|tu|est|figure)",
        ),
        (
            "paste_it",
            "cannot_access",
            "topic",
            "(copi\\w*|coll\\w*|partag\\w*|envoy\\w*|transmet\\w*|fourni\\w*|poste\\w*)( \\w+){0,4} (le|la|les|"
            "son|l'|votre|leur|ici)( )?(\\w+ ){0,2}(contenu|texte|sortie|fichier|code|lignes|article|message|"
            "resultat\\w*|passages?)",
        ),
        (
            "from_training",
            "cannot_access",
            "topic",
            "(repose\\w*|base\\w*|provien\\w*|vien\\w*|issu\\w*|fonde\\w*)( \\w+){0,3} (mon|mes|de mon|sur mon|"
            "de mes|sur mes) (entrainement|donnees)|mes (connaissances|informations|"
            "donnees)( \\w+){0,4} (figees|limitees|arretent|datent|anciennes|perimees)",
        ),
        (
            "yourself",
            "cannot_access",
            "topic",
            "(vous devrez|il vous faudra|vous devez|tu devras|tu dois|"
            "il faudra que vous)( \\w+){1,8} (vous meme|toi meme|manuellement)|vous meme",
        ),
        (
            "cannot_act",
            "no_tools",
            "nothing",
            "({cannot})\\b{~20}(effectuer|realiser|executer|entreprendre|accomplir)( \\w+){0,3} actions?\\b",
        ),
        (
            "no_idea",
            "cannot_access",
            "topic",
            "je n'ai (aucune?|pas d'|pas la moindre) (idee|information\\w*|connaissance|donnee\\w*|visibilite|"
            "apercu|vue)|je (ne sais pas|ne connais pas|ne vois pas (ce|quel\\w*|si|ou|comment)|ignore)( \\w+){1,6}",
        ),
        (
            "as_of",
            "cannot_access",
            "topic",
            "(a|de|depuis|jusqu'a) (la date de )?ma (derniere )?(mise a jour|formation)|mon (dernier )?entrainement",
        ),
        (
            "without",
            "no_tools",
            "nothing",
            "(je|moi|ici|cette|ce)\\b{~40}sans (\\w+ ){0,2}({tools})\\b|(simple|pur) (chat|dialogue|"
            "echange)( \\w+)? (textuel|ecrit)?|aucune prise en charge",
        ),
        (
            "someone_else",
            "no_tools",
            "topic",
            "(c'est a vous|c'est a toi|vous devrez|vous devez|il vous faudra|vous devriez|il faudra)( de|"
            " d')?( \\w+){0,3} (appeler|executer|lancer|verifier|ouvrir|envoyer|consulter)",
        ),
        (
            "elsewhere",
            "cannot_access",
            "topic",
            "^(pour( \\w+){1,8} )?(je vous (recommande|conseille|suggere|invite)|veuillez|merci de|vous pouvez|"
            "vous pourriez|consultez|rendez vous|visitez|essayez|le mieux)( \\w+){0,10} (site\\w*|applications?|"
            "appli|service\\w*|portail|page\\w*|[\\w-]+\\.(fr|com|org|net)|en ligne|moteur de recherche|google|"
            "meteo france)",
        ),
        (
            "inactive",
            "no_tools",
            "nothing",
            "({tools})( \\w+){0,6} (pas|aucun\\w*|jamais|ni)( \\w+){0,3} (charge\\w*|active\\w*|configure\\w*|"
            "disponible\\w*|present\\w*|installe\\w*|branche\\w*|accessible\\w*|relie\\w*|fourni\\w*|"
            "raccorde\\w*|prise?s? en charge)\\b(?! (in|for) (the|your|this) (file|code|project))",
        ),
        (
            "strange_tool",
            "no_tools",
            "nothing",
            "⌘{~20}(inconnu\\w*|rien)|je ne connais (pas|aucun\\w*)( \\w+){0,2} (⌘|({tools}))|rien (que je|"
            "qui me|a appeler)",
        ),
        (
            "unseen",
            "cannot_access",
            "topic",
            "(m'est|me sont|m'est donc)( \\w+)? (inconnu|cache|etranger)\\w*|je ne vois (pas de|pas d'|"
            "aucune?) (fichier|piece|document|image|lien|message)\\w*|aucune? (fichier|piece jointe|"
            "document) (\\w+ ){0,2}(joint|fourni|partage)\\w*",
        ),
        (
            "not_working",
            "no_tools",
            "nothing",
            "({tools})( \\w+){0,4} ne (marche|fonctionne|repond|tourne)\\w* (pas|jamais)",
        ),
        (
            "nothing_lets",
            "no_tools",
            "object",
            "(rien|aucune? \\w+)( \\w+){0,4} ne (me|m') ?(permet|laisse|autorise)\\w*",
        ),
        (
            "beyond_me",
            "cannot_access",
            "topic",
            "hors de (ma|mes) \\w+|(me|m'est) depass\\w+|je suis( \\w+){0,2} (coupee?|deconnectee?|isolee?|hors ligne)",
        ),
    ),
)
